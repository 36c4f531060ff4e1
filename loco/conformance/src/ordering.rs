//! Tests that forbidden outcomes are not seen: torn words, and outcomes that the stamp order forbids (LOCO'26 Fig.
//! 10).
//!
//! These are stress tests: each shape runs many rounds. A round takes part of a microsecond on a synchronous
//! fabric and much longer on others, which run fewer rounds.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use loco_fabric::{Atomicity, Fabric, FabricError, Memory, Posted, QueuePair, Result, WordCell, Work};

use super::{
    PATIENCE, Poster, STREAMED, World, allocate, local, set_word, share, target, together, wait_for,
    wait_word, word,
};

fn rounds<F: Fabric>(fabric: &F) -> u64 {
    if fabric.caps().synchronous { 20_000 } else { 200 }
}

/// Posts as soon as there is room, and leaves the completion to any thread that polls. The operation is
/// signaled, so that a fabric that frees its slots by completions can do so.
fn stream<F: Fabric>(
    fabric: &F,
    qp: &mut F::QueuePair,
    operation: impl Fn(&mut F::QueuePair, Work) -> Result<Posted>,
) {
    let work = Work::signaled(STREAMED);
    let mut completions = Vec::new();
    let _posted = wait_for(fabric, || match operation(qp, work) {
        Err(FabricError::QueueFull(_)) => {
            fabric.poll(&mut completions).unwrap();
            None
        }
        posted => Some(posted.unwrap()),
    });
}

/// Acts `rounds` times, and then on until there have been at least a quarter as many observations.
fn while_acting(rounds: u64, mut act: impl FnMut(u64) + Send, mut observe: impl FnMut() + Send) {
    /// Ends the other side, even if this one panics.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }
    let (over, observations) = (AtomicBool::new(false), AtomicU64::new(0));
    let observer = || {
        let _over = Over(&over);
        // Acquire and Release: the last observation comes after the last act.
        while !over.load(Ordering::Acquire) {
            observe();
            observations.fetch_add(1, Ordering::Relaxed);
        }
        observe();
    };
    let actor = || {
        let _over = Over(&over);
        let mut round = 0;
        while round < rounds || observations.load(Ordering::Relaxed) < rounds / 4 {
            round += 1;
            act(round);
            if over.load(Ordering::Acquire) {
                return;
            }
        }
    };
    together(vec![Box::new(observer), Box::new(actor)]);
}

const VALUES: [u64; 2] = [0, u64::MAX];

/// Returns one of two values, by turns.
fn value(round: u64) -> u64 {
    VALUES[usize::from(round.is_multiple_of(2))]
}

/// Checks that aligned words of 8 bytes are seen whole, both by CPU loads during puts and by gets during CPU
/// stores.
pub fn words_do_not_tear<W: World>() {
    let [a, b] = &W::nodes(2)[..] else { unreachable!() };
    let (there, remote) = share(b, a, 64);
    let here = allocate(a, 64);
    let mut qp = a.queue_pair(b.node()).unwrap();
    let putting = |round: u64| {
        let value = value(round).to_ne_bytes();
        stream(a, &mut qp, |qp, work| {
            qp.put_inline(&value, target(&remote, 8), work)
        });
    };
    let cell = there.cell::<u64>(8).unwrap();
    while_acting(rounds(a), putting, || {
        assert!(VALUES.contains(&cell.load()));
    });
    let mut poster = Poster::new(a, b.node());
    let storing = |round: u64| {
        cell.store(value(round));
        if !a.caps().synchronous {
            std::thread::yield_now();
        }
    };
    while_acting(rounds(a), storing, || {
        poster.complete(|qp, work| qp.get(local(&here, 0, 8), target(&remote, 8), work));
        assert!(VALUES.contains(&word(&here, 0)));
    });
}

