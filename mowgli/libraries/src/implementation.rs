//! Implementations (LOCO'26 Def. 3.9): methods of a library as code over other libraries, and the thread that
//! runs such code.
//!
//! A thread is run, not unfolded. Its code asks for the result of a call and gets one of those that the
//! library's specification offers. [`crate::plain`] runs it again with every other choice.

use std::cell::Cell;

use mowgli::model::Tier;
use rustc_hash::FxHashMap;

use crate::client::{Client, Library, Method, Node};
use crate::event::{Arg, Event, Loc, Stamp};
use crate::execution::Graph;
use crate::libraries::RdmaTso;
use crate::library::{Effect, Libraries, initial};
use crate::past::{Domain, Past};
use crate::value::Value;

/// The most events of a run.
pub const EVENTS_MAX: usize = 96;

/// An implementation of a library.
pub trait Implementation: Sync {
    /// Returns the implementation's name: `I_BAL`.
    fn name(&self) -> &str;

    /// Returns the library that it implements.
    fn library(&self) -> Library;

    /// Runs `I(t, m, v)`, the thread's code for a call. It calls only methods of the libraries below, and at
    /// least one.
    ///
    /// # Errors
    ///
    /// Returns the [`Cut`] that ends the run. [`Cut::Blocked`] stands for the papers' `loop {()}`.
    fn run(&self, caller: &mut Caller<'_>, method: Method, args: &[Arg]) -> Run<Value>;

    /// Returns `g` of LOCO'26 Def. 3.13: the subevent that stands for a stamp of an abstract call. `events`
    /// are those that implement the call (indices into the graph, in program order). Returns `None` if there
    /// is none to choose.
    fn concretise(
        &self,
        client: &Client,
        call: &Event,
        stamp: Stamp,
        events: &[usize],
        g: &Graph<'_>,
    ) -> Option<usize>;
}

/// The rules of a run: libraries, and implementations above them. Each implementation may call those after
/// it.
#[derive(Default)]
pub struct Rules<'a> {
    /// The specifications of the libraries that are called.
    pub libraries: Libraries<'a>,
    /// The implementations, upper ones first.
    pub implementations: Vec<&'a dyn Implementation>,
    /// The most iterations of a client's loop.
    pub iterations_max: u32,
}

impl<'a> Rules<'a> {
    /// Returns the rules with these implementations on top of their libraries, in the order of LOCO'26 Fig. 1: what calls others stands
    /// above them. An implementation of RDMA^WAIT calls RDMA^TSO, which then has the place of that library.
    #[must_use]
    pub fn stacked(mut self, implementations: impl IntoIterator<Item = &'a dyn Implementation>) -> Self {
        self.implementations.extend(implementations);
        self.implementations.sort_by_key(|i| i.library().layer());
        let below = self.implementations.last().map(|i| i.library());
        if below == Some(Library::RdmaWait) {
            self.libraries = self.libraries.with(&RdmaTso);
        }
        self
    }

    /// Returns the rules over a network of this tier.
    #[must_use]
    pub fn on(self, tier: Tier) -> Self {
        Rules {
            libraries: self.libraries.on(tier),
            ..self
        }
    }
}

/// The reason why a run ends before its code does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The run waits for ever: there is no execution with this choice.
    Blocked,
    /// The run is longer than the bound.
    Bound,
}

/// A result, unless the run was cut.
pub type Run<T> = Result<T, Cut>;

/// A running thread, through which code makes calls.
pub struct Caller<'a> {
    pub(crate) client: &'a Client,
    pub(crate) rules: &'a Rules<'a>,
    pub(crate) thread: u8,
    pub(crate) domain: &'a Domain,
    /// The choices of this run: the index chosen, and the number of alternatives.
    pub(crate) choices: Vec<(usize, usize)>,
    pub(crate) chosen: usize,
    pub(crate) level: usize,
    pub(crate) events: Vec<Event>,
    pub(crate) calls: Vec<Event>,
    pub(crate) own: FxHashMap<Loc, Value>,
    pub(crate) effects: Vec<Effect>,
    /// The values found at locations, without initial ones.
    pub(crate) needs: Vec<(Loc, Value)>,
}

impl<'a> Caller<'a> {
    /// Returns the client.
    pub fn client(&self) -> &'a Client {
        self.client
    }

    /// Returns the thread.
    pub fn thread(&self) -> u8 {
        self.thread
    }

    /// Returns the thread's node.
    pub fn node(&self) -> Node {
        self.client.threads[usize::from(self.thread)].node
    }

    /// Returns the thread's events so far, in program order.
    pub fn made(&self) -> &[Event] {
        &self.events
    }

    /// Calls a method. It belongs to the next implementation below that has its library, else to the library.
    ///
    /// # Errors
    ///
    /// Returns the [`Cut`] that ends the run. The code passes it on.
    pub fn call(&mut self, method: Method, args: &[Arg]) -> Run<Value> {
        let level = self.level;
        let below = self.rules.implementations.iter().enumerate().skip(level);
        let found = below.into_iter().find(|(_, i)| i.library() == method.library());
        let Some((at, implementation)) = found else {
            return self.event(method, args);
        };
        self.level = at + 1;
        let result = implementation.run(self, method, args);
        self.level = level;
        result
    }

    /// Waits until the condition holds. Checking once is enough. Take an execution in which the code checks
    /// again because earlier checks failed; it stays consistent without the earlier checks.
    ///
    /// # Errors
    ///
    /// Returns [`Cut::Blocked`] if the condition does not hold, and the cuts of the calls in it.
    pub fn until(&mut self, condition: impl FnOnce(&mut Self) -> Run<bool>) -> Run<()> {
        if condition(self)? {
            Ok(())
        } else {
            Err(Cut::Blocked)
        }
    }

    fn event(&mut self, method: Method, args: &[Arg]) -> Run<Value> {
        let Some(specification) = self.rules.libraries.get(method.library()) else {
            return Err(Cut::Blocked);
        };
        if self.events.len() == EVENTS_MAX {
            return Err(Cut::Bound);
        }
        let past = Past {
            client: self.client,
            thread: self.thread,
            events: &self.events,
            own: &self.own,
            domain: self.domain,
            looked: Cell::new(None),
        };
        let mut results = specification.results(&past, method, args);
        if results.is_empty() {
            return Err(Cut::Blocked);
        }
        let at = match results.len() {
            1 => 0,
            n => {
                let at = self.choices.get(self.chosen).map_or(0, |c| c.0);
                if self.chosen == self.choices.len() {
                    self.choices.push((0, n));
                }
                self.chosen += 1;
                at
            }
        };
        let event = Event {
            thread: self.thread,
            method,
            args: args.iter().cloned().collect(),
            result: results.swap_remove(at),
            serves: self.calls.len() as u16,
        };
        if let Some(loc) = past.looked.take()
            && self
                .domain
                .get(&loc)
                .is_some_and(|entry| entry.values.contains(&event.result))
            && event.result != initial(self.client, loc)
        {
            self.needs.push((loc, event.result.clone()));
        }
        let effects = specification.effects(&past, &event);
        for effect in &effects {
            if let Effect::Write(loc, value) = effect {
                self.own.insert(*loc, value.clone());
            }
        }
        self.effects.extend(effects);
        let result = event.result.clone();
        self.events.push(event);
        Ok(result)
    }
}
