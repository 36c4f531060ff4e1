//! The calls that the threads of `loco stress` make, and their records.

use std::fs::File;

use loco::fabric::{AnyFabric, NodeId};
use loco::fence::Scope;
use loco::{
    AtomicVar, Bytes, Inserted, KvConfig, KvStore, LockConfig, LockGuard, Popped, Pushed, Result,
    SharedQueue, SharedRegion, TasLock, Thread, TicketLock, Unlock,
};
use loco_history::spec::{
    AtomicCall, AtomicRet, KeyValueCall, KeyValueRet, LockCall, LockRet, QueueCall, QueueRet,
};
use loco_history::{HistoryError, Journal, MonotonicClock};

use super::load::OnLoss;
use super::worker::{Failed, PATIENCE, Site, Worker};
use crate::error::CliError;

/// The number of values that the queue has room for. There are few, so that the queue is full, empty and
/// wraps round all the time. Few values also show the order of simultaneous pushes soon, which the search
/// would otherwise have to guess.
pub(super) const QUEUE_CAPACITY: usize = 4;
/// The longest value of the store, in words. A value repeats one number as often as it is long, so that
/// mixtures show.
const VALUE_WORDS: u64 = 6;
/// The number recorded for a value that nobody wrote.
const MIXTURE: u64 = u64::MAX;
/// The most hand-overs in a row between threads of one node.
pub(super) const HAND_OVERS_MAX: u32 = 4;

/// Returns the owner of a lock as the history names it.
pub(super) fn owner(node: u16, thread: u16) -> u32 {
    u32::from(node) << 16 | u32::from(thread)
}

pub(super) fn recording(error: HistoryError) -> CliError {
    CliError::Os {
        what: "writing a journal",
        source: std::io::Error::other(error),
    }
}

pub(super) fn atomic(site: &Site) -> Result<(), CliError> {
    let variable = AtomicVar::<u64, _>::new(&site.manager, "variable", site.manager.nodes()[0])?;
    site.work(&["calls"], |worker| {
        let mut journal = worker.journal("calls")?;
        while worker.goes_on()? {
            let new = worker.unique();
            let call = match worker.below(8) {
                0 => AtomicCall::Write(new),
                1 => AtomicCall::Swap(new),
                2 | 3 => AtomicCall::CompareSwap {
                    expected: variable.cached(),
                    new,
                },
                4 | 5 => AtomicCall::FetchAdd(1 << 60),
                _ => AtomicCall::Read,
            };
            let open = journal.invoke(call).map_err(recording)?;
            worker.die_soon();
            let thread = &worker.thread;
            let result = match call {
                AtomicCall::Write(new) => variable.write(thread, new).map(|()| AtomicRet::Written),
                AtomicCall::Swap(new) => variable.swap(thread, new).map(AtomicRet::Value),
                AtomicCall::CompareSwap { expected, new } => {
                    variable.compare_swap(thread, expected, new).map(AtomicRet::Value)
                }
                AtomicCall::FetchAdd(by) => variable.fetch_add(thread, by).map(AtomicRet::Value),
                AtomicCall::Read => variable.read(thread).map(AtomicRet::Value),
            };
            match result {
                Ok(result) => journal.respond(open, result).map_err(recording)?,
                Err(error) => {
                    let Failed::Expected = worker.excuse(error)?;
                }
            }
        }
        Ok(())
    })
}

trait AnyLock: Unlock<AnyFabric> + Sized + Sync {
    fn make(site: &Site, config: LockConfig) -> Result<Self>;
    fn lock<'a>(&'a self, thread: &'a Thread<AnyFabric>, scope: Scope) -> Result<LockGuard<'a, Self>>;
    fn try_lock<'a>(
        &'a self,
        thread: &'a Thread<AnyFabric>,
        scope: Scope,
    ) -> Result<Option<LockGuard<'a, Self>>>;
}

macro_rules! any_lock {
    ($($lock:ident),*) => {$(
        impl AnyLock for $lock<AnyFabric> {
            fn make(site: &Site, config: LockConfig) -> Result<Self> {
                $lock::with_config(&site.manager, "lock", site.manager.nodes()[0], config)
            }
            fn lock<'a>(
                &'a self,
                thread: &'a Thread<AnyFabric>,
                scope: Scope,
            ) -> Result<LockGuard<'a, Self>> {
                self.lock(thread, scope)
            }
            fn try_lock<'a>(
                &'a self,
                thread: &'a Thread<AnyFabric>,
                scope: Scope,
            ) -> Result<Option<LockGuard<'a, Self>>> {
                self.try_lock(thread, scope)
            }
        }
    )*};
}
any_lock!(TicketLock, TasLock);

pub(super) fn ticket_lock(site: &Site) -> Result<(), CliError> {
    lock::<TicketLock<AnyFabric>>(site)
}

pub(super) fn tas_lock(site: &Site) -> Result<(), CliError> {
    lock::<TasLock<AnyFabric>>(site)
}

