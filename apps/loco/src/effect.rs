//! Options that have no effect beside others are refused, so that nobody takes a result for what was asked for.

use crate::error::CliError;

/// One of the ways in which a command can work, such as one measurement of `loco bench`, and the options that change what it
/// does.
pub struct Mode {
    /// The description, as it follows "has no effect with".
    name: &'static str,
    /// The options that have an effect, as `--name`.
    pub options: &'static [&'static str],
}

impl Mode {
    pub const fn new(name: &'static str, options: &'static [&'static str]) -> Mode {
        Mode { name, options }
    }
}

/// Refuses the first of the `given` options that has no effect in `mode`, and says in which of all `modes` it has. Options of
/// `always` have an effect in every mode.
///
/// # Errors
/// Returns [`CliError::Usage`].
pub fn refuse_others(given: &[String], mode: &Mode, modes: &[Mode], always: &[&str]) -> Result<(), CliError> {
    let has_effect = |mode: &Mode, option: &str| mode.options.contains(&option) || always.contains(&option);
    let Some(option) = given.iter().find(|option| !has_effect(mode, option)) else {
        return Ok(());
    };
    let others = modes
        .iter()
        .filter(|other| has_effect(other, option))
        .map(|other| other.name);
    let others: Vec<_> = others.collect();
    Err(CliError::Usage(format!(
        "{option} has no effect with {}, only with {}",
        mode.name,
        others.join(", or with ")
    )))
}
