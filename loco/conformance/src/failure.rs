//! Tests deadlines, lost peers, and peers that never were.

use std::sync::mpsc;
use std::time::Duration;

use loco_fabric::{
    CompletionStatus, Control, Fabric, FabricError, NodeId, PeerState, Peers, Platform, Posted, QueuePair,
    RegionKey, Wait, Work, WorkRequestId,
};

use crate::{PATIENCE, World, allocate, local, set_word, share, target, wait_for, word};

fn wait<'a, F: Fabric>(fabric: &F, peers: Peers<'a>, limit: Duration) -> Wait<'a> {
    Wait {
        what: "a test",
        peers,
        deadline: Some(fabric.platform().now().after(limit)),
    }
}

/// Checks that a wait times out, not before its time, and its error describes the wait.
pub fn a_wait_times_out<W: World>() {
    let [a, b] = &W::nodes(2)[..] else { unreachable!() };
    for limit in [
        Duration::ZERO,
        Duration::from_micros(50),
        Duration::from_millis(30),
    ] {
        let start = a.platform().now();
        let mut asked = 0_u64;
        let timeout = a.wait(wait(a, Peers::One(b.node()), limit), || {
            asked += 1;
            None::<()>
        });
        let Err(FabricError::Timeout { what, .. }) = timeout else {
            panic!("{timeout:?}");
        };
        assert_eq!(what, "a test");
        assert!(asked >= 1 && a.platform().now().since(start) >= limit);
    }
}

/// Checks that a deadline in the past does not matter to a condition that holds.
pub fn a_wait_that_is_ready_ignores_its_deadline<W: World>() {
    let [a] = &W::nodes(1)[..] else { unreachable!() };
    let ready = a.wait(wait(a, Peers::All, Duration::ZERO), || Some(3));
    assert_eq!(ready, Ok(3));
}

/// Checks that a wait that began before the peer died ends, for each way to name the peer.
pub fn a_dead_peer_ends_the_wait<W: World>() {
    for ways in 0..3 {
        let [a, b, c] = &W::nodes(3)[..] else {
            unreachable!()
        };
        let both = [c.node(), b.node()];
        let peers = match ways {
            0 => Peers::One(b.node()),
            1 => Peers::These(&both),
            _ => Peers::All,
        };
        std::thread::scope(|scope| {
            let (asks, asked) = mpsc::sync_channel(1);
            let waiting = scope.spawn(move || {
                a.wait(wait(a, peers, PATIENCE), || {
                    // Only the first time counts.
                    let _ = asks.try_send(());
                    None::<()>
                })
            });
            asked.recv().unwrap();
            W::kill(b);
            assert_eq!(waiting.join().unwrap(), Err(FabricError::PeerLost(b.node())));
        });
        let again = a.wait(wait(a, peers, PATIENCE), || None::<()>);
        assert_eq!(again, Err(FabricError::PeerLost(b.node())), "and every later one");
    }
}

/// Waits end only for the peers that they name.
pub fn a_dead_peer_that_nobody_waits_for_is_ignored<W: World>() {
    let [a, b, c] = &W::nodes(3)[..] else {
        unreachable!()
    };
    W::kill(b);
    for peers in [Peers::None, Peers::One(c.node()), Peers::One(a.node())] {
        let timeout = a.wait(wait(a, peers, Duration::from_millis(20)), || None::<()>);
        assert!(matches!(timeout, Err(FabricError::Timeout { .. })), "{timeout:?}");
    }
}

/// Checks that the condition is asked once more after the loss is known, so a value that came before counts.
pub fn a_value_that_came_before_the_death_counts<W: World>() {
    let [a, b] = &W::nodes(2)[..] else { unreachable!() };
    let (here, remote) = share(a, b, 64);
    W::kill(b);
    let state = wait_for(a, || {
        Some(a.control().peer_state(b.node())).filter(|&state| state != PeerState::Alive)
    });
    assert_eq!(state, PeerState::Lost);
    let mut first = true;
    let late = a.wait(wait(a, Peers::One(b.node()), PATIENCE), || {
        // The value arrives between the first question and the second.
        (!std::mem::take(&mut first)).then_some(word(&here, 0))
    });
    assert_eq!(late, Ok(0));
    drop(remote);
}

