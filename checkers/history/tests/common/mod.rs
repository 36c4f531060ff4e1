//! Generates histories from sequential executions, and checks histories by trying every order.
#![allow(dead_code, clippy::unwrap_used)]

use std::collections::{HashMap, VecDeque};

use loco_history::spec::*;
use loco_history::{History, Operation, Outcome, Report, Spec, ThreadId};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// A real sequential object, written without the specification.
pub trait Object: Default {
    type S: Spec<Call: Clone, Ret: Clone + PartialEq>;
    fn spec() -> Self::S;
    fn call(rng: &mut StdRng) -> <Self::S as Spec>::Call;
    fn run(&mut self, call: &<Self::S as Spec>::Call) -> <Self::S as Spec>::Ret;
    /// Returns whether a correct program would make this call now.
    fn may(&self, _call: &<Self::S as Spec>::Call) -> bool {
        true
    }
}

pub type HistoryOf<O> = History<<<O as Object>::S as Spec>::Call, <<O as Object>::S as Spec>::Ret>;

#[derive(Default)]
pub struct RegisterObject(u8);
impl Object for RegisterObject {
    type S = Register<u8>;
    fn spec() -> Register<u8> {
        Register::new(0)
    }
    fn call(rng: &mut StdRng) -> RegisterCall<u8> {
        if rng.random() {
            RegisterCall::Read
        } else {
            RegisterCall::Write(rng.random_range(0..4))
        }
    }
    fn run(&mut self, call: &RegisterCall<u8>) -> RegisterRet<u8> {
        match *call {
            RegisterCall::Read => RegisterRet::Value(self.0),
            RegisterCall::Write(value) => {
                self.0 = value;
                RegisterRet::Written
            }
        }
    }
}

#[derive(Default)]
pub struct AtomicObject(u64);
impl Object for AtomicObject {
    type S = Atomic;
    fn spec() -> Atomic {
        Atomic::new(0)
    }
    fn call(rng: &mut StdRng) -> AtomicCall {
        let value = rng.random_range(0..3);
        match rng.random_range(0..5) {
            0 => AtomicCall::Read,
            1 => AtomicCall::Write(value),
            2 => AtomicCall::FetchAdd(value),
            3 => AtomicCall::CompareSwap {
                expected: rng.random_range(0..3),
                new: value,
            },
            _ => AtomicCall::Swap(value),
        }
    }
    fn run(&mut self, call: &AtomicCall) -> AtomicRet {
        let old = self.0;
        match *call {
            AtomicCall::Read => {}
            AtomicCall::Write(value) => {
                self.0 = value;
                return AtomicRet::Written;
            }
            AtomicCall::FetchAdd(add) => self.0 += add,
            AtomicCall::CompareSwap { expected, new } => {
                if old == expected {
                    self.0 = new;
                }
            }
            AtomicCall::Swap(value) => self.0 = value,
        }
        AtomicRet::Value(old)
    }
}

#[derive(Default)]
pub struct QueueObject(VecDeque<u8>, bool);
impl Object for QueueObject {
    type S = Queue<u8>;
    fn spec() -> Queue<u8> {
        Queue::bounded(2)
    }
    fn call(rng: &mut StdRng) -> QueueCall<u8> {
        match rng.random_range(0..20) {
            0 => QueueCall::Close,
            1..=10 => QueueCall::Push(rng.random_range(0..4)),
            _ => QueueCall::Pop,
        }
    }
    fn run(&mut self, call: &QueueCall<u8>) -> QueueRet<u8> {
        match *call {
            QueueCall::Push(_) if self.1 => QueueRet::Closed,
            QueueCall::Push(_) if self.0.len() == 2 => QueueRet::Full,
            QueueCall::Push(value) => {
                self.0.push_back(value);
                QueueRet::Pushed
            }
            QueueCall::Pop => match self.0.pop_front() {
                Some(value) => QueueRet::Popped(value),
                None if self.1 => QueueRet::Closed,
                None => QueueRet::Empty,
            },
            QueueCall::Close => {
                self.1 = true;
                QueueRet::Closed
            }
        }
    }
}

