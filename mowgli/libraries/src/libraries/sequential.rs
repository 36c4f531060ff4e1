//! Objects that behave as if one call happened after the other (ours): atomic variables, locks, shared
//! queues, and key-value stores.
//!
//! `so` is a total order of the object's calls. In this order each call returns what it returns in a
//! sequential run. The order relates every subevent of a call to every subevent of the next. Stamps say what
//! else a call orders:
//!
//! | call | stamps | so |
//! |---|---|---|
//! | read-modify-writes, writes, pushes, pops, inserts, .. | `aCAS` | CPU stores before are placed before, earlier puts need not be; everything later is later |
//! | reads of an atomic variable, lookups | `aCR` | they may overtake the thread's earlier CPU stores |
//! | `lock`, successful `try_lock` | `aCAS` | |
//! | `unlock` | `aGF_n` for all `n`, `aCW` | what the holder did anywhere is placed before the next holder has the lock |
//! | `unlock_unfenced` | `aCW` | only the holder's CPU stores are |
//! | failing `try_lock` | `aWT` | in no order: it may fail without a reason |

use std::collections::{BTreeMap, VecDeque};

use crate::client::{Client, Library, Method, Node, NodeSet, ObjectKind};
use crate::event::{Arg, Event, Loc, Stamp, StampKind};
use crate::execution::{Flow, Graph, State};
use crate::library::{Effect, Next, Specification, initial};
use crate::past::Past;
use crate::value::{BOTTOM, Value};

/// The specification of one of these libraries.
#[derive(Clone, Copy, Debug)]
pub struct Sequential {
    /// The library: atomic variables, locks, queues or stores.
    pub library: Library,
}

/// The state of an object between two calls.
#[derive(Clone, Debug)]
enum Object {
    Atomic(i64),
    Lock(Option<u8>),
    Queue {
        size: usize,
        values: VecDeque<i64>,
        closed: bool,
    },
    Store(BTreeMap<i64, i64>),
}

impl Object {
    fn new(client: &Client, loc: Loc) -> Option<Object> {
        Some(match client.object(loc.client_object()?).kind {
            ObjectKind::Atomic { .. } => Object::Atomic(initial(client, loc).number()),
            ObjectKind::Lock { .. } => Object::Lock(None),
            ObjectKind::Queue { size, .. } => Object::Queue {
                size: size as usize,
                values: VecDeque::new(),
                closed: false,
            },
            ObjectKind::Store => Object::Store(BTreeMap::new()),
            _ => return None,
        })
    }

    /// Makes a call, and returns its result. Returns `None` if it would wait for ever, or if the thread may
    /// not make it.
    fn call(&mut self, e: &Event) -> Option<Value> {
        let number = |at: usize| e.value(at).number();
        let unit = Some(Value::Unit);
        match (self, e.method) {
            (Object::Atomic(word), method) => {
                let old = *word;
                match method {
                    Method::ReadAtomic => return Some(Value::Int(old)),
                    Method::WriteAtomic => {
                        *word = number(1);
                        return unit;
                    }
                    Method::SwapAtomic => *word = number(1),
                    Method::CasAtomic if old == number(1) => *word = number(2),
                    Method::CasAtomic => {}
                    _ => *word = old.wrapping_add(number(1)),
                }
                Some(Value::Int(old))
            }
            (Object::Lock(holder), Method::Lock | Method::TryLock) => {
                holder.is_none().then(|| *holder = Some(e.thread))?;
                Some(if e.method == Method::TryLock {
                    Value::Bool(true)
                } else {
                    Value::Unit
                })
            }
            (Object::Lock(holder), _) => {
                (*holder == Some(e.thread)).then(|| *holder = None)?;
                unit
            }
            (Object::Queue { size, values, closed }, method) => match method {
                Method::PushQueue => {
                    let room = values.len() < *size && !*closed;
                    if room {
                        values.push_back(number(1));
                    }
                    Some(Value::Bool(room))
                }
                Method::PopQueue => Some(values.pop_front().map_or(BOTTOM, Value::Int)),
                _ => {
                    *closed = true;
                    unit
                }
            },
            (Object::Store(map), method) => {
                let key = number(1);
                let there = map.contains_key(&key);
                match method {
                    Method::GetKv => return Some(map.get(&key).map_or(BOTTOM, |v| Value::Int(*v))),
                    Method::InsertKv if !there => drop(map.insert(key, number(2))),
                    Method::UpdateKv if there => drop(map.insert(key, number(2))),
                    Method::DeleteKv => drop(map.remove(&key)),
                    _ => {}
                }
                Some(Value::Bool(there != (method == Method::InsertKv)))
            }
        }
    }
}

fn is_ordered(e: &Event) -> bool {
    !(e.method == Method::TryLock && e.result == Value::Bool(false))
}

