//! Tests each operation by itself: its effect, the arguments that it refuses, and its end.

use std::collections::HashSet;

use loco_fabric::{
    Atomicity, Completion, CompletionStatus, Fabric, FabricError, Memory, MemoryKind, Posted, QueuePair,
    RemoteMemory, WordCell, Work, WorkRequestId,
};

use super::{Poster, World, allocate, local, set_word, share, target, together, wait_for, wait_word, word};

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    #[allow(clippy::cast_possible_truncation)]
    (0..len).map(|at| (at * 31 + seed * 7 + 1) as u8).collect()
}

/// Puts and gets move bytes, with every alignment of source and target and lengths around the word sizes.
/// Bytes around the target stay.
pub fn put_and_get_move_bytes<W: World>() {
    let [a, b] = &W::nodes(2)[..] else { unreachable!() };
    let (there, remote) = share(b, a, 512);
    let here = allocate(a, 512);
    let mut poster = Poster::new(a, b.node());
    for (round, len) in [0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 31, 64, 100]
        .into_iter()
        .enumerate()
    {
        for (from, to) in [(0, 0), (0, 3), (5, 5), (4, 8), (2, 4), (7, 6), (1, 8)] {
            let bytes = pattern(len, round);
            there.write(0, &[0xee; 256]).unwrap();
            here.write(from, &bytes).unwrap();
            poster.complete(|qp, work| qp.put(local(&here, from, len), target(&remote, to), work));
            poster.complete(|qp, work| qp.flush(work));
            let mut seen = vec![0; 256];
            there.read(0, &mut seen).unwrap();
            assert_eq!(&seen[to..to + len], bytes, "put of {len} from {from} to {to}");
            assert!(
                seen[..to]
                    .iter()
                    .chain(&seen[to + len..])
                    .all(|&byte| byte == 0xee)
            );

            here.write(256, &[0xdd; 256]).unwrap();
            poster.complete(|qp, work| qp.get(local(&here, 256 + from, len), target(&remote, to), work));
            here.read(256, &mut seen).unwrap();
            assert_eq!(&seen[from..from + len], bytes, "get of {len} from {to} to {from}");
            assert!(
                seen[..from]
                    .iter()
                    .chain(&seen[from + len..])
                    .all(|&byte| byte == 0xdd)
            );
        }
    }
}

/// Reads at once bring what is there, where the fabric has them, and are refused elsewhere.
pub fn reads_at_once_bring_bytes<W: World>() {
    let [a, b] = &W::nodes(2)[..] else { unreachable!() };
    let (there, remote) = share(b, a, 512);
    let mut qp = a.queue_pair(b.node()).unwrap();
    let bytes = pattern(300, 1);
    there.write(7, &bytes).unwrap();
    for (from, len) in [(7, 300), (8, 8), (8, 32), (13, 3), (100, 0)] {
        let mut seen = vec![0; len];
        let read = qp.read_at_once(target(&remote, from), &mut seen);
        if a.caps().synchronous {
            read.unwrap();
            assert_eq!(seen, &bytes[from - 7..from - 7 + len]);
        } else {
            assert!(matches!(read, Err(FabricError::Unsupported(_))), "{read:?}");
        }
    }
    if a.caps().synchronous {
        let outside = qp.read_at_once(target(&remote, 505), &mut [0; 8]);
        assert!(
            matches!(outside, Err(FabricError::OutOfRange { .. })),
            "{outside:?}"
        );
    }
}

