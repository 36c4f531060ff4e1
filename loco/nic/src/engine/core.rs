//! The NIC's state, and what its two sides share.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use loco_fabric::Tier;
use rustix::event::{EventfdFlags, epoll, eventfd};

use super::bus::Placed;
use super::foresight::Foresight;
use super::link::Link;
use super::near::{Greeting, Near};
use super::queue::{Incoming, QueuePair, SharedReceives, Stage};
use crate::child::is_child;
use crate::completions::Completions;
use crate::dice::Dice;
use crate::ffi::*;
use crate::log;
use crate::memory::Memory;
use crate::settings::{Faults, Settings, abroad};
use crate::wire::{Header, kind};
use crate::world::{LOCAL_BITS, World};

/// The number by which the listener is known to the poller, and the bell of the thread that looks in.
pub(super) const LISTENER: u64 = 0;
pub(super) const LOOK_IN: u64 = 1;
const FIRST_LINK: u64 = 2;

/// The NIC of this process.
pub(crate) struct Nic {
    pub world: Arc<World>,
    pub tier: Tier,
    pub memory: Memory,
    pub srqs: HashMap<u32, SharedReceives>,
    pub(super) qps: HashMap<u32, Box<QueuePair>>,
    /// Queue pairs with something to do, now or later.
    pub(super) active: BTreeSet<u32>,
    pub(super) links: HashMap<u64, Link>,
    /// The links to processes of this host.
    pub(super) near: Vec<u64>,
    /// Room for those that have a turn.
    pub(super) near_turn: Vec<u64>,
    /// Links that were taken in from processes of this host, and whose hello may be to come.
    pub(super) strangers: Vec<u64>,
    /// True if a request of this process waits for answers to earlier ones, or may.
    pub(super) wants_answers: bool,
    /// True while calls do the work, so that nobody need ring for answers; and true if not for requests either.
    pub(super) left_to_calls: (bool, bool),
    /// True if links may not know yet what the sleeping thread is to be woken for.
    pub(super) has_news: bool,
    /// Links to other hosts to which somebody has yet to connect, with the numbers of their processes.
    pub(super) visits: Vec<(u64, u32)>,
    /// The links to other processes, by their numbers.
    pub(super) ways: HashMap<u32, u64>,
    /// Requests whose queue pair is not there, or takes nothing: when they fail, and what they are.
    pub(super) limbo: Vec<(u64, Incoming)>,
    /// True while an atomic is between its read and its write.
    pub(super) unit_taken: bool,
    pub(super) dice: Dice,
    pub(super) faults: Faults,
    /// Whether an atomic pushes data of relaxed ordering to memory.
    pub(super) atomics_push: bool,
    /// The processes to which the link was lost on request.
    pub(super) lost: BTreeSet<u32>,
    /// The number of calls that looked for completions.
    pub(super) looks: u32,
    /// Whether calls look on after a completion.
    pub(super) foresight: Foresight,
    /// The number of messages that were ever taken from links.
    pub(super) taken: u64,
    /// The number of those that were requests of others which fill no receive.
    pub(super) asked: u64,
    /// The number of bytes that ever came with messages, or left with answers.
    pub(super) moved: usize,
    /// Watches the listener and the sockets of links.
    pub(super) poller: Arc<OwnedFd>,
    /// On this, the thread sleeps.
    pub(super) doorbell: Arc<OwnedFd>,
    /// This makes the thread that waits for sockets look in.
    pub(super) look_in: OwnedFd,
    /// A descriptor that makes room for a connection which is to be sent away.
    pub(super) spare: Option<OwnedFd>,
    pub(super) buffer: Box<[u8]>,
    next_link: u64,
    next_qp: u32,
    next_srq: u32,
    pub(super) started: Instant,
}

