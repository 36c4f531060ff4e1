//! The events of what a thread asks of its network card: puts, gets, read-modify-writes at the peer, and polls.

use std::sync::Arc;

use crate::event::{Event, Kind};
use crate::model::RmwAtomicity;
use crate::program::{BinaryOp, Instr, Loc, Message, NOT_DONE, Node, PutSrc, Reg, WorkId};

use super::{End, Site, State, Unfolding, Unpolled, eval};
use crate::declarative::sym::{Sym, fold_binary};

impl<'p> Unfolding<'p> {
    /// Posts a put: the card reads here, and writes at the peer.
    pub(super) fn put(&self, state: &mut State<'p>, at: &Site, dst: Loc, src: &PutSrc, work: Option<WorkId>) {
        let value = self.local_read(state, at, dst, src, work);
        let peer = self.node_of(dst);
        let write = Event {
            inlined: matches!(src, PutSrc::Inline(_)),
            ..at.event(Kind::NicRemoteWrite).to(peer).named(work).on(dst)
        };
        let write = state.push(write, Some(value));
        state.posted(peer, write);
    }

    /// Sends a message: the peer's card takes a receive, places the data, and writes the completion of the receive.
    pub(super) fn message(&self, state: &mut State<'p>, at: &Site, message: &Message) {
        let put = match &message.put {
            Some(Instr::Put { dst, src, work }) => Some((*dst, src, *work)),
            _ => None,
        };
        let work = put.and_then(|(_, _, work)| work);
        let data = put.map(|(dst, src, work)| {
            let inlined = matches!(src, PutSrc::Inline(_));
            (dst, inlined, self.local_read(state, at, dst, src, work))
        });
        let peer = self.node_of(message.entry);
        let event = |kind| at.event(kind).to(peer).named(work);
        let taken = state.push(event(Kind::NicReceive).on(message.entry), None);
        state.path.conditions.push((Arc::new(Sym::Read(taken)), true));
        if let Some((dst, inlined, value)) = data {
            let write = event(Kind::NicRemoteWrite).on(dst);
            state.push(Event { inlined, ..write }, Some(value));
        }
        let immediate = eval(&message.immediate, &state.path);
        let completion = Event {
            announces: true,
            ..event(Kind::NicRemoteWrite).on(message.done)
        };
        let write = state.push(completion, Some(immediate));
        state.posted(peer, write);
    }

    /// Polls a receive: reads the completion, which must be there.
    pub(super) fn poll_receive(&self, state: &mut State<'p>, at: &Site, reg: Option<Reg>, done: Loc) {
        let read = state.push(at.event(Kind::LocalRead).on(done), None);
        let value = Arc::new(Sym::Read(read));
        let is_done = fold_binary(BinaryOp::Ne, value.clone(), Arc::new(Sym::Const(NOT_DONE)));
        state.path.conditions.push((is_done, true));
        if let Some(reg) = reg {
            state.path.registers[usize::from(reg.0)] = value;
        }
    }

    /// Adds the card's read of a put's source. Returns the value that the put carries.
    fn local_read(
        &self,
        state: &mut State<'p>,
        at: &Site,
        dst: Loc,
        src: &PutSrc,
        work: Option<WorkId>,
    ) -> Arc<Sym> {
        let peer = self.node_of(dst);
        let inlined = matches!(src, PutSrc::Inline(_));
        let event = |kind| Event {
            inlined,
            ..at.event(kind).to(peer).named(work)
        };
        match src {
            PutSrc::Loc(loc) => Arc::new(Sym::Read(state.push(event(Kind::NicLocalRead).on(*loc), None))),
            PutSrc::Value(value) | PutSrc::Inline(value) => {
                let value = eval(value, &state.path);
                state.push(event(Kind::NicLocalRead), Some(value.clone()));
                value
            }
        }
    }

    /// Posts a get: the card reads at the peer, and writes here.
    pub(super) fn get(&self, state: &mut State<'p>, at: &Site, dst: Loc, src: Loc, work: Option<WorkId>) {
        let peer = self.node_of(src);
        let event = |kind| at.event(kind).to(peer).named(work);
        let read = state.push(event(Kind::NicRemoteRead).on(src), None);
        let value = Arc::new(Sym::Read(read));
        let write = state.push(event(Kind::NicLocalWrite).on(dst), Some(value));
        state.posted(peer, write);
    }