/// Checks that CPU accesses by words of 1, 2, 4 and 8 bytes and by bulk copies agree.
pub fn words_of_every_size<W: World>() {
    let [a] = &W::nodes(1)[..] else { unreachable!() };
    let memory = allocate(a, 64);
    memory.cell::<u8>(1).unwrap().store(0x11);
    memory.cell::<u16>(2).unwrap().store(0x2222);
    memory.cell::<u32>(4).unwrap().store_fence(0x4444_4444);
    memory.cell::<u64>(8).unwrap().store(0x8888_8888_8888_8888);
    let mut seen = [0; 16];
    memory.read(0, &mut seen).unwrap();
    let mut expected = [
        0, 0x11, 0x22, 0x22, 0x44, 0x44, 0x44, 0x44, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    expected[8..].fill(0x88);
    assert_eq!(seen, expected);
    let cell = memory.cell::<u32>(4).unwrap();
    assert_eq!(cell.compare_exchange(0, 1), Err(0x4444_4444));
    assert_eq!(cell.compare_exchange(0x4444_4444, 1), Ok(0x4444_4444));
    let slice = memory.slice(4, 12).unwrap();
    assert_eq!(slice.cell::<u32>(0).unwrap().load(), 1);
    assert_eq!(slice.len(), 12);
}

/// Accesses outside of a region, or of a slice of it, are refused.
pub fn ranges_are_checked<W: World>() {
    let [a, b] = &W::nodes(2)[..] else { unreachable!() };
    let (there, remote) = share(b, a, 100);
    let here = allocate(a, 256);
    let mut qp = a.queue_pair(b.node()).unwrap();
    let mut bytes = [0; 16];
    fn refused<T: std::fmt::Debug>(result: loco_fabric::Result<T>) {
        assert!(
            matches!(result, Err(FabricError::OutOfRange { .. })),
            "{result:?}"
        );
    }
    for offset in [85, 101, usize::MAX - 3, usize::MAX] {
        refused(there.read(offset, &mut bytes));
        refused(there.write(offset, &bytes));
        refused(qp.put(local(&here, 0, 16), target(&remote, offset), Work::unsignaled()));
        refused(qp.put_inline(&bytes, target(&remote, offset), Work::unsignaled()));
        refused(qp.get(local(&here, 0, 16), target(&remote, offset), Work::unsignaled()));
    }
    for offset in [241, usize::MAX - 3] {
        refused(qp.put(local(&here, offset, 16), target(&remote, 0), Work::unsignaled()));
        refused(qp.get(local(&here, offset, 16), target(&remote, 0), Work::unsignaled()));
    }
    refused(qp.put(
        local(&here, 0, usize::MAX),
        target(&remote, 0),
        Work::unsignaled(),
    ));
    refused(qp.fetch_add(target(&remote, 96), 1, local(&here, 0, 8), Work::unsignaled()));
    refused(qp.compare_swap(target(&remote, 104), 0, 1, local(&here, 0, 8), Work::unsignaled()));
    refused(qp.fetch_add(target(&remote, 0), 1, local(&here, 256, 8), Work::unsignaled()));
    refused(there.cell::<u64>(96).map(|_| ()));
    refused(there.slice(50, 51).map(|_| ()));
    refused(remote.slice(usize::MAX, 2).map(|_| ()));
    let part = remote.slice(90, 10).unwrap();
    assert_eq!((part.len(), part.node()), (10, b.node()));
    refused(qp.put(local(&here, 0, 11), target(&part, 0), Work::unsignaled()));
    refused(there.slice(90, 10).unwrap().write(3, &[0; 8]));
    assert_eq!(word(&there, 88), 0, "nothing was written");
}

/// Words and the targets of atomics must be aligned by their size.
pub fn words_must_be_aligned<W: World>() {
    let [a, b] = &W::nodes(2)[..] else { unreachable!() };
    let (there, remote) = share(b, a, 64);
    let here = allocate(a, 64);
    let mut qp = a.queue_pair(b.node()).unwrap();
    fn refused<T: std::fmt::Debug>(result: loco_fabric::Result<T>) {
        assert!(
            matches!(result, Err(FabricError::Misaligned { .. })),
            "{result:?}"
        );
    }
    refused(there.cell::<u16>(1).map(|_| ()));
    refused(there.cell::<u32>(2).map(|_| ()));
    refused(there.cell::<u64>(4).map(|_| ()));
    refused(there.slice(4, 32).unwrap().cell::<u64>(0).map(|_| ()));
    refused(qp.fetch_add(target(&remote, 4), 1, local(&here, 0, 8), Work::unsignaled()));
    refused(qp.fetch_add(target(&remote, 8), 1, local(&here, 4, 8), Work::unsignaled()));
    refused(qp.compare_swap(target(&remote, 1), 0, 1, local(&here, 0, 8), Work::unsignaled()));
    assert!(
        there.slice(4, 32).unwrap().cell::<u64>(4).is_ok(),
        "what counts is the address"
    );
}

/// Checks that a queue pair accesses only its own peer's memory.
pub fn foreign_memory_is_refused<W: World>() {
    let [a, b, c] = &W::nodes(3)[..] else {
        unreachable!()
    };
    let (_there, remote) = share(b, a, 64);
    let here = allocate(a, 64);
    let mut qp = a.queue_pair(c.node()).unwrap();
    assert!(
        qp.put(local(&here, 0, 8), target(&remote, 0), Work::unsignaled())
            .is_err()
    );
}

/// Checks that memory is zeroed and aligned, even where it was in use before.
pub fn memory_is_zeroed_and_returns<W: World>() {
    let [a] = &W::nodes(1)[..] else { unreachable!() };
    for round in 0..50 {
        let memory = allocate(a, 1 + 1000 * (round % 7));
        let mut bytes = vec![1; memory.len()];
        memory.read(0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|&byte| byte == 0));
        memory.write(0, &vec![0xff; memory.len()]).unwrap();
        assert!(memory.is_empty() || a.export(&memory).address.is_multiple_of(64));
        let part = memory.slice(0, 1).unwrap();
        drop(memory);
        let other = allocate(a, 4096);
        other.write(0, &[0xaa; 4096]).unwrap();
        part.read(0, &mut bytes[..1]).unwrap();
        assert_eq!(bytes[0], 0xff, "a slice keeps its memory");
    }
}

