//! Words that live on one node and are changed by remote read-modify-writes. Atomic variables, locks and
//! queues are built from them.
//!
//! A remote read-modify-write is atomic against the CPU of the home node only where the fabric says so
//! ([`Atomicity::Glob`]). There the home node uses CPU instructions. Elsewhere it uses its NIC like everybody
//! else. So does a plain write, which a read-modify-write could otherwise undo.
//!
//! A node that was declared lost is refused either way: by the fabric, or here before a step on its own memory. Others that have
//! not heard of the loss yet still look there, and must not find a lock released whose data the fabric has refused to complete.

use std::ops::Range;
use std::sync::OnceLock;
use std::time::Duration;

use loco_fabric::{
    Atomicity, Fabric, FabricError, Memory, NodeId, Peers, RemoteMemory, Seen, Target, Time, Wait, WordCell,
    WordOp,
};
use smallvec::SmallVec;

use crate::Result;
use crate::operations::ack::AckKey;
use crate::operations::block::Block;
use crate::operations::operation::{Flags, Operation};
use crate::operations::region::Region;
use crate::operations::thread::Thread;

const WORD_BYTES: usize = 8;

type CellOf<F> = <<F as Fabric>::Memory as Memory>::Cell<u64>;

/// The pause between two looks at words that `on` changes.
pub(crate) struct Pause<'a> {
    /// The description for error messages.
    pub(crate) what: &'a str,
    pub(crate) on: NodeId,
    pub(crate) time: Duration,
    pub(crate) deadline: Time,
}

/// The words of `region` on `home`. They are cheap to make; there is one such value for each node that has
/// such words.
pub(crate) struct Words<F: Fabric> {
    region: Region<F>,
    home: NodeId,
    /// The home's memory, kept here once it is known, because this is nearer than in the region.
    remote: OnceLock<F::Remote>,
    /// The cells, where the CPU of this node may access the words.
    direct: Option<Box<[CellOf<F>]>>,
}

/// An addition to a word and a look at other words, which are under way on a block.
pub(crate) struct AddAndLook<F: Fabric> {
    added: AckKey<F>,
    /// Whether the look was posted.
    looks: bool,
}

impl<F: Fabric> AddAndLook<F> {
    /// Returns `None` while one of the two is under way on `block`. After that, returns whether the look has succeeded. The addition
    /// counts without it.
    ///
    /// # Errors
    /// Returns the failure of the addition.
    pub(crate) fn ended(&self, thread: &Thread<F>, block: &Block<F>) -> Option<Result<bool>> {
        Some(match block.ended(thread)? {
            Ok(()) => Ok(self.looks),
            Err(_) if matches!(self.added.outcome(), Some(Ok(()))) => Ok(false),
            Err(error) => Err(error),
        })
    }
}

impl<F: Fabric> Words<F> {
    /// Makes the access to the words of `region` on `home`.
    ///
    /// # Errors
    /// Returns `Unsupported` where the fabric has no atomics.
    pub(crate) fn new(fabric: &F, region: &Region<F>, home: NodeId) -> Result<Words<F>> {
        let direct = match fabric.caps().atomicity {
            Atomicity::None => {
                let what = format!("`{}` needs remote atomics", region.name());
                return Err(FabricError::Unsupported(what).into());
            }
            Atomicity::Glob if fabric.node() == home => {
                let memory = region.local()?;
                let cells = (0..region.len() / WORD_BYTES).map(|i| memory.cell(i * WORD_BYTES));
                Some(cells.collect::<Result<_, FabricError>>()?)
            }
            Atomicity::Hca | Atomicity::Glob => None,
        };
        Ok(Words {
            region: region.clone(),
            home,
            remote: OnceLock::new(),
            direct,
        })
    }

    /// Returns the node where the words live.
    pub(crate) fn home(&self) -> NodeId {
        self.home
    }

    /// [Prepares](Thread::prepare) the thread for operations on these words.
    #[inline]
    pub(crate) fn prepare(&self, thread: &Thread<F>) -> Result<()> {
        match self.direct {
            Some(_) => Ok(()),
            None => thread.prepare(&[self.home]),
        }
    }

    /// Hints that word `index` will be changed soon.
    #[inline]
    pub(crate) fn prefetch(&self, index: usize) {
        let offset = index * WORD_BYTES;
        if self.direct.is_some() {
            if let Ok(memory) = self.region.local() {
                memory.prefetch_write(offset);
            }
        } else if let Ok(target) = self.target(index) {
            target.remote.prefetch_write(target.offset);
        }
    }

