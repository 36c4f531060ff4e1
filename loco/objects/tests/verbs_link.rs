//! The link between two RDMA devices goes down in the middle of a broadcast: an error in bounded time on either side.
//!
//! Needs two devices, and leave to take the interface that `LOCO_TEST_LINK` names down: `ci/verbs-suite` has both. Says so
//! and passes elsewhere.

use std::process::Command;
use std::time::{Duration, Instant};

use loco::fabric::verbs::{VerbsConfig, VerbsFabric, devices};
use loco::{Barrier, Config, Manager, RingBuffer};
use loco_testing::skipped;

/// The port may be down for this long before operations fail.
const LINK_TIMEOUT: Duration = Duration::from_secs(2);
/// Within which both sides have heard of it: that, a look at the port a second, and what an emulated machine takes.
const BOUND: Duration = Duration::from_secs(20);
/// Messages before the link goes down.
const BEFORE: u64 = 200;

fn set_link(link: &str, state: &str) {
    let status = Command::new("ip").args(["link", "set", link, state]).status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "ip link set {link} {state}"
    );
}

#[test]
fn a_link_that_goes_down_in_a_broadcast_is_an_error_on_both_sides() {
    let Ok(link) = std::env::var("LOCO_TEST_LINK") else {
        return skipped(
            "LINK",
            "LOCO_TEST_LINK names no link between two devices to be taken down",
        );
    };
    let names: Vec<_> = devices().into_iter().map(|device| device.name).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let ended = loco::testing::run_on(
        2,
        |mesh| {
            let config = VerbsConfig::default()
                .device(Some(names[usize::from(mesh.node().0)].clone()))
                .arena_bytes(4 << 20)
                .link_timeout(LINK_TIMEOUT);
            VerbsFabric::new(mesh, config)
        },
        |fabric| {
            let settings = Config::default().deadline(3 * BOUND);
            let manager = Manager::with_config(fabric, settings)?;
            let ring = RingBuffer::new(&manager, "ring", manager.nodes()[0], 1024)?;
            let barrier = Barrier::new(&manager, "barrier")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            barrier.wait(&thread)?;
            let mut message = [0; 64];
            if manager.node() == manager.nodes()[0] {
                let mut writer = ring.writer()?;
                let mut down = None;
                // The reader takes what it gets, so that only the link can hold the writer up.
                for i in 0_u64.. {
                    if i == BEFORE {
                        set_link(&link, "down");
                        down = Some(Instant::now());
                    }
                    message[..8].copy_from_slice(&i.to_ne_bytes());
                    if let Err(error) = writer.submit(&thread, &message) {
                        let took = down.map(|since| since.elapsed());
                        set_link(&link, "up");
                        return Ok((i, error.to_string(), took));
                    }
                }
                unreachable!("the link is down");
            }
            let mut reader = ring.reader()?;
            for i in 0_u64.. {
                match reader.receive_into(&thread, &mut Vec::new()) {
                    Ok(()) => {}
                    // The writer has given up, and left.
                    Err(error) => return Ok((i, error.to_string(), None)),
                }
            }
            unreachable!("messages end")
        },
    );
    let [(written, why, took), (read, lost, _)] = &ended[..] else {
        panic!("{ended:?}")
    };
    println!("after {took:?}, message {written}: {why}; the reader after {read}: {lost}");
    let took = took.expect("the link was up when it failed");
    assert!(took < BOUND, "{took:?}");
    assert!(*written >= BEFORE, "{written}");
    // Both ports are down. Whoever notices it first says so and leaves, which the other may hear of before it notices.
    let port = |text: &str| text.contains("has been down");
    assert!(
        port(why) || (why.contains("node 1") && port(lost)),
        "{why}; {lost}"
    );
    assert!(
        port(lost) || (lost.contains("node 0") && port(why)),
        "{lost}; {why}"
    );
    assert!(read <= written, "{read} of {written}");
}
