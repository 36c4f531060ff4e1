//! One pass over everything that the NIC has to do.

use std::io;

use loco_host::word::full_fence;
use rustix::event::Timespec;
use rustix::event::epoll;

use super::bus::Placed;
use super::core::{LISTENER, LOOK_IN, Nic, explained, is_short, spare};
use super::link::Link;
use super::near::Near;
use super::queue::{Making, QueuePair, Receive};
use super::ring::Wake;
use crate::child::is_child;
use crate::completions::is_any_armed;
use crate::ffi::*;
use crate::log;
use crate::settings::abroad;
use crate::wire::{Message, flag, kind};
use crate::world::{LOCAL_BITS, PROCESSES};

/// So many passes are made at most before others get the lock.
const PASSES: usize = 16;
/// So many connections are taken in at once.
const ACCEPTS: usize = 16;
/// So many connections of this host may be without a hello at once, and each for so long, in nanoseconds, as those of other hosts.
const STRANGERS_MAX: usize = 64;
const HELLO_PATIENCE: u64 = 5_000_000_000;

impl Nic {
    /// Takes what has come and does what is due. Looks at sockets, too, if asked to, or if there are other hosts. Returns when something
    /// is due next, in nanoseconds since the start.
    pub fn progress(&mut self, sockets: bool) -> Option<u64> {
        let sockets = sockets || abroad().is_some();
        let mut due = None;
        for _ in 0..PASSES {
            let mut came = self.take_near();
            if sockets {
                came |= self.take_messages();
            }
            due = self.work();
            if !came && due.is_none_or(|due| due > self.now()) {
                break;
            }
        }
        [due, self.look_after_strangers()].into_iter().flatten().min()
    }

    /// Closes connections of this host that have said no hello for too long. Returns when the next one will have.
    fn look_after_strangers(&mut self) -> Option<u64> {
        if self.strangers.is_empty() {
            return None;
        }
        let now = self.now();
        for id in std::mem::take(&mut self.strangers) {
            if self.until(id).is_some_and(|until| until <= now) {
                // If this process was stopped, the hello may be there.
                self.read_link(id);
                if self.until(id).is_some() {
                    log::say("closed a connection: no hello came");
                    self.drop_link(id);
                }
            }
            if self.until(id).is_some() {
                self.strangers.push(id);
            }
        }
        self.strangers.iter().filter_map(|id| self.until(*id)).min()
    }

    /// Returns until when the hello of a link may come, if it is to come.
    fn until(&self, id: u64) -> Option<u64> {
        let link = self.links.get(&id)?;
        link.peer.is_none().then_some(link.begun_at + HELLO_PATIENCE)
    }

    /// Takes what has come from processes of this host, and gives them what waits. Returns true if something has come.
    fn take_near(&mut self) -> bool {
        let mut came = false;
        // A message may end links and begin new ones. New links have their turn in the next pass.
        let mut turn = std::mem::take(&mut self.near_turn);
        turn.clone_from(&self.near);
        for &id in &turn {
            if self.links.get(&id).is_some_and(Link::is_blocked) {
                self.flush_link(id);
            }
            let Some(link) = self.links.get_mut(&id) else {
                continue;
            };
            let mut messages = Vec::new();
            let received = link.receive_near(&mut messages);
            came |= self.take_all(id, messages, received.map(|()| true));
        }
        self.near_turn = turn;
        came
    }

    /// Leaves answers to calls, if the program polls and waits for no event; and requests of others too, if the thread has looked for
    /// some in vain. Returns true if nothing was left to them before: then somebody has to look in.
    pub(super) fn leave_to_calls(&mut self, polls: bool, in_vain: bool) -> bool {
        let before = self.is_left_to_calls();
        let may_be = polls && !is_any_armed();
        self.left_to_calls = (may_be, may_be && in_vain);
        self.has_news = true;
        self.foresight.is_overruled();
        self.is_left_to_calls() && !before
    }

    /// Returns whether anything is left to calls.
    pub(super) fn is_left_to_calls(&self) -> bool {
        self.left_to_calls.0 || self.left_to_calls.1
    }