/// Checks that once the loss is known, nothing is posted, and no new queue pair or memory can be had.
pub fn operations_towards_a_dead_peer_fail<W: World>() {
    let [a, b, c] = &W::nodes(3)[..] else {
        unreachable!()
    };
    let (there, remote) = share(b, a, 64);
    let (_alive, alive_remote) = share(c, a, 64);
    let key = b.export(&there);
    let here = allocate(a, 64);
    let mut qp = a.queue_pair(b.node()).unwrap();
    let mut other = a.queue_pair(c.node()).unwrap();
    W::kill(b);
    wait_for(a, || (a.control().departures() > 0).then_some(()));
    let lost = FabricError::PeerLost(b.node());
    let work = Work::signaled(WorkRequestId(1));
    assert_eq!(
        qp.put(local(&here, 0, 8), target(&remote, 0), work).err(),
        Some(lost.clone())
    );
    assert_eq!(
        qp.put_inline(&[1; 8], target(&remote, 0), work).err(),
        Some(lost.clone())
    );
    assert_eq!(
        qp.get(local(&here, 0, 8), target(&remote, 0), work).err(),
        Some(lost.clone())
    );
    assert_eq!(
        qp.fetch_add(target(&remote, 0), 1, local(&here, 0, 8), work)
            .err(),
        Some(lost.clone())
    );
    assert_eq!(
        qp.compare_swap(target(&remote, 0), 0, 1, local(&here, 0, 8), work)
            .err(),
        Some(lost.clone())
    );
    assert_eq!(qp.flush(work).err(), Some(lost.clone()));
    assert_eq!(a.queue_pair(b.node()).err(), Some(lost.clone()));
    assert_eq!(a.import(b.node(), &key).err(), Some(lost));
    other
        .put_inline(&[1; 8], target(&alive_remote, 0), work)
        .map(|_| ())
        .unwrap();
}

/// Checks that each outstanding operation is reported once, as done or lost.
pub fn outstanding_operations_of_a_dead_peer_are_reported<W: World>() {
    let [a, b, c] = &W::nodes(3)[..] else {
        unreachable!()
    };
    let (_there, remote) = share(b, a, 64);
    let (_alive, alive_remote) = share(c, a, 64);
    let here = allocate(a, 64);
    set_word(&here, 0, 1);
    let mut qp = a.queue_pair(b.node()).unwrap();
    let mut to_living = a.queue_pair(c.node()).unwrap();
    let mut pending = Vec::new();
    for number in 0..8 {
        let work = Work::signaled(WorkRequestId(number));
        let posted = if number % 2 == 0 {
            qp.put(local(&here, 0, 8), target(&remote, 0), work)
        } else {
            qp.get(local(&here, 8, 8), target(&remote, 0), work)
        };
        if posted.unwrap() == Posted::Pending {
            pending.push(work.id);
        }
    }
    W::kill(b);
    let mut completions = Vec::new();
    wait_for(a, || {
        a.poll(&mut completions).unwrap();
        (completions.len() >= pending.len()).then_some(())
    });
    // Nothing more is reported while operations towards another peer are begun and reported.
    for number in 8..16 {
        let work = Work::signaled(WorkRequestId(number));
        if to_living
            .put_inline(&[1; 8], target(&alive_remote, 0), work)
            .unwrap()
            == Posted::Pending
        {
            pending.push(work.id);
        }
        wait_for(a, || {
            a.poll(&mut completions).unwrap();
            (completions.len() >= pending.len()).then_some(())
        });
    }
    let mut ids: Vec<_> = completions.iter().map(|completion| completion.id).collect();
    ids.sort();
    assert_eq!(ids, pending);
    for completion in completions {
        if let CompletionStatus::Failed(error) = completion.status {
            assert_eq!(completion.peer, b.node());
            assert_eq!(*error, FabricError::PeerLost(b.node()));
        }
    }
}

/// Checks that a node outside the job is nobody's peer.
pub fn unknown_peers_are_refused<W: World>() {
    let [a] = &W::nodes(1)[..] else { unreachable!() };
    let nobody = NodeId(u16::MAX);
    let key = RegionKey {
        arena: 0,
        address: 0,
        len: 8,
        rkey: 0,
    };
    assert_eq!(a.queue_pair(nobody).err(), Some(FabricError::UnknownPeer(nobody)));
    assert_eq!(
        a.import(nobody, &key).err(),
        Some(FabricError::UnknownPeer(nobody))
    );
}
