//! Runs one thread of a client: its calls are calls of the shipped objects.
//!
//! The thread notes each call with its result, so that reports show them, and its registers at the end. Its actions
//! depend only on the results of the objects, as the model fabric demands.

mod calls;

use std::collections::{BTreeMap, BTreeSet};

use loco::fabric::{Fabric as _, Local, Memory as _, NodeId, Target, WordCell as _};
use loco::fence::{self, Scope};
use loco::raw::{Flags, Operation};
use loco::{AckKey, LockGuard, Result, TasLock, Thread, TicketLock};
use loco_sim::note;
use mowgli_libraries::client::{
    Arg, Call, Client, Library, Method, Node, NodeSet, ObjectId, ObjectKind, Stmt, WorkId,
};
use mowgli_libraries::value::{BOTTOM, Value};

use super::objects::{Bound, Objects, Seat, Site, WORD_BYTES, node_id};
use crate::stage::Fabric;

/// The beginning of the note with a thread's registers.
pub(super) const REGISTERS: &str = "registers ";
/// The note of a thread that makes a call which never returns by its specification.
pub(super) const NEVER_RETURNS: &str = "makes a call that never returns";
/// The note of a thread whose loop takes more iterations than are considered.
pub(super) const CUT: &str = "needs more iterations of a loop";

/// The reason that a thread stops before the end of its code.
enum Stop {
    NeverReturns,
    Cut,
    Failed(loco::Error),
}

impl<E: Into<loco::Error>> From<E> for Stop {
    fn from(error: E) -> Stop {
        Stop::Failed(error.into())
    }
}

/// A lock that the thread holds.
enum Held<'a> {
    Ticket(LockGuard<'a, TicketLock<Fabric>, Fabric>),
    Tas(LockGuard<'a, TasLock<Fabric>, Fabric>),
}

impl Held<'_> {
    fn release(self, scope: Scope) -> Result<()> {
        match self {
            Held::Ticket(mut guard) => {
                guard.set_scope(scope);
                guard.release()
            }
            Held::Tas(mut guard) => {
                guard.set_scope(scope);
                guard.release()
            }
        }
    }
}

struct Interpreter<'a> {
    client: &'a Client,
    number: usize,
    objects: &'a Objects,
    thread: &'a Thread<Fabric>,
    iterations_max: u32,
    writers: BTreeMap<ObjectId, loco::RingWriter<Fabric>>,
    readers: BTreeMap<ObjectId, loco::RingReader<Fabric>>,
    registers: Vec<Value>,
    /// The operations that a wait of the library waits for.
    keys: BTreeMap<(Library, WorkId), AckKey<Fabric>>,
    /// The identifiers that some wait names. Operations with other identifiers are posted without a key where possible.
    awaited: BTreeSet<(Library, WorkId)>,
    /// The nodes towards which the next operation is fenced.
    fenced: BTreeSet<Node>,
    held: BTreeMap<ObjectId, Held<'a>>,
}

/// Runs thread `number` of the client on its node. Panics on an error of an object, which is a finding.
pub(super) fn run(client: &Client, number: usize, site: &Site, iterations_max: u32) {
    let Some(seat) = site.take(number) else {
        return;
    };
    let Seat {
        thread,
        writers,
        readers,
    } = seat;
    let mut awaited = BTreeSet::new();
    client.for_each_call(&mut |of, call| {
        if usize::from(of.0) == number && is_wait(call.method) {
            awaited.extend(work(call).map(|work| (call.method.library(), work)));
        }
    });
    let code = &client.threads[number];
    let mut interpreter = Interpreter {
        client,
        number,
        objects: &site.objects,
        thread: &thread,
        iterations_max,
        writers,
        readers,
        registers: vec![Value::Int(0); code.registers.len()],
        keys: BTreeMap::new(),
        awaited,
        fenced: BTreeSet::new(),
        held: BTreeMap::new(),
    };
    match interpreter.body(&code.body) {
        // Serializing the values does not fail.
        Ok(_) => note(format!(
            "{REGISTERS}{}",
            serde_json::to_string(&interpreter.registers).unwrap_or_default()
        )),
        Err(Stop::NeverReturns) => note(NEVER_RETURNS),
        Err(Stop::Cut) => note(CUT),
        Err(Stop::Failed(error)) => panic!("{error}"),
    }
    // A client that ends keeps the locks that it holds.
    for held in std::mem::take(&mut interpreter.held).into_values() {
        std::mem::forget(held);
    }
    interpreter.keys.into_values().for_each(AckKey::forget);
}

fn is_wait(method: Method) -> bool {
    use Method::{Wait, WaitMsv, WaitMsw, WaitOwned, WaitSst, WaitSv};
    matches!(method, Wait | WaitSv | WaitMsw | WaitMsv | WaitOwned | WaitSst)
}

fn work(call: &Call) -> Option<WorkId> {
    call.args.iter().find_map(|arg| match arg {
        Arg::Work(work) => Some(*work),
        _ => None,
    })
}

