//! Reads files that users name. A mistaken name may be that of a device without an end, so there is a limit to the length; a
//! secret may be readable by others, and then is refused.
//!
//! Used by `hosts` and `env`.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The longest secret in a file, in bytes.
const SECRET_BYTES_MAX: u64 = 64 << 10;

/// Reads a text of at most `bytes_max` bytes.
pub(crate) fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let bytes = read(File::open(path)?, bytes_max)?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Reads a secret. A file that other users may read or change is refused, as ssh refuses such a key. This does not concern
/// pipes, through which a program may pass a secret on.
pub(crate) fn read_secret(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let found = file.metadata()?;
    let mode = found.mode() & 0o777;
    if found.is_file() && mode & 0o077 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "its mode is {mode:03o}, so that other users have access to it: `chmod 600 {}`",
                path.display()
            ),
        ));
    }
    read(file, SECRET_BYTES_MAX)
}

fn read(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("it has more than {bytes_max} bytes: is it the right file?"),
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_without_an_end_is_refused() {
        let zero = Path::new("/dev/zero");
        let error = read_text(zero, 1 << 20).unwrap_err().to_string();
        assert_eq!(error, "it has more than 1048576 bytes: is it the right file?");
        let error = read_secret(zero).unwrap_err().to_string();
        assert!(error.starts_with("it has more than"), "{error}");
    }

    #[test]
    fn a_secret_that_others_can_read_or_change_is_refused_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        fs::write(&path, "a shared secret").unwrap();
        for (mode, is_private) in [
            (0o600, true),
            (0o400, true),
            (0o644, false),
            (0o640, false),
            (0o602, false),
        ] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            match read_secret(&path) {
                Ok(secret) => assert!(is_private && secret == b"a shared secret", "{mode:o}"),
                Err(error) => {
                    assert!(!is_private, "{error}");
                    assert!(
                        error.to_string().contains(&format!("its mode is {mode:03o}")),
                        "{error}"
                    );
                    assert!(error.to_string().contains("chmod 600"), "{error}");
                }
            }
        }
    }
}
