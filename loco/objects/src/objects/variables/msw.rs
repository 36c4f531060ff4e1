//! The mixed-size write region (LOCO'26 G.6): locations of any size whose reads fail cleanly instead of being torn.

use loco_fabric::{Fabric, Local, Memory, NodeId, Target};

use crate::channels::channel::check_bytes;
use crate::fabric::AnyFabric;
use crate::objects::variables::sealed::{Seal, sealed_len};
use crate::operations::operation::{Flags, Operation};
use crate::{AckKey, Channel, Error, Parent, Region, Result, Thread};

/// Locations of any size on every participant, which are the same everywhere. [`write`](Msw::write) and
/// [`try_read`](Msw::try_read) access this node's memory (Write_MSW, TryRead_MSW). [`put`](Msw::put) and
/// [`get`](Msw::get) copy a location to or from another node. Wait_MSW is [`AckKey::wait`].
///
/// A read that succeeds returns a value that was written as a whole (LOCO'26 Def. G.11: nothing out of thin
/// air). A read fails while the location is being changed. If two writers left a mixture, it fails until the
/// next write. A location that nobody has written reads as zeros.
///
/// ```
/// use loco::{Barrier, Manager, Msw, testing};
///
/// let seen = testing::run(2, |fabric| {
///     let manager = Manager::new(fabric)?;
///     let notes = Msw::new(&manager, "notes", &[24, 100])?;
///     let barrier = Barrier::new(&manager, "bar")?;
///     manager.wait_for_ready()?;
///     let thread = manager.thread()?;
///
///     if manager.node().0 == 0 {
///         notes.write(0, b"twenty-four bytes, whole")?;
///         notes.put(&thread, 0, manager.nodes()[1], 0)?.wait(&thread)?;
///     }
///     barrier.wait(&thread)?;
///     let mut note = [0; 24];
///     assert!(notes.try_read(0, &mut note)?);
///     Ok(note)
/// });
/// assert_eq!(seen[1], *b"twenty-four bytes, whole");
/// ```
///
/// # Strength
///
/// Weak on purpose: a put may arrive after its thread has read something else. Two nodes that each put a location to
/// the other and then read what the other has put can both read the old value, which no strong memory shows. A fence
/// after the put ([`fence::thread`](crate::fence::thread)) prevents that. `loco check msw --robust` shows both.
pub struct Msw<F: Fabric = AnyFabric> {
    channel: Channel<F>,
    region: Region<F>,
    locations: Vec<Location<F>>,
}

struct Location<F: Fabric> {
    offset: usize,
    seal: Seal,
    memory: F::Memory,
}

impl<F: Fabric> Msw<F> {
    /// Makes this node's endpoint of the region called `name`, with one location for each of `sizes`, in bytes.
    ///
    /// # Errors
    /// Returns [`TooLarge`](crate::Error::TooLarge) for sizes beyond all addresses, and the errors of
    /// [`ChannelBuilder::join`](crate::ChannelBuilder::join). If sizes differ between nodes,
    /// waiting until the region is ready fails with [`Mismatch`](crate::Error::Mismatch) on each of them.
    pub fn new(parent: &impl Parent<F>, name: &str, sizes: &[usize]) -> Result<Self> {
        let bytes = sizes
            .iter()
            .fold(0_usize, |bytes, &size| bytes.saturating_add(sealed_len(size)));
        let bytes = check_bytes(name, "all locations on each node", bytes)?;
        let channel = Channel::builder(parent, name)
            .kind(format!("msw{sizes:?}"))
            .region("data", bytes)
            .join()?;
        let region = channel.region("data")?.clone();
        let mut offset = 0;
        let locations = sizes
            .iter()
            .map(|&size| {
                let location = Location {
                    offset,
                    seal: Seal::new(size),
                    memory: region.local()?.slice(offset, sealed_len(size))?,
                };
                offset += sealed_len(size);
                Ok(location)
            })
            .collect::<Result<_>>()?;
        assert_eq!(offset, bytes, "the locations fill the region");
        Ok(Msw {
            channel,
            region,
            locations,
        })
    }

    /// Returns the number of locations.
    pub fn len(&self) -> usize {
        self.locations.len()
    }

    /// Returns true if there are no locations.
    pub fn is_empty(&self) -> bool {
        self.locations.is_empty()
    }

    /// Returns the size of a location in bytes.
    ///
    /// # Errors
    /// Returns [`Config`](crate::Error::Config) if there is no such location.
    pub fn size(&self, location: usize) -> Result<usize> {
        Ok(self.location(location)?.seal.len())
    }

