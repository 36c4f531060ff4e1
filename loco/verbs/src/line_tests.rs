//! Tests the line of operations without a device.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;

use loco_fabric::FabricError;

use super::*;

/// A request that the device was given.
#[derive(Clone, Copy)]
struct Given {
    wr_id: u64,
    flags: u32,
    is_barrier: bool,
}

thread_local! {
    /// What the device was given.
    static POSTED: RefCell<Vec<Given>> = const { RefCell::new(Vec::new()) };
}

/// Plays a device that takes everything.
unsafe extern "C" fn take(_qp: *mut Qp, wr: *mut SendWr, _bad: *mut *mut SendWr) -> std::ffi::c_int {
    // SAFETY: a live request.
    let wr = unsafe { &*wr };
    POSTED.with_borrow_mut(|posted| {
        posted.push(Given {
            wr_id: wr.wr_id,
            flags: wr.send_flags,
            is_barrier: wr.remote_addr == FLUSH.remote.0,
        })
    });
    0
}

/// Plays a device that takes nothing.
unsafe extern "C" fn refuse(_qp: *mut Qp, _wr: *mut SendWr, _bad: *mut *mut SendWr) -> std::ffi::c_int {
    libc::EIO
}

const FLUSH: Flush = Flush {
    remote: (64, 0),
    local: (0, 0),
    zero_length: false,
};

fn line(tier: Tier, fences_stall: bool, post_send: PostSend) -> (Line, Arc<AtomicUsize>) {
    let waiting = Arc::new(AtomicUsize::new(0));
    let exit = Exit {
        qp: ptr::null_mut(),
        post_send,
        flush: FLUSH,
        peer: NodeId(1),
    };
    (
        Line::new(Rules { tier, fences_stall }, exit, Arc::clone(&waiting)),
        waiting,
    )
}

fn request(op: Op) -> Request {
    let opcode = match op {
        Op::Put => IBV_WR_RDMA_WRITE,
        Op::Get => IBV_WR_RDMA_READ,
        Op::FetchAdd => IBV_WR_ATOMIC_FETCH_AND_ADD,
        Op::CompareSwap => IBV_WR_ATOMIC_CMP_AND_SWP,
        Op::Flush => return Request::read(FLUSH),
    };
    Request {
        op,
        opcode,
        remote_addr: 0,
        ..Request::read(FLUSH)
    }
}

const PLAIN: Asked = Asked {
    strong: false,
    fenced: false,
};
const STRONG: Asked = Asked {
    strong: true,
    fenced: false,
};
const FENCED: Asked = Asked {
    strong: false,
    fenced: true,
};

/// Returns the numbers that the device was given since the last call.
fn posted() -> Vec<u64> {
    POSTED.take().into_iter().map(|given| given.wr_id).collect()
}

#[test]
fn what_asks_for_nothing_passes_what_waits() {
    let (mut line, waiting) = line(Tier::OooAll, false, take);
    assert!(line.add(PLAIN, &request(Op::Put), 0, None));
    assert!(!line.add(STRONG, &request(Op::Put), 1, Some(&[7; 8])));
    assert!(line.add(PLAIN, &request(Op::Get), 2, None));
    assert_eq!(waiting.load(Ordering::Relaxed), 1);
    line.ended(2);
    line.hand_on().unwrap();
    assert_eq!((posted(), line.take_ended().is_none()), (vec![], true));
    line.ended(0);
    line.hand_on().unwrap();
    assert_eq!((posted(), waiting.load(Ordering::Relaxed)), (vec![1], 0));
    assert_eq!(line.take_ended().unwrap().0, 0);
    assert!(line.take_ended().is_none(), "the get is reported after the put");
    line.ended(1);
    assert_eq!([1, 2].map(|_| line.take_ended().unwrap().0), [1, 2]);
}

