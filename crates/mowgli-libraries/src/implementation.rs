//! Implementations (LOCO'26 Def. 3.9): methods of a library as code over other libraries.

use crate::client::{Client, Library, Method};
use crate::event::{Arg, Event, Stamp};
use crate::execution::Graph;
use crate::plain::{Caller, Run};
use crate::value::Value;

/// An implementation of a library.
pub trait Implementation: Sync {
    /// Its name: `I_BAL`.
    fn name(&self) -> &str;

    /// The library that it implements.
    fn library(&self) -> Library;

    /// `I(t, m, v)`: what the thread does for a call. Calls methods of the libraries below only, at least one.
    ///
    /// # Errors
    ///
    /// The run ends here. [`Cut::Blocked`](crate::plain::Cut::Blocked) stands for the papers' `loop {()}`.
    fn run(&self, caller: &mut Caller<'_>, method: Method, args: &[Arg]) -> Run<Value>;

    /// `g` of LOCO'26 Def. 3.13: the subevent that stands for a stamp of an abstract call, given the events that
    /// implement the call (indices into the graph, in program order). None if there is none to choose.
    fn concretise(
        &self,
        client: &Client,
        call: &Event,
        stamp: Stamp,
        events: &[usize],
        g: &Graph<'_>,
    ) -> Option<usize>;
}
