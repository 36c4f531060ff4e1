//! Searches for an execution with a given end. Such a search can show that a weak outcome is possible; an
//! exploration alone shows only that no wrong outcome is.

use std::sync::Arc;

use crate::reports::{Failure, FailureKind, Report};
use crate::{Config, End, SimError, World, explore};

/// The panic message that marks a reached end. No assertion of a user has this message.
const REACHED: &str = "loco-sim: the wanted end is reached";

/// The result of a search for an execution with the wanted end.
#[derive(Clone, Debug)]
pub struct Reach {
    /// An execution that ends as wanted; [`replay`](crate::replay) repeats its schedule.
    pub witness: Option<Failure>,
    /// The report on the exploration. Without a witness, `Complete` means that no execution ends in the
    /// wanted way. A failure in this report is one of the world itself, met before the wanted end.
    pub report: Report,
}

/// Explores the world until a complete execution satisfies `wanted`.
///
/// # Errors
/// Returns the errors of [`explore`].
pub fn reaches(
    config: &Config,
    builder: impl Fn(&mut World) + Sync,
    wanted: impl Fn(&End<'_>) -> bool + Send + Sync + 'static,
) -> Result<Reach, SimError> {
    let wanted = Arc::new(wanted);
    let mut report = explore(config, |world| {
        builder(world);
        let wanted = wanted.clone();
        world.finally(move |end| assert!(!wanted(end), "{REACHED}"));
    })?;
    let witness = match &mut report.failure {
        Some(failure) => match &mut failure.kind {
            FailureKind::End { message } if message.starts_with(REACHED) => {
                failure.kind = FailureKind::Reached;
                report.failure.take()
            }
            _ => None,
        },
        None => None,
    };
    Ok(Reach { witness, report })
}