/// Checks that aligned words of 2 and 4 bytes are seen whole by CPU loads during puts.
pub fn narrow_words_do_not_tear<W: World>() {
    let [a, b] = &W::nodes(2)[..] else { unreachable!() };
    let (there, remote) = share(b, a, 64);
    let mut qp = a.queue_pair(b.node()).unwrap();
    let putting = |round: u64| {
        let value = value(round).to_ne_bytes();
        stream(a, &mut qp, |qp, work| {
            qp.put_inline(&value[..4], target(&remote, 20), work)
        });
        stream(a, &mut qp, |qp, work| {
            qp.put_inline(&value[..2], target(&remote, 26), work)
        });
    };
    let (middle, short) = (there.cell::<u32>(20).unwrap(), there.cell::<u16>(26).unwrap());
    while_acting(rounds(a), putting, || {
        assert!([0, u32::MAX].contains(&middle.load()));
        assert!([0, u16::MAX].contains(&short.load()));
    });
}

/// Copies may tear as a whole. The aligned 8-byte words in them do not tear, wherever the copy begins.
pub fn words_within_copies_do_not_tear<W: World>() {
    copies_from::<W>(4);
}

/// Checks that aligned 8-byte words within copies that begin at a word do not tear.
pub fn words_within_aligned_copies_do_not_tear<W: World>() {
    copies_from::<W>(8);
}

fn copies_from<W: World>(start: usize) {
    const LEN: usize = 340;
    let [a, b] = &W::nodes(2)[..] else { unreachable!() };
    let (there, remote) = share(b, a, 512);
    let (source, sink) = (allocate(a, 512), allocate(a, 512));
    let check = |memory: &<W::Fabric as Fabric>::Memory| {
        let mut seen = [0; 512];
        memory.read(0, &mut seen).unwrap();
        for at in (8..start + LEN - 7).step_by(8) {
            let torn = seen[at..at + 8].iter().any(|&byte| byte != seen[at]);
            assert!(!torn, "the word at {at}: {:x?}", &seen[at..at + 8]);
        }
    };
    let mut qp = a.queue_pair(b.node()).unwrap();
    let putting = |round: u64| {
        // The source may be read until completion, so whole words change in it too.
        source.write(start, &[round.to_ne_bytes()[0]; LEN]).unwrap();
        stream(a, &mut qp, |qp, work| {
            qp.put(local(&source, start, LEN), target(&remote, start), work)
        });
    };
    while_acting(rounds(a), putting, || check(&there));
    let mut poster = Poster::new(a, b.node());
    let storing = |round: u64| {
        there.write(start, &[round.to_ne_bytes()[0]; LEN]).unwrap();
        if !a.caps().synchronous {
            std::thread::yield_now();
        }
    };
    while_acting(rounds(a), storing, || {
        poster.complete(|qp, work| qp.get(local(&sink, start, LEN), target(&remote, start), work));
        check(&sink);
    });
}

/// Checks message passing: the data by one put, and the flag by the next, which is strong (G7). So is that of the
/// data, which overwrites older data.
pub fn puts_are_placed_in_order<W: World>() {
    let [a, b] = &W::nodes(2)[..] else { unreachable!() };
    let (there, remote) = share(b, a, 256);
    let mut qp = a.queue_pair(b.node()).unwrap();
    let sending = || {
        for round in 1..=rounds(a) {
            let value = round.to_ne_bytes();
            for offset in [0, 128] {
                stream(a, &mut qp, |qp, work| {
                    qp.put_inline(&value, target(&remote, offset), work.strong())
                });
            }
        }
    };
    let receiving = || {
        let mut flag = 0;
        while flag < rounds(a) {
            flag = wait_word(b, &there, 128, |seen| seen > flag);
            let data = word(&there, 0);
            assert!(data >= flag, "flag {flag} before data {data}");
        }
    };
    together(vec![Box::new(sending), Box::new(receiving)]);
}