/// Owner 9 is dead: the lock may be recovered from it.
#[derive(Default)]
pub struct LockObject(Option<u32>);
impl Object for LockObject {
    type S = Lock;
    fn spec() -> Lock {
        Lock {
            dead: [9].into(),
            spurious_failure: false,
        }
    }
    fn call(rng: &mut StdRng) -> LockCall {
        let owner = if rng.random_ratio(1, 8) {
            9
        } else {
            rng.random_range(0..3)
        };
        match rng.random_range(0..3) {
            0 => LockCall::Acquire { owner },
            1 => LockCall::TryAcquire { owner },
            _ => LockCall::Release { owner },
        }
    }
    fn run(&mut self, call: &LockCall) -> LockRet {
        match (*call, self.0) {
            (LockCall::Acquire { owner } | LockCall::TryAcquire { owner }, None) => {
                self.0 = Some(owner);
                LockRet::Acquired
            }
            (LockCall::Acquire { owner } | LockCall::TryAcquire { owner }, Some(9)) => {
                self.0 = Some(owner);
                LockRet::Recovered
            }
            (LockCall::Acquire { .. }, Some(_)) => LockRet::GaveUp,
            (LockCall::TryAcquire { .. }, Some(_)) => LockRet::Busy,
            (LockCall::Release { .. }, _) => {
                self.0 = None;
                LockRet::Released
            }
        }
    }
    fn may(&self, call: &LockCall) -> bool {
        !matches!(*call, LockCall::Release { owner } if self.0 != Some(owner))
    }
}

#[derive(Default)]
pub struct KeyValueObject(HashMap<u8, u8>);
impl Object for KeyValueObject {
    type S = KeyValue<u8, u8>;
    fn spec() -> KeyValue<u8, u8> {
        KeyValue::new()
    }
    fn call(rng: &mut StdRng) -> KeyValueCall<u8, u8> {
        let (key, value) = (rng.random_range(0..2), rng.random_range(0..4));
        match rng.random_range(0..5) {
            0 => KeyValueCall::Insert(key, value),
            1 => KeyValueCall::Update(key, value),
            2 => KeyValueCall::Delete(key),
            _ => KeyValueCall::Get(key),
        }
    }
    fn run(&mut self, call: &KeyValueCall<u8, u8>) -> KeyValueRet<u8> {
        match *call {
            KeyValueCall::Get(key) => self
                .0
                .get(&key)
                .map_or(KeyValueRet::Missing, |&v| KeyValueRet::Found(v)),
            KeyValueCall::Insert(key, _) if self.0.contains_key(&key) => KeyValueRet::Duplicate,
            KeyValueCall::Insert(key, value) => {
                self.0.insert(key, value);
                KeyValueRet::Done
            }
            KeyValueCall::Update(key, value) => match self.0.get_mut(&key) {
                Some(slot) => {
                    *slot = value;
                    KeyValueRet::Done
                }
                None => KeyValueRet::Missing,
            },
            KeyValueCall::Delete(key) => match self.0.remove(&key) {
                Some(_) => KeyValueRet::Done,
                None => KeyValueRet::Missing,
            },
        }
    }
}

/// Shape of a generated history.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub operations: usize,
    /// The distance that an interval reaches from the point where the operation took effect, in operations.
    pub reach: u64,
    /// The percentage of operations that lose their response, and of others that never took effect.
    pub pending_percent: u32,
}

/// Returns a history of `operations` calls that took effect one after the other, with intervals around these
/// points.
pub fn generate<O: Object>(rng: &mut StdRng, shape: Shape) -> HistoryOf<O> {
    let mut object = O::default();
    let mut operations: Vec<Operation<_, _>> = Vec::new();
    for number in 0..shape.operations as u64 {
        let point = (number + shape.reach) * 10;
        let reach = shape.reach * 10;
        let (invoked, responded) = (
            point - rng.random_range(0..=reach),
            point + rng.random_range(0..=reach),
        );
        let call = std::iter::repeat_with(|| O::call(rng))
            .find(|call| object.may(call))
            .unwrap();
        let before = rng.random_ratio(shape.pending_percent, 100).then(|| O::call(rng));
        if let Some(call) = before {
            operations.push(Operation::pending(ThreadId::default(), call, invoked));
        }
        let result = object.run(&call);
        operations.push(if rng.random_ratio(shape.pending_percent, 100) {
            Operation::pending(ThreadId::default(), call, invoked)
        } else {
            Operation::new(ThreadId::default(), call, invoked, result, responded)
        });
    }
    assign_threads(&mut operations);
    History::from(operations)
}

/// Gives each operation the first thread that is idle, as if that thread had called it.
fn assign_threads<C, R>(operations: &mut [Operation<C, R>]) {
    let mut order: Vec<usize> = (0..operations.len()).collect();
    order.sort_by_key(|&i| operations[i].invoked);
    let mut busy_until: Vec<u64> = Vec::new();
    for i in order {
        let operation = &mut operations[i];
        let idle = busy_until.iter().position(|&until| until < operation.invoked);
        let thread = idle.unwrap_or_else(|| {
            busy_until.push(0);
            busy_until.len() - 1
        });
        busy_until[thread] = operation.response.as_ref().map_or(u64::MAX, |r| r.at);
        operation.thread = ThreadId {
            node: thread as u16 % 2,
            thread: thread as u16 / 2,
        };
    }
}

