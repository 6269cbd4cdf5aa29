//! Reading, writing, patching and searching files.
