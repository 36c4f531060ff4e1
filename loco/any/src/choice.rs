//! The choice of a fabric, and the names of the choices.
//!
//! Relies on nothing of this crate. Used by `config`, `agreement` and `fabric`.

use std::fmt;
use std::str::FromStr;

use loco_fabric::{FabricError, Result};
use loco_job::var;

/// The choice of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FabricChoice {
    /// Shared memory between processes of one host.
    Shm,
    /// RDMA.
    Verbs,
    /// TCP, without libfabric.
    Tcp,
    /// libfabric, by the provider of this name, or by the best that it has for a network.
    Ofi(Option<ProviderName>),
    /// The first of these that every node can use: verbs; libfabric with a provider for an RDMA device; shared memory, if
    /// all nodes run on one host and each can map the memory of each; TCP.
    #[default]
    Auto,
}

/// The name of a provider of libfabric: `tcp`, `shm`, `verbs;ofi_rxm`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ProviderName {
    bytes: [u8; ProviderName::BYTES_MAX],
    len: u8,
}

impl ProviderName {
    /// The longest name, in bytes.
    pub const BYTES_MAX: usize = 31;

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        // It was a string when it came in.
        std::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }
}

impl FromStr for ProviderName {
    type Err = FabricError;

    fn from_str(name: &str) -> Result<ProviderName> {
        let of_a_name = |c: char| c.is_ascii_alphanumeric() || "_;-".contains(c);
        if name.is_empty() || name.len() > Self::BYTES_MAX || !name.chars().all(of_a_name) {
            return Err(FabricError::Config(format!(
                "no provider of libfabric is called `{name}`: `fi_info -l` lists them"
            )));
        }
        let mut bytes = [0; Self::BYTES_MAX];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        #[allow(clippy::cast_possible_truncation)] // At most `BYTES_MAX`.
        let len = name.len() as u8;
        Ok(ProviderName { bytes, len })
    }
}

impl fmt::Debug for ProviderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl FromStr for FabricChoice {
    type Err = FabricError;

    fn from_str(name: &str) -> Result<FabricChoice> {
        match name.split_once(':') {
            None => match name {
                "shm" => Ok(FabricChoice::Shm),
                "verbs" => Ok(FabricChoice::Verbs),
                "tcp" => Ok(FabricChoice::Tcp),
                "ofi" => Ok(FabricChoice::Ofi(None)),
                // An empty variable or argument is none.
                "" | "auto" => Ok(FabricChoice::Auto),
                _ => Err(unknown(name)),
            },
            Some(("ofi", provider)) => Ok(FabricChoice::Ofi(Some(provider.parse()?))),
            Some(_) => Err(unknown(name)),
        }
    }
}

fn unknown(name: &str) -> FabricError {
    FabricError::Config(format!(
        "no fabric `{name}`: there are shm, verbs, tcp, ofi, ofi:PROVIDER and auto"
    ))
}

impl fmt::Display for FabricChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FabricChoice::Shm => "shm",
            FabricChoice::Verbs => "verbs",
            FabricChoice::Tcp => "tcp",
            FabricChoice::Ofi(None) => "ofi",
            FabricChoice::Ofi(Some(provider)) => return write!(f, "ofi:{}", provider.as_str()),
            FabricChoice::Auto => "auto",
        })
    }
}

impl FabricChoice {
    /// Returns the choice of the environment variable `LOCO_FABRIC`, or [`Auto`](FabricChoice::Auto) without
    /// it.
    ///
    /// # Errors
    /// Returns [`FabricError::Config`] when it names no fabric.
    pub fn from_env() -> Result<FabricChoice> {
        match std::env::var(var::FABRIC) {
            Ok(name) => name.parse(),
            Err(_) => Ok(FabricChoice::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_printed() {
        for name in [
            "shm",
            "verbs",
            "tcp",
            "ofi",
            "ofi:tcp",
            "ofi:verbs;ofi_rxm",
            "auto",
        ] {
            assert_eq!(name.parse::<FabricChoice>().unwrap().to_string(), name);
        }
        assert_eq!("".parse::<FabricChoice>().unwrap(), FabricChoice::Auto);
        for name in [
            "udp",
            "tcp:1",
            "ofi:",
            "shm:tcp",
            "ofi:a b",
            "ofi:0123456789012345678901234567890x",
        ] {
            let error = name.parse::<FabricChoice>().unwrap_err();
            assert!(matches!(error, FabricError::Config(_)), "{name}");
        }
    }
}