/// Checks that all words of a long put are placed before the next put of the queue pair, if that is strong.
pub fn a_put_of_many_words_precedes_the_next_put<W: World>() {
    const WORDS: usize = 64;
    let [a, b] = &W::nodes(2)[..] else { unreachable!() };
    let (there, remote) = share(b, a, 8 * WORDS + 64);
    let source = allocate(a, 8 * WORDS);
    let mut poster = Poster::new(a, b.node());
    let sending = || {
        for round in 1..=rounds(a) / 10 {
            for at in 0..WORDS {
                set_word(&source, 8 * at, round);
            }
            poster.complete(|qp, work| {
                qp.put(local(&source, 0, 8 * WORDS), target(&remote, 64), work.strong())
            });
            poster
                .complete(|qp, work| qp.put_inline(&round.to_ne_bytes(), target(&remote, 0), work.strong()));
        }
    };
    let receiving = || {
        let mut flag = 0;
        while flag < rounds(a) / 10 {
            flag = wait_word(b, &there, 0, |seen| seen > flag);
            for at in 0..WORDS {
                let data = word(&there, 64 + 8 * at);
                assert!(data >= flag, "flag {flag} before word {at}: {data}");
            }
        }
    };
    together(vec![Box::new(sending), Box::new(receiving)]);
}

/// Checks that after a flush has completed, every earlier put is there for any node that learns of it by other
/// means.
pub fn a_flush_places_puts<W: World>() {
    let [a, b] = &W::nodes(2)[..] else { unreachable!() };
    let (there, remote) = share(b, a, 64);
    let flushed = AtomicU64::new(0);
    let mut poster = Poster::new(a, b.node());
    let putting = |round: u64| {
        let value = round.to_ne_bytes();
        let put =
            |qp: &mut <W::Fabric as Fabric>::QueuePair, work| qp.put_inline(&value, target(&remote, 8), work);
        match round.is_multiple_of(2) {
            true => poster.complete(put),
            // The flush waits for a put that is under way, too.
            false => stream(a, &mut poster.qp, |qp, work| {
                put(
                    qp,
                    Work {
                        signaled: false,
                        ..work
                    },
                )
            }),
        }
        poster.complete(|qp, work| qp.flush(work));
        flushed.store(round, Ordering::Release);
    };
    while_acting(rounds(a), putting, || {
        let flushed = flushed.load(Ordering::Acquire);
        let seen = word(&there, 8);
        assert!(seen >= flushed, "flushed {flushed}, placed {seen}");
    });
}

/// Checks that a strong get sees the earlier puts of its queue pair (G8).
pub fn a_get_comes_after_puts<W: World>() {
    let [a, b] = &W::nodes(2)[..] else { unreachable!() };
    let (_there, remote) = share(b, a, 64);
    let here = allocate(a, 64);
    let mut poster = Poster::new(a, b.node());
    for round in 1..=rounds(a) {
        let value = round.to_ne_bytes();
        stream(a, &mut poster.qp, |qp, work| {
            qp.put_inline(
                &value,
                target(&remote, 8),
                Work {
                    signaled: false,
                    ..work
                },
            )
        });
        poster.complete(|qp, work| qp.get(local(&here, 0, 8), target(&remote, 8), work.strong()));
        assert_eq!(word(&here, 0), round);
    }
}

/// Checks load buffering: a get, then a fenced put. A store in answer to the put comes too late for the get (H10,
/// J7). The put is strong, too, as it overwrites that of the round before.
pub fn a_fenced_put_comes_after_a_get<W: World>() {
    let [a, b] = &W::nodes(2)[..] else { unreachable!() };
    let (there, remote) = share(b, a, 256);
    let here = allocate(a, 64);
    let mut poster = Poster::new(a, b.node());
    let asking = || {
        for round in 1..=rounds(a) {
            let value = round.to_ne_bytes();
            stream(a, &mut poster.qp, |qp, work| {
                qp.get(
                    local(&here, 0, 8),
                    target(&remote, 128),
                    Work {
                        signaled: false,
                        ..work
                    },
                )
            });
            poster.complete(|qp, work| qp.put_inline(&value, target(&remote, 0), work.fenced().strong()));
            assert!(word(&here, 0) < round, "the answer came before the question");
        }
    };
    let answering = || {
        for round in 1..=rounds(a) {
            wait_word(b, &there, 0, |asked| asked >= round);
            set_word(&there, 128, round);
        }
    };
    together(vec![Box::new(asking), Box::new(answering)]);
}

