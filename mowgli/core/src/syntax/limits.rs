//! Bounds on the tests of every dialect. Every refusal names its bound, so that a user knows what to change.

/// Largest source text, in bytes.
pub const SOURCE_BYTES_MAX: usize = 1 << 20;
/// Most threads in a test.
pub const THREADS_MAX: usize = 32;
/// Largest node number.
pub const NODES_MAX: usize = 32;
/// Most locations in a test.
pub const LOCATIONS_MAX: usize = 1024;
/// Most registers in one thread.
pub const REGISTERS_MAX: usize = 1024;
/// Most instructions in a test, nested ones included.
pub const INSTRUCTIONS_MAX: usize = 10_000;
/// Deepest nesting of blocks, parentheses, operators and comments.
pub const NESTING_MAX: usize = 64;
/// Longest name of a test, location, register or work identifier, in bytes.
pub const NAME_BYTES_MAX: usize = 128;
/// Largest number of iterations that a loop may state.
pub const LOOP_BOUND_MAX: u32 = 1000;
/// Most final conditions in a file.
pub const QUERIES_MAX: usize = 256;
/// Most atoms in one final condition.
pub const ATOMS_MAX: usize = 4096;
/// Most errors reported for one file.
pub const ERRORS_MAX: usize = 20;
