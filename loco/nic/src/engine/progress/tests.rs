//! Tests of passes over a NIC whose neighbours are played by the test.

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use loco_fabric::Tier;
use rustix::event::{EventfdFlags, eventfd};
use zerocopy::IntoBytes as _;

use super::*;
use crate::engine::near::Greeting;
use crate::settings::{Faults, Schedule, Settings, Stress};
use crate::wire::{HEADER, Header};

pub(in crate::engine) fn nic(world: &Path) -> Nic {
    let settings = Settings {
        world: world.to_owned(),
        abroad: Ok(None),
        devices: 1,
        tier: Tier::Ibta,
        stress: Stress::None,
        schedule: Schedule::Random,
        seed: 0,
        report: None,
        trace: None,
        faults: Faults::default(),
        atomics_push: false,
    };
    Nic::new(&settings).unwrap()
}

/// Connects a neighbour with a number, which has said hello.
pub(in crate::engine) fn connect(nic: &mut Nic, number: u32) -> (Near, OwnedFd) {
    let (one, two) = UnixStream::pair().unwrap();
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    let greeting = Greeting {
        hello: Header::new(kind::HELLO, number, 0, 0),
        bell: bell.as_fd(),
    };
    let mut asking = Near::connected(one, nic.world.number, &greeting).unwrap();
    let served = Near::accepted(two, &nic.greeting(0)).unwrap();
    nic.add_link(Link::here(served, 0)).unwrap();
    while nic.take_messages() {}
    assert!(asking.hear(&mut Vec::new()).unwrap());
    (asking, bell)
}

/// Returns a message that asks for nothing.
fn probe(number: u32) -> Header {
    Header::new(kind::PROBE, number << LOCAL_BITS, 0, 0)
}

#[test]
fn a_link_that_ends_takes_no_turn_from_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let mut nic = nic(folder.path());
    let mut neighbours: Vec<_> = (1..=4).map(|number| connect(&mut nic, number)).collect();
    let before = nic.taken;
    // The first and the third break the rules, and the others do not.
    for (number, (asking, _)) in (1..).zip(&mut neighbours) {
        let message = probe(number);
        let sent = match number % 2 {
            1 => asking.send([&[0xff; HEADER], &[]], true),
            _ => asking.send([message.as_bytes(), &[]], true),
        };
        assert!(sent.unwrap());
    }
    assert!(nic.take_near());
    assert_eq!((nic.taken - before, nic.links.len()), (2, 2));
}

/// A program that has polled and then watches its memory waits for the thread that looks in. Perftest's writes do so.
#[test]
fn a_call_leaves_its_bell_to_the_thread_that_looks_in() {
    let folder = tempfile::tempdir().unwrap();
    let mut nic = nic(folder.path());
    rustix::io::write(&nic.look_in, &1_u64.to_ne_bytes()).unwrap();
    for _ in 0..3 {
        let _ = nic.progress(true);
    }
    assert!(rustix::io::read(&nic.look_in, &mut [0; 8]).is_ok());
}

/// The thread sees a message that came before it sleeps; a message that comes later rings.
#[test]
fn nobody_falls_asleep_before_what_has_come_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let mut nic = nic(folder.path());
    let (mut asking, _bell) = connect(&mut nic, 1);
    let message = probe(1);
    let rings = |nic: &Nic| rustix::io::read(&nic.doorbell, &mut [0; 8]).is_ok();
    assert!(asking.send([message.as_bytes(), &[]], true).unwrap());
    assert!(!nic.fall_asleep() && !rings(&nic));
    assert!(nic.take_near() && nic.fall_asleep());
    assert!(asking.send([message.as_bytes(), &[]], true).unwrap());
    assert!(rings(&nic));
}

/// Until a neighbour has heard this side's hello, a byte on the socket is its bell. That one says that there is room is heard once.
#[test]
fn room_that_a_byte_on_the_socket_tells_of_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let mut nic = nic(folder.path());
    let (one, two) = UnixStream::pair().unwrap();
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    let greeting = Greeting {
        hello: Header::new(kind::HELLO, 1, 0, 0),
        bell: bell.as_fd(),
    };
    let mut asking = Near::connected(one, nic.world.number, &greeting).unwrap();
    let served = Near::accepted(two, &nic.greeting(0)).unwrap();
    let id = nic.add_link(Link::here(served, 0)).unwrap();
    while nic.take_messages() {}
    let data = vec![7; 3 * crate::engine::ring::SIZE / 2];
    let answer = Header::new(kind::ANSWER, nic.world.number << LOCAL_BITS, 1 << LOCAL_BITS, 0);
    assert!(nic.send(id, &answer, &data) && nic.links[&id].is_blocked());
    // It takes what is there, and has not heard whose bell to ring.
    let (mut input, mut messages) = (Vec::new(), Vec::new());
    asking.receive(&mut input, &mut messages).unwrap();
    assert!(messages.is_empty());
    nic.take_messages();
    assert!(!nic.links[&id].is_blocked());
    asking.receive(&mut input, &mut messages).unwrap();
    assert!(messages.len() == 1 && messages[0].data == data);
}

#[test]
fn connections_without_a_hello_are_few_and_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut nic = nic(folder.path());
    let address = nic.world.listener.local_addr().unwrap();
    let connect = || UnixStream::connect_addr(&address).unwrap();
    let mut strangers = Vec::new();
    for _ in 0..STRANGERS_MAX + 3 {
        strangers.push(connect());
        nic.accept();
    }
    assert_eq!(nic.links.len(), STRANGERS_MAX);
    let due = nic.progress(true).unwrap();
    assert!(due <= HELLO_PATIENCE + nic.now());
    nic.started -= std::time::Duration::from_nanos(2 * HELLO_PATIENCE);
    nic.progress(false);
    assert!(nic.links.is_empty() && nic.strangers.is_empty());
    strangers.push(connect());
    nic.accept();
    assert_eq!(nic.links.len(), 1);
}

/// A neighbour that asks and asks, and takes no answers, is held back by its own ring, and this side is at rest. It goes on when it takes them.
#[test]
fn who_takes_no_answers_is_not_asked_for_more_requests() {
    const KEPT_MAX: u64 = 3 * (crate::engine::ring::SIZE / HEADER) as u64;
    let folder = tempfile::tempdir().unwrap();
    let mut nic = nic(folder.path());
    let (mut asking, _bell) = connect(&mut nic, 1);
    let target = nic.world.number << LOCAL_BITS;
    let mut sent = 0;
    let mut ask = |asking: &mut Near| {
        let mut request = Header::new(kind::READ, 1 << LOCAL_BITS, target, sent);
        // There is no such queue pair, which is answered after a microsecond.
        request.patience = 1;
        while asking.send([request.as_bytes(), &[]], true).unwrap() {
            sent += 1;
            request.seq = sent;
        }
        sent
    };
    for _ in 0..2000 {
        assert!(ask(&mut asking) <= KEPT_MAX);
        let _ = nic.progress(false);
    }
    let sent = ask(&mut asking);
    assert!(nic.links.values().all(Link::holds_back) && nic.fall_asleep());
    let (mut input, mut answers) = (Vec::new(), Vec::new());
    while (answers.len() as u64) < sent {
        asking.receive(&mut input, &mut answers).unwrap();
        let _ = nic.progress(false);
    }
    let seqs = answers.iter().map(|answer| answer.header.seq);
    assert!(seqs.eq(0..sent));
    assert!(ask(&mut asking) > sent);
}
