//! I_MSW: mixed-size writes over RDMA^WAIT, with a hash (LOCO'26 Fig. 28).

use super::{CR, CW, WT, first, last, loc, value, work};
use crate::client::{Client, Library, Method, ObjectKind};
use crate::event::{Arg, Event, Loc, Stamp, StampKind};
use crate::execution::Graph;
use crate::implementation::{Caller, Cut, Implementation, Run};
use crate::value::{BOTTOM, Value};

/// The implementation.
#[derive(Clone, Copy, Debug, Default)]
pub struct IMsw {
    /// The mistake in it, if any.
    pub mistake: Option<MswMistake>,
}

/// Mistakes of mixed-size writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MswMistake {
    /// A read does not compare the hash.
    NoCheck,
    /// The hash is of the first word only.
    HashOfFirstWord,
    /// The hash is the sum of the words, which is not injective.
    HashIsSum,
}

/// Returns a part: `x_0` is the hash, and the parts from `x_1` on are the words.
fn part(x: Loc, i: u32) -> Loc {
    x.part(1 + i, x.node)
}

fn size(client: &Client, x: Loc) -> u32 {
    match x.client_object().map(|object| &client.object(object).kind) {
        // The copies of a shared variable are such locations.
        Some(ObjectKind::MixedSize { size, .. } | ObjectKind::MixedVariable { size }) => *size,
        _ => 0,
    }
}

impl IMsw {
    /// Computes the hash, which is injective on words from 0 to 1008, with `hash(0̄) = 0`.
    fn hash(self, words: &[i64]) -> i64 {
        match self.mistake {
            Some(MswMistake::HashOfFirstWord) => words.first().copied().unwrap_or(0),
            Some(MswMistake::HashIsSum) => words.iter().sum(),
            _ => words
                .iter()
                .rev()
                .fold(0i64, |h, w| h.wrapping_mul(1009).wrapping_add(*w)),
        }
    }

    fn copy(self, c: &mut Caller<'_>, method: Method, args: &[Arg]) -> Run<Value> {
        let (to, from) = (loc(args, 0)?, loc(args, 1)?);
        for i in 0..=size(c.client(), to) {
            let part = [
                Arg::Loc(part(to, i)),
                Arg::Loc(part(from, i)),
                Arg::Work(work(args)),
            ];
            c.call(method, &part)?;
        }
        Ok(Value::Unit)
    }
}

impl Implementation for IMsw {
    fn name(&self) -> &str {
        "I_MSW"
    }

    fn library(&self) -> Library {
        Library::MixedSize
    }

    fn run(&self, c: &mut Caller<'_>, method: Method, args: &[Arg]) -> Run<Value> {
        match method {
            Method::WriteMsw => {
                let x = loc(args, 0)?;
                let words = value(args, 1).words();
                if words.len() != size(c.client(), x) as usize {
                    return Err(Cut::Blocked);
                }
                for (i, word) in (0..).zip(std::iter::once(self.hash(&words)).chain(words)) {
                    c.call(
                        Method::Write,
                        &[Arg::Loc(part(x, i)), Arg::Value(Value::Int(word))],
                    )?;
                }
                Ok(Value::Unit)
            }
            Method::TryReadMsw => {
                let x = loc(args, 0)?;
                let hash = c.call(Method::Read, &[Arg::Loc(part(x, 0))])?.number();
                let mut words = Vec::new();
                for i in 1..=size(c.client(), x) {
                    words.push(c.call(Method::Read, &[Arg::Loc(part(x, i))])?.number());
                }
                let matches = hash == self.hash(&words) || self.mistake == Some(MswMistake::NoCheck);
                Ok(if matches { Value::message(&words) } else { BOTTOM })
            }
            Method::GetMsw => self.copy(c, Method::Get, args),
            Method::PutMsw => self.copy(c, Method::Put, args),
            Method::WaitMsw => c.call(Method::Wait, &[Arg::Work(work(args))]),
            _ => Err(Cut::Blocked),
        }
    }

    /// Implements appendix G.2: the hash's accesses stand for the whole.
    fn concretise(
        &self,
        _: &Client,
        call: &Event,
        stamp: Stamp,
        events: &[usize],
        g: &Graph<'_>,
    ) -> Option<usize> {
        match (call.method, stamp.kind) {
            (Method::WriteMsw, _) => first(g, events, CW, |_| true),
            (Method::TryReadMsw, _) => first(g, events, CR, |_| true),
            (_, StampKind::Wt) => last(g, events, WT, |_| true),
            _ => first(g, events, stamp, |_| true),
        }
    }
}
