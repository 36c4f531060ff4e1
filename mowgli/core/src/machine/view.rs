//! A state of the machine as plain data to show: every buffer with its entries in words.
//!
//! Relies on [`super::trace`] for the words. Used by [`crate::explore::Stepper`], and through it by the page of `mowgli serve`.

use serde::Serialize;

use super::buffers::{Bounds, Delayed, Entry, LocalBack, QueuePair, Stage};
use super::trace::describe_stage;
use super::{Addr, Machine, NODES_MAX, Pipeline, Rule, Step};
use crate::program::Value;

/// A state of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct View {
    /// Every word of memory, by [`Addr`].
    pub memory: Vec<Value>,
    /// Every thread.
    pub threads: Vec<ThreadView>,
    /// Nodes, from 0, whose atomic unit is held by a read-modify-write that has read and whose write is not placed.
    pub units: Vec<u16>,
}

/// The buffers of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadView {
    /// The store buffer, oldest entry first.
    pub store_buffer: Vec<EntryView>,
    /// The queue pairs that are in use, ordered by peer.
    pub queue_pairs: Vec<QueuePairView>,
}

/// A queue pair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueuePairView {
    /// The node at its other end, from 0.
    pub peer: u16,
    /// Operations that are not done, oldest first.
    pub pipe: Vec<EntryView>,
    /// The buffers that make up the pipe of a concrete queue pair, in the order of the pipe; empty on other machines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartView>,
    /// `wb_R`: writes that the peer's NIC has acknowledged and that are not in the peer's memory, oldest first.
    pub remote_writes: Vec<EntryView>,
    /// `wb_L`: results that are not in the thread's memory, and completions that nobody has polled, oldest first.
    pub local_writes: Vec<EntryView>,
}

/// A buffer of the concrete queue pair (RDMA-TSO'24 Fig. 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PartView {
    /// `rsp_L`, `out_R`, `in_R` or `req_L`.
    pub name: &'static str,
    /// The number of its entries.
    pub entries: usize,
}

/// An entry of a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EntryView {
    /// The entry in words: `put y := x`.
    pub text: String,
    /// Progress of the operation: `stored`, `posted`, `value read`, `acknowledged`, `result read`, `answered`, `half done`, `fence`, `not placed` or
    /// `completion`.
    pub stage: &'static str,
}

/// A buffer of [`ThreadView`] or [`QueuePairView`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Buffer {
    /// [`ThreadView::store_buffer`].
    StoreBuffer,
    /// [`QueuePairView::pipe`].
    Pipe,
    /// [`QueuePairView::remote_writes`].
    RemoteWrites,
    /// [`QueuePairView::local_writes`].
    LocalWrites,
}

impl Machine {
    /// Shows the state. `name` gives the names of words. Nodes are written from 1, as in litmus files.
    pub fn view(&self, name: &dyn Fn(Addr) -> String) -> View {
        self.view_from(1, name)
    }

    /// Shows the state as [`view`](Machine::view) does, with nodes written from `first`.
    pub fn view_from(&self, first: u16, name: &dyn Fn(Addr) -> String) -> View {
        let units = (0..NODES_MAX).filter(|&node| self.is_unit_held(node)).collect();
        let is_concrete = self.config.pipeline == Pipeline::Concrete;
        let thread = |t: &super::ThreadState| ThreadView {
            store_buffer: t.store_buffer.iter().map(|e| delayed(first, e, name)).collect(),
            queue_pairs: t
                .queue_pairs
                .iter()
                .map(|qp| queue_pair(qp, is_concrete, name))
                .collect(),
        };
        View {
            memory: self.memory.to_vec(),
            threads: self.threads.iter().map(thread).collect(),
            units,
        }
    }

    /// Returns the buffer with the entry that a step concerns, and the entry's place there.
    pub fn entry_of(&self, step: Step) -> (Buffer, usize) {
        match step {
            Step::Drain { .. } => (Buffer::StoreBuffer, 0),
            Step::Nic {
                rule: Rule::PlaceRemote,
                index,
                ..
            } => (Buffer::RemoteWrites, usize::from(index)),
            Step::Nic {
                rule: Rule::PlaceLocal,
                qp,
                index,
            } => {
                let at = self
                    .queue_pair(qp)
                    .and_then(|qp| qp.local_write(usize::from(index)));
                (Buffer::LocalWrites, at.unwrap_or(0))
            }
            Step::Nic { index, .. } => (Buffer::Pipe, usize::from(index)),
        }
    }
}

fn queue_pair(qp: &QueuePair, is_concrete: bool, name: &dyn Fn(Addr) -> String) -> QueuePairView {
    let placed = |dst: Addr, value: Value| EntryView {
        text: format!("{} := {value}", name(dst)),
        stage: "not placed",
    };
    QueuePairView {
        peer: qp.peer,
        pipe: qp.pipe.iter().map(|e| entry(e, name)).collect(),
        parts: match is_concrete {
            true => parts(qp),
            false => Vec::new(),
        },
        remote_writes: qp.wb_r.iter().map(|w| placed(w.dst, w.value)).collect(),
        local_writes: qp
            .wb_l
            .iter()
            .map(|e| match *e {
                LocalBack::Write { dst, value, .. } => placed(dst, value),
                LocalBack::Notification { .. } => EntryView {
                    text: "completion".to_owned(),
                    stage: "completion",
                },
            })
            .collect(),
    }
}

/// Returns the four buffers of a concrete queue pair between which operations move.
fn parts(qp: &QueuePair) -> Vec<PartView> {
    let Bounds { rsp, out, inbox } = qp.bounds;
    let ends = [
        usize::from(rsp),
        usize::from(out),
        usize::from(inbox),
        qp.pipe.len(),
    ];
    let names = ["rsp_L", "out_R", "in_R", "req_L"];
    let mut start = 0;
    let part = |(name, end)| {
        let entries = end - std::mem::replace(&mut start, end);
        PartView { name, entries }
    };
    names.into_iter().zip(ends).map(part).collect()
}

fn delayed(first: u16, delayed: &Delayed, name: &dyn Fn(Addr) -> String) -> EntryView {
    match delayed {
        Delayed::Store { loc, value } => EntryView {
            text: format!("{} := {value}", name(*loc)),
            stage: "stored",
        },
        Delayed::Remote { peer, entry: e } => {
            let shown = entry(e, name);
            EntryView {
                text: format!("{} to node {}", shown.text, peer + first),
                ..shown
            }
        }
    }
}

fn entry(entry: &Entry, name: &dyn Fn(Addr) -> String) -> EntryView {
    EntryView {
        text: match entry.stage {
            Stage::Ack => "put".to_owned(),
            Stage::Done => "result".to_owned(),
            ref stage => describe_stage(stage, name),
        },
        stage: match entry.stage {
            Stage::Put { .. } | Stage::Get { .. } | Stage::Rmw { .. } => "posted",
            Stage::PutValue { .. } => "value read",
            Stage::Ack => "acknowledged",
            Stage::Value { .. } => "result read",
            Stage::Done => "answered",
            Stage::Executing { .. } => "half done",
            Stage::Fence => "fence",
        },
    }
}