    /// Returns the value of word `index`, in one order with all read-modify-writes. Where the NIC carries
    /// those out, this is one too: a get could miss the write of a completed one.
    #[inline]
    pub(crate) fn read(&self, thread: &Thread<F>, index: usize) -> Result<u64> {
        match thread.network().atomics_placed() {
            true => {
                thread.still_in()?;
                // Completed read-modify-writes are placed, this thread's own as well.
                self.glance(thread, index)
            }
            false => self.fetch_add(thread, index, 0),
        }
    }

    /// Returns a value that word `index` had a moment ago. It may lack the write of another queue pair's read-modify-write that
    /// has completed and that neither a later operation in strong order of that queue pair nor a fence has placed.
    #[inline]
    pub(crate) fn peek(&self, thread: &Thread<F>, index: usize) -> Result<u64> {
        if let Some(cells) = &self.direct {
            // The value is that of some point in the word's history.
            return Ok(cells[index].load());
        }
        // This thread's own exchanges are not missed: a lock that it has just released is free to it.
        thread.read_word_strong(self.target(index)?)
    }

    /// Returns a value that word `index` had a moment ago, as [`peek`](Words::peek) does, and asks for no order: it may lack
    /// this thread's own completed read-modify-writes as well, where these are not placed.
    #[inline(always)] // a load, where this node has the words
    pub(crate) fn glance(&self, thread: &Thread<F>, index: usize) -> Result<u64> {
        match &self.direct {
            Some(cells) => Ok(cells[index].load()),
            None => thread.read_word(self.target(index)?),
        }
    }

    /// Returns the values of the words from `index`. Each is read as [`peek`](Words::peek) does, except that this thread's own
    /// changes may be missing. They are there if a `peek` has returned since.
    pub(crate) fn read_many(&self, thread: &Thread<F>, index: usize, out: &mut [u64]) -> Result<()> {
        if let Some(cells) = &self.direct {
            for (value, cell) in out.iter_mut().zip(&cells[index..]) {
                *value = cell.load();
            }
            return Ok(());
        }
        let buffer = thread.mem_ref(out.len() * WORD_BYTES)?;
        let buffer = buffer.get(self.target(index)?)?.wait()?;
        for (i, value) in out.iter_mut().enumerate() {
            *value = buffer.word(i * WORD_BYTES)?;
        }
        Ok(())
    }

    /// Adds with wrap-around. Returns the old value.
    #[inline(always)] // one instruction, where this node has the words
    pub(crate) fn fetch_add(&self, thread: &Thread<F>, index: usize, add: u64) -> Result<u64> {
        if let Some(cells) = &self.direct {
            thread.still_in()?;
            return Ok(cells[index].fetch_add(add));
        }
        thread.fetch_add_word(self.target(index)?, add)
    }

    /// Stores `new` if the word is `expected`. Returns the old value.
    #[inline]
    pub(crate) fn compare_swap(
        &self,
        thread: &Thread<F>,
        index: usize,
        expected: u64,
        new: u64,
    ) -> Result<u64> {
        if let Some(old) = self.exchange_here(thread, index, expected, new)? {
            return Ok(old);
        }
        thread.compare_swap_word(self.target(index)?, expected, new)
    }

    /// Stores as [`compare_swap`](Words::compare_swap) does, after this thread's earlier [writes](Words::post_write) and puts to
    /// this node are placed.
    #[inline]
    pub(crate) fn compare_swap_strong(
        &self,
        thread: &Thread<F>,
        index: usize,
        expected: u64,
        new: u64,
    ) -> Result<u64> {
        if let Some(old) = self.exchange_here(thread, index, expected, new)? {
            return Ok(old);
        }
        thread.compare_swap_word_strong(self.target(index)?, expected, new)
    }

    /// Returns true if operations of this thread on these words are done within the call.
    #[inline]
    pub(crate) fn at_once(&self, thread: &Thread<F>) -> bool {
        self.direct.is_some() || thread.reads_at_once()
    }

    /// Returns the home if it carries out this node's operations on the words as those of a peer. Returns `None` where the CPU of this
    /// node does.
    #[inline]
    pub(crate) fn by_network(&self) -> Option<NodeId> {
        self.direct.is_none().then_some(self.home)
    }

