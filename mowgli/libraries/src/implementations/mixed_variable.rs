//! I_MSV: mixed-size shared variables over mixed-size writes, as I_SV is over RDMA^WAIT (MSW-Broadcast, LOCO'26 G.6.1).

use super::{first, loc, node_of, nodes, value, work};
use crate::client::{Client, Library, Method, ObjectKind};
use crate::event::{Arg, Event, Stamp, StampKind};
use crate::execution::Graph;
use crate::implementation::{Caller, Cut, Implementation, Run};
use crate::value::{BOTTOM, Value};

/// The implementation.
#[derive(Clone, Copy, Debug, Default)]
pub struct IMsv {
    /// The mistake in it, if any.
    pub mistake: Option<MsvMistake>,
}

/// Mistakes of mixed-size shared variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MsvMistake {
    /// A read that fails returns zeros.
    TornIsZero,
    /// A wait does nothing.
    NoWait,
}

impl Implementation for IMsv {
    fn name(&self) -> &str {
        "I_MSV"
    }

    fn library(&self) -> Library {
        Library::MixedVariable
    }

    fn run(&self, c: &mut Caller<'_>, method: Method, args: &[Arg]) -> Run<Value> {
        let own = c.node();
        match method {
            Method::WriteMsv => {
                let copy = Arg::Loc(loc(args, 0)?.at(own));
                c.call(Method::WriteMsw, &[copy, Arg::Value(value(args, 1))])
            }
            Method::TryReadMsv => {
                let x = loc(args, 0)?;
                let found = c.call(Method::TryReadMsw, &[Arg::Loc(x.at(own))])?;
                match (self.mistake, &c.client().objects[usize::from(x.object)].kind) {
                    (Some(MsvMistake::TornIsZero), ObjectKind::MixedVariable { size }) if found == BOTTOM => {
                        Ok(Value::message(&vec![0; *size as usize]))
                    }
                    _ => Ok(found),
                }
            }
            Method::BcastMsv => {
                let x = loc(args, 0)?;
                // A broadcast to nobody has no execution.
                if nodes(args).is_empty() {
                    return Err(Cut::Blocked);
                }
                for node in nodes(args).iter() {
                    let put = [Arg::Loc(x.at(node)), Arg::Loc(x.at(own)), Arg::Work(work(args))];
                    c.call(Method::PutMsw, &put)?;
                }
                Ok(Value::Unit)
            }
            Method::WaitMsv if self.mistake == Some(MsvMistake::NoWait) => Ok(Value::Unit),
            Method::WaitMsv => c.call(Method::WaitMsw, &[Arg::Work(work(args))]),
            _ => Err(Cut::Blocked),
        }
    }

    /// Lets each stamp stand for itself, as appendix G.1 does for shared variables.
    fn concretise(
        &self,
        _: &Client,
        _: &Event,
        stamp: Stamp,
        events: &[usize],
        g: &Graph<'_>,
    ) -> Option<usize> {
        match stamp.kind {
            StampKind::Nlr | StampKind::Nrw => first(g, events, stamp, |e| {
                e.loc(0).is_some_and(|x| x.node == node_of(stamp).0)
            }),
            _ => first(g, events, stamp, |_| true),
        }
    }
}
