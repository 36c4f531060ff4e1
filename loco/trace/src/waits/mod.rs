//! What the threads of this process wait for, and who holds its locks, for those who look from outside (`loco top`).
//!
//! Each node has a page of memory that other processes of its user can read ([`read()`]). A wait is written there when it has
//! lasted [`SHOWN_AFTER`]. A lock has a word there that names the thread that holds it. Nobody has to be asked, so a node that stands
//! still is seen as well. A node that has not [started](start) this shows nothing.

mod page;
mod read;

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loco_fabric::NodeId;

use crate::clock::now;

pub use page::NAME;
use page::{
    AWAITED, AWAITED_LIST, AWAITED_MAX, FIRST_OBJECT, FIRST_WAIT, HOLDER, JOB, JOB_WORDS, KIND, KIND_WORDS,
    LOOKS, MAGIC, NAME_WORDS, NODE, NODES, OBJECT_NAME, OBJECT_WORDS, OBJECTS, OBJECTS_LEFT_OUT, OF_TASK,
    PROCESS, Page, SINCE, STAGE, THREAD, THREADS, UNTIL, VERSION, WAIT_NAME, WAIT_WORDS, WAITS,
    WAITS_LEFT_OUT,
};
pub use read::{NodePage, Object, Wait, Who, read};

/// The beginning of the names of threads that serve a node and do nothing for the program.
pub const SERVICES: &str = "loco-";
/// The time after which a wait is shown.
pub const SHOWN_AFTER: Duration = Duration::from_millis(1);

/// Set while a node has a page. Relaxed: nothing else is published by it.
static ON: AtomicBool = AtomicBool::new(false);
static PAGES: Mutex<Vec<(NodeId, Arc<Page>)>> = Mutex::new(Vec::new());

thread_local! {
    /// The number of this thread in the system, or 0 before it was asked for.
    static OWN: Cell<u32> = const { Cell::new(0) };
    /// True while a wait of this thread is shown.
    static SHOWN: Cell<bool> = const { Cell::new(false) };
    /// The place of that wait.
    static CURRENT: RefCell<Option<(Arc<Page>, usize)>> = const { RefCell::new(None) };
}

/// The page of a node of this process. Others do not find it any more once this and the last object on it are dropped.
pub struct OwnPage(Arc<Page>);

/// Makes the page of `node`, one of `nodes` nodes of the job with the id `job`. It takes the place of an earlier page of a node of this
/// process with the same number.
///
/// # Errors
/// Returns the system's error: the node is not seen then, and works all the same.
pub fn start(job: &str, node: NodeId, nodes: usize) -> io::Result<OwnPage> {
    let page = Arc::new(Page::new()?);
    let set = |index, value| page.word(index).store(value, Ordering::Relaxed);
    set(NODE, node.0.into());
    set(NODES, nodes as u64);
    set(PROCESS, std::process::id().into());
    page.write_text(JOB, JOB_WORDS, job);
    page.word(0).store(MAGIC, Ordering::Release);
    let mut pages = pages();
    pages.retain(|(of, _)| *of != node);
    pages.push((node, page.clone()));
    ON.store(true, Ordering::Relaxed);
    Ok(OwnPage(page))
}

impl Drop for OwnPage {
    fn drop(&mut self) {
        let mut pages = pages();
        pages.retain(|(_, page)| !Arc::ptr_eq(page, &self.0));
        ON.store(!pages.is_empty(), Ordering::Relaxed);
    }
}

/// Returns whether a node of this process has a page.
#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

fn pages() -> MutexGuard<'static, Vec<(NodeId, Arc<Page>)>> {
    PAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the page of `node`, if it has one.
fn page_of(node: NodeId) -> Option<Arc<Page>> {
    if !is_on() {
        return None;
    }
    let pages = pages();
    let found = pages.iter().find(|(of, _)| *of == node);
    found.map(|(_, page)| page.clone())
}

/// Returns the number of this thread in the system.
#[inline]
fn own_thread() -> u64 {
    match OWN.get() {
        0 => first_number(),
        number => number.into(),
    }
}

#[cold]
fn first_number() -> u64 {
    let number = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    OWN.set(number);
    number.into()
}

fn who(of_task: bool) -> u64 {
    own_thread() | if of_task { OF_TASK } else { 0 }
}