/// The number of bytes that each side of a store-buffering test puts first, to cache lines that the other
/// side has written meanwhile. The put of the act waits behind them in the store buffer for as long as
/// several cache misses take, and a look without its fence overtakes it. Without these bytes, missing fences
/// of `get` and `flush` over shared memory would almost never be noticed.
const CLUTTER: usize = 512;

/// Puts [`CLUTTER`] bytes at `offset` of `remote`.
fn clutter<F: Fabric>(poster: &mut Poster<F>, source: &F::Memory, remote: &F::Remote, offset: usize) {
    stream(&poster.fabric, &mut poster.qp, |qp, work| {
        let work = Work {
            signaled: false,
            ..work
        };
        qp.put(local(source, 0, CLUTTER), target(remote, offset), work)
    });
}

/// Runs two threads in lock step. Each acts and then looks; it is forbidden that both look too early.
fn store_buffering(
    rounds: u64,
    mut first: impl FnMut(u64) -> u64 + Send,
    mut second: impl FnMut(u64) -> u64 + Send,
) {
    let arrived = AtomicU64::new(0);
    // Threads synchronize by spinning, so that both leave at the same time: the window in which the outcome can
    // occur is nanoseconds wide.
    let synchronize = |arrivals: u64| {
        arrived.fetch_add(1, Ordering::AcqRel);
        let (start, mut spins) = (std::time::Instant::now(), 0_u32);
        while arrived.load(Ordering::Acquire) < arrivals {
            std::hint::spin_loop();
            spins += 1;
            if spins.is_multiple_of(1000) {
                assert!(start.elapsed() < PATIENCE, "the other side does not come");
                std::thread::yield_now();
            }
        }
    };
    let seen = [AtomicU64::new(0), AtomicU64::new(0)];
    let run = |side: usize, act: &mut (dyn FnMut(u64) -> u64 + Send)| {
        for round in 1..=rounds {
            synchronize(4 * round - 2);
            // The thread that arrived last leaves first, by about a cache miss. Now and then the other one
            // gets that much of a start.
            for _ in 0..[round % 7, round / 7 % 7][side] {
                std::hint::spin_loop();
            }
            seen[side].store(act(round), Ordering::Relaxed); // `synchronize` orders.
            synchronize(4 * round);
            let [first, second] = [&seen[0], &seen[1]].map(|seen| seen.load(Ordering::Relaxed));
            assert!(
                first >= round || second >= round,
                "round {round}: {first}, {second}"
            );
        }
    };
    together(vec![
        Box::new(|| run(0, &mut first)),
        Box::new(|| run(1, &mut second)),
    ]);
}

/// Checks store buffering: two nodes put to a third, and each gets the data of the other by a strong get (B8, G8).
pub fn store_buffering_with_puts_and_gets<W: World>() {
    puts_and_reads::<W>(|_, qp, work, remote, other, here| {
        qp.get(local(here, 0, 8), target(remote, other), work.strong())
    });
}

/// Checks store buffering: two nodes put to a third, and each reads the data of the other at once after a CPU
/// fence.
pub fn store_buffering_with_puts_and_reads_at_once<W: World>() {
    puts_and_reads::<W>(|fabric, qp, work, remote, other, here| {
        if !fabric.caps().synchronous {
            return qp.get(local(here, 0, 8), target(remote, other), work.strong());
        }
        fabric.cpu_fence();
        let mut value = [0; 8];
        qp.read_at_once(target(remote, other), &mut value)?;
        here.write(0, &value)?;
        Ok(Posted::Done)
    });
}