/// Exchanges results, replaces them by those of other calls, or moves an interval.
pub fn mutate<O: Object>(rng: &mut StdRng, history: &mut HistoryOf<O>) {
    let count = history.len();
    let (a, b) = (rng.random_range(0..count), rng.random_range(0..count));
    match rng.random_range(0..3) {
        0 => {
            let result = history.operations[b].result().cloned();
            if let (Some(response), Some(result)) = (&mut history.operations[a].response, result) {
                response.result = result;
            }
        }
        1 => {
            let mut object = O::default();
            for _ in 0..rng.random_range(0..4) {
                object.run(&O::call(rng));
            }
            let operation = &mut history.operations[a];
            if let Some(response) = &mut operation.response {
                response.result = object.run(&operation.call);
            }
        }
        _ => {
            let operation = &mut history.operations[a];
            let by = rng.random_range(0..40);
            operation.invoked += by;
            if let Some(response) = &mut operation.response {
                response.at = response.at.max(operation.invoked);
            }
        }
    }
}

/// Tries every order of every subset that contains the completed operations. No partitions, no memo.
pub fn brute_force<S: Spec>(spec: &S, history: &History<S::Call, S::Ret>) -> bool {
    let mut states: HashMap<String, Vec<S::State>> = HashMap::new();
    for operation in &history.operations {
        let key = spec.partition(&operation.call);
        states
            .entry(key.to_string())
            .or_insert_with(|| vec![spec.initial(&key)]);
    }
    let mut placed = vec![false; history.len()];
    extend(spec, history, &mut placed, &states)
}

fn extend<S: Spec>(
    spec: &S,
    history: &History<S::Call, S::Ret>,
    placed: &mut [bool],
    states: &HashMap<String, Vec<S::State>>,
) -> bool {
    let all = &history.operations;
    if all
        .iter()
        .zip(placed.iter())
        .all(|(op, placed)| *placed || op.response.is_none())
    {
        return true;
    }
    (0..all.len()).any(|i| {
        let before = |j: usize| !placed[j] && all[j].precedes(&all[i]);
        if placed[i] || (0..all.len()).any(before) {
            return false;
        }
        let key = spec.partition(&all[i].call).to_string();
        let mut next = Vec::new();
        for state in &states[&key] {
            spec.step(state, &all[i].call, all[i].result(), &mut next);
        }
        if next.is_empty() {
            return false;
        }
        let mut states = states.clone();
        states.insert(key, next);
        placed[i] = true;
        let found = extend(spec, history, placed, &states);
        placed[i] = false;
        found
    })
}

/// Checks that every order in the report is legal and agrees with the history.
pub fn assert_orders_hold<S: Spec>(spec: &S, history: &History<S::Call, S::Ret>, report: &Report<'_, S>) {
    let all = &history.operations;
    for part in &report.partitions {
        let mut orders: Vec<&Vec<usize>> = part.partials.iter().collect();
        match &part.outcome {
            Outcome::Ok { witness } => {
                for &i in &part.operations {
                    assert!(
                        all[i].response.is_none() || witness.contains(&i),
                        "{i} is missing in the witness"
                    );
                }
                orders.push(witness);
            }
            Outcome::Violation { longest, blocked } | Outcome::Unknown { longest, blocked, .. } => {
                orders.push(longest);
                if let Some(blocked) = blocked {
                    let end = all[blocked.operation].response.as_ref().map(|r| r.at).unwrap();
                    assert!(!blocked.explained.contains(&blocked.operation));
                    for &i in &part.operations {
                        let earlier = all[i].response.as_ref().is_some_and(|r| r.at < end);
                        assert!(!earlier || blocked.explained.contains(&i), "{i} is not explained");
                    }
                    orders.push(&blocked.explained);
                }
            }
        }
        for order in orders {
            let mut states = vec![spec.initial(&part.key)];
            for (place, &i) in order.iter().enumerate() {
                assert!(!order[..place].contains(&i), "{i} is placed twice");
                for &later in &order[place + 1..] {
                    assert!(!all[later].precedes(&all[i]), "{later} precedes {i}");
                }
                let mut next = Vec::new();
                for state in &states {
                    spec.step(state, &all[i].call, all[i].result(), &mut next);
                }
                assert!(!next.is_empty(), "{i} is not legal where the order has it");
                states = next;
            }
        }
    }
}

pub fn rng(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}