/// Increments a word under each acquisition, by a get and a put.
fn lock<L: AnyLock>(site: &Site) -> Result<(), CliError> {
    let lock = L::make(
        site,
        LockConfig::default()
            .on_loss(match site.load.on_loss {
                OnLoss::Poison => loco::OnLoss::Poison,
                OnLoss::Recover => loco::OnLoss::Recover,
            })
            .local_hand_overs_max(HAND_OVERS_MAX),
    )?;
    let word = SharedRegion::new(&site.manager, "word", 8)?;
    let nodes = site.manager.nodes();
    // The word is neither at the lock's home nor at the victim, where there are three nodes.
    let home = nodes[nodes.len() / 2];
    site.work(&["calls", "counts"], |worker| hold(worker, &lock, &word, home))
}

fn hold<L: AnyLock>(
    worker: &mut Worker<'_>,
    lock: &L,
    word: &SharedRegion<AnyFabric>,
    home: NodeId,
) -> Result<(), CliError> {
    let mut calls = worker.journal("calls")?;
    let mut counts = worker.journal("counts")?;
    let owner = owner(worker.id.node, worker.id.thread);
    while worker.goes_on()? {
        let tries = worker.below(4) == 0;
        let thread = &worker.thread;
        let call = if tries {
            LockCall::TryAcquire { owner }
        } else {
            LockCall::Acquire { owner }
        };
        let open = calls.invoke(call).map_err(recording)?;
        let scope = Scope::Pair(home);
        let guard = if tries {
            lock.try_lock(thread, scope)
        } else {
            lock.lock(thread, scope).map(Some)
        };
        let result = match &guard {
            Ok(Some(guard)) if guard.recovered() => LockRet::Recovered,
            Ok(Some(_)) => LockRet::Acquired,
            Ok(None) => LockRet::Busy,
            Err(_) => LockRet::GaveUp,
        };
        let guard = match guard {
            Ok(guard) => {
                calls.respond(open, result).map_err(recording)?;
                guard
            }
            Err(error) => {
                let Failed::Expected = worker.excuse(error)?;
                if !tries {
                    calls.respond(open, result).map_err(recording)?;
                }
                // The lock is poisoned for everybody and for good.
                return Ok(());
            }
        };
        let Some(guard) = guard else { continue };
        // The release counts as a call, too.
        worker.one_more();
        let open = counts.invoke(AtomicCall::FetchAdd(1)).map_err(recording)?;
        let buffer = thread.mem_ref(8)?.get(word.target(home, 0)?)?.wait()?;
        let old = buffer.word(0)?;
        buffer.set_word(0, old + 1)?;
        let _ = buffer.put(word.target(home, 0)?)?.wait()?;
        worker.die_here();
        counts.respond(open, AtomicRet::Value(old)).map_err(recording)?;
        let open = calls.invoke(LockCall::Release { owner }).map_err(recording)?;
        guard.release()?;
        calls.respond(open, LockRet::Released).map_err(recording)?;
    }
    Ok(())
}

pub(super) fn queue(site: &Site) -> Result<(), CliError> {
    let queue = SharedQueue::<u64, _>::new(&site.manager, "queue", site.manager.nodes()[0], QUEUE_CAPACITY)?;
    site.work(&["calls"], |worker| {
        let mut journal = worker.journal("calls")?;
        while worker.goes_on()? {
            let pushes = worker.below(if worker.is_time() { 4 } else { 2 }) == 0;
            let value = if pushes { worker.unique() } else { 0 };
            let call = if pushes {
                QueueCall::Push(value)
            } else {
                QueueCall::Pop
            };
            let open = journal.invoke(call).map_err(recording)?;
            if !pushes {
                worker.die_soon();
            }
            let result = if pushes {
                queue.try_push(&worker.thread, value).map(|pushed| match pushed {
                    Pushed::Done => QueueRet::Pushed,
                    Pushed::Full(_) => QueueRet::Full,
                    Pushed::Closed(_) => QueueRet::Closed,
                })
            } else {
                queue.try_pop(&worker.thread).map(|popped| match popped {
                    Popped::Value(value) => QueueRet::Popped(value),
                    Popped::Empty => QueueRet::Empty,
                    Popped::Closed => QueueRet::Closed,
                })
            };
            match result {
                Ok(result) => journal.respond(open, result).map_err(recording)?,
                Err(error) => {
                    let Failed::Expected = worker.excuse(error)?;
                    // A cell of the victim's blocks the queue for everybody and for good.
                    return Ok(());
                }
            }
        }
        Ok(())
    })
}

type Store = KvStore<u64, Bytes>;

pub(super) fn kv(site: &Site) -> Result<(), CliError> {
    let config = KvConfig::default()
        .slots_per_node(u32::try_from(site.load.keys).unwrap_or(u32::MAX))
        .value_bytes_max(8 * VALUE_WORDS as usize)
        .key_bytes_max(8)
        .locks(4)
        .copies(usize::from(site.load.copies))
        .spare_homes(usize::from(site.load.kills));
    let store = Store::new(&site.manager, "kv", config)?;
    if site.victims_before().is_empty() {
        return kv_work(site, &store);
    }
    std::thread::scope(|scope| {
        let turn = scope.spawn(|| await_turn(site, &store).inspect_err(|_| site.give_up()));
        let worked = kv_work(site, &store);
        let is_over_for_that = site.has_given_up();
        let turned = match turn.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        match is_over_for_that {
            true => turned.and(worked),
            false => worked.and(turned),
        }
    })
}

