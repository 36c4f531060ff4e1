//! Channels and the way in which their endpoints find one another: the manager of a node, the builder of
//! channels, set-up.

pub(crate) mod channel;
pub(crate) mod manager;
pub(crate) mod parent;
pub(crate) mod participants;
pub(crate) mod service;
pub(crate) mod setup;
