//! Tests of what calls leave to other calls, with a neighbour that is played by the test. The threads are not there.

use std::os::fd::OwnedFd;

use zerocopy::IntoBytes as _;

use super::*;
use crate::completions::Completions;
use crate::devices::devices;
use crate::engine::near::Near;
use crate::engine::progress::tests::{connect, nic};
use crate::engine::queue::{Making, Request};
use crate::events::Events;
use crate::ffi::*;
use crate::wire::{Header, flag, kind};
use crate::world::LOCAL_BITS;

const WORKED: Worked = Worked {
    served: false,
    leaves: false,
};

struct Setting {
    _folder: tempfile::TempDir,
    shared: Mutex<Nic>,
    asking: Near,
    _bell: OwnedFd,
    qpn: u32,
}

impl Setting {
    /// Makes a NIC with a neighbour that expects requests of it.
    fn new() -> Setting {
        let folder = tempfile::tempdir().unwrap();
        let mut nic = nic(folder.path());
        let (asking, bell) = connect(&mut nic, 1);
        let completions = Arc::new(Completions::new(4, None));
        let making = Making {
            device: &devices()[0],
            kind: IBV_QPT_RC,
            pd: 0,
            cap: QpCap {
                max_send_wr: 4,
                ..zeroed()
            },
            signal_all: false,
            send_cq: Arc::clone(&completions),
            recv_cq: completions,
            srq: None,
            events: Arc::new(Events::new().unwrap()),
        };
        let qpn = nic.make_qp(making).unwrap();
        // A request that is posted stays in its queue, unsent.
        nic.qp_mut(qpn).unwrap().attr.qp_state = IBV_QPS_SQD;
        nic.foresight.came_to_call();
        assert!(nic.foresight.expects());
        Setting {
            _folder: folder,
            shared: Mutex::new(nic),
            asking,
            _bell: bell,
            qpn,
        }
    }

    /// Makes the NIC's time stand still, so that nothing is late.
    fn stop_time(&self) {
        lock(&self.shared).started += Duration::from_secs(3600);
    }

    /// Posts a request, so that one is under way.
    fn post(&self) {
        let request = Request {
            wr_id: 0,
            opcode: IBV_WR_RDMA_WRITE,
            flags: 0,
            immediate: 0,
            elements: Vec::new(),
            inline: None,
            remote_addr: 0,
            rkey: 0,
            operands: (0, 0),
            datagram: None,
        };
        lock(&self.shared).post(self.qpn, request).unwrap();
    }

    /// Ends all requests.
    fn end(&self) {
        lock(&self.shared).qp_mut(self.qpn).unwrap().sends.clear();
    }

    /// Does the work of a call while a request is under way, which then ends.
    fn leave(&self) {
        self.post();
        work_on(&self.shared);
        assert!(lock(&self.shared).left_to_calls.1);
        self.end();
    }

    /// Makes the neighbour ask for something.
    fn ask(&mut self, kind: u8, flags: u8) {
        let target = lock(&self.shared).world.number << LOCAL_BITS;
        let mut request = Header::new(kind, 1 << LOCAL_BITS, target, 0);
        request.flags = flags;
        assert!(self.asking.send([request.as_bytes(), &[]], true).unwrap());
    }

    /// Returns whether the neighbour wakes the thread for a request.
    fn rings(&mut self) -> bool {
        let _ = lock(&self.shared).progress(false);
        assert!(lock(&self.shared).fall_asleep());
        self.ask(kind::WRITE, 0);
        let nic = lock(&self.shared);
        rustix::io::read(&nic.doorbell, &mut [0; 8]).is_ok()
    }
}

#[test]
fn without_a_request_of_its_own_a_call_leaves_none_to_calls() {
    let mut setting = Setting::new();
    let worked = work_on(&setting.shared);
    assert!(!worked.leaves && !lock(&setting.shared).is_left_to_calls());
    assert!(setting.rings());
}

#[test]
fn while_its_own_request_is_under_way_requests_are_for_its_calls() {
    let mut setting = Setting::new();
    setting.stop_time();
    setting.post();
    let worked = work_on(&setting.shared);
    assert!(!worked.leaves && !setting.rings());
    setting.end();
    // It has ended without a completion that this call finds.
    let worked = work_on(&setting.shared);
    assert!(worked.leaves);
    finish(&setting.shared, worked, false);
    assert!(setting.rings());
}

#[test]
fn who_looked_on_in_vain_leaves_answers_only() {
    let mut setting = Setting::new();
    setting.leave();
    finish(&setting.shared, WORKED, true);
    let nic = lock(&setting.shared);
    assert_eq!(nic.left_to_calls, (true, false));
    assert!(!nic.foresight.expects());
    drop(nic);
    assert!(setting.rings());
}

#[test]
fn who_was_served_leaves_answers_only() {
    let mut setting = Setting::new();
    setting.leave();
    let served = Worked {
        served: true,
        ..WORKED
    };
    finish(&setting.shared, served, true);
    assert_eq!(lock(&setting.shared).left_to_calls, (true, false));
    assert!(setting.rings());
}

#[test]
fn who_finds_a_request_when_it_looks_on_leaves_answers_only() {
    let mut setting = Setting::new();
    setting.stop_time();
    setting.leave();
    setting.ask(kind::WRITE, 0);
    finish(&setting.shared, WORKED, true);
    let nic = lock(&setting.shared);
    assert_eq!(nic.left_to_calls, (true, false));
    assert!(nic.foresight.expects());
    drop(nic);
    assert!(setting.rings());
}

#[test]
fn who_finds_the_nic_taken_does_not_wait_and_its_holder_leaves_answers_only() {
    let mut setting = Setting::new();
    setting.leave();
    let taken = lock(&setting.shared);
    finish(&setting.shared, WORKED, true);
    poke(taken);
    assert!(setting.rings());
}

#[test]
fn a_call_that_takes_the_end_of_its_last_request_leaves_answers_only() {
    let mut setting = Setting::new();
    setting.stop_time();
    setting.post();
    work_on(&setting.shared);
    poke(lock(&setting.shared));
    assert!(lock(&setting.shared).left_to_calls.1);
    setting.end();
    poke(lock(&setting.shared));
    assert!(setting.rings());
}

#[test]
fn nobody_looks_on_while_another_request_is_under_way() {
    let mut setting = Setting::new();
    setting.leave();
    setting.post();
    finish(&setting.shared, WORKED, true);
    assert!(!lock(&setting.shared).foresight.expects());
    assert!(setting.rings());
}

#[test]
fn requests_that_fill_receives_are_not_foreseen() {
    let mut setting = Setting::new();
    for (kind, flags, counts) in [
        (kind::SEND, 0, false),
        (kind::WRITE, flag::IMMEDIATE, false),
        (kind::WRITE, 0, true),
        (kind::READ, 0, true),
    ] {
        setting.ask(kind, flags);
        assert_eq!(work_on(&setting.shared).served, counts);
    }
}

#[test]
fn a_request_that_waited_long_for_a_call_is_a_mistake() {
    let mut setting = Setting::new();
    setting.leave();
    setting.post();
    setting.ask(kind::READ, 0);
    lock(&setting.shared).started -= Duration::from_millis(1);
    work_on(&setting.shared);
    let mut nic = lock(&setting.shared);
    assert!(!nic.left_to_calls.1 && !nic.foresight.expects());
    nic.foresight.came_to_call();
    assert!(!nic.foresight.expects());
    drop(nic);
    assert!(setting.rings());
}