impl Nic {
    /// Makes the NIC of a process.
    ///
    /// # Errors
    /// Fails when the process can take no place in the world, or may open no more descriptors.
    pub fn new(settings: &Settings) -> io::Result<Nic> {
        if let Err(why) = &settings.abroad {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why.clone()));
        }
        let hosts = abroad().map(|abroad| &abroad.hosts);
        let world = Arc::new(World::enter(&settings.world, hosts)?);
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        // It is read when it has rung, or to wait for that.
        // Neighbours write to it, who must not wait if it is full, and this process does not if it is empty.
        let doorbell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let read = epoll::EventFlags::IN;
        epoll::add(
            &poller,
            &world.listener,
            epoll::EventData::new_u64(LISTENER),
            read,
        )?;
        let look_in = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&poller, &look_in, epoll::EventData::new_u64(LOOK_IN), read)?;
        let dice = Dice::new(settings.seed, world.number, settings.stress, settings.schedule);
        Ok(Nic {
            tier: settings.tier,
            memory: Memory::default(),
            srqs: HashMap::new(),
            qps: HashMap::new(),
            active: BTreeSet::new(),
            links: HashMap::new(),
            near: Vec::new(),
            near_turn: Vec::new(),
            strangers: Vec::new(),
            wants_answers: false,
            left_to_calls: (false, false),
            has_news: false,
            visits: Vec::new(),
            ways: HashMap::new(),
            limbo: Vec::new(),
            unit_taken: false,
            dice,
            faults: settings.faults,
            atomics_push: settings.atomics_push,
            lost: BTreeSet::new(),
            looks: 0,
            foresight: Foresight::default(),
            asked: 0,
            taken: 0,
            moved: 0,
            poller: Arc::new(poller),
            doorbell: Arc::new(doorbell),
            look_in,
            spare: spare(),
            buffer: vec![0; 1 << 16].into_boxed_slice(),
            next_link: FIRST_LINK,
            next_qp: 0,
            next_srq: 0,
            started: Instant::now(),
            world,
        })
    }

    /// Returns the time in nanoseconds since the start.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Returns a queue pair.
    pub fn qp(&self, qpn: u32) -> Option<&QueuePair> {
        self.qps.get(&qpn).map(|qp| &**qp)
    }

    /// Returns a queue pair, to be changed.
    pub fn qp_mut(&mut self, qpn: u32) -> Option<&mut QueuePair> {
        self.qps.get_mut(&qpn).map(|qp| &mut **qp)
    }

    /// Returns whether a queue pair uses something.
    pub fn any_qp(&self, uses: impl Fn(&QueuePair) -> bool) -> bool {
        self.qps.values().any(|qp| uses(qp))
    }

    /// Returns true if it takes no liberties.
    pub(super) fn is_plain(&self) -> bool {
        self.dice.is_plain()
    }

    /// Returns a free number for a queue pair, if there is one.
    pub(super) fn free_qpn(&mut self) -> Option<u32> {
        let count = 1 << LOCAL_BITS;
        for _ in 0..count {
            self.next_qp = (self.next_qp + 1) % count;
            let qpn = self.world.number << LOCAL_BITS | self.next_qp;
            if !self.qps.contains_key(&qpn) {
                return Some(qpn);
            }
        }
        None
    }

    /// Adds a shared receive queue and returns its number.
    pub fn add_srq(&mut self, srq: SharedReceives) -> u32 {
        self.next_srq += 1;
        self.srqs.insert(self.next_srq, srq);
        self.next_srq
    }

    fn hello(&self, to: u32) -> Header {
        Header::new(kind::HELLO, self.world.number, to, 0)
    }

    /// Returns what is said when a connection within this host begins.
    pub(super) fn greeting(&self, to: u32) -> Greeting<'_> {
        Greeting {
            hello: self.hello(to),
            bell: self.doorbell.as_fd(),
        }
    }

    /// Takes a connection into the set of links.
    pub(super) fn add_link(&mut self, link: Link) -> io::Result<u64> {
        let id = self.next_link;
        self.next_link += 1;
        if link.near().is_some() {
            self.near.push(id);
        }
        self.links.insert(id, link);
        if let Err(error) = self.poll_link(id) {
            self.drop_link(id);
            return Err(error);
        }
        self.has_news = true;
        Ok(id)
    }

    /// Adds a link that has come about to the poller.
    pub(super) fn poll_link(&mut self, id: u64) -> io::Result<()> {
        if let Some(descriptor) = self.links.get(&id).and_then(Link::descriptor) {
            let data = epoll::EventData::new_u64(id);
            epoll::add(&self.poller, descriptor, data, epoll::EventFlags::IN)?;
        }
        if self
            .links
            .get(&id)
            .is_some_and(|link| link.is_far() && link.is_blocked())
        {
            self.watch(id, true);
        }
        Ok(())
    }

    /// Returns the link to the process of a queue pair, which is made if there is none.
    pub(super) fn way_to(&mut self, qpn: u32) -> Option<u64> {
        let number = qpn >> LOCAL_BITS;
        if is_child() || self.lost.contains(&number) {
            return None;
        }
        if let Some(id) = self.ways.get(&number) {
            return Some(*id);
        }
        let now = self.now();
        let far = abroad().is_some_and(|abroad| abroad.host_of(number).is_some());
        let mut link = if far {
            let mut link = Link::coming(now);
            link.send(&self.hello(number), &[]).ok()?;
            link
        } else {
            let near = match self.world.connect(number) {
                Ok(stream) => Near::connected(stream, number, &self.greeting(number)),
                // That nobody is there says enough by itself.
                Err(error) if !is_short(&error) => return None,
                Err(error) => Err(error),
            };
            if let Err(error) = &near {
                log::once(format_args!(
                    "cannot connect to process {number}: {}",
                    explained(error)
                ));
            }
            Link::here(near.ok()?, now)
        };
        link.peer = Some(number);
        let id = self.add_link(link).ok()?;
        if far {
            self.visits.push((id, number));
        }
        self.ways.insert(number, id);
        Some(id)
    }

    /// Sends a message. A link that fails is dropped.
    pub(super) fn send(&mut self, id: u64, header: &Header, data: &[u8]) -> bool {
        let now = self.now();
        let Some(link) = self.links.get_mut(&id) else {
            return false;
        };
        link.spoken_at = now;
        let was_blocked = link.is_blocked();
        if link.send(header, data).is_err() {
            self.drop_link(id);
            return false;
        }
        if !was_blocked && link.is_blocked() && link.near().is_none() {
            self.watch(id, true);
        }
        true
    }

    /// Asks the poller to say when a link takes more, or no more.
    pub(super) fn watch(&mut self, id: u64, output: bool) {
        let Some(descriptor) = self.links.get(&id).and_then(Link::descriptor) else {
            return;
        };
        let mut flags = epoll::EventFlags::IN;
        if output {
            flags |= epoll::EventFlags::OUT;
        }
        let _ = epoll::modify(&self.poller, descriptor, epoll::EventData::new_u64(id), flags);
    }

    /// Drops a link. Requests that were sent over it fail when their queue pair's patience is over. If it never came about, that
    /// counts from when it was begun.
    pub(super) fn drop_link(&mut self, id: u64) {
        let Some(link) = self.links.remove(&id) else {
            return;
        };
        self.near.retain(|near| *near != id);
        self.activate_waiting();
        // A child of `fork` may have the poller of its parent still.
        if let Some(descriptor) = link.descriptor().filter(|_| !is_child()) {
            let _ = epoll::delete(&self.poller, descriptor);
        }
        let Some(number) = link.peer else { return };
        if self.ways.get(&number) != Some(&id) {
            return;
        }
        self.ways.remove(&number);
        let now = self.now();
        let lost_at = if link.is_coming() { link.begun_at } else { now };
        for qp in self.qps.values_mut() {
            if qp.kind == IBV_QPT_RC && qp.attr.dest_qp_num >> LOCAL_BITS == number {
                let patience = patience(&qp.attr);
                for sending in &mut qp.sends {
                    if sending.stage == Stage::Sent {
                        qp.has_lost = true;
                        if patience > 0 {
                            sending.fails_at.get_or_insert(now.max(lost_at + patience));
                        }
                    }
                }
                self.active.insert(qp.qpn);
            }
        }
    }

    /// Gives queue pairs a turn whose requests, or answers, wait, since a link takes more now, or is no more.
    pub(super) fn activate_waiting(&mut self) {
        let all = self.qps.values();
        let waiting = all.filter(|qp| qp.sent < qp.sends.len() || !qp.inbox.is_empty());
        self.active.extend(waiting.map(|qp| qp.qpn));
    }

    /// Takes note of what a bus has placed.
    pub(super) fn placed(&mut self, qp: &mut QueuePair, placed: Placed, now: u64) {
        if placed.atomic {
            self.unit_taken = false;
            // Other queue pairs may wait for it.
            self.active.extend(self.qps.keys());
        }
        for seq in placed.ended {
            let front = qp.sends.front().map_or(0, |sending| sending.seq);
            let at = usize::try_from(seq.wrapping_sub(front)).unwrap_or(usize::MAX);
            if let Some(sending) = qp.sends.get_mut(at) {
                let len = sending
                    .request
                    .elements
                    .iter()
                    .map(|element| element.length)
                    .sum();
                sending.stage = Stage::Ended(IBV_WC_SUCCESS, len, now);
            }
        }
        for queue in placed.overrun {
            self.overrun(qp, &queue);
        }
    }

    /// Reports that a completion queue was full, which breaks it and the queue pairs that use it.
    pub(super) fn overrun(&mut self, qp: &mut QueuePair, queue: &Arc<Completions>) {
        qp.events.push(AsyncEvent {
            element: queue.address(),
            event_type: IBV_EVENT_CQ_ERR,
        });
        qp.failed = true;
        for other in self.qps.values_mut() {
            if Arc::ptr_eq(&other.send_cq, queue) || Arc::ptr_eq(&other.recv_cq, queue) {
                other.failed = true;
                self.active.insert(other.qpn);
            }
        }
    }
}

/// Returns a descriptor that is closed when another is needed, if one is left.
pub(super) fn spare() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}

/// Returns whether an error says that no descriptor is left, in this process or in the system.
pub(super) fn is_short(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Says what to do about an error that has a remedy.
pub(super) fn explained(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EMFILE) => format!(
            "{error}: each link to a process of this host takes two descriptors; raise the limit on them (`ulimit -n`)"
        ),
        _ => error.to_string(),
    }
}

/// Returns for how many nanoseconds a queue pair waits for a peer that does not answer; 0 is without end.
pub(super) fn patience(attr: &QpAttr) -> u64 {
    match attr.timeout & 31 {
        0 => 0,
        timeout => (4096 << timeout) * (u64::from(attr.retry_cnt & 7) + 1),
    }
}