/// The put that waits reads its data later, and must not find the result of the get there.
#[test]
fn a_result_does_not_pass_a_put_whose_data_is_still_to_be_read() {
    let (mut line, waiting) = line(Tier::OooRw, false, take);
    assert!(line.add(PLAIN, &request(Op::Put), 0, None));
    assert!(!line.add(STRONG, &request(Op::Put), 1, None));
    assert!(!line.add(PLAIN, &request(Op::Get), 2, None));
    assert!(line.add(PLAIN, &request(Op::Put), 3, None));
    line.ended(0);
    line.hand_on().unwrap();
    assert_eq!((posted(), waiting.load(Ordering::Relaxed)), (vec![1, 2], 0));
}

#[test]
fn an_atomic_of_ooo_rw_waits_only_for_writes_that_the_card_lacks() {
    let (mut line, _) = line(Tier::OooRw, false, take);
    assert!(line.add(PLAIN, &request(Op::Put), 0, None));
    assert!(line.add(STRONG, &request(Op::FetchAdd), 1, None));
    assert!(!line.add(STRONG, &request(Op::Put), 2, None));
    assert!(!line.add(STRONG, &request(Op::FetchAdd), 3, None));
    line.ended(0);
    line.ended(1);
    line.hand_on().unwrap();
    assert_eq!(posted(), [2, 3], "in this order, since the card keeps it");
}

#[test]
fn a_fence_waits_for_a_result_that_is_held_and_on_a_device_without_fences_for_all() {
    for (stalls, waits) in [(false, false), (true, true)] {
        let (mut line, _) = line(Tier::OooAll, stalls, take);
        line.add(PLAIN, &request(Op::Get), 0, None);
        assert_eq!(!line.add(FENCED, &request(Op::Put), 1, None), waits);
    }
    let (mut line, _) = line(Tier::OooAll, false, take);
    line.add(PLAIN, &request(Op::Put), 0, None);
    assert!(!line.add(STRONG, &request(Op::Get), 1, None));
    assert!(!line.add(FENCED, &request(Op::Put), 2, None));
    line.ended(0);
    line.hand_on().unwrap();
    let fences: Vec<_> = POSTED
        .take()
        .into_iter()
        .map(|given| (given.wr_id, given.flags & IBV_SEND_FENCE != 0))
        .collect();
    assert_eq!(fences, [(1, false), (2, true)]);
}

#[test]
fn where_the_bus_reorders_a_strong_operation_sends_one_barrier() {
    let (mut line, _) = line(Tier::PcieRelaxed, false, take);
    assert!(
        line.add(STRONG, &request(Op::Put), 0, None),
        "nothing to wait for"
    );
    assert!(!line.add(STRONG, &request(Op::Put), 1, None));
    line.ended(0);
    let handed_on = |line: &mut Line| {
        line.hand_on().unwrap();
        let given = POSTED.take().into_iter();
        given
            .map(|given| (given.wr_id, given.is_barrier))
            .collect::<Vec<_>>()
    };
    assert_eq!(handed_on(&mut line), [(1, true)]);
    line.ended(1);
    assert_eq!(handed_on(&mut line), [(1, false)]);
    assert_eq!(line.take_ended().unwrap().0, 0);
    assert!(line.take_ended().is_none());
    line.ended(1);
    assert_eq!(line.take_ended().unwrap().0, 1);
    // A flush is a barrier itself, after which a strong operation needs none.
    assert!(line.add(STRONG, &Request::barrier(FLUSH), 2, None));
    line.ended(2);
    assert!(line.add(STRONG, &request(Op::Get), 3, None));
}

#[test]
fn a_refusal_and_the_end_of_the_queue_pair_fail_what_waits_once() {
    let (mut line, waiting) = line(Tier::OooAll, false, refuse);
    line.add(PLAIN, &request(Op::Put), 0, None);
    line.add(STRONG, &request(Op::Put), 1, None);
    line.add(STRONG, &request(Op::Put), 2, None);
    line.ended(0);
    assert!(line.hand_on().is_err());
    line.fail_held(|_| FabricError::PeerLost(NodeId(1)));
    let reports: Vec<_> = std::iter::from_fn(|| line.take_ended()).collect();
    let failed: Vec<_> = reports
        .iter()
        .map(|(sequence, error)| (*sequence, error.is_some()))
        .collect();
    assert_eq!(failed, [(0, false), (1, true), (2, true)]);
    assert_eq!(waiting.load(Ordering::Relaxed), 0);
}

