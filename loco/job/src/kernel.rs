//! The kernel and the process namespace of this process.
//!
//! Used by the mesh, and by fabrics and their choice.

use std::{fs, io};

use loco_fabric::{FabricError, Result};

/// Returns a text that is equal for processes that know one another's processes by the same ids, so that each can open
/// the other's `/proc/PID`.
///
/// # Errors
/// Returns [`FabricError::Os`] when the system does not tell.
pub fn process_namespace() -> Result<String> {
    let os = |what: &'static str| {
        move |error: io::Error| FabricError::os(format!("{what} (is /proc mounted?)"), &error)
    };
    let boot =
        fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(os("reading the host's boot id"))?;
    let namespace = fs::read_link("/proc/self/ns/pid").map_err(os("reading the PID namespace"))?;
    Ok(format!("{} {}", boot.trim(), namespace.display()))
}
