//! Algorithms for threads of one node, written once for all checkers.
//!
//! An algorithm works on numbered words through [`Words`]. Every load acquires and every store releases where the checker has
//! orders of C11, so that the algorithms are right or wrong on x86-TSO and under C11 alike.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The words that the threads of an algorithm share, all zero at first.
pub trait Words: Clone + Send + Sync + 'static {
    /// Loads a word.
    fn load(&self, word: usize) -> u64;
    /// Stores a word. A later load of another word may overtake the store.
    fn store(&self, word: usize, value: u64);
    /// Adds to a word and returns what it was before.
    fn fetch_add(&self, word: usize, value: u64) -> u64;
    /// Keeps the order of earlier stores and later loads.
    fn fence(&self);
    /// Returns when `ready` holds.
    fn wait(&self, ready: impl FnMut() -> bool);
}

/// The number of words that the largest algorithm uses.
pub const WORDS: usize = 8;

/// An algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Algorithm {
    /// A ticket lock that guards a count.
    TicketLock,
    /// Peterson's algorithm, guarding a count.
    Peterson,
    /// A ring of two slots with one writer and one reader.
    Ring,
    /// A sequence lock of two words: one writer, the others try to read once a round.
    Seqlock,
}

/// A size: the number of threads, and the rounds of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Threads.
    pub threads: usize,
    /// Acquisitions, messages or writes of each thread.
    pub rounds: u64,
}

/// A mistake, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Variant {
    /// The algorithm as it should be.
    Right,
    /// Ticket lock: tickets are drawn by a load and a store. Peterson's: no fences. Ring: the head is published before the
    /// message. Seqlock: the reader does not look at the sequence again.
    Wrong,
}

impl Algorithm {
    /// Returns the sizes to run, ascending.
    pub fn sizes(self) -> &'static [Size] {
        const fn size(threads: usize, rounds: u64) -> Size {
            Size { threads, rounds }
        }
        match self {
            Algorithm::TicketLock => &[
                const { size(2, 1) },
                const { size(2, 2) },
                const { size(2, 3) },
                const { size(3, 2) },
            ],
            Algorithm::Peterson => &[const { size(2, 1) }, const { size(2, 2) }, const { size(2, 3) }],
            Algorithm::Ring => &[const { size(2, 3) }, const { size(2, 6) }],
            Algorithm::Seqlock => &[const { size(2, 2) }, const { size(3, 2) }],
        }
    }

    /// Runs thread `me` of the algorithm. Panics where the algorithm fails.
    pub fn run<W: Words>(self, words: &W, me: usize, size: Size, variant: Variant) {
        let right = variant == Variant::Right;
        match self {
            Algorithm::TicketLock => ticket_lock(words, size, right),
            Algorithm::Peterson => peterson(words, me, size, right),
            Algorithm::Ring if me == 0 => write_ring(words, size.rounds, right),
            Algorithm::Ring => read_ring(words, size.rounds),
            Algorithm::Seqlock if me == 0 => write_seqlock(words, size.rounds),
            Algorithm::Seqlock => read_seqlock(words, size.rounds, right),
        }
    }
}

/// Adds one to a word as code under a lock does.
fn count(words: &impl Words, word: usize) {
    let before = words.load(word);
    words.store(word, before + 1);
}

/// Says that a thread is through. The last one checks the count.
fn finish(words: &impl Words, done: usize, counted: usize, size: Size) {
    if words.fetch_add(done, 1) + 1 == size.threads as u64 {
        assert_eq!(
            words.load(counted),
            size.threads as u64 * size.rounds,
            "no count was lost"
        );
    }
}

fn ticket_lock(words: &impl Words, size: Size, right: bool) {
    const NEXT: usize = 0;
    const SERVED: usize = 1;
    const COUNT: usize = 2;
    const DONE: usize = 3;
    for _ in 0..size.rounds {
        let ticket = if right {
            words.fetch_add(NEXT, 1)
        } else {
            let ticket = words.load(NEXT);
            words.store(NEXT, ticket + 1);
            ticket
        };
        // Two holders of one ticket may see it pass: the wrong lock should lose a count and not hang.
        words.wait(|| words.load(SERVED) >= ticket);
        count(words, COUNT);
        words.store(SERVED, ticket + 1);
    }
    finish(words, DONE, COUNT, size);
}

fn peterson(words: &impl Words, me: usize, size: Size, right: bool) {
    const WANTS: [usize; 2] = [0, 1];
    const TURN: usize = 2;
    const COUNT: usize = 3;
    const DONE: usize = 4;
    let other = 1 - me;
    for _ in 0..size.rounds {
        words.store(WANTS[me], 1);
        if right {
            // x86-TSO does not need this one. Under C11 the last store of the turn would not tell of the wish before it.
            words.fence();
        }
        words.store(TURN, other as u64);
        if right {
            words.fence();
        }
        words.wait(|| words.load(WANTS[other]) == 0 || words.load(TURN) == me as u64);
        count(words, COUNT);
        words.store(WANTS[me], 0);
    }
    finish(words, DONE, COUNT, size);
}

const SLOTS: u64 = 2;
const HEAD: usize = 0;
const TAIL: usize = 1;

fn slot(message: u64) -> usize {
    2 + (message % SLOTS) as usize
}

fn write_ring(words: &impl Words, messages: u64, right: bool) {
    for message in 0..messages {
        words.wait(|| message < words.load(TAIL) + SLOTS);
        if right {
            words.store(slot(message), message + 1);
            words.store(HEAD, message + 1);
        } else {
            words.store(HEAD, message + 1);
            words.store(slot(message), message + 1);
        }
    }
}

fn read_ring(words: &impl Words, messages: u64) {
    for message in 0..messages {
        words.wait(|| words.load(HEAD) > message);
        assert_eq!(words.load(slot(message)), message + 1, "the message is there");
        words.store(TAIL, message + 1);
    }
}

const SEQUENCE: usize = 0;
const DATA: [usize; 2] = [1, 2];

fn write_seqlock(words: &impl Words, rounds: u64) {
    for round in 1..=rounds {
        words.store(SEQUENCE, 2 * round - 1);
        for word in DATA {
            words.store(word, round);
        }
        words.store(SEQUENCE, 2 * round);
    }
}

fn read_seqlock(words: &impl Words, rounds: u64, right: bool) {
    for _ in 0..rounds {
        let before = words.load(SEQUENCE);
        let data = DATA.map(|word| words.load(word));
        let unchanged = !right || words.load(SEQUENCE) == before;
        if before % 2 == 0 && unchanged {
            assert_eq!(data[0], data[1], "what was read is whole");
        }
    }
}
