//! Bounds of the language of model files, so that no text exhausts memory or stack.

/// Longest text of one file, in bytes.
pub const SOURCE_BYTES_MAX: usize = 256 * 1024;

/// Longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 100;

/// Deepest nesting of expressions, of comments, of calls and of includes.
pub const NESTING_MAX: usize = 50;

/// Most operators of a model, after functions are put in place of their calls.
pub const OPERATORS_MAX: usize = 20_000;

/// Most files of a model, each counted as often as it is included.
pub const FILES_MAX: usize = 100;

/// Deepest nesting of an expression after functions are put in place of their calls.
pub const DEPTH_MAX: usize = 200;