impl Specification for Sequential {
    fn library(&self) -> Library {
        self.library
    }

    fn stamps(&self, client: &Client, e: &Event) -> Option<Vec<Stamp>> {
        let cpu = |kind| Some(vec![Stamp::cpu(kind)]);
        match e.method {
            Method::ReadAtomic | Method::GetKv => cpu(StampKind::Cr),
            Method::TryLock if !is_ordered(e) => cpu(StampKind::Wt),
            Method::Unlock => {
                let nodes = NodeSet::all(client.nodes);
                let fence = nodes.iter().map(|n: Node| Stamp::at(StampKind::Gf, n));
                Some(fence.chain([Stamp::cpu(StampKind::Cw)]).collect())
            }
            Method::UnlockUnfenced => cpu(StampKind::Cw),
            _ => cpu(StampKind::Cas),
        }
    }

    fn order(&self, g: &Graph<'_>, state: &mut State<'_>, next: Next<'_>) -> Flow {
        let mut objects: Vec<(Loc, Vec<usize>)> = Vec::new();
        for e in g.of_library(self.library).filter(|&e| is_ordered(&g.events[e])) {
            let Some(loc) = g.events[e].loc(0) else { continue };
            match objects.iter_mut().find(|(l, _)| *l == loc) {
                Some((_, calls)) => calls.push(e),
                None => objects.push((loc, vec![e])),
            }
        }
        each_object(g, &objects, state, next)
    }

    fn results(&self, past: &Past<'_>, method: Method, args: &[Arg]) -> Vec<Value> {
        let Some(Arg::Loc(x)) = args.first() else {
            return vec![Value::Unit];
        };
        match method {
            Method::ReadAtomic | Method::SwapAtomic | Method::CasAtomic | Method::FaaAtomic => {
                past.read(*x, initial(past.client, *x))
            }
            Method::PopQueue | Method::GetKv => {
                let mut out = past.written(*x);
                out.push(BOTTOM);
                out
            }
            Method::PushQueue | Method::TryLock | Method::InsertKv | Method::UpdateKv | Method::DeleteKv => {
                vec![Value::Bool(true), Value::Bool(false)]
            }
            _ => vec![Value::Unit],
        }
    }

    fn effects(&self, _past: &Past<'_>, e: &Event) -> Vec<Effect> {
        let Some(x) = e.loc(0) else { return Vec::new() };
        let value = match e.method {
            Method::WriteAtomic | Method::SwapAtomic | Method::PushQueue => e.value(1),
            Method::CasAtomic | Method::InsertKv | Method::UpdateKv => e.value(2),
            Method::FaaAtomic => Value::Int(e.result.number().wrapping_add(e.value(1).number())),
            _ => return Vec::new(),
        };
        vec![Effect::Place(x, value)]
    }
}

/// Orders the calls of one object after the other.
fn each_object(g: &Graph<'_>, objects: &[(Loc, Vec<usize>)], state: &mut State<'_>, next: Next<'_>) -> Flow {
    let Some(((loc, calls), rest)) = objects.split_first() else {
        return next(state);
    };
    let Some(object) = Object::new(g.client, *loc) else {
        return Flow::Continue;
    };
    linearise(g, &object, calls, None, state, &mut |state| {
        each_object(g, rest, state, next)
    })
}

/// Tries every order of the calls that happens-before and the results allow. `last` is the call before them.
fn linearise(
    g: &Graph<'_>,
    object: &Object,
    calls: &[usize],
    last: Option<usize>,
    state: &mut State<'_>,
    next: Next<'_>,
) -> Flow {
    if calls.is_empty() {
        return next(state);
    }
    for &first in calls {
        let others: Vec<usize> = calls.iter().copied().filter(|&e| e != first).collect();
        let before = |a: usize, b: usize| g.of_event(a).any(|s| g.of_event(b).any(|t| state.hb.has(s, t)));
        if others.iter().any(|&e| g.po(e, first) || before(e, first)) {
            continue;
        }
        let mut after = object.clone();
        if after.call(&g.events[first]).as_ref() != Some(&g.events[first].result) {
            continue;
        }
        let flow = state.attempt(|state| {
            let ordered = last.is_none_or(|last| {
                let pairs = g
                    .of_event(last)
                    .flat_map(|a| g.of_event(first).map(move |b| (a, b)));
                pairs
                    .collect::<Vec<_>>()
                    .into_iter()
                    .all(|(a, b)| state.order(a, b, "order"))
            });
            if ordered {
                linearise(g, &after, &others, Some(first), state, next)
            } else {
                Flow::Continue
            }
        });
        if flow == Flow::Stop {
            return flow;
        }
    }
    Flow::Continue
}
