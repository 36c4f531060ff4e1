//! A file that replaces another one as a whole: whatever ends the process, and at whatever moment, the name belongs to the old
//! content or to the new one.
//!
//! The new content is written to a file beside it, whose name has `.part` at its end, and synced to the disk. Then it is renamed, and the
//! folder is synced. A process that was killed leaves the partial file behind, and the next one writes it anew. Only one
//! process writes it at a time: it holds the file's lock.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// New content for a file. Dropped before [`commit`](Replacement::commit), it leaves the file as it was.
pub(super) struct Replacement {
    path: PathBuf,
    part: PathBuf,
    file: File,
    committed: bool,
}

impl Replacement {
    /// Begins new content for the file at `path`, which need not exist.
    ///
    /// # Errors
    /// Returns `ResourceBusy` while another process does the same, and `InvalidInput` for a path that names something
    /// other than a file.
    pub(super) fn begin(path: &Path) -> io::Result<Replacement> {
        // Renaming would replace a device, or a link, by a file.
        match fs::symlink_metadata(path) {
            Ok(there) if !there.is_file() => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "there is something that is no plain file",
                ));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut part = OsString::from(path);
        part.push(".part");
        let part = PathBuf::from(part);
        let file = loop {
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&part)?;
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                return Err(io::Error::new(
                    io::ErrorKind::ResourceBusy,
                    format!("another snapshot is being written to `{}`", part.display()),
                ));
            }
            // The one who had the lock before may have renamed the file: then it is no longer ours to write.
            match fs::symlink_metadata(&part) {
                Ok(there) if is_same(&there, &file.metadata()?) => break file,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        };
        file.set_len(0)?;
        Ok(Replacement {
            path: path.to_owned(),
            part,
            file,
            committed: false,
        })
    }

    /// Puts the new content in place of the old. It is on the disk when this returns.
    pub(super) fn commit(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.part, &self.path)?;
        self.committed = true;
        let folder = match self.path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        File::open(folder)?.sync_all()
    }
}

fn is_same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        // The lock is held until the file is closed, after this.
        if !self.committed
            && let Err(error) = fs::remove_file(&self.part)
        {
            tracing::warn!(part = %self.part.display(), %error, "a partial file is left behind");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_content_stays_until_the_new_one_is_committed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let names = || fs::read_dir(folder.path()).unwrap().count();
        let mut first = Replacement::begin(&path).unwrap();
        first.write_all(b"one").unwrap();
        assert!(!path.exists());
        let busy = Replacement::begin(&path).err().unwrap();
        assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy);
        first.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one");

        let mut second = Replacement::begin(&path).unwrap();
        second.write_all(b"another").unwrap();
        drop(second);
        assert_eq!((fs::read(&path).unwrap(), names()), (b"one".to_vec(), 1));

        // What a killed process left behind.
        fs::write(folder.path().join("file.part"), b"longer than the next").unwrap();
        let mut third = Replacement::begin(&path).unwrap();
        third.write_all(b"three").unwrap();
        third.commit().unwrap();
        assert_eq!((fs::read(&path).unwrap(), names()), (b"three".to_vec(), 1));
    }

    #[test]
    fn what_is_no_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("elsewhere", &link).unwrap();
        for path in [folder.path(), &link, Path::new("/dev/null")] {
            let error = Replacement::begin(path).err().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{}", path.display());
        }
        assert!(Replacement::begin(&folder.path().join("missing/file")).is_err());
    }
}
