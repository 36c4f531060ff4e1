//! Encodes machine states as bytes.
//!
//! The encoding is canonical: two states of machines with the same configuration, words and threads have the same encoding exactly
//! if they are equal up to empty queue pairs. It is short: a word, an empty buffer and most fields take one byte each. Explorers use it
//! as the key of visited states.

use super::Machine;
use super::MessagePart;
use super::buffers::{Delayed, Entry, LocalBack, QueuePair, Rmw, Source, Stage, ThreadState};
use crate::program::Value;

impl Machine {
    /// Appends the encoding of this state: of its words, and then of each thread.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_words(out);
        for thread in &self.threads {
            encode_thread(out, thread);
        }
    }

    /// Appends the encoding of the words.
    pub fn encode_words(&self, out: &mut Vec<u8>) {
        for &word in &self.memory {
            value(out, word);
        }
    }

    /// Appends the encoding of a thread's store buffer and queue pairs. It tells where it ends. Appends nothing if there is no such
    /// thread.
    pub fn encode_thread(&self, thread: u16, out: &mut Vec<u8>) {
        if let Some(thread) = self.threads.get(usize::from(thread)) {
            encode_thread(out, thread);
        }
    }
}

fn encode_thread(out: &mut Vec<u8>, thread: &ThreadState) {
    number(out, thread.store_buffer.len() as u64);
    for entry in thread.store_buffer.iter() {
        match *entry {
            Delayed::Store { loc, value: v } => {
                out.push(0);
                number(out, loc.0.into());
                value(out, v);
            }
            Delayed::Remote { peer, entry } => {
                number(out, u64::from(peer) + 1);
                encode_entry(out, &entry);
            }
        }
    }
    for qp in thread.queue_pairs.iter().filter(|qp| !qp.is_empty()) {
        encode_queue_pair(out, qp);
    }
    out.push(0);
}

fn encode_queue_pair(out: &mut Vec<u8>, qp: &QueuePair) {
    number(out, u64::from(qp.peer) + 1);
    number(out, qp.pipe.len() as u64);
    number(out, qp.wb_r.len() as u64);
    number(out, qp.wb_l.len() as u64);
    if !qp.pipe.is_empty() {
        number(out, qp.bounds.rsp.into());
        number(out, qp.bounds.out.into());
        number(out, qp.bounds.inbox.into());
    }
    for entry in qp.pipe.iter() {
        encode_entry(out, entry);
    }
    for write in qp.wb_r.iter() {
        let flags = [
            write.before.is_some(),
            write.transfer != 0,
            write.strong,
            write.epoch != 0,
            write.atomic,
        ];
        let flags = flags.iter().fold(0, |bits, &flag| bits << 1 | u64::from(flag));
        number(out, u64::from(write.dst.0) << 5 | flags);
        value(out, write.value);
        if write.transfer != 0 {
            number(out, write.transfer.into());
        }
        if write.epoch != 0 {
            number(out, write.epoch.into());
        }
        if let Some(done) = write.before {
            number(out, done.0.into());
        }
    }
    for entry in qp.wb_l.iter() {
        match *entry {
            LocalBack::Notification { tag } => {
                out.push(0);
                number(out, tag);
            }
            LocalBack::Write { dst, value: v, tag } => {
                number(out, u64::from(dst.0) + 1);
                value(out, v);
                number(out, tag);
            }
        }
    }
}

fn encode_entry(out: &mut Vec<u8>, entry: &Entry) {
    let kind = out.len();
    out.push(0);
    let mut put = |addr: super::Addr| number(out, addr.0.into());
    let code = match entry.stage {
        Stage::Put {
            dst,
            src: Source::Word(src),
        } => {
            put(dst);
            put(src);
            0
        }
        Stage::Put {
            dst,
            src: Source::Constant(v),
        } => {
            put(dst);
            value(out, v);
            1
        }
        Stage::PutValue { dst, value: v } => {
            put(dst);
            value(out, v);
            2
        }
        Stage::Ack => 3,
        Stage::Get { dst, src } => {
            put(dst);
            put(src);
            4
        }
        Stage::Value { dst, value: v } => {
            put(dst);
            value(out, v);
            5
        }
        Stage::Rmw { dst, target, rmw } => {
            put(dst);
            put(target);
            match rmw {
                Rmw::Add(add) => {
                    value(out, add);
                    6
                }
                Rmw::CompareSwap { expected, new } => {
                    value(out, expected);
                    value(out, new);
                    7
                }
                Rmw::Swap(new) => {
                    value(out, new);
                    // The last code: 11 to 14 are those of messages, below.
                    15
                }
            }
        }
        Stage::Executing {
            dst,
            old,
            target,
            new,
        } => {
            put(dst);
            put(target);
            value(out, old);
            value(out, new);
            8
        }
        Stage::Fence => 9,
        Stage::Done => 10,
    };
    let (strong, epoch) = entry.order;
    let grouped = epoch != 0 || entry.transfer != 0;
    let flags = [entry.signaled, entry.tag != 0, strong, grouped];
    let bits = flags
        .iter()
        .enumerate()
        .map(|(i, &flag)| u8::from(flag) << (4 + i));
    // The parts of messages have codes of their own: a message has the stages of a put, 0 to 3.
    let code = match entry.message {
        None => code,
        Some(_) => code + 11,
    };
    out[kind] = code | bits.sum::<u8>();
    match entry.message {
        Some(MessagePart::Data { entry, done }) => {
            number(out, u64::from(entry.0) + 1);
            number(out, u64::from(done.0) + 1);
        }
        Some(MessagePart::Completion { entry }) => {
            out.push(0);
            number(out, entry.map_or(0, |word| u64::from(word.0) + 1));
        }
        None => {}
    }
    if entry.tag != 0 {
        number(out, entry.tag);
    }
    if grouped {
        number(out, epoch.into());
        number(out, entry.transfer.into());
    }
}

/// Appends a number in LEB128.
pub(crate) fn number(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Appends a value in LEB128 of its zigzag form, in which small negative values are short too.
pub(crate) fn value(out: &mut Vec<u8>, v: Value) {
    number(out, ((v << 1) ^ (v >> 63)) as u64);
}