/// A generator of numbers below a limit.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Random operations, ended in random order by the device: what asks is given to the device after what it waits for and
/// nothing else waits, and everything is reported once, in order.
#[test]
fn requests_are_kept_and_nothing_else_waits() {
    for seed in 0..2000 {
        let mut dice = Dice(seed);
        let tier = [Tier::OooRw, Tier::OooAll, Tier::PcieRelaxed][dice.roll(3) as usize];
        let stalls = dice.roll(2) == 0;
        let (mut line, waiting) = line(tier, stalls, take);
        let (mut ops, mut under_way, mut ended, mut reported) = (vec![], vec![], vec![], 0);
        let mut placed = 0; // On `pcie-relaxed`: the writes before it are placed.
        let mut given = vec![];
        let mut has = vec![]; // Whether the device has been given the operation itself.
        let (mut step, steps) = (0, 40);
        while step < steps || !under_way.is_empty() {
            step += 1;
            if step < steps && dice.roll(2) == 0 {
                let op = Op::ALL[dice.roll(4) as usize];
                let asked = [PLAIN, STRONG, FENCED][dice.roll(3) as usize];
                let number = ops.len() as u64;
                ops.push((op, asked));
                ended.push(false);
                let unread = (ops.iter().zip(&has)).any(|((op, _), has)| *op == Op::Put && !has);
                has.push(false);
                let goes = line.add(asked, &request(op), number, None);
                assert!(
                    goes || asked.strong || asked.fenced || op.has_result() && unread,
                    "seed {seed}: {number} did not ask"
                );
                match goes {
                    true => given.push((number, false)),
                    false => line.hand_on().unwrap(),
                }
            } else if !under_way.is_empty() {
                let (number, barrier): (u64, bool) =
                    under_way.swap_remove(dice.roll(under_way.len() as u64) as usize);
                assert_eq!(line.under_way(number, u64::MAX).unwrap().0, number);
                line.ended(number);
                let number = usize::try_from(number).unwrap();
                ended[number] |= !barrier;
                placed = if barrier { placed.max(number) } else { placed };
                line.hand_on().unwrap();
            }
            given.extend(
                POSTED
                    .take()
                    .into_iter()
                    .map(|given| (given.wr_id, given.is_barrier)),
            );
            for (number, barrier) in given.drain(..) {
                let at = usize::try_from(number).unwrap();
                let (op, asked) = ops[at];
                let strong = asked.strong && !(tier == Tier::OooRw && op.is_atomic());
                has[at] |= !barrier;
                for earlier in 0..at {
                    let unread = ops[earlier].0 == Op::Put && !has[earlier];
                    assert!(
                        barrier || !(op.has_result() && unread),
                        "seed {seed}: the result of {number} before the data of {earlier} is read"
                    );
                    let lacks = !ended[earlier];
                    assert!(
                        !(strong && ops[earlier].0.writes() && lacks),
                        "seed {seed}: {number} after {earlier}"
                    );
                    let bus = strong && tier == Tier::PcieRelaxed && !barrier && ops[earlier].0.writes();
                    assert!(
                        !bus || earlier < placed,
                        "seed {seed}: {number} passes {earlier} on the bus"
                    );
                    let result = asked.fenced && stalls && ops[earlier].0.has_result();
                    assert!(
                        !(result && lacks),
                        "seed {seed}: {number} after the result of {earlier}"
                    );
                }
                under_way.push((number, barrier));
            }
            while let Some((sequence, error)) = line.take_ended() {
                assert_eq!((sequence, error.is_none()), (reported, true), "seed {seed}");
                assert!(ended[usize::try_from(sequence).unwrap()]);
                reported += 1;
            }
        }
        assert_eq!(reported, ops.len() as u64, "seed {seed}: all are reported");
        assert_eq!(waiting.load(Ordering::Relaxed), 0);
    }
}
