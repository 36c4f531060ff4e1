//! Snapshots: the whole store in a file, and back.
//!
//! The content is that of one moment ([`scan`](super::scan)). The file is replaced as a whole or not at all ([`file`]), and is read
//! to its end, with all checksums ([`format`](self::format)), before the first key of it is put into a store.

mod file;
mod format;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Seek};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use loco_fabric::{Fabric, FabricError, Lock};
use xxhash_rust::xxh3::xxh3_64;

use crate::{Error, Inserted, Result, Thread};

use super::KvStore;
use super::value::Encode;
use file::Replacement;
use format::{Failure, Reader, Shape, Writer, bad};

/// The bytes of the buffers before and behind the file.
const BUFFER_BYTES: usize = 1 << 20;
/// The number of keys that a restore puts into the store by one call, each of which has a deadline of its own.
const PIECE: usize = 4096;

/// The extent of a snapshot that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The number of keys.
    pub keys: u64,
    /// The bytes of the file.
    pub bytes: u64,
}

/// The keys that a restore has put into the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// The number of keys of the snapshot, of all parts.
    pub keys: u64,
    /// The number of keys of this part that were absent.
    pub inserted: u64,
    /// The number of keys of this part that had another value, or the same one, before.
    pub updated: u64,
}

impl<F: Fabric, K: Encode + Eq, V: Encode> KvStore<K, V, F> {
    /// Writes every key and its value, all as they were at one moment of the call, to the file at `path`, while the nodes go on.
    ///
    /// *Consistent.* The call takes all locks of the store, and its moment is that at which it has the last one. Every insert,
    /// update and delete on any node came before it, and is in the file as a whole, or comes after it, and is not. So
    /// calls that had returned when this one began are in the file, and if a call is in it, everything that its thread had done to the
    /// store before that is in it.
    ///
    /// *Cost.* Lookups go on. Writers on all nodes wait while the values are read and handed to the system, and not while they
    /// are written to the disk. Give writers of a large store a deadline that is longer than that
    /// (`docs/loss.md` says more).
    ///
    /// *Atomic.* A file that was there stays until the new one is whole and on the disk, and stays for good after an error, or if
    /// the process is killed. Until then the new content is beside it, under the name with `.part` at its end; a
    /// process that was killed leaves it behind, and the next snapshot writes it anew.
    ///
    /// The file has the keys and values of this store as their encodings, and nothing of the nodes: see
    /// [`restore`](KvStore::restore). It is readable by whoever the process's file mode mask says.
    ///
    /// # Errors
    /// Returns the errors of [`entries`](KvStore::entries), and those of the system
    /// ([`System`](crate::ErrorKind::System)), for example that the disk is full, or that another process is
    /// writing a snapshot to the same path. If the values of a lost node are missing, that is an error, and not a smaller file.
    /// [`delete`](KvStore::delete) their keys, or restore an earlier snapshot.
    ///
    /// # After a timeout
    /// Nothing has changed, neither the store nor the file. Call again.
    pub fn snapshot(&self, thread: &Thread<F>, path: impl AsRef<Path>) -> Result<Snapshot> {
        let path = path.as_ref();
        let failed = |error| os("writing", path, &error);
        let writer = self.in_one_view(thread, |view| {
            let replacement = Replacement::begin(path).map_err(failed)?;
            let out = BufWriter::with_capacity(BUFFER_BYTES, replacement);
            let mut writer = Writer::new(out, shape::<K, V>(), identity()).map_err(failed)?;
            self.scan(thread, view, &mut |key, value| {
                if V::BYTES.is_some_and(|bytes| bytes != value.len()) {
                    return Err(self.of_another_type(value.len()));
                }
                writer.add(key.bytes(), value).map_err(failed)
            })?;
            Ok(writer)
        })?;
        let (out, keys, bytes) = writer.finish().map_err(failed)?;
        let replacement = out.into_inner().map_err(|error| failed(error.into_error()))?;
        replacement.commit().map_err(failed)?;
        Ok(Snapshot { keys, bytes })
    }

    /// Puts the keys of the snapshot at `path` into this store. A key that is there gets the value from the snapshot, and other
    /// keys stay as they are. The values of new keys are on this node.
    ///
    /// The store need not be the one that the snapshot is from: it may have other nodes, more or fewer, and other
    /// settings. To spread the keys over the nodes, let each restore its part: [`restore_part`](KvStore::restore_part).
    ///
    /// # Errors
    /// Returns [`BadSnapshot`](crate::Error::BadSnapshot) for a file that is cut, altered, longer than it was, of
    /// another version, no snapshot at all, or of keys or values that do not fit this store. Returns
    /// [`Config`](crate::Error::Config) if this node has not enough free slots. In both cases nothing has changed: the
    /// whole file is read before the first key is put into the store. Checksums find damage, not malice, and types are known by
    /// their length only. Also returns the errors of the system, and those of
    /// [`insert_many`](KvStore::insert_many) and [`update_many`](KvStore::update_many), after which some of the keys were restored.
    ///
    /// # After a timeout
    /// Some of the keys were restored. Restore again.
    pub fn restore(&self, thread: &Thread<F>, path: impl AsRef<Path>) -> Result<Restored> {
        self.restore_part(thread, path, 0, 1)
    }

