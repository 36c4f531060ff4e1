//! The secret that the nodes of a job share, and random bytes to make one from.

use std::fmt;

use loco_fabric::{FabricError, Result};

/// Shortest secret, in bytes: shorter ones are typing mistakes or guessable.
const SECRET_BYTES_MIN: usize = 8;

/// The secret that all nodes of a job know and nobody else does. It is never sent, and never
/// shown in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// Makes a secret of bytes chosen elsewhere.
    ///
    /// # Errors
    /// Returns [`FabricError::Config`] when it is shorter than 8 bytes.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Result<Secret> {
        let bytes = bytes.into();
        if bytes.len() < SECRET_BYTES_MIN {
            return Err(FabricError::Config(format!(
                "a secret has at least {SECRET_BYTES_MIN} bytes, not {}; e.g. the output of `openssl rand -hex 16`",
                bytes.len()
            )));
        }
        Ok(Secret(bytes))
    }

    /// Returns a fresh secret, as text that fits into an environment variable.
    ///
    /// # Errors
    /// Returns [`FabricError::Os`] when the system gives no random bytes.
    pub fn random_text() -> Result<String> {
        let bytes = random::<16>()?;
        Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Returns random bytes of the system.
///
/// # Errors
/// Returns [`FabricError::Os`] when the system gives none.
pub fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(n) => filled += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => {
                return Err(FabricError::Os {
                    what: "asking the system for random bytes".to_owned(),
                    source: std::io::Error::from(e).into(),
                });
            }
        }
    }
    Ok(bytes)
}