    /// Says to the processes of this host what the thread is to be woken for, before it sleeps. Returns false if something has come
    /// that nobody would be told of.
    pub(super) fn fall_asleep(&mut self) -> bool {
        self.has_news = false;
        let answers = match self.left_to_calls.0 {
            true => Wake::Never,
            false if self.wants_answers || is_any_armed() => Wake::Always,
            false => Wake::Urgent,
        };
        let requests = match self.left_to_calls.1 {
            true => Wake::Never,
            false => Wake::Always,
        };
        let links = self.near.iter().filter_map(|id| {
            let link = self.links.get(id)?;
            let near = link.near()?;
            let wake = match near.asks() {
                true => answers,
                // That there is room for its answers rings, too.
                false if link.holds_back() => Wake::Never,
                false => requests,
            };
            Some((near, wake))
        });
        for (near, wake) in links.clone() {
            near.wake_for(wake);
        }
        full_fence();
        links
            .clone()
            .all(|(near, wake)| wake == Wake::Never || near.is_empty())
    }

    /// Returns on which processor somebody was who has rung the bell, if somebody has.
    pub(super) fn rang_on(&self) -> Option<usize> {
        let links = self.near.iter().filter_map(|id| self.links.get(id)?.near());
        links.fold(None, |last, near| near.rang_on().or(last))
    }

    /// Says to the processes of this host that the thread is awake. Looks whether requests wait for answers still.
    pub(super) fn wake_up(&mut self) {
        for id in &self.near {
            if let Some(near) = self.links.get(id).and_then(Link::near) {
                near.wake_for(Wake::Never);
            }
        }
        self.wants_answers = self.qps.values().any(|qp| qp.sent < qp.sends.len());
    }