/// Checks that a request for more memory than there is fails and names the remedy.
pub fn exhausted_memory_is_an_error<W: World>() {
    let [a] = &W::nodes(1)[..] else { unreachable!() };
    for len in [1 << 50, usize::MAX - 10, usize::MAX] {
        match a.allocate(len, MemoryKind::Host) {
            Err(FabricError::OutOfMemory {
                requested, remedy, ..
            }) => {
                assert_eq!(requested, len);
                assert!(!remedy.is_empty());
            }
            other => panic!("{len} bytes: {:?}", other.map(|_| ())),
        }
    }
    if a.caps().device_memory_bytes == 0 {
        let device = a.allocate(64, MemoryKind::Device);
        assert!(matches!(device, Err(FabricError::Unsupported(_))));
    }
}

/// Checks that fetch-and-add wraps. Compare-and-swap returns the value found, whether it swaps or not.
pub fn atomics_return_the_old_value<W: World>() {
    let [a, b] = &W::nodes(2)[..] else { unreachable!() };
    if a.caps().atomicity == Atomicity::None {
        return;
    }
    let (there, remote) = share(b, a, 64);
    let here = allocate(a, 64);
    let mut poster = Poster::new(a, b.node());
    set_word(&there, 8, u64::MAX);
    poster.complete(|qp, work| qp.fetch_add(target(&remote, 8), 3, local(&here, 16, 8), work));
    assert_eq!(word(&here, 16), u64::MAX);
    poster.complete(|qp, work| qp.compare_swap(target(&remote, 8), 7, 9, local(&here, 16, 8), work));
    assert_eq!(word(&here, 16), 2, "found, not swapped");
    poster.complete(|qp, work| qp.compare_swap(target(&remote, 8), 2, 9, local(&here, 24, 8), work));
    assert_eq!(word(&here, 24), 2, "found and swapped");
    poster.complete(|qp, work| qp.flush(work));
    assert_eq!(word(&there, 8), 9);
    assert_eq!((word(&there, 0), word(&there, 16)), (0, 0));
    let short = poster
        .qp
        .fetch_add(target(&remote, 8), 1, local(&here, 0, 4), Work::unsignaled());
    assert!(short.is_err(), "a result takes 8 bytes");
}

/// Adds from several nodes, the word's own node among them, sum up, and no old value is seen twice.
pub fn concurrent_adds_sum_up<W: World>() {
    const ADDS: u64 = 300;
    let nodes = W::nodes(3);
    let counter = allocate(&nodes[0], 64);
    let key = nodes[0].export(&counter);
    let seen = std::sync::Mutex::new(HashSet::new());
    let body = |node: &W::Fabric| {
        let home = nodes[0].node();
        let remote = node.import(home, &key).unwrap();
        let result = allocate(node, 8);
        let mut poster = Poster::new(node, home);
        for _ in 0..ADDS {
            poster.complete(|qp, work| qp.fetch_add(target(&remote, 0), 2, local(&result, 0, 8), work));
            assert!(seen.lock().unwrap().insert(word(&result, 0)));
        }
    };
    together(
        nodes
            .iter()
            .map(|node| Box::new(|| body(node)) as Box<dyn FnOnce() + Send>)
            .collect(),
    );
    wait_word(&nodes[0], &counter, 0, |sum| sum == 2 * ADDS * nodes.len() as u64);
}