impl<'a> Interpreter<'a> {
    /// Runs statements to their end or to a break. Returns the number of loops to leave.
    fn body(&mut self, body: &[Stmt]) -> std::result::Result<u32, Stop> {
        for stmt in body {
            let left = match stmt {
                Stmt::Call { result, call } => {
                    let value = self.call(call)?;
                    let text = self.client.call(&self.client.threads[self.number], call);
                    match call.method.signature().returns {
                        true => note(format!("{text} = {value}")),
                        false => note(text),
                    }
                    if let Some(reg) = result {
                        self.registers[usize::from(reg.0)] = value;
                    }
                    0
                }
                Stmt::Assign { reg, value } => {
                    self.registers[usize::from(reg.0)] = value.eval(&self.registers);
                    0
                }
                Stmt::If {
                    cond,
                    then,
                    otherwise,
                } => match cond.eval(&self.registers).truth() {
                    true => self.body(then)?,
                    false => self.body(otherwise)?,
                },
                Stmt::Loop(body) => self.repeat(body)?,
                Stmt::Break(levels) => *levels,
            };
            if left > 0 {
                return Ok(left);
            }
        }
        Ok(0)
    }

    fn repeat(&mut self, body: &[Stmt]) -> std::result::Result<u32, Stop> {
        for _ in 0..self.iterations_max {
            let left = self.body(body)?;
            if left > 0 {
                return Ok(left - 1);
            }
        }
        Err(Stop::Cut)
    }

    fn call(&mut self, call: &Call) -> std::result::Result<Value, Stop> {
        let objects = self.objects;
        let first = call.objects().next();
        if let Some(Bound::Own(channel)) = first.map(|id| &objects.bound[usize::from(id.0)]) {
            let values: Vec<Value> = call
                .args
                .iter()
                .filter_map(|arg| match arg {
                    Arg::Value(e) => Some(e.eval(&self.registers)),
                    _ => None,
                })
                .collect();
            return Ok(channel.call(self.thread, call.method, &values)?);
        }
        match call.method.library() {
            Library::RdmaWait => self.on_words(call),
            Library::MixedSize | Library::MixedVariable => self.on_mixed(call),
            Library::Fence => self.fence(call),
            Library::Lock => self.lock(call),
            _ => self.on_object(call),
        }
    }

    fn object(&self, call: &Call, at: usize) -> ObjectId {
        match call.args.get(at) {
            Some(Arg::Object(object)) => *object,
            // Parsed and generated clients have the arguments of the signature.
            _ => ObjectId(0),
        }
    }

    fn value(&self, call: &Call, at: usize) -> Value {
        match call.args.get(at) {
            Some(Arg::Value(e)) => e.eval(&self.registers),
            _ => Value::Unit,
        }
    }

    fn number(&self, call: &Call, at: usize) -> u64 {
        self.value(call, at).number() as u64
    }

    fn nodes(&self, call: &Call) -> Vec<NodeId> {
        let set = call.args.iter().find_map(|arg| match arg {
            Arg::Nodes(nodes) => Some(*nodes),
            Arg::Node(node) => Some(NodeSet::default().with(*node)),
            _ => None,
        });
        set.unwrap_or_default().iter().map(node_id).collect()
    }

    /// Keeps the key for the wait that names the call's identifier, if there is one.
    fn keep(&mut self, call: &Call, key: AckKey<Fabric>) -> Value {
        let named = work(call).map(|work| (call.method.library(), work));
        match named.filter(|named| self.awaited.contains(named)) {
            Some(named) => self.keys.entry(named).or_insert_with(AckKey::done).unite(key),
            None => key.forget(),
        }
        Value::Unit
    }

    fn is_awaited(&self, call: &Call) -> bool {
        work(call).is_some_and(|work| self.awaited.contains(&(call.method.library(), work)))
    }

    fn wait(&mut self, call: &Call) -> std::result::Result<Value, Stop> {
        let named = work(call).map(|work| (call.method.library(), work));
        if let Some(key) = named.and_then(|named| self.keys.remove(&named)) {
            key.wait(self.thread)?;
        }
        Ok(Value::Unit)
    }