    /// Takes what has come over sockets. Returns true if something has.
    fn take_messages(&mut self) -> bool {
        if is_child() {
            return false;
        }
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; 16];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let Ok(count) = epoll::wait(&self.poller, &mut events, Some(&now)) else {
            return false;
        };
        let mut came = false;
        for event in &events[..count] {
            match event.data.u64() {
                LISTENER => self.accept(),
                // It is for the thread alone: a call that took it would leave the thread asleep.
                LOOK_IN => {}
                id => {
                    let flags = event.flags;
                    if flags.contains(epoll::EventFlags::OUT) {
                        self.flush_link(id);
                    }
                    came |= self.read_link(id);
                }
            }
        }
        came
    }

    fn accept(&mut self) {
        self.spare = self.spare.take().or_else(spare);
        for _ in 0..ACCEPTS {
            let stream = match self.world.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if is_short(&error) => {
                    if self.send_away(&error) {
                        continue;
                    }
                    return;
                }
                Err(_) => return,
            };
            if self.strangers.len() >= STRANGERS_MAX {
                self.look_after_strangers();
            }
            if self.strangers.len() >= STRANGERS_MAX {
                log::once(format_args!(
                    "closed a connection: {STRANGERS_MAX} others have said no hello"
                ));
                continue;
            }
            let now = self.now();
            let near = Near::accepted(stream, &self.greeting(0));
            let added = near.and_then(|near| self.add_link(Link::here(near, now)));
            match added {
                Ok(id) => self.strangers.push(id),
                Err(error) => log::say(format_args!("cannot take a connection: {}", explained(&error))),
            }
        }
    }

    /// Closes the connection that comes next, for which no descriptor is left. Its side sees that at once, where it would wait without
    /// end for one that is never taken in. Returns false if not even the spare descriptor is there for that.
    fn send_away(&mut self, why: &io::Error) -> bool {
        log::once(format_args!("cannot take a connection: {}", explained(why)));
        let had_one = self.spare.take().is_some();
        if had_one {
            drop(self.world.listener.accept());
        }
        self.spare = spare();
        had_one
    }

    fn flush_link(&mut self, id: u64) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        if link.flush().is_err() {
            self.drop_link(id);
        } else if !link.is_blocked() {
            // It may have held requests back.
            self.has_news = true;
            if link.near().is_none() {
                self.watch(id, false);
            }
            self.activate_waiting();
        }
    }

    fn read_link(&mut self, id: u64) -> bool {
        let now = self.now();
        let Some(link) = self.links.get_mut(&id) else {
            return false;
        };
        link.spoken_at = now;
        let mut messages = Vec::new();
        let received = link.receive(&mut self.buffer, &mut messages);
        self.has_news = true;
        let came = self.take_all(id, messages, received);
        // A byte that was heard may say that the ring has room again. It is sent once, so the link goes on here.
        if self
            .links
            .get(&id)
            .is_some_and(|link| link.near().is_some() && link.is_blocked())
        {
            self.flush_link(id);
        }
        came
    }

    /// Takes messages of a link, and looks how it is. Returns true if there are some.
    fn take_all(&mut self, id: u64, messages: Vec<Message>, received: io::Result<bool>) -> bool {
        let came = !messages.is_empty();
        self.taken += messages.len() as u64;
        self.moved += messages.iter().map(|message| message.data.len()).sum::<usize>();
        for message in messages {
            if let Err(why) = self.take(id, message) {
                log::say(format_args!("closed a connection: {why}"));
                self.drop_link(id);
                return true;
            }
        }
        match received {
            Ok(true) => {}
            Ok(false) => self.drop_link(id),
            Err(error) => {
                if error.kind() == io::ErrorKind::InvalidData {
                    log::say(format_args!("closed a connection: {error}"));
                }
                self.drop_link(id);
            }
        }
        came
    }

    fn take(&mut self, id: u64, message: Message) -> Result<(), &'static str> {
        if !self.links.contains_key(&id) {
            // What came before may have ended the link.
            return Ok(());
        }
        let header = &message.header;
        let peer = self.links.get(&id).and_then(|link| link.peer);
        match (header.kind, peer) {
            (kind::HELLO, None) => {
                if header.from >= PROCESSES {
                    return Err("a hello is of a process that cannot be");
                }
                if self.lost.contains(&header.from) {
                    self.drop_link(id);
                    return Ok(());
                }
                if let Some(link) = self.links.get_mut(&id) {
                    link.peer = Some(header.from);
                }
            }
            (kind::HELLO, Some(_)) => return Err("a hello came twice"),
            (_, None) => return Err("a message came before a hello"),
            (_, Some(peer)) if header.from >> LOCAL_BITS != peer => {
                return Err("a message is in another's name");
            }
            (kind::PROBE, _) => {}
            (kind::ANSWER, _) => self.answered(message),
            _ => {
                let fills_receive = header.kind == kind::SEND || header.has(flag::IMMEDIATE);
                self.asked += u64::from(!fills_receive);
                self.requested(id, message);
            }
        }
        Ok(())
    }

    /// Does what is due. Returns when something is due next.
    fn work(&mut self) -> Option<u64> {
        let now = self.now();
        let limbo = self.expire_limbo(now);
        let mut due = [limbo, self.look_after_far(now)].into_iter().flatten().min();
        let mut busy = Vec::new();
        for qpn in std::mem::take(&mut self.active) {
            let Some(mut qp) = self.qps.remove(&qpn) else {
                continue;
            };
            let next = self.turn(&mut qp, now);
            if next.is_some() {
                busy.push(qpn);
            }
            // A queue pair that waits for an arrival, however long, is due at no time.
            let next = next.filter(|next| *next < u64::MAX);
            due = [due, next].into_iter().flatten().min();
            self.qps.insert(qpn, qp);
        }
        if !self.active.is_empty() {
            // Turns have given others something to do.
            due = Some(now);
        }
        self.active.extend(busy);
        due
    }

    /// Gives a queue pair a turn. Returns when it has something to do next.
    fn turn(&mut self, qp: &mut QueuePair, now: u64) -> Option<u64> {
        loop {
            let before = qp.sends.len();
            let transmits = self.transmit(qp, now);
            let serves = self.serve(qp, now);
            let mut placed = Placed::default();
            let remote = qp.remote.step(now, self.tier, &mut self.dice, &mut placed);
            let local = qp.local.step(now, self.tier, &mut self.dice, &mut placed);
            let has_results = !placed.ended.is_empty();
            let frees_unit = placed.atomic && !qp.inbox.is_empty();
            self.placed(qp, placed, now);
            let completes = self.complete(qp, now);
            if qp.failed && qp.state() != IBV_QPS_ERR {
                self.fail(qp);
                return self.complete(qp, now);
            }
            // A request may have waited for what has ended now.
            let ended = has_results || qp.sends.len() < before;
            if frees_unit || ended && qp.sent < qp.sends.len() && transmits.is_none() {
                continue;
            }
            return [transmits, serves, remote, local, completes]
                .into_iter()
                .flatten()
                .min();
        }
    }

    /// Makes a queue pair. Returns its number, or `None` if there are as many as may be.
    pub fn make_qp(&mut self, making: Making) -> Option<u32> {
        let qpn = self.free_qpn()?;
        self.qps.insert(qpn, Box::new(QueuePair::new(qpn, making)));
        Some(qpn)
    }

    /// Removes a queue pair. What was acknowledged is placed before; what was not sent is not sent.
    pub fn remove_qp(&mut self, qpn: u32) {
        let Some(mut qp) = self.qps.remove(&qpn) else {
            return;
        };
        self.settle_qp(&mut qp);
        self.abandon_inbox(&mut qp);
        qp.send_cq.forget(qpn);
        qp.recv_cq.forget(qpn);
        let address = qp.address;
        qp.events.retain(|event| event.element != address);
    }

    /// Removes a shared receive queue that no queue pair uses, and its events that were not taken.
    pub fn remove_srq(&mut self, number: u32) {
        if let Some(shared) = self.srqs.remove(&number) {
            shared.events.retain(|event| event.element != shared.address);
        }
    }

    fn settle_qp(&mut self, qp: &mut QueuePair) {
        let now = self.now();
        let mut placed = Placed::default();
        qp.remote.push(true, &mut placed);
        qp.local.push(true, &mut placed);
        self.placed(qp, placed, now);
    }

    /// Places everything that is on its way to memory. After that, memory may go.
    pub fn settle(&mut self) {
        let all: Vec<u32> = self.qps.keys().copied().collect();
        for qpn in all {
            let Some(mut qp) = self.qps.remove(&qpn) else {
                continue;
            };
            if !qp.remote.is_empty() || !qp.local.is_empty() {
                self.settle_qp(&mut qp);
                self.active.insert(qpn);
            }
            self.qps.insert(qpn, qp);
        }
    }

    /// Adds a receive to the queue of a queue pair.
    ///
    /// # Errors
    /// Returns the number of the error of `ibv_post_recv`.
    pub fn post_receive(&mut self, qpn: u32, receive: Receive) -> Result<(), i32> {
        let Some(mut qp) = self.qps.remove(&qpn) else {
            return Err(libc::EINVAL);
        };
        let answer = if qp.state() == IBV_QPS_RESET || qp.srq.is_some() {
            Err(libc::EINVAL)
        } else if !QueuePair::take_place(&qp.receives_used, qp.cap.max_recv_wr) {
            Err(libc::ENOMEM)
        } else {
            qp.receives.push_back(receive);
            if qp.state() == IBV_QPS_ERR {
                self.flush_receives(&mut qp);
            }
            Ok(())
        };
        if !qp.inbox.is_empty() {
            self.active.insert(qpn);
        }
        self.qps.insert(qpn, qp);
        answer
    }

    /// Makes queue pairs look again for receives of a shared queue.
    pub fn receives_added(&mut self, srq: u32) {
        let waiting = self.qps.values().filter(|qp| qp.srq == Some(srq));
        self.active.extend(waiting.map(|qp| qp.qpn));
    }

    /// Changes the state of a queue pair, whose attributes are set already.
    pub fn change_state(&mut self, qpn: u32, state: u32) {
        let Some(mut qp) = self.qps.remove(&qpn) else {
            return;
        };
        match state {
            IBV_QPS_RESET => {
                self.settle_qp(&mut qp);
                self.abandon_inbox(&mut qp);
                qp.reset();
                qp.attr.qp_state = state;
            }
            IBV_QPS_ERR => {
                if qp.state() != IBV_QPS_ERR {
                    self.fail(&mut qp);
                    let now = self.now();
                    self.complete(&mut qp, now);
                }
            }
            _ => qp.attr.qp_state = state,
        }
        self.active.insert(qpn);
        let receives = qp.receives_messages();
        self.qps.insert(qpn, qp);
        if receives {
            self.deliver_limbo(qpn);
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
