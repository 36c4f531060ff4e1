//! Tests operations that may share a doorbell with the next one ([`Work::more`]), where that one is not posted.

use loco_fabric::{
    CompletionStatus, Control, Fabric, FabricError, PeerState, Posted, QueuePair, Work, WorkRequestId,
};

use super::{Poster, World, allocate, local, set_word, share, target, wait_for, word};

/// Checks that operations after which more were to follow end although the next one is refused.
pub fn a_refused_operation_lets_those_before_it_go<W: World>() {
    let [a, b] = &W::nodes(2)[..] else { unreachable!() };
    let (there, remote) = share(b, a, 64);
    let here = allocate(a, 64);
    let mut poster = Poster::new(a, b.node());
    let none = || target(&remote, 64);
    for (round, more) in [(1, true), (2, false)] {
        set_word(&here, 0, round);
        let refused_work = match more {
            true => Work::unsignaled().more(),
            false => Work::unsignaled(),
        };
        for refusal in 0..3 {
            let ended = poster.post(|qp, work| qp.put(local(&here, 0, 8), target(&remote, 8), work.more()));
            let refused = match refusal {
                0 => poster.qp.put_inline(&[1; 8], none(), refused_work),
                1 => poster.qp.get(local(&here, 8, 8), none(), refused_work),
                _ => poster
                    .qp
                    .put(local(&here, 64, 8), target(&remote, 0), refused_work),
            };
            assert!(
                matches!(refused, Err(FabricError::OutOfRange { .. })),
                "{refused:?}"
            );
            if let Some(id) = ended {
                let mut completions = Vec::new();
                wait_for(a, || {
                    a.poll(&mut completions).unwrap();
                    (!completions.is_empty()).then_some(())
                });
                assert_eq!(completions.len(), 1);
                assert_eq!(completions[0].id, id);
                assert_eq!(completions[0].status, CompletionStatus::Success);
            }
        }
        poster.complete(|qp, work| qp.flush(work));
        assert_eq!(word(&there, 8), round);
    }
}

/// Checks that operations after which more were to follow end although the next one fails, because the peer is lost by then.
pub fn operations_that_waited_for_one_towards_a_dead_peer_end<W: World>() {
    let [a, b] = &W::nodes(2)[..] else { unreachable!() };
    let (_there, remote) = share(b, a, 64);
    let here = allocate(a, 64);
    let mut qp = a.queue_pair(b.node()).unwrap();
    let first = Work::signaled(WorkRequestId(1)).more();
    let posted = qp.get(local(&here, 0, 8), target(&remote, 0), first).unwrap();
    W::kill(b);
    wait_for(a, || {
        (a.control().peer_state(b.node()) != PeerState::Alive).then_some(())
    });
    let next = qp.get(local(&here, 8, 8), target(&remote, 8), Work::unsignaled());
    assert_eq!(next, Err(FabricError::PeerLost(b.node())));
    if posted == Posted::Done {
        return;
    }
    let mut completions = Vec::new();
    wait_for(a, || {
        a.poll(&mut completions).unwrap();
        (!completions.is_empty()).then_some(())
    });
    assert_eq!(completions.len(), 1);
    assert_eq!(completions[0].id, WorkRequestId(1));
    // The fabric may have begun it before the loss.
    if let CompletionStatus::Failed(error) = &completions[0].status {
        assert_eq!(**error, FabricError::PeerLost(b.node()));
    }
}