    /// Begins a [`fetch_add`](Words::fetch_add) of a number to a word, after this thread's earlier [writes](Words::post_write) are placed,
    /// and with it, in no order, a read of the words `looked`. The first word of `block` gets the old value, and those behind it get the
    /// words that were read. Operations on these words are not done [at once](Words::at_once).
    pub(crate) fn begin_fetch_add_strong_and_look(
        &self,
        thread: &Thread<F>,
        block: &mut Block<F>,
        (index, add): (usize, u64),
        looked: Range<usize>,
    ) -> Result<AddAndLook<F>> {
        debug_assert!(!self.at_once(thread), "the CPU of this node has these words");
        let flags = Flags {
            more: true,
            ..Flags::STRONG
        };
        block.word_op(thread, self.target(index)?, WordOp::FetchAdd(add), flags)?;
        let added = block.key();
        let into = WORD_BYTES..(1 + looked.len()) * WORD_BYTES;
        // The addition is done whatever becomes of the look.
        let looks = block.get_also(thread, into, self.target(looked.start)?).is_ok();
        if !looks {
            // The look may have found no room until its deadline, and the addition waits for a doorbell.
            let nothing = Operation::PutInline(&[], self.target(index)?);
            let _ = thread.post_untracked(&nothing, Flags::default());
        }
        Ok(AddAndLook { added, looks })
    }

    /// Begins a [`compare_swap`](Words::compare_swap), or with [`Flags::STRONG`] a
    /// [`compare_swap_strong`](Words::compare_swap_strong), so that several overlap. The first word of `block` gets the old value.
    pub(crate) fn begin_compare_swap(
        &self,
        thread: &Thread<F>,
        block: &mut Block<F>,
        index: usize,
        (expected, new): (u64, u64),
        flags: Flags,
    ) -> Result<()> {
        if let Some(old) = self.exchange_here(thread, index, expected, new)? {
            return block.set_word(0, old);
        }
        let op = WordOp::CompareSwap { expected, new };
        block.word_op(thread, self.target(index)?, op, flags)
    }

    /// Exchanges where the CPU of this node may, and returns the old value.
    #[inline]
    fn exchange_here(
        &self,
        thread: &Thread<F>,
        index: usize,
        expected: u64,
        new: u64,
    ) -> Result<Option<u64>> {
        let Some(cells) = &self.direct else {
            return Ok(None);
        };
        thread.still_in()?;
        let cell = &cells[index];
        let old = cell.compare_exchange(expected, new).unwrap_or_else(|found| found);
        Ok(Some(old))
    }

    /// Stores a value, and returns the old one. This is a compare-and-swap, since there is no remote swap and
    /// a put is not atomic against read-modify-writes. `guess` is a likely content of the word.
    pub(crate) fn swap(&self, thread: &Thread<F>, index: usize, guess: u64, new: u64) -> Result<u64> {
        let mut expected = guess;
        loop {
            let old = self.compare_swap(thread, index, expected, new)?;
            if old == expected {
                return Ok(old);
            }
            expected = old;
        }
    }

    /// Stores a word that no read-modify-write ever touches. It is placed before a later strong read-modify-write of this
    /// thread on this node's words takes effect. Two of these writes have no order without one in between. The call does not
    /// wait for it.
    #[inline]
    pub(crate) fn post_write(
        &self,
        thread: &Thread<F>,
        index: usize,
        value: u64,
        flags: Flags,
    ) -> Result<()> {
        if let Some(cells) = &self.direct {
            // Release: TSO keeps the store before the later exchanges.
            thread.still_in()?;
            cells[index].store(value);
            return Ok(());
        }
        let put = Operation::PutInline(&value.to_ne_bytes(), self.target(index)?);
        thread.post_untracked(&put, flags)
    }

    /// Lets `pause` pass before the next look at the words from `index`. The last look found `seen`.
    ///
    /// # Errors
    /// Returns `PeerLost` if `on`, the node that is to change them, is gone, and `Timeout` at `deadline`.
    pub(crate) fn pause(
        &self,
        thread: &Thread<F>,
        pause: Pause<'_>,
        index: usize,
        seen: &[u64],
    ) -> Result<()> {
        thread.settle(Some(pause.deadline))?;
        let bytes: SmallVec<[u8; 64]> = seen.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let wait = Wait {
            what: pause.what,
            peers: Peers::One(pause.on),
            deadline: Some(pause.deadline),
        };
        let seen = Seen {
            at: self.target(index)?,
            bytes: &bytes,
        };
        Ok(thread.fabric().pause(wait, pause.time, &seen)?)
    }

    #[inline]
    fn target(&self, index: usize) -> Result<Target<'_, F::Remote>> {
        let remote = match self.remote.get() {
            Some(remote) => remote,
            None => self.find_remote()?,
        };
        let offset = index * WORD_BYTES;
        Ok(Target { remote, offset })
    }

    #[cold]
    fn find_remote(&self) -> Result<&F::Remote> {
        let remote = self.region.remote(self.home)?;
        Ok(self.remote.get_or_init(|| remote.clone()))
    }
}
