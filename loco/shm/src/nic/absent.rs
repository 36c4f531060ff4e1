//! Stands for the deferred NIC in builds without it. Its types have no value, so the compiler drops every
//! path that would use one.

use std::sync::Arc;

use loco_fabric::{Completion, NodeId, Result};

use crate::bell::Bell;
use crate::config::Nic;
use crate::gate::OwnGate;
use crate::operation::PostedOperation;

/// The deferred NIC that does not exist.
#[derive(Debug)]
pub(crate) enum DeferredNic {}

/// The queue that does not exist.
#[derive(Clone, Copy, Debug)]
pub(crate) enum QueueId {}

impl DeferredNic {
    pub(crate) fn start(_gate: &Arc<OwnGate>, _bells: Vec<Bell>, nic: &Nic) -> Result<Option<DeferredNic>> {
        match nic {
            Nic::Synchronous => Ok(None),
        }
    }

    pub(crate) fn open(&self, _peer: NodeId) -> QueueId {
        match *self {}
    }

    pub(crate) fn close(&self, _queue: QueueId) {
        match *self {}
    }

    pub(crate) fn post(&self, _queue: QueueId, _request: PostedOperation) -> Result<()> {
        match *self {}
    }

    pub(crate) fn poll(&self, _completions: &mut Vec<Completion>) -> usize {
        match *self {}
    }
}
