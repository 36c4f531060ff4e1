//! What a process needs to join a job that runs: members, the job's id and secret, timeouts.

use loco_fabric::{FabricError, Result};

use crate::hosts::Address;
use crate::secret::Secret;
use crate::timeouts::Timeouts;
use crate::var;

/// A running job, as a process knows it that is to [join](crate::Mesh::join) it.
#[derive(Clone, Debug)]
pub struct Join {
    pub(crate) members: Vec<Address>,
    pub(crate) id: Option<String>,
    pub(crate) secret: Option<Secret>,
    pub(crate) timeouts: Timeouts,
}

impl Join {
    /// Starts describing a job of which nodes listen at these addresses. One that lives is enough.
    ///
    /// # Errors
    /// Returns [`FabricError::Config`] when there is none.
    pub fn by(members: impl IntoIterator<Item = Address>) -> Result<Join> {
        let members: Vec<_> = members.into_iter().collect();
        if members.is_empty() {
            return Err(FabricError::Config(
                "a node joins a job by the address of a member, and none is given".to_owned(),
            ));
        }
        Ok(Join {
            members,
            id: None,
            secret: None,
            timeouts: Timeouts::default(),
        })
    }

    /// Sets the job's id, which is `loco` without this.
    #[must_use]
    pub fn id(self, id: impl Into<String>) -> Join {
        Join {
            id: Some(id.into()),
            ..self
        }
    }

    /// Sets the secret that all nodes share. There is no default.
    #[must_use]
    pub fn secret(self, secret: Secret) -> Join {
        Join {
            secret: Some(secret),
            ..self
        }
    }

    /// Sets timeouts other than the defaults. They must fit those of the members.
    #[must_use]
    pub fn timeouts(self, timeouts: Timeouts) -> Join {
        Join { timeouts, ..self }
    }

    /// Makes the error of a program that only begins with jobs, and was told to join one.
    pub(crate) fn not_asked_for() -> FabricError {
        FabricError::Config(format!(
            "{} is set, but this program does not join jobs: it has to begin with `Startup::connect` (or `Mesh::join`)",
            var::JOIN
        ))
    }

    /// Returns the addresses of members.
    pub fn members(&self) -> &[Address] {
        &self.members
    }
}
