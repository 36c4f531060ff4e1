//! Tests of how channels meet, refuse one another, and go away.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{ALL, Cluster};
use loco::fabric::{Fabric, FabricError, NodeId, Platform};
use loco::{
    Barrier, Channel, Config, Error, Manager, OwnedVar, Parent, Participants, SharedRegion, SharedVar, Sst,
};

const SHORT: Duration = Duration::from_millis(300);

fn short() -> Config {
    Config::default().deadline(SHORT)
}

/// Waits until `condition` holds, for the time that set-up messages need.
fn eventually<F: Fabric>(manager: &Manager<F>, condition: impl Fn() -> bool) -> bool {
    let platform = manager.fabric().platform();
    let end = platform.now().after(Duration::from_secs(10));
    while platform.now() < end {
        if condition() {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

#[test]
fn channels_are_made_in_any_order() {
    for cluster in ALL {
        let sums = cluster.run(3, |manager| {
            let mut names = ["a", "b", "c", "d"];
            names.rotate_left(usize::from(manager.node().0));
            let mut tables = Vec::new();
            for name in names {
                tables.push((name, Sst::<u64, _>::new(&manager, name)?));
            }
            let end = Barrier::new(&manager, "end")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let mut sum = 0;
            tables.sort_by_key(|(name, _)| *name);
            for (i, (_, table)) in (1..).zip(&tables) {
                table.store_mine(i * (1 + u64::from(manager.node().0)))?;
                table.push(&thread)?.wait(&thread)?;
                table.wait_for_each(&thread, |row| row != 0)?;
                sum += table.rows()?.map(OwnedVar::load).sum::<u64>();
            }
            end.wait(&thread)?;
            Ok(sum)
        });
        assert_eq!(sums, [60, 60, 60], "{cluster:?}");
    }
}

#[test]
fn a_late_endpoint_is_met_by_its_own_join() {
    let seen = Cluster::Synchronous.run(2, |manager| {
        let first = Barrier::new(&manager, "first")?;
        let late = (manager.node().0 == 0)
            .then(|| SharedVar::<u64, _>::new(&manager, "late"))
            .transpose()?;
        let thread = manager.thread()?;
        // Node 0's join of `late` reaches node 1 before there is such a channel: ignored.
        first.channel().wait_for_ready()?;
        first.wait(&thread)?;
        let _late = match late {
            Some(late) => late,
            None => SharedVar::new(&manager, "late")?,
        };
        manager.wait_for_ready()?;
        first.wait(&thread)?;
        Ok(true)
    });
    assert_eq!(seen, [true, true]);
}

#[test]
fn a_peer_without_the_channel_is_named_when_the_deadline_passes() {
    let errors = Cluster::Synchronous.run_config(3, &short(), |manager| {
        let everybody = Barrier::new(&manager, "everybody")?;
        let lonely = (manager.node().0 != 2)
            .then(|| SharedRegion::new(&manager, "lonely", 8))
            .transpose()?;
        let ready = manager.wait_for_ready();
        // Channels that everybody has work all the same.
        let platform = manager.fabric().platform();
        let thread = manager.thread()?;
        thread.set_deadline(Some(platform.now().after(Duration::from_secs(10))));
        everybody.wait(&thread)?;
        drop(lonely);
        Ok(ready)
    });
    for error in &errors[..2] {
        match error {
            Err(Error::NotReady {
                channel,
                missing,
                after,
            }) => {
                assert_eq!(channel, "lonely");
                assert_eq!(missing, &[NodeId(2)]);
                assert!(*after >= SHORT);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(errors[2], Ok(()));
}

/// Each node makes a channel its own way; both must hear of the mismatch, with both sides named.
fn mismatch<T: Send>(make: impl Fn(&Manager<crate::common::Net>) -> loco::Result<T> + Sync) -> Vec<String> {
    Cluster::Synchronous.run(2, |manager| {
        let _channel = make(&manager)?;
        match manager.wait_for_ready() {
            Err(error @ Error::Mismatch { here, peer, .. }) => {
                assert_eq!((here, peer), (manager.node(), NodeId(1 - manager.node().0)));
                Ok(error.to_string())
            }
            other => panic!("expected a mismatch, got {other:?}"),
        }
    })
}

#[test]
fn another_type_is_an_error_on_both_nodes() {
    let errors = mismatch(|manager| {
        Ok(if manager.node().0 == 0 {
            (Some(SharedVar::<u64, _>::new(manager, "x")?), None)
        } else {
            (None, Some(SharedVar::<f32, _>::new(manager, "x")?))
        })
    });
    assert!(
        errors[0].contains("node 0 has `sv<u64>`, node 1 has `sv<f32>`"),
        "{}",
        errors[0]
    );
    assert!(
        errors[1].contains("node 1 has `sv<f32>`, node 0 has `sv<u64>`"),
        "{}",
        errors[1]
    );
}

/// A node that sees a mismatch has told its peer before, even if it looks without pause and ends at once.
#[test]
fn the_first_to_see_a_mismatch_has_told_the_other() {
    for round in 0..200 {
        Cluster::Synchronous.run(2, |manager| {
            let _region = SharedRegion::new(&manager, "r", 64 << manager.node().0)?;
            if manager.node().0 == round % 2 {
                let platform = manager.fabric().platform();
                let look = || manager.wait_for_ready_until(platform.now());
                while look().is_err_and(|error| error.is_timeout()) {}
                return Ok(());
            }
            let error = manager.wait_for_ready().unwrap_err();
            assert!(matches!(error, Error::Mismatch { .. }), "{error}");
            Ok(())
        });
    }
}

#[test]
fn another_size_is_an_error_on_both_nodes() {
    let errors = mismatch(|manager| SharedRegion::new(manager, "r", 64 << manager.node().0));
    for error in errors {
        assert!(error.contains("region `data`"), "{error}");
        assert!(
            error.contains("64 bytes") && error.contains("128 bytes"),
            "{error}"
        );
    }
}

#[test]
fn another_number_of_participants_is_an_error() {
    let errors = Cluster::Synchronous.run(3, |manager| {
        let group = match manager.node().0 {
            0 => Participants::of([NodeId(0), NodeId(1)]),
            _ => Participants::all(&manager),
        };
        let _barrier = Barrier::new(&manager.among(&group), "bar")?;
        Ok(manager
            .wait_for_ready()
            .expect_err("the nodes disagree")
            .to_string())
    });
    assert!(errors[0].contains("2 (nodes 0, 1)"), "{}", errors[0]);
    assert!(errors[0].contains("3 (nodes 0, 1, 2)"), "{}", errors[0]);
}

#[test]
fn regions_offered_and_expected_must_fit() {
    let outcomes = Cluster::Synchronous.run(2, |manager| {
        let builder = Channel::builder(&manager, "pair").kind("pair");
        let channel = if manager.node().0 == 0 {
            builder.offers("in", 16).expects(NodeId(1), "out", 32).join()?
        } else {
            builder
                .offers("out", 32)
                .offers("spare", 8)
                .expects(NodeId(0), "in", 16)
                .join()?
        };
        manager.wait_for_ready()?;
        let other = NodeId(1 - manager.node().0);
        let name = if manager.node().0 == 0 { "out" } else { "in" };
        let remote = loco::fabric::RemoteMemory::len(channel.region(name)?.remote(other)?);
        let own = channel.region(name)?.local().map(|_| ());
        let end = Barrier::new(&manager, "end")?;
        manager.wait_for_ready()?;
        end.wait(&manager.thread()?)?;
        Ok((remote, own.is_err()))
    });
    assert_eq!(outcomes, [(32, true), (16, true)]);
}

#[test]
fn bad_declarations_are_refused_at_once() {
    Cluster::Synchronous.run(2, |manager| {
        let _x = SharedRegion::new(&manager, "x", 8)?;
        let again = SharedRegion::new(&manager, "x", 8)
            .err()
            .expect("the name is taken");
        assert!(matches!(again, Error::DuplicateChannel { .. }), "{again}");
        for name in ["", "a/b", "a.b"] {
            let bad = SharedRegion::new(&manager, name, 8).err().expect("a bad name");
            assert!(matches!(bad, Error::BadName { .. }), "{bad}");
        }
        let others = Participants::of([NodeId(1 - manager.node().0)]);
        let outside = Barrier::new(&manager.among(&others), "b")
            .err()
            .expect("not in it");
        assert!(matches!(outside, Error::NotParticipant { .. }), "{outside}");
        let strangers = Participants::of([manager.node(), NodeId(9)]);
        let unknown = Barrier::new(&manager.among(&strangers), "b")
            .err()
            .expect("no such node");
        assert_eq!(unknown, Error::Fabric(FabricError::UnknownPeer(NodeId(9))));
        let nobody = Barrier::with_local_threads(&manager, "b", 0);
        assert!(matches!(nobody.err(), Some(Error::Config(_))));
        Ok(())
    });
}

#[test]
fn callbacks_run_once_per_peer_and_make_sub_channels() {
    let names = Cluster::Synchronous.run(3, |manager| {
        let (joins, connects) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let made = Arc::new(Mutex::new(Vec::new()));
        let (joined, connected, subs) = (joins.clone(), connects.clone(), made.clone());
        let parent = Channel::builder(&manager, "parent")
            .kind("test")
            .on_join(move |parent, peer| {
                joined.fetch_add(1, Ordering::SeqCst);
                let pair = Participants::of([parent.manager().node(), peer]);
                let (low, high) = (pair.nodes()[0].0, pair.nodes()[1].0);
                let sub = Channel::builder(&parent.among(&pair), &format!("pair{low}{high}"))
                    .region("data", 8)
                    .join()?;
                subs.lock().expect("not poisoned").push(sub);
                Ok(())
            })
            .on_connect(move |_, _| {
                connected.fetch_add(1, Ordering::SeqCst);
                Ok(())
            })
            .join()?;
        parent.wait_for_ready()?;
        assert_eq!(joins.load(Ordering::SeqCst), 2);
        assert_eq!(connects.load(Ordering::SeqCst), 2);
        let mut subs = std::mem::take(&mut *made.lock().expect("not poisoned"));
        for sub in &subs {
            // Ready with the parent: its peer's memory is there.
            assert!(sub.region("data")?.remote(sub.peers()[0]).is_ok());
        }
        subs.sort_by_key(|sub| sub.name().to_owned());
        let names: Vec<String> = subs.iter().map(|sub| sub.name().to_owned()).collect();
        let end = Barrier::new(&manager, "end")?;
        manager.wait_for_ready()?;
        end.wait(&manager.thread()?)?;
        Ok(names)
    });
    assert_eq!(names[0], ["parent/pair01", "parent/pair02"]);
    assert_eq!(names[1], ["parent/pair01", "parent/pair12"]);
}

#[test]
fn a_failing_callback_fails_the_channel() {
    let errors = Cluster::Synchronous.run(2, |manager| {
        let end = Barrier::new(&manager, "end")?;
        let channel = Channel::builder(&manager, "c")
            .on_join(|_, _| Err(Error::Config("refused by the callback".to_owned())))
            .join()?;
        let outcome = channel.wait_for_ready();
        end.channel().wait_for_ready()?;
        end.wait(&manager.thread()?)?;
        Ok(outcome)
    });
    for error in errors {
        // Its own callback's error, or word that the peer's failed.
        let error = error.expect_err("no callback succeeds");
        assert!(
            matches!(error, Error::Config(_) | Error::Refused { .. }),
            "{error}"
        );
        assert!(error.to_string().contains("refused by the callback"), "{error}");
    }
}

/// Memory that is used up is an error that says how much there was, on the node where it is; nothing else is harmed.
#[test]
fn exhausted_memory_is_an_error_and_the_rest_goes_on() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let end = Barrier::new(&manager, "end")?;
            let refused = SharedRegion::new(&manager, "too much", 1 << 40).map(|_| ());
            let error = refused.expect_err("no node has a tebibyte");
            let Error::Fabric(FabricError::OutOfMemory {
                requested,
                available,
                remedy,
            }) = &error
            else {
                panic!("{cluster:?}: {error}");
            };
            assert!(*requested >= 1 << 40 && *available <= 8 << 30, "{error}");
            assert!(remedy.contains("raise `memory_limit_bytes` of"), "{error}");
            // Its name is free again.
            let region = SharedRegion::new(&manager, "too much", 1 << 20)?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let buffer = thread.mem_ref(1 << 41).map(|_| ());
            let error = buffer.expect_err("nor two of them");
            assert!(
                matches!(error, Error::Fabric(FabricError::OutOfMemory { .. })),
                "{error}"
            );
            for &node in manager.nodes() {
                drop(thread.mem_ref(1 << 20)?.get(region.target(node, 0)?)?.wait()?);
            }
            end.wait(&thread)
        });
    }
}

#[test]
fn memory_of_a_dropped_channel_is_kept_until_the_peer_drops_its_end() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let bar = Barrier::new(&manager, "bar")?;
            let region = SharedRegion::new(&manager, "r", 8)?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            if manager.node().0 == 0 {
                drop(region);
                assert_eq!(manager.quarantined_channels(), 1);
                bar.wait(&thread)?;
                // Node 1 puts into it meanwhile.
                bar.wait(&thread)?;
                assert_eq!(
                    manager.quarantined_channels(),
                    1,
                    "{cluster:?}: freed while node 1 has its end"
                );
                bar.wait(&thread)?;
                bar.wait(&thread)?;
            } else {
                bar.wait(&thread)?;
                let put = thread.put_inline(&[7; 8], region.target(NodeId(0), 0)?)?;
                put.wait(&thread)?;
                bar.wait(&thread)?;
                bar.wait(&thread)?;
                drop(region);
                bar.wait(&thread)?;
            }
            assert!(
                eventually(&manager, || manager.quarantined_channels() == 0),
                "{cluster:?}: never freed"
            );
            bar.wait(&thread)
        });
    }
}

#[test]
fn a_name_can_be_used_again() {
    for cluster in ALL {
        let values = cluster.run(2, |manager| {
            let bar = Barrier::new(&manager, "bar")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let mut values = Vec::new();
            for round in 1..=20 {
                let sst = Sst::<u64, _>::new(&manager, "again")?;
                manager.wait_for_ready()?;
                sst.store_mine(round)?;
                sst.push(&thread)?.wait(&thread)?;
                sst.wait_for_each(&thread, |row| row != 0)?;
                values.push(sst.rows()?.map(OwnedVar::load).sum::<u64>());
            }
            bar.wait(&thread)?;
            Ok(values)
        });
        let expected: Vec<u64> = (1..=20).map(|round| 2 * round).collect();
        assert_eq!(values, [expected.clone(), expected], "{cluster:?}");
    }
}
