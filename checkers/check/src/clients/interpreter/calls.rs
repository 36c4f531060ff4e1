//! The calls of a client on its objects: one function for each kind of object.
//!
//! Relies on the interpreter for arguments and keys. Used by it, for the calls that need more than an object's word or lock.

use loco::{
    AtomicVar, Barrier, Inserted, KvStore, OwnedVar, Popped, SharedQueue, SharedVar, Sst, WideOwnedVar, fence,
};
use mowgli_libraries::client::{Call, Method, ObjectId};
use mowgli_libraries::value::{BOTTOM, Value};

use super::{Interpreter, Stop, is_wait, message};
use crate::clients::objects::Bound;
use crate::stage::Fabric;

/// The value of a call, or the reason that the thread stops there.
type Outcome = Result<Value, Stop>;

impl Interpreter<'_> {
    /// Calls the object that the call names, or waits for operations.
    pub(super) fn on_object(&mut self, call: &Call) -> Outcome {
        if is_wait(call.method) {
            return self.wait(call);
        }
        if call.method == Method::GfSv {
            fence::towards(self.thread, &self.nodes(call))?;
            return Ok(Value::Unit);
        }
        let id = self.object(call, 0);
        let objects = self.objects;
        match &objects.bound[usize::from(id.0)] {
            Bound::SharedVar(variable) => self.on_shared_variable(call, variable),
            Bound::Barrier(Some(barrier)) => self.on_barrier(call, barrier),
            Bound::Ring(_) => self.on_ring(call, id),
            Bound::Owned(variable) => self.on_owned(call, variable),
            Bound::Wide(variable) => self.on_wide(call, variable),
            Bound::Sst(table) => self.on_table(call, table),
            Bound::Atomic(variable) => self.on_atomic(call, variable),
            Bound::Queue(queue) => self.on_queue(call, queue),
            Bound::Store(store) => self.on_store(call, store),
            Bound::Place | Bound::Own(_) | Bound::Barrier(None) | Bound::Ticket(_) | Bound::Tas(_) => {
                Err(Stop::NeverReturns)
            }
        }
    }

    fn on_shared_variable(&mut self, call: &Call, variable: &SharedVar<u64, Fabric>) -> Outcome {
        Ok(match call.method {
            Method::WriteSv => {
                variable.write(self.number(call, 1));
                Value::Unit
            }
            Method::ReadSv => word(variable.read()),
            _ => {
                let nodes = self.nodes(call);
                let others = variable.channel().peers();
                let key = match nodes == others {
                    true => variable.broadcast(self.thread)?,
                    false => variable.broadcast_to(self.thread, &nodes)?,
                };
                self.keep(call, key)
            }
        })
    }

    fn on_barrier(&self, call: &Call, barrier: &Barrier<Fabric>) -> Outcome {
        match call.method {
            Method::Barrier => barrier.wait(self.thread)?,
            _ => barrier.wait_unfenced(self.thread)?,
        }
        Ok(Value::Unit)
    }

    fn on_ring(&mut self, call: &Call, id: ObjectId) -> Outcome {
        if call.method == Method::Submit {
            let words = self.value(call, 1).words();
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let Some(writer) = self.writers.get_mut(&id) else {
                return Err(Stop::NeverReturns);
            };
            // A message that never fits is an error of the caller in `loco`, and a failing submit in the paper.
            if bytes.len() > writer.message_bytes_max() {
                return Ok(Value::Bool(false));
            }
            return Ok(Value::Bool(writer.try_submit(self.thread, &bytes)?));
        }
        let Some(reader) = self.readers.get_mut(&id) else {
            return Err(Stop::NeverReturns);
        };
        let mut bytes = Vec::new();
        let received = reader.try_receive(self.thread, &mut bytes)?;
        Ok(if received { message(&bytes) } else { BOTTOM })
    }

    fn on_owned(&mut self, call: &Call, variable: &OwnedVar<u64, Fabric>) -> Outcome {
        Ok(match call.method {
            Method::StoreOwned => {
                variable.store(self.number(call, 1))?;
                Value::Unit
            }
            Method::LoadOwned => word(variable.load()),
            Method::PullOwned => word(variable.pull(self.thread)?),
            _ if self.is_awaited(call) => {
                let key = variable.push(self.thread)?;
                self.keep(call, key)
            }
            _ => {
                variable.push_untracked(self.thread)?;
                Value::Unit
            }
        })
    }

    fn on_wide(&mut self, call: &Call, variable: &WideOwnedVar<[u64; 2], Fabric>) -> Outcome {
        Ok(match call.method {
            Method::StoreOwned => {
                let value = self.number(call, 1);
                variable.store(self.thread, [value, !value])?;
                Value::Unit
            }
            Method::LoadOwned => whole(variable.load(self.thread)?),
            Method::PullOwned => whole(variable.pull(self.thread)?),
            _ => {
                let key = variable.push(self.thread)?;
                self.keep(call, key)
            }
        })
    }

    fn on_table(&mut self, call: &Call, table: &Sst<u64, Fabric>) -> Outcome {
        Ok(match call.method {
            Method::StoreSst => {
                table.store_mine(self.number(call, 1))?;
                Value::Unit
            }
            Method::LoadSst => match self.nodes(call)[..] {
                [node] => word(table.row(node)?.load()),
                _ => return Err(Stop::NeverReturns),
            },
            _ if self.is_awaited(call) => {
                let key = table.push(self.thread)?;
                self.keep(call, key)
            }
            _ => {
                table.push_untracked(self.thread)?;
                Value::Unit
            }
        })
    }

    fn on_atomic(&self, call: &Call, variable: &AtomicVar<u64, Fabric>) -> Outcome {
        let (thread, number) = (self.thread, |at| self.number(call, at));
        Ok(match call.method {
            Method::ReadAtomic => word(variable.read(thread)?),
            Method::WriteAtomic => {
                variable.write(thread, number(1))?;
                Value::Unit
            }
            Method::SwapAtomic => word(variable.swap(thread, number(1))?),
            Method::CasAtomic => word(variable.compare_swap(thread, number(1), number(2))?),
            _ => word(variable.fetch_add(thread, number(1))?),
        })
    }

    fn on_queue(&self, call: &Call, queue: &SharedQueue<u64, Fabric>) -> Outcome {
        Ok(match call.method {
            Method::PushQueue => Value::Bool(queue.try_push(self.thread, self.number(call, 1))?.is_done()),
            Method::PopQueue => match queue.try_pop(self.thread)? {
                Popped::Value(value) => word(value),
                Popped::Empty | Popped::Closed => BOTTOM,
            },
            _ => {
                queue.close(self.thread)?;
                Value::Unit
            }
        })
    }

    fn on_store(&self, call: &Call, store: &KvStore<u64, u64, Fabric>) -> Outcome {
        let (thread, number) = (self.thread, |at| self.number(call, at));
        Ok(match call.method {
            Method::InsertKv => match store.insert(thread, &number(1), &number(2))? {
                Inserted::Done => Value::Bool(true),
                Inserted::Duplicate => Value::Bool(false),
                Inserted::Full => panic!("the store has no room for an insert that it was made for"),
            },
            Method::UpdateKv => Value::Bool(store.update(thread, &number(1), &number(2))?),
            Method::DeleteKv => Value::Bool(store.delete(thread, &number(1))?),
            _ => store.get(thread, &number(1))?.map_or(BOTTOM, word),
        })
    }
}

/// Returns the value of a word.
fn word(word: u64) -> Value {
    Value::Int(word as i64)
}

/// Returns the value of a wide variable, which is a word and its complement once it has been stored.
fn whole([word, complement]: [u64; 2]) -> Value {
    assert!(
        complement == !word || (word, complement) == (0, 0),
        "a mixture of two values: {word:#x}, {complement:#x}"
    );
    Value::Int(word as i64)
}