/// An endpoint of an object, as long as it is there.
#[derive(Default)]
pub struct Shown(Option<Place>);

/// A part of a page.
struct Place {
    page: Arc<Page>,
    first: usize,
}

impl Place {
    fn word(&self, offset: usize) -> &AtomicU64 {
        self.page.word(self.first + offset)
    }
}

/// Shows an object of `node`.
pub fn object(node: NodeId, name: &str, kind: &str) -> Shown {
    let Some(page) = page_of(node) else {
        return Shown(None);
    };
    let Some(first) = page.take(FIRST_OBJECT, OBJECTS, OBJECT_WORDS) else {
        page.word(OBJECTS_LEFT_OUT).fetch_add(1, Ordering::Relaxed);
        return Shown(None);
    };
    page.write_text(first + OBJECT_NAME, NAME_WORDS, name);
    page.write_text(first + KIND, KIND_WORDS, kind);
    // 2: it is written.
    page.word(first).store(2, Ordering::Release);
    Shown(Some(Place { page, first }))
}

impl Shown {
    /// Returns whether the object is on a page.
    #[inline]
    pub fn is_seen(&self) -> bool {
        self.0.is_some()
    }

    /// Says that this thread holds the lock. `of_task` says that an asynchronous call does, which runs on this thread.
    #[inline]
    pub fn hold(&self, of_task: bool) {
        if let Some(place) = &self.0 {
            // Relaxed: those who look compare what they see at two times.
            place.word(HOLDER).store(who(of_task), Ordering::Relaxed);
        }
    }