    /// Makes a call of RDMA^WAIT: CPU accesses of a region, and operations of the thread.
    fn on_words(&mut self, call: &Call) -> std::result::Result<Value, Stop> {
        let thread = self.thread;
        match call.method {
            Method::Mfence => {
                thread.fabric().cpu_fence();
                return Ok(Value::Unit);
            }
            Method::Wait => return self.wait(call),
            // Clients do not call these.
            Method::Poll | Method::SetIsEmpty => return Err(Stop::NeverReturns),
            Method::Rfence => {
                if let Some(Arg::Node(node)) = call.args.first() {
                    self.fenced.insert(*node);
                }
                return Ok(Value::Unit);
            }
            _ => {}
        }
        let objects = self.objects;
        let Some(words) = &objects.words else {
            return Err(Stop::NeverReturns);
        };
        let offset = |at: usize| usize::from(self.object(call, at).0) * WORD_BYTES;
        match call.method {
            Method::Write => {
                words.write(offset(0), &self.number(call, 1).to_ne_bytes())?;
                return Ok(Value::Unit);
            }
            Method::Read => {
                let mut word = [0; WORD_BYTES];
                words.read(offset(0), &mut word)?;
                return Ok(Value::Int(i64::from_ne_bytes(word)));
            }
            Method::Cas => {
                let cell = words.local()?.cell::<u64>(offset(0))?;
                let swapped = cell.compare_exchange(self.number(call, 1), self.number(call, 2));
                let (Ok(old) | Err(old)) = swapped;
                return Ok(Value::Int(old as i64));
            }
            _ => {}
        }
        let method = call.method.plain();
        let (here, there) = match method {
            Method::Put => (1, 0),
            _ => (0, 1),
        };
        let far = match self.client.object(self.object(call, there)).kind {
            ObjectKind::Word { node, .. } => node,
            _ => return Err(Stop::NeverReturns),
        };
        let local = Local {
            memory: words.local()?,
            offset: offset(here),
            len: WORD_BYTES,
        };
        let target: Target<'_, _> = words.target(node_id(far), offset(there))?;
        let operation = match method {
            Method::Put => Operation::Put(local, target),
            Method::Get => Operation::Get(local, target),
            Method::RemoteFaa => Operation::FetchAdd(target, self.number(call, 2), local),
            _ => Operation::CompareSwap(target, self.number(call, 2), self.number(call, 3), local),
        };
        let flags = Flags {
            fenced: self.fenced.remove(&far),
            strong: call.method.is_strong(),
            ..Flags::default()
        };
        let key = thread.raw().post(&operation, flags)?;
        Ok(self.keep(call, key))
    }

    /// Makes a call on mixed-size locations, or on a shared variable of which every node has such a location: it is broadcast by a put
    /// to each node (LOCO'26 G.6.1).
    fn on_mixed(&mut self, call: &Call) -> std::result::Result<Value, Stop> {
        let objects = self.objects;
        let Some(mixed) = &objects.mixed else {
            return Err(Stop::NeverReturns);
        };
        if is_wait(call.method) {
            return self.wait(call);
        }
        let place = |at: usize| Objects::mixed_index(self.client, self.object(call, at));
        let home = |at: usize| match self.client.object(self.object(call, at)).kind {
            ObjectKind::MixedSize { node, .. } => Ok(node_id(node)),
            _ => Err(Stop::NeverReturns),
        };
        let key = match call.method {
            Method::WriteMsw | Method::WriteMsv => {
                let words = self.value(call, 1).words();
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                mixed.write(place(0), &bytes)?;
                return Ok(Value::Unit);
            }
            Method::TryReadMsw | Method::TryReadMsv => {
                let mut bytes = vec![0; mixed.size(place(0))?];
                let whole = mixed.try_read(place(0), &mut bytes)?;
                return Ok(if whole { message(&bytes) } else { BOTTOM });
            }
            Method::BcastMsv => {
                let mut key = AckKey::done();
                for node in self.nodes(call) {
                    key.unite(mixed.put(self.thread, place(0), node, place(0))?);
                }
                key
            }
            Method::GetMsw => mixed.get(self.thread, place(0), home(1)?, place(1))?,
            _ => mixed.put(self.thread, place(1), home(0)?, place(0))?,
        };
        Ok(self.keep(call, key))
    }

    fn fence(&mut self, call: &Call) -> std::result::Result<Value, Stop> {
        match call.method {
            Method::FencePair => {
                for node in self.nodes(call) {
                    fence::pair(self.thread, node)?;
                }
            }
            Method::FenceThread => fence::thread(self.thread)?,
            _ => fence::all_threads(self.thread)?,
        }
        Ok(Value::Unit)
    }

    fn lock(&mut self, call: &Call) -> std::result::Result<Value, Stop> {
        let id = self.object(call, 0);
        let objects = self.objects;
        let bound = &objects.bound[usize::from(id.0)];
        let (thread, scope) = (self.thread, Scope::Thread);
        let got = match (call.method, bound) {
            (Method::Lock, Bound::Ticket(lock)) => Some(Held::Ticket(lock.lock(thread, scope)?)),
            (Method::Lock, Bound::Tas(lock)) => Some(Held::Tas(lock.lock(thread, scope)?)),
            (Method::TryLock, Bound::Ticket(lock)) => lock.try_lock(thread, scope)?.map(Held::Ticket),
            (Method::TryLock, Bound::Tas(lock)) => lock.try_lock(thread, scope)?.map(Held::Tas),
            (method, _) => {
                let Some(held) = self.held.remove(&id) else {
                    return Err(Stop::NeverReturns);
                };
                held.release(match method {
                    Method::Unlock => Scope::Thread,
                    _ => Scope::Nothing,
                })?;
                return Ok(Value::Unit);
            }
        };
        let held = got.is_some();
        self.held.extend(got.map(|held| (id, held)));
        Ok(match call.method {
            Method::TryLock => Value::Bool(held),
            _ => Value::Unit,
        })
    }
}

/// Returns the message of these bytes.
fn message(bytes: &[u8]) -> Value {
    let (words, _) = bytes.as_chunks::<WORD_BYTES>();
    let words: Vec<i64> = words.iter().map(|&word| i64::from_ne_bytes(word)).collect();
    Value::message(&words)
}
