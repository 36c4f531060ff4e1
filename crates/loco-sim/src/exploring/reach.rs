//! "Some execution reaches X": showing that a weak outcome is possible, not only that a wrong one is not.

use std::sync::Arc;

use crate::reports::{Failure, FailureKind, Report};
use crate::{Config, End, SimError, World, explore};

/// What the panic of a reached end says; no assertion of a user's says it.
const REACHED: &str = "loco-sim: the wanted end is reached";

/// Whether an execution with the wanted end was found.
#[derive(Clone, Debug)]
pub struct Reach {
    /// An execution that ends as wanted; [`replay`](crate::replay) repeats its schedule.
    pub witness: Option<Failure>,
    /// The exploration. Without a witness, `Complete` means that no execution ends so. A failure here is one of the
    /// world's own, met before the wanted end.
    pub report: Report,
}

/// Explores the world until a complete execution satisfies `wanted`.
///
/// # Errors
/// As [`explore`].
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
