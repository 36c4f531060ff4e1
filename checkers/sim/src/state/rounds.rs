//! Recognizes the rounds of a thread's loop, so that a thread that goes on for ever has finitely many pasts.
//!
//! A past is the list of a thread's replies, so a thread that tries again has another past each time. The search for executions
//! without end ([`crate::exploring::liveness`]) therefore takes two pasts for one if the thread has since made the same requests
//! a number of times in a row. That is a guess: the thread may count its rounds. The search repeats what it finds, with the threads
//! themselves, before it reports it, and begins again with more rounds if a thread then does something else.

use rustc_hash::FxHashMap;

use crate::fabric::request::Request;
use crate::state::behaviour::{Behaviour, Past};

/// The most requests of a round.
const ROUND_MAX: usize = 96;

/// The pasts that are taken for others.
pub(crate) struct Rounds {
    /// The number of equal rounds in a row that count as a loop.
    equal: usize,
    known: FxHashMap<Past, Past>,
}

impl Rounds {
    /// Takes so many equal rounds for a loop, two at least.
    pub(crate) fn new(equal: usize) -> Rounds {
        Rounds {
            equal,
            known: FxHashMap::default(),
        }
    }

    /// Returns the past that stands for this one, which is not in a wait and whose request is known.
    pub(crate) fn same_as(&mut self, behaviour: &Behaviour, past: Past) -> Past {
        if let Some(&same) = self.known.get(&past) {
            return same;
        }
        let same = self.begin_of_round(behaviour, past).unwrap_or(past);
        self.known.insert(past, same);
        same
    }

    /// Returns where the last of the equal rounds that end at `past` began.
    fn begin_of_round(&self, behaviour: &Behaviour, past: Past) -> Option<Past> {
        let mut chain = vec![past];
        let most = ROUND_MAX * self.equal;
        while chain.len() <= most {
            let Some(before) = chain.last().and_then(|&at| behaviour.parent(at)) else {
                break;
            };
            // What a thread has said does not go back: no round goes on over that.
            if behaviour
                .request(before)
                .is_none_or(|r| matches!(r, Request::Note(_)))
            {
                break;
            }
            chain.push(before);
        }
        let request = |at: usize| behaviour.request(chain[at]);
        let longest = (chain.len() - 1) / self.equal;
        let round = (1..=longest).find(|&round| {
            request(0) == request(round)
                && (1..=round * (self.equal - 1)).all(|at| request(at) == request(at + round))
        })?;
        Some(chain[round])
    }
}
