//! Where a plugin may write, kept by the kernel where there is one that can.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{is_available, spawn};
#[cfg(target_os = "linux")]
pub use linux::{is_available, spawn};
