//! Words of registered memory, as the objects with mistakes use them.

use loco::fabric::{Local, Memory, NodeId, Peers, Target, WordCell};
use loco::{AckKey, Region, Thread};

use crate::Fabric;

pub(crate) const WORD_BYTES: usize = 8;

pub(crate) fn load(region: &Region<Fabric>, word: usize) -> u64 {
    let cell = region.local().unwrap().cell::<u64>(WORD_BYTES * word).unwrap();
    cell.load()
}

pub(crate) fn store(region: &Region<Fabric>, word: usize, value: u64) {
    let cell = region.local().unwrap().cell::<u64>(WORD_BYTES * word).unwrap();
    cell.store(value);
}

/// Puts this node's word number `from` at word `to` of `peer`.
pub(crate) fn put(
    thread: &Thread<Fabric>,
    (source, from): (&Region<Fabric>, usize),
    (target, to): (&Region<Fabric>, usize),
    peer: u16,
) -> AckKey<Fabric> {
    let src = Local {
        memory: source.local().unwrap(),
        offset: WORD_BYTES * from,
        len: WORD_BYTES,
    };
    let target = Target {
        remote: target.remote(NodeId(peer)).unwrap(),
        offset: WORD_BYTES * to,
    };
    thread.raw().put(src, target).unwrap()
}

pub(crate) fn wait_until(thread: &Thread<Fabric>, condition: impl Fn() -> bool) {
    thread
        .wait_until("a word", Peers::None, || condition().then_some(()))
        .unwrap();
}