    /// Posts a read-modify-write, which the peer's card executes.
    pub(super) fn on_card(&mut self, state: &mut State<'p>, instr: &Instr, at: Site) {
        let (Instr::RemoteFaa {
            dst, target, work, ..
        }
        | Instr::RemoteCas {
            dst, target, work, ..
        }
        | Instr::RemoteSwap {
            dst, target, work, ..
        }) = instr
        else {
            unreachable!("called on a read-modify-write");
        };
        let rmw = Rmw {
            at,
            peer: self.node_of(*target),
            dst: *dst,
            target: *target,
            work: *work,
            atomicity: self.spec.atomicity,
        };
        match instr {
            Instr::RemoteCas { expected, new, .. } => {
                let (expected, new) = (eval(expected, &state.path), eval(new, &state.path));
                self.compare_and_swap(
                    state,
                    expected,
                    |s| s.push(rmw.atomic_read(), None),
                    |s| rmw.write(s, new.clone()),
                    |s, read| rmw.finish(s, read),
                );
            }
            Instr::RemoteFaa { add, .. } => {
                let add = eval(add, &state.path);
                let next = state.path.events.len();
                let sum = fold_binary(BinaryOp::Add, Arc::new(Sym::Read(next)), add);
                rmw.write(state, sum);
                rmw.finish(state, next);
            }
            Instr::RemoteSwap { new, .. } => {
                let read = rmw.write(state, eval(new, &state.path));
                rmw.finish(state, read);
            }
            _ => {}
        }
    }
}

/// Adds the events of one remote read-modify-write (`docs/rmw.md`).
struct Rmw {
    at: Site,
    peer: Node,
    dst: Loc,
    target: Loc,
    work: Option<WorkId>,
    atomicity: RmwAtomicity,
}

impl Rmw {
    fn event(&self, kind: Kind, loc: Loc) -> Event {
        let mut event = self.at.event(kind).to(self.peer).named(self.work).on(loc);
        event.rmw = true;
        event
    }

    fn atomic_read(&self) -> Event {
        self.event(Kind::NicAtomicRead, self.target)
    }

    /// Adds the read and the write, one event under `glob` and two under `hca`. Returns the read.
    fn write(&self, state: &mut State<'_>, value: Arc<Sym>) -> usize {
        match self.atomicity {
            RmwAtomicity::Glob => state.push(self.atomic_read().writing(), Some(value)),
            RmwAtomicity::Hca => {
                let read = state.push(self.atomic_read(), None);
                state.push(self.event(Kind::NicRemoteWrite, self.target), Some(value));
                read
            }
        }
    }

    /// Adds the write of the result to local memory.
    fn finish(&self, state: &mut State<'_>, read: usize) {
        let value = Arc::new(Sym::Read(read));
        let write = state.push(self.event(Kind::NicLocalWrite, self.dst), Some(value));
        state.posted(self.peer, write);
    }
}

impl State<'_> {
    /// Notes an operation that a poll may see.
    fn posted(&mut self, peer: Node, write: usize) {
        let signaled = self.signaled;
        self.unpolled.push(Unpolled {
            peer,
            write,
            signaled,
        });
    }
}

/// Takes the oldest completion of the node, which covers the operations without one before it. Without one the thread is stuck.
pub(super) fn poll(state: &mut State<'_>, at: &Site, node: Node) -> Option<End> {
    let is_oldest = |op: &Unpolled| op.peer == node && op.signaled;
    let Some(oldest) = state.unpolled.iter().position(is_oldest) else {
        return Some(End::Stuck);
    };
    let poll = state.push(at.event(Kind::Poll).to(node), None);
    let (earlier, later) = state.unpolled.split_at(oldest + 1);
    let (seen, others): (Vec<Unpolled>, Vec<Unpolled>) = earlier.iter().partition(|op| op.peer == node);
    state.unpolled = others.into_iter().chain(later.iter().copied()).collect();
    state.path.pf.extend(seen.into_iter().map(|op| (op.write, poll)));
    None
}