    /// Says that no thread of this node holds the lock.
    #[inline]
    pub fn release(&self) {
        if let Some(place) = &self.0 {
            place.word(HOLDER).store(0, Ordering::Relaxed);
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.release();
        if let Some(place) = &self.0 {
            place.word(0).store(0, Ordering::Release);
        }
    }
}

/// A thread's access to the network, as long as it is there.
#[derive(Default)]
pub struct Access(Option<Arc<Page>>);

/// Counts an access to the network that this thread gets, of those of `node`. Services, whose threads are called `loco-`, are left out.
pub fn access(node: NodeId) -> Access {
    let Some(page) = page_of(node) else {
        return Access(None);
    };
    let current = std::thread::current();
    if current.name().is_some_and(|name| name.starts_with(SERVICES)) {
        return Access(None);
    }
    page.word(THREADS).fetch_add(1, Ordering::Relaxed);
    Access(Some(page))
}

impl Drop for Access {
    fn drop(&mut self) {
        if let Some(page) = &self.0 {
            page.word(THREADS).fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// What another node does to an object.
    Use,
    /// An object that is being set up.
    SetUp,
}

/// A wait that is shown until this is dropped, or one that is not shown.
#[derive(Default)]
#[must_use = "it ends when it is dropped"]
pub struct Waiting {
    place: Option<Place>,
    of_task: bool,
}

/// Shows that this thread has waited for `what` for so long. Only `nodes` change what it waits for. `left` is the time after which it
/// gives up. `of_task` says that an asynchronous call waits, which runs on this thread.
///
/// A wait within a wait of this thread that is shown is a look in vain of the latter.
#[cold]
pub fn begin(
    node: NodeId,
    stage: Stage,
    what: &str,
    nodes: &[NodeId],
    (waited, left): (Duration, Option<Duration>),
    of_task: bool,
) -> Waiting {
    if SHOWN.get() && !of_task {
        look_again();
        return Waiting::default();
    }
    let Some(page) = page_of(node) else {
        return Waiting::default();
    };
    let Some(first) = page.take(FIRST_WAIT, WAITS, WAIT_WORDS) else {
        page.word(WAITS_LEFT_OUT).fetch_add(1, Ordering::Relaxed);
        return Waiting::default();
    };
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let place = Place { page, first };
    let now = now();
    change(&place.page, first, || {
        let set = |offset, value| place.word(offset).store(value, Ordering::Relaxed);
        set(THREAD, who(of_task));
        set(SINCE, now.saturating_sub(nanos(waited)));
        set(
            UNTIL,
            left.map_or(u64::MAX, |left| now.saturating_add(nanos(left))),
        );
        set(LOOKS, 0);
        set(STAGE, u64::from(stage == Stage::SetUp));
        write_awaited(&place.page, first, nodes.iter().copied());
        place.page.write_text(first + WAIT_NAME, NAME_WORDS, what);
    });
    if !of_task {
        SHOWN.set(true);
        let _ = CURRENT.try_with(|current| current.replace(Some((place.page.clone(), first))));
    }
    Waiting {
        place: Some(place),
        of_task,
    }
}

/// Returns whether a wait of this thread is shown, which is not that of an asynchronous call.
#[inline]
pub fn is_shown() -> bool {
    SHOWN.get()
}

/// Says that this thread, of which a wait is shown, has looked in vain once more.
fn look_again() {
    let _ = CURRENT.try_with(|current| {
        if let Some((page, first)) = current.borrow().as_ref() {
            page.word(first + LOOKS).fetch_add(1, Ordering::Relaxed);
        }
    });
}

/// Says for which nodes this thread waits now, if a wait of it [is shown](is_shown).
#[cold]
pub fn await_nodes(nodes: impl Iterator<Item = NodeId> + Clone) {
    // A thread that is ending shows nothing.
    let _ = CURRENT.try_with(|current| {
        if let Some((page, first)) = current.borrow().as_ref() {
            await_at(page, *first, nodes);
        }
    });
}

impl Waiting {
    /// Returns whether the wait is shown.
    pub fn is_seen(&self) -> bool {
        self.place.is_some()
    }

    /// Says that the thread has looked in vain once more.
    pub fn look(&self) {
        if let Some(place) = &self.place {
            let looks = place.word(LOOKS);
            looks.store(looks.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }
}

impl Drop for Waiting {
    #[inline]
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            end_wait(&place, self.of_task);
        }
    }
}

#[cold]
fn end_wait(place: &Place, of_task: bool) {
    if !of_task {
        SHOWN.set(false);
        let _ = CURRENT.try_with(|current| current.take());
    }
    // Another wait at this place has other numbers.
    place.word(VERSION).fetch_add(2, Ordering::Relaxed);
    place.word(0).store(0, Ordering::Release);
}

/// Changes the wait at `first`. Those who look do not take it for a wait meanwhile.
fn change(page: &Page, first: usize, write: impl FnOnce()) {
    let version = page.word(first + VERSION);
    let before = version.load(Ordering::Relaxed);
    version.store(before + 1, Ordering::Relaxed);
    fence(Ordering::Release);
    write();
    version.store(before + 2, Ordering::Release);
}

/// Writes the nodes for which the wait at `first` waits.
fn write_awaited(page: &Page, first: usize, nodes: impl Iterator<Item = NodeId>) {
    let mut words = [0; WAIT_NAME - AWAITED_LIST];
    let mut count = 0;
    for node in nodes {
        if count < AWAITED_MAX {
            words[count / 4] |= u64::from(node.0) << (16 * (count % 4));
        }
        count += 1;
    }
    page.word(first + AWAITED).store(count as u64, Ordering::Relaxed);
    for (index, word) in words.into_iter().enumerate() {
        page.word(first + AWAITED_LIST + index)
            .store(word, Ordering::Relaxed);
    }
}

/// Writes the nodes for which the wait at `first` waits, if they are others than before.
fn await_at(page: &Page, first: usize, nodes: impl Iterator<Item = NodeId> + Clone) {
    let read = |index: usize| {
        page.word(first + AWAITED_LIST + index / 4)
            .load(Ordering::Relaxed)
            >> (16 * (index % 4))
    };
    let known = page.word(first + AWAITED).load(Ordering::Relaxed);
    let is_known =
        |(index, node): (usize, NodeId)| index >= AWAITED_MAX || read(index) & 0xffff == u64::from(node.0);
    if nodes.clone().count() as u64 != known || !nodes.clone().enumerate().all(is_known) {
        change(page, first, || write_awaited(page, first, nodes));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    const NODE_3: NodeId = NodeId(3);

    /// Reads the page of a node of this process, by the file that others find.
    fn seen(node: NodeId) -> NodePage {
        for entry in std::fs::read_dir("/proc/self/fd").expect("open files") {
            let path = entry.expect("an entry").path();
            let is_page = std::fs::read_link(&path).is_ok_and(|to| to.to_string_lossy().contains(NAME));
            if !is_page {
                continue;
            }
            let file = std::fs::File::open(&path).expect("a page");
            let mut bytes = vec![0; file.metadata().expect("a size").len() as usize];
            file.read_exact_at(&mut bytes, 0).expect("read");
            if let Some(page) = read(&bytes).filter(|page| page.node == node) {
                return page;
            }
        }
        panic!("no page of {node}");
    }

    fn wait_of(node: NodeId, of_task: bool) -> Waiting {
        let times = (Duration::from_secs(2), Some(Duration::from_secs(5)));
        begin(node, Stage::Use, "bar", &[NodeId(1), NodeId(2)], times, of_task)
    }

    #[test]
    fn others_see_objects_holders_and_waits() {
        let _page = start("the job", NODE_3, 5).expect("a page");
        let long = "é".repeat(100);
        let lock = object(NODE_3, "a", "ticket_lock on node 0");
        let barrier = object(NODE_3, &long, "barrier");
        lock.hold(false);
        let access = access(NODE_3);
        let service = std::thread::Builder::new().name("loco-x".to_owned());
        let its_access = service.spawn(|| super::access(NODE_3)).expect("a thread");
        let its_access = its_access.join().expect("an access");
        let first = wait_of(NODE_3, false);
        assert!(first.is_seen() && is_shown());
        assert!(!wait_of(NODE_3, false).is_seen(), "a wait within a wait");
        let task = wait_of(NODE_3, true);
        let page = seen(NODE_3);
        assert_eq!((page.job.as_str(), page.nodes), ("the job", 5));
        assert_eq!((page.process, page.threads), (std::process::id(), 1));
        let names: Vec<_> = page.objects.iter().map(|object| object.name.as_str()).collect();
        assert_eq!(names, ["a", &*"é".repeat(44)], "texts are cut between characters");
        assert_eq!(page.objects[0].kind, "ticket_lock on node 0");
        let [wait, of_task] = &page.waits[..] else {
            panic!("{page:?}")
        };
        assert_eq!(page.objects[0].holder, Some(wait.who));
        assert!(!wait.who.of_task && of_task.who.of_task);
        assert_eq!(
            (wait.what.as_str(), &wait.nodes[..]),
            ("bar", &[NodeId(1), NodeId(2)][..])
        );
        assert_eq!(wait.until.map(|until| until - wait.since), Some(7_000_000_000));
        assert!(wait.since < now() && now() - wait.since >= 2_000_000_000);

        // The same nodes are the same wait; others are not.
        first.look();
        await_nodes([NodeId(1), NodeId(2)].into_iter());
        let same = seen(NODE_3);
        assert_eq!(
            (same.waits[0].state, same.waits[0].looks),
            (wait.state, wait.looks + 1)
        );
        await_nodes((0..40).map(NodeId));
        let other = seen(NODE_3);
        assert_ne!(other.waits[0].state, wait.state);
        assert_eq!(other.waits[0].nodes, (0..40).map(NodeId).collect::<Vec<_>>());

        drop((first, task, access, its_access));
        lock.release();
        drop(barrier);
        assert!(!is_shown());
        let page = seen(NODE_3);
        assert_eq!((page.waits.len(), page.objects.len(), page.threads), (0, 1, 0));
        assert_eq!(page.objects[0].holder, None);
        let again = wait_of(NODE_3, false);
        assert_ne!(seen(NODE_3).waits[0].state, wait.state, "another wait");
        drop(again);
    }

    #[test]
    fn what_has_no_room_is_counted_and_a_node_without_a_page_shows_nothing() {
        let node = NodeId(7);
        assert!(!object(node, "x", "y").is_seen());
        assert!(!wait_of(node, true).is_seen());
        let own = start("full", node, 1).expect("a page");
        let objects: Vec<_> = (0..OBJECTS + 2).map(|_| object(node, "x", "y")).collect();
        let waits: Vec<_> = (0..=WAITS).map(|_| wait_of(node, true)).collect();
        let page = seen(node);
        assert_eq!((page.objects.len(), page.waits.len()), (OBJECTS, WAITS));
        assert_eq!(page.left_out, (2, 1));
        drop(own);
        assert!(!object(node, "x", "y").is_seen());
        drop((objects, waits));
    }
}