/// Checks that if several nodes swap the same value, one wins.
pub fn compare_swap_is_won_once<W: World>() {
    const ROUNDS: u64 = 100;
    let nodes = W::nodes(2);
    let shared = allocate(&nodes[0], 64);
    let key = nodes[0].export(&shared);
    let wins = std::sync::Mutex::new(vec![0; usize::try_from(ROUNDS).unwrap()]);
    let body = |node: &W::Fabric| {
        let home = nodes[0].node();
        let remote = node.import(home, &key).unwrap();
        let result = allocate(node, 8);
        let mut poster = Poster::new(node, home);
        for round in 0..ROUNDS {
            poster.complete(|qp, work| {
                qp.compare_swap(target(&remote, 0), round, round + 1, local(&result, 0, 8), work)
            });
            if word(&result, 0) == round {
                wins.lock().unwrap()[usize::try_from(round).unwrap()] += 1;
            }
        }
    };
    together(
        nodes
            .iter()
            .map(|node| Box::new(|| body(node)) as Box<dyn FnOnce() + Send>)
            .collect(),
    );
    assert!(wins.lock().unwrap().iter().all(|&wins| wins == 1));
}

/// Checks that a node is its own peer, too.
pub fn loop_back<W: World>() {
    let nodes = W::nodes(2);
    let a = &nodes[0];
    let (there, remote) = share(a, a, 64);
    let here = allocate(a, 64);
    let mut poster = Poster::new(a, a.node());
    set_word(&here, 0, 5);
    poster.complete(|qp, work| qp.put(local(&here, 0, 8), target(&remote, 8), work));
    poster.complete(|qp, work| qp.flush(work));
    assert_eq!(word(&there, 8), 5);
    poster.complete(|qp, work| qp.get(local(&here, 16, 8), target(&remote, 8), work));
    assert_eq!(word(&here, 16), 5);
}

/// Checks that inline data are copied within the call, up to the limit.
pub fn inline_data_may_be_reused_at_once<W: World>() {
    let [a, b] = &W::nodes(2)[..] else { unreachable!() };
    let most = a.caps().inline_bytes_max;
    let (there, remote) = share(b, a, most + 8);
    let mut poster = Poster::new(a, b.node());
    let data = std::cell::RefCell::new(vec![3; most]);
    let posted = poster.post(|qp, work| {
        let posted = qp.put_inline(&data.borrow(), target(&remote, 8), work);
        data.borrow_mut().fill(4);
        posted
    });
    if posted.is_some() {
        wait_for(a, || (a.poll(&mut Vec::new()).unwrap() > 0).then_some(()));
    }
    poster.complete(|qp, work| qp.flush(work));
    let mut seen = vec![0; most];
    there.read(8, &mut seen).unwrap();
    assert!(seen.iter().all(|&byte| byte == 3));
}

/// Checks that inline data beyond the limit are refused on every fabric, with the same error. Nothing is written or
/// reported then, and the queue pair goes on.
pub fn inline_data_beyond_the_limit_are_refused<W: World>() {
    let [a, b] = &W::nodes(2)[..] else { unreachable!() };
    let long = vec![7; a.caps().inline_bytes_max + 1];
    let (there, remote) = share(b, a, long.len() + 16);
    let here = allocate(a, 8);
    let mut poster = Poster::new(a, b.node());
    let signaled = Work::signaled(WorkRequestId(u64::MAX - 2));
    for work in [Work::unsignaled(), signaled, signaled.strong()] {
        let refused = poster.qp.put_inline(&long, target(&remote, 8), work);
        assert!(matches!(refused, Err(FabricError::Unsupported(_))), "{refused:?}");
    }
    let pieces: [(usize, &[u8]); 2] = [(0, &[]), (8, &long)];
    let refused = poster.qp.put_inline_each(&pieces, &remote, true);
    assert!(matches!(refused, Err(FabricError::Unsupported(_))), "{refused:?}");
    // `complete` checks that its own completion is the only one.
    set_word(&here, 0, 5);
    poster.complete(|qp, work| qp.put(local(&here, 0, 8), target(&remote, 0), work));
    poster.complete(|qp, work| qp.flush(work));
    assert_eq!(word(&there, 0), 5);
    let mut seen = vec![1; long.len()];
    there.read(8, &mut seen).unwrap();
    assert!(seen.iter().all(|&byte| byte == 0), "nothing was written");
}

