//! What the model wrote as arguments, read.
