//! Where one process cannot be told from another that got its number: none is ended.

pub fn identity(_: u32) -> Option<String> {
    None
}

pub fn end(_: u32, _: &str) -> bool {
    false
}