    /// Writes a value into this node's location (CPU writes, stamp aCW). Only one thread may write at a time,
    /// and not while a [`put`](Msw::put) from the location is under way; otherwise the value arrives torn.
    ///
    /// # Errors
    /// Returns [`Config`](crate::Error::Config) if there is no such location, and [`TooLarge`](crate::Error::TooLarge)
    /// if the value does not have the location's size.
    pub fn write(&self, location: usize, value: &[u8]) -> Result<()> {
        let place = self.location(location)?;
        self.check_size(place, value.len())?;
        Ok(place.memory.write(0, &place.seal.seal(value))?)
    }

    /// Reads this node's location (CPU reads, stamp aCR). Returns false, and leaves `value` as it is, if the
    /// location is not whole.
    ///
    /// # Errors
    /// Returns the errors of [`write`](Msw::write).
    pub fn try_read(&self, location: usize, value: &mut [u8]) -> Result<bool> {
        let place = self.location(location)?;
        self.check_size(place, value.len())?;
        let sealed = place.seal.load(&place.memory)?;
        Ok(match place.seal.open(&sealed) {
            Some(whole) => {
                value.copy_from_slice(whole);
                true
            }
            None => false,
        })
    }

    /// Repeats [`try_read`](Msw::try_read) until it succeeds, for the thread's deadline at most.
    ///
    /// # Errors
    /// Returns [`Torn`](crate::Error::Torn) if nobody completes the value, [`PeerLost`](crate::ErrorKind::PeerLost)
    /// if a participant is gone meanwhile, and the errors of [`try_read`](Msw::try_read).
    ///
    /// # After a timeout
    /// (The error is [`Torn`](crate::Error::Torn) here.) Nothing has changed. Read again.
    pub fn read(&self, thread: &Thread<F>, location: usize, value: &mut [u8]) -> Result<()> {
        let _call = thread.call(self.channel.name(), "read");
        let read = self
            .channel
            .wait_until(thread, || match self.try_read(location, value) {
                Ok(false) => None,
                Ok(true) => Some(Ok(())),
                Err(error) => Some(Err(error)),
            });
        match read {
            Err(error) if error.is_timeout() => Err(Error::Torn {
                channel: format!("{}[{location}]", self.channel.name()),
            }),
            other => other?,
        }
    }

    /// Copies this node's location `from` to location `to`, of the same size, on `node`. The copy arrives after the
    /// thread's earlier puts to that node. The key is done when the NIC has read `from`.
    ///
    /// # Errors
    /// Returns [`Config`](crate::Error::Config) if there is no such location, [`TooLarge`](crate::Error::TooLarge) if
    /// the sizes differ, and the errors of [`Thread::put_inline`].
    ///
    /// # After a timeout
    /// Nothing was posted. Put again.
    pub fn put(&self, thread: &Thread<F>, from: usize, node: NodeId, to: usize) -> Result<AckKey<F>> {
        let (local, remote) = self.pair(from, node, to)?;
        // If the location is written meanwhile, it arrives torn, and the checksum shows it.
        // Strong: puts of one thread to one node keep their order (LOCO'26 G.6).
        thread.raw().post(&Operation::Put(local, remote), Flags::STRONG)
    }

    /// Copies location `from` on `node` into this node's location `to`, of the same size. The value is there
    /// when the key is done. It is read after the thread's earlier puts to `node` are placed, and is torn if it was
    /// being written.
    ///
    /// # Errors
    /// Returns the errors of [`put`](Msw::put).
    ///
    /// # After a timeout
    /// Nothing was posted. Get again.
    pub fn get(&self, thread: &Thread<F>, to: usize, node: NodeId, from: usize) -> Result<AckKey<F>> {
        let (local, remote) = self.pair(to, node, from)?;
        // Strong: it sees this thread's earlier puts there (LOCO'26 G.6).
        thread.raw().post(&Operation::Get(local, remote), Flags::STRONG)
    }

    #[allow(clippy::type_complexity)] // The two halves of an operation.
    fn pair(
        &self,
        here: usize,
        node: NodeId,
        there: usize,
    ) -> Result<(Local<'_, F::Memory>, Target<'_, F::Remote>)> {
        let (local, remote) = (self.location(here)?, self.location(there)?);
        self.check_size(remote, local.seal.len())?;
        Ok((
            Local {
                memory: &local.memory,
                offset: 0,
                len: local.seal.sealed_len(),
            },
            Target {
                remote: self.region.remote(node)?,
                offset: remote.offset,
            },
        ))
    }

    fn location(&self, location: usize) -> Result<&Location<F>> {
        self.locations.get(location).ok_or_else(|| {
            Error::Config(format!(
                "`{}` has no location {location}: it has {}",
                self.channel.name(),
                self.locations.len()
            ))
        })
    }

    fn check_size(&self, place: &Location<F>, len: usize) -> Result<()> {
        if len == place.seal.len() {
            return Ok(());
        }
        Err(Error::TooLarge {
            what: format!(
                "a value for a location of `{}`, which is of one size",
                self.channel.name()
            ),
            len,
            max: place.seal.len(),
        })
    }
}
