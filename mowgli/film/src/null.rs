//! Opens the null device for processes that get no input, or whose output nobody reads. Used by the opener of pages and by the
//! commands.

use std::fs::File;
use std::io;
use std::process::Stdio;

/// The null device.
const NULL: &str = "/dev/null";

/// Returns a stream without contents, to read from or to write to. [`Stdio::null`] is the same, but its failure is reported as
/// that of the program to be started, without a word of the device.
///
/// # Errors
/// Fails if the device cannot be opened, as in a container without it. The error names the device and the remedy.
pub fn null_device() -> io::Result<Stdio> {
    open(NULL)
}

fn open(device: &str) -> io::Result<Stdio> {
    let opened = File::options().read(true).write(true).open(device);
    opened.map(Stdio::from).map_err(|error| {
        let text =
            format!("cannot open {device}: {error}; give this container or root directory its {device}, as by `mknod -m 666 {device} c 1 3`");
        io::Error::new(error.kind(), text)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_device_that_is_missing_is_named() {
        let error = super::open("/dev/no-such-device").unwrap_err().to_string();
        assert!(
            error.contains("cannot open /dev/no-such-device: No such file"),
            "{error}"
        );
        assert!(error.contains("mknod"), "{error}");
    }
}