/// Operations posted without a signal happen, and are never reported.
pub fn unsignaled_operations_report_nothing<W: World>() {
    let [a, b] = &W::nodes(2)[..] else { unreachable!() };
    let (there, remote) = share(b, a, 64);
    let here = allocate(a, 64);
    let mut poster = Poster::new(a, b.node());
    for value in 1..=5_u64 {
        let bytes = value.to_ne_bytes();
        let _posted = poster
            .qp
            .put_inline(&bytes, target(&remote, 8), Work::unsignaled().strong())
            .unwrap();
    }
    let _posted = poster
        .qp
        .get(
            local(&here, 0, 8),
            target(&remote, 8),
            Work::unsignaled().strong(),
        )
        .unwrap();
    // `complete` checks that its own completion is the only one.
    poster.complete(|qp, work| qp.flush(work));
    assert_eq!(word(&there, 8), 5);
    assert_eq!(word(&here, 0), 5, "a later completion covers it");
}

/// Checks that short operations that are posted one after the other do what each says, with and without the hint
/// that more follow. A fabric may send several together.
pub fn short_operations_in_a_row<W: World>() {
    const ROUNDS: u64 = 100;
    const WORDS: usize = 3;
    let [a, b] = &W::nodes(2)[..] else { unreachable!() };
    let (there, remote) = share(b, a, 64);
    let here = allocate(a, 128);
    let mut poster = Poster::new(a, b.node());
    let value = |round: u64, i: usize| round << 8 | i as u64;
    for round in 1..=ROUNDS {
        let work = match round % 2 {
            0 => Work::unsignaled(),
            _ => Work::unsignaled().more(),
        };
        for i in 0..WORDS {
            let word = value(round, i).to_ne_bytes();
            let _ = poster.qp.put_inline(&word, target(&remote, 8 * i), work).unwrap();
        }
        let odd = [u8::try_from(round).unwrap(); 3];
        let _ = poster.qp.put_inline(&odd, target(&remote, 24), work).unwrap();
        poster.complete(|qp, work| qp.get(local(&here, 0, 32), target(&remote, 0), work.strong()));
        let mut put = [0, 1, 2].map(|i| value(round, i));
        assert_eq!(words(&here, 0), put, "a get after the puts");
        assert_eq!(words(&there, 0), put);
        let mut bytes = [0; 8];
        there.read(24, &mut bytes).unwrap();
        assert_eq!((&bytes[..3], &bytes[3..]), (&odd[..], &[0; 5][..]));

        if a.caps().atomicity != Atomicity::None {
            let before = (round - 1) * WORDS as u64;
            for i in 0..WORDS {
                let result = local(&here, 32 + 8 * i, 8);
                let one = poster.qp.fetch_add(target(&remote, 32), 1, result, work.strong());
                let _ = one.unwrap();
            }
            for i in 0..WORDS {
                let old = before + i as u64;
                let (at, result) = (target(&remote, 40), local(&here, 56 + 8 * i, 8));
                let swap = poster.qp.compare_swap(at, old, old + 1, result, work.strong());
                let _ = swap.unwrap();
            }
            poster.complete(|qp, work| qp.get(local(&here, 80, 16), target(&remote, 32), work.strong()));
            let counted = [0, 1, 2].map(|i| before + i);
            assert_eq!(words(&here, 32), counted, "old values of the sum");
            assert_eq!(words(&here, 56), counted, "values found");
            assert_eq!([word(&here, 80), word(&here, 88)], [before + WORDS as u64; 2]);
        }

        for i in 0..WORDS {
            let to = local(&here, 96 + 8 * i, 8);
            let _ = poster.qp.get(to, target(&remote, 16 - 8 * i), work).unwrap();
        }
        poster.complete(|qp, work| qp.get(local(&here, 120, 3), target(&remote, 24), work));
        put.reverse();
        assert_eq!(words(&here, 96), put);
        here.read(120, &mut bytes).unwrap();
        assert_eq!(&bytes[..3], &odd[..]);
    }
}

/// Returns three words from `offset` on.
fn words<M: Memory>(memory: &M, offset: usize) -> [u64; 3] {
    [0, 8, 16].map(|at| word(memory, offset + at))
}