/// Lets this node be killed when those that are killed before it are gone and their copies are made again.
fn await_turn(site: &Site, store: &Store) -> Result<(), CliError> {
    site.manager.wait_for_ready()?;
    for &victim in site.victims_before() {
        site.outlive(victim)?;
    }
    let thread = site.manager.thread()?;
    thread.within(PATIENCE, || store.wait_until_whole(&thread))?;
    site.be_next();
    Ok(())
}

fn kv_work(site: &Site, store: &Store) -> Result<(), CliError> {
    site.work(&["calls"], |worker| {
        let mut journal = worker.journal("calls")?;
        while worker.goes_on()? {
            let key = worker.below(worker.site.load.keys);
            let kind = worker.below(20);
            // A victim that is to die inside an insert inserts more.
            let kind = if worker.is_time() { kind % 5 * 3 } else { kind };
            let call = match kind {
                0..4 => KeyValueCall::Insert(key, worker.unique()),
                4..9 => KeyValueCall::Update(key, worker.unique()),
                9..12 => KeyValueCall::Delete(key),
                _ => KeyValueCall::Get(key),
            };
            kv_recorded(worker, &mut journal, store, &call)?;
        }
        // The copies that the last kill has left, of each key.
        if site.load.copies > 1 && !site.victims().is_empty() && !site.suffers() {
            for key in 0..site.load.keys {
                let update = KeyValueCall::Update(key, worker.unique());
                for call in [KeyValueCall::Get(key), update, KeyValueCall::Get(key)] {
                    kv_recorded(worker, &mut journal, store, &call)?;
                }
            }
        }
        Ok(())
    })
}

type KvJournal = Journal<KeyValueCall<u64, u64>, KeyValueRet<u64>, MonotonicClock, File>;

/// Makes a call, and writes it to the journal.
fn kv_recorded(
    worker: &mut Worker<'_>,
    journal: &mut KvJournal,
    store: &Store,
    call: &KeyValueCall<u64, u64>,
) -> Result<(), CliError> {
    let has_copies = worker.site.load.copies > 1;
    let open = journal.invoke(call.clone()).map_err(recording)?;
    // Where the others go on with its copies, it is to die in the middle of other writes, too.
    let writes = !matches!(call, KeyValueCall::Get(_));
    if matches!(call, KeyValueCall::Insert(..)) || has_copies && writes {
        worker.die_soon();
    }
    let knew = worker.bereft();
    match kv_call(worker, store, call) {
        Ok(result) => journal.respond(open, result).map_err(recording)?,
        // The loss of the victim is no excuse: the others have copies.
        Err(error) if has_copies => return Err(error.into()),
        Err(error) => {
            let lost = error.lost_peer().is_some();
            let Failed::Expected = worker.excuse(error)?;
            // The store promises this. Nobody knows about a call that the loss overtook.
            if knew && lost {
                journal.respond(open, KeyValueRet::Lost).map_err(recording)?;
            }
        }
    }
    Ok(())
}

fn kv_call(
    worker: &mut Worker<'_>,
    store: &Store,
    call: &KeyValueCall<u64, u64>,
) -> Result<KeyValueRet<u64>> {
    let words = 1 + worker.below(VALUE_WORDS);
    let value = |number: u64| Bytes((0..words).flat_map(|_| number.to_ne_bytes()).collect());
    let thread = &worker.thread;
    let done = |done| {
        if done {
            KeyValueRet::Done
        } else {
            KeyValueRet::Missing
        }
    };
    match *call {
        KeyValueCall::Insert(key, number) => {
            store
                .insert(thread, &key, &value(number))
                .map(|inserted| match inserted {
                    Inserted::Done => KeyValueRet::Done,
                    Inserted::Duplicate => KeyValueRet::Duplicate,
                    Inserted::Full => KeyValueRet::Full,
                })
        }
        KeyValueCall::Update(key, number) => store.update(thread, &key, &value(number)).map(done),
        KeyValueCall::Delete(key) => store.delete(thread, &key).map(done),
        KeyValueCall::Get(key) => store.get(thread, &key).map(|found| match found {
            Some(Bytes(bytes)) => KeyValueRet::Found(number_of(&bytes)),
            None => KeyValueRet::Missing,
        }),
    }
}

/// Returns the number that a value repeats.
fn number_of(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(8).map(|word| {
        word.iter()
            .rev()
            .fold(0, |word, &byte| word << 8 | u64::from(byte))
    });
    match words.next() {
        Some(first) if words.all(|word| word == first) => first,
        _ => MIXTURE,
    }
}