    /// Restores part `part` of `of` equal parts of a snapshot, as [`restore`](KvStore::restore) does. When all parts are
    /// restored, on whatever nodes, the snapshot is. Each call reads and checks the whole file.
    ///
    /// # Errors
    /// Returns the errors of [`restore`](KvStore::restore), and [`Config`](crate::Error::Config) if there is no such part.
    ///
    /// # After a timeout
    /// Some of the part's keys were restored. Restore it again.
    pub fn restore_part(
        &self,
        thread: &Thread<F>,
        path: impl AsRef<Path>,
        part: usize,
        of: usize,
    ) -> Result<Restored> {
        let path = path.as_ref();
        if part >= of {
            return Err(Error::Config(format!(
                "part {part} of {of} of a snapshot: they count from 0"
            )));
        }
        let is_ours = |number: u64| number % of as u64 == part as u64;
        let mut file = File::open(path).map_err(|error| os("opening", path, &error))?;
        // The first time only looks.
        let mut absent = 0;
        let keys = self.read(path, &mut file, |number, key, _| {
            absent += usize::from(is_ours(number) && self.shared.find(&key).is_none());
            Ok(())
        })?;
        let free = self.shared.slots.lock().free_count();
        if absent > free {
            return Err(self.no_room(path, absent, free));
        }
        let mut restored = Restored {
            keys,
            ..Restored::default()
        };
        let mut piece = Vec::with_capacity(PIECE);
        self.read(path, &mut file, |number, key, value| {
            if is_ours(number) {
                piece.push((key, value));
            }
            if piece.len() == PIECE {
                self.put_many(thread, path, &piece, &mut restored)?;
                piece.clear();
            }
            Ok(())
        })?;
        self.put_many(thread, path, &piece, &mut restored)?;
        Ok(restored)
    }

    /// Reads a whole snapshot, and calls `each` with the number, the key and the value of each record. Returns the number of
    /// keys.
    fn read(
        &self,
        path: &Path,
        file: &mut File,
        mut each: impl FnMut(u64, K, V) -> Result<()>,
    ) -> Result<u64> {
        let config = &self.shared.config;
        let mut failed = None;
        let read = || {
            file.rewind()?;
            let bytes = file.metadata()?.len();
            let mut reader = Reader::new(BufReader::with_capacity(BUFFER_BYTES, file), bytes)?;
            let (ours, theirs) = (shape::<K, V>(), reader.shape());
            if theirs != ours {
                let named = |shape: Shape| {
                    format!(
                        "keys of {} and values of {}",
                        length(shape.key),
                        length(shape.value)
                    )
                };
                return Err(bad(
                    12,
                    format!("it has {}, and the store {}", named(theirs), named(ours)),
                ));
            }
            let mut number = 0;
            while reader.block(|key, value, at| {
                for (what, bytes, max) in [
                    ("key", key, config.key_bytes_max),
                    ("value", value, config.value_bytes_max),
                ] {
                    if bytes.len() > max {
                        let text = format!(
                            "a {what} of {} bytes; the store's `{what}_bytes_max` is {max}",
                            bytes.len()
                        );
                        return Err(bad(at, text));
                    }
                }
                let (Some(key), Some(value)) = (K::from_bytes(key), V::from_bytes(value)) else {
                    return Err(bad(at, "a key or value that is not of the store's type"));
                };
                // The store's own failure ends the reading, and is not one of the file.
                each(number, key, value).map_err(|error| {
                    failed = Some(error);
                    Failure::Io(io::ErrorKind::Interrupted.into())
                })?;
                number += 1;
                Ok(())
            })? {}
            Ok(reader.keys())
        };
        let outcome = read();
        outcome.map_err(|failure| match (failed, failure) {
            (Some(error), _) => error,
            (None, Failure::Io(error)) => os("reading", path, &error),
            (None, Failure::Bad { offset, reason }) => Error::BadSnapshot {
                path: path.to_owned(),
                offset,
                reason,
            },
        })
    }

    /// Gives keys their values, whether they are there or not.
    fn put_many(
        &self,
        thread: &Thread<F>,
        path: &Path,
        entries: &[(K, V)],
        done: &mut Restored,
    ) -> Result<()> {
        let mut there = Vec::new();
        let outcomes = self.insert_many(thread, entries)?;
        for (entry, outcome) in entries.iter().zip(outcomes) {
            match outcome {
                Inserted::Done => done.inserted += 1,
                Inserted::Duplicate => there.push(entry.clone()),
                // Somebody else has taken the slots since they were counted.
                Inserted::Full => return Err(self.no_room(path, 1, 0)),
            }
        }
        if self.update_many(thread, &there)? == there.len() {
            done.updated += there.len() as u64;
            return Ok(());
        }
        // Somebody has deleted some of them in between.
        for (key, value) in &there {
            loop {
                if self.update(thread, key, value)? {
                    done.updated += 1;
                    break;
                }
                match self.insert(thread, key, value)? {
                    Inserted::Done => {
                        done.inserted += 1;
                        break;
                    }
                    Inserted::Duplicate => {}
                    Inserted::Full => return Err(self.no_room(path, 1, 0)),
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn no_room(&self, path: &Path, needed: usize, free: usize) -> Error {
        Error::Config(format!(
            "key-value store `{}`: keys of snapshot `{}` need {needed} more slots on this node, and {free} are free; \
             make `slots_per_node` larger, or restore parts on more nodes",
            self.shared.channel.name(),
            path.display()
        ))
    }
}

/// Returns the lengths that a snapshot of these types notes.
fn shape<K: Encode, V: Encode>() -> Shape {
    Shape {
        key: K::BYTES,
        value: V::BYTES,
    }
}

fn length(length: format::Length) -> String {
    length.map_or("any length".to_owned(), |bytes| format!("{bytes} bytes"))
}

/// Returns a number that hardly any other snapshot has, so that parts of two do not pass for one.
fn identity() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let unique = format!("{} {}", time.as_nanos(), std::process::id());
    xxh3_64(unique.as_bytes())
}

fn os(what: &str, path: &Path, error: &io::Error) -> Error {
    FabricError::os(format!("{what} snapshot `{}`", path.display()), error).into()
}