/// Checks that every id comes back exactly once, in posting order for each queue pair, with the right peer.
pub fn each_operation_is_reported_once<W: World>() {
    const OPERATIONS: u64 = 400;
    let [a, b, c] = &W::nodes(3)[..] else {
        unreachable!()
    };
    let here = allocate(a, 64);
    let mut queue_pairs = Vec::new();
    for (tag, peer) in [b, c, b].into_iter().enumerate() {
        let (memory, remote) = share(peer, a, 64);
        queue_pairs.push((tag as u64, a.queue_pair(peer.node()).unwrap(), memory, remote));
    }
    let mut pending = [vec![], vec![], vec![]];
    let mut completions: Vec<Completion> = Vec::new();
    for number in 0..OPERATIONS {
        for (tag, qp, _, remote) in &mut queue_pairs {
            let id = WorkRequestId(*tag << 32 | number);
            let mut work = Work::signaled(id);
            work.signaled = number % 5 != 0;
            let posted = wait_for(a, || {
                let posted = match number % 4 {
                    0 => qp.put(local(&here, 0, 8), target(remote, 0), work),
                    1 => qp.get(local(&here, 8, 24), target(remote, 8), work),
                    2 => qp.put_inline(&[1; 8], target(remote, 32), work.fenced()),
                    // No operation follows the last one.
                    _ if number + 1 < OPERATIONS => qp.flush(work.more()),
                    _ => qp.flush(work),
                };
                match posted {
                    Err(FabricError::QueueFull(peer)) => {
                        assert_eq!(peer, qp.peer());
                        a.poll(&mut completions).unwrap();
                        None
                    }
                    posted => Some(posted.unwrap()),
                }
            });
            if posted == Posted::Pending && work.signaled {
                pending[usize::try_from(*tag).unwrap()].push(id);
            }
        }
    }
    let expected: usize = pending.iter().map(Vec::len).sum();
    wait_for(a, || {
        a.poll(&mut completions).unwrap();
        (completions.len() >= expected).then_some(())
    });
    // Each queue pair reports in order, so what it would report twice comes before the end of one more operation.
    for (tag, qp, _, remote) in &mut queue_pairs {
        let work = Work::signaled(WorkRequestId(*tag << 32 | OPERATIONS));
        if qp.put_inline(&[1; 8], target(remote, 32), work).unwrap() == Posted::Pending {
            pending[usize::try_from(*tag).unwrap()].push(work.id);
        }
    }
    let expected: usize = pending.iter().map(Vec::len).sum();
    wait_for(a, || {
        a.poll(&mut completions).unwrap();
        (completions.len() >= expected).then_some(())
    });
    for (tag, qp, _, _) in &queue_pairs {
        let reported: Vec<_> = completions.iter().filter(|c| c.id.0 >> 32 == *tag).collect();
        assert!(
            reported
                .iter()
                .all(|c| c.peer == qp.peer() && c.status == CompletionStatus::Success)
        );
        let ids: Vec<_> = reported.iter().map(|c| c.id).collect();
        assert_eq!(ids, pending[usize::try_from(*tag).unwrap()]);
    }
}

/// Checks that posting without polling ends in `QueueFull` (or never does). Polling makes room. A refused operation
/// was not posted.
pub fn a_full_queue_says_so<W: World>() {
    let [a, b] = &W::nodes(2)[..] else { unreachable!() };
    let (there, remote) = share(b, a, 64);
    let mut poster = Poster::new(a, b.node());
    let mut posted = 0_u64;
    let mut full = false;
    while posted < 100_000 && !full {
        let work = Work::signaled(WorkRequestId(posted));
        match poster
            .qp
            .put_inline(&(posted + 1).to_ne_bytes(), target(&remote, 0), work)
        {
            Ok(Posted::Done) => posted += 1,
            Ok(Posted::Pending) => posted += 1,
            Err(FabricError::QueueFull(peer)) => {
                assert_eq!(peer, b.node());
                full = true;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(full || a.caps().synchronous, "a queue without end");
    let mut completions = Vec::new();
    if !a.caps().synchronous {
        wait_for(a, || {
            a.poll(&mut completions).unwrap();
            (completions.len() as u64 == posted).then_some(())
        });
    }
    // Nothing orders puts of one word that did not ask.
    let last = (posted + 1).to_ne_bytes();
    poster.complete(|qp, work| qp.put_inline(&last, target(&remote, 0), work.strong()));
    poster.complete(|qp, work| qp.flush(work));
    assert_eq!(word(&there, 0), posted + 1);
}
