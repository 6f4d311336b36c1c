//! How large a test is: `cargo xtask soak` sets `CONVEYOR_SOAK` and runs the same binaries at full size.

/// Whether tests run at full size.
pub fn is_soak() -> bool {
    std::env::var_os("CONVEYOR_SOAK").is_some()
}

/// `normal` in `cargo xtask test`, `full` in `cargo xtask soak`.
pub fn sized<T>(normal: T, full: T) -> T {
    if is_soak() { full } else { normal }
}