fn puts_and_reads<W: World>(
    read: impl Fn(&W::Fabric, &mut QueuePairOf<W>, Work, &RemoteOf<W>, usize, &MemoryOf<W>) -> Result<Posted>
    + Send
    + Sync
    + Copy,
) {
    let [a, b, c] = &W::nodes(3)[..] else {
        unreachable!()
    };
    let memory = allocate(c, 256 + CLUTTER);
    let side = |node: &W::Fabric, own: usize, other: usize| {
        let remote = node.import(c.node(), &c.export(&memory)).unwrap();
        let (here, source) = (allocate(node, 64), allocate(node, CLUTTER));
        let (mut poster, fabric) = (Poster::new(node, c.node()), node.clone());
        move |round: u64| {
            let value = round.to_ne_bytes();
            clutter(&mut poster, &source, &remote, 256);
            // The operations come one right after the other, so that posting adds no time between them.
            poster.complete(|qp, work| {
                let put = Work {
                    signaled: false,
                    ..work
                };
                let _placed = qp.put_inline(&value, target(&remote, own), put)?;
                read(&fabric, qp, work, &remote, other, &here)
            });
            word(&here, 0)
        }
    };
    store_buffering(rounds(a), side(a, 0, 128), side(b, 128, 0));
}

/// Checks store buffering: two nodes put to one another, flush, and look at their own memory (RDMA-TSO'24, store
/// buffering with fences).
pub fn store_buffering_with_flush<W: World>() {
    two_nodes_put_and_look::<W>(|_, qp, work, _, _| qp.flush(work));
}

/// Checks store buffering: two nodes put to one another, execute a strong atomic in place of the flush, and look at
/// their own memory. The atomic comes after the queue pair's puts (`docs/rmw.md`, `SB+put-rmw+polls`).
pub fn an_atomic_comes_after_puts<W: World>() {
    two_nodes_put_and_look::<W>(|fabric, qp, work, remote, result| {
        if fabric.caps().atomicity == Atomicity::None {
            return qp.flush(work);
        }
        qp.fetch_add(target(remote, 128), 0, local(result, 0, 8), work.strong())
    });
}

type QueuePairOf<W> = <<W as World>::Fabric as Fabric>::QueuePair;
type RemoteOf<W> = <<W as World>::Fabric as Fabric>::Remote;
type MemoryOf<W> = <<W as World>::Fabric as Fabric>::Memory;

fn two_nodes_put_and_look<W: World>(
    fence: impl Fn(&W::Fabric, &mut QueuePairOf<W>, Work, &RemoteOf<W>, &MemoryOf<W>) -> Result<Posted>
    + Send
    + Sync
    + Copy,
) {
    let [a, b] = &W::nodes(2)[..] else { unreachable!() };
    let side = |own: &W::Fabric, other: &W::Fabric, memory: MemoryOf<W>, remote: RemoteOf<W>| {
        let (result, source) = (allocate(own, 64), allocate(own, CLUTTER));
        let (mut poster, fabric) = (Poster::new(own, other.node()), own.clone());
        move |round: u64| {
            let value = round.to_ne_bytes();
            clutter(&mut poster, &source, &remote, 192);
            poster.complete(|qp, work| {
                let put = Work {
                    signaled: false,
                    ..work
                };
                let _placed = qp.put_inline(&value, target(&remote, 0), put)?;
                fence(&fabric, qp, work, &remote, &result)
            });
            let seen = word(&memory, 0);
            memory.write(192, &[1; CLUTTER]).unwrap();
            seen
        }
    };
    let (at_a, of_a) = share(a, b, 192 + CLUTTER);
    let (at_b, of_b) = share(b, a, 192 + CLUTTER);
    store_buffering(rounds(a), side(a, b, at_a, of_b), side(b, a, at_b, of_a));
}
