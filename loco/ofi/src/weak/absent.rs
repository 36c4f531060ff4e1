//! Stands for the weak provider in builds without it. Its type has no value, so the compiler drops every path that would use
//! one.

use std::io;

use loco_fabric::{NodeId, Result};

use crate::config::OfiConfig;
use crate::heap::Heap;
use crate::port::{Event, Port, Posting};

/// The weak provider that does not exist.
pub(crate) enum Weak {}

impl Weak {
    pub(crate) fn new(_config: &OfiConfig, _node: NodeId) -> Option<Weak> {
        None
    }

    /// Posts nothing: there is no value to call this with.
    ///
    /// # Safety
    /// There is no value to call this with.
    pub(crate) unsafe fn post(&mut self, _port: &Port, _heap: &Heap, _posting: &Posting) -> io::Result<bool> {
        match *self {}
    }

    pub(crate) fn read(&mut self, _port: &Port, _events: &mut Vec<Event>) -> Result<bool> {
        match *self {}
    }

    pub(crate) fn holds_back(&self) -> bool {
        match *self {}
    }
}
