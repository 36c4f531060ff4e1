//! Draws a history that is not linearizable: `cargo run -p loco-history --example timeline > timeline.html`.
//!
//! Three nodes use two keys of a store. The history of key 7 is fine; a get of key 9 misses an update that was over before
//! the get began.

use loco_history::spec::KeyValueCall::{Delete, Get, Insert, Update};
use loco_history::spec::KeyValueRet::{Done, Found, Missing};
use loco_history::spec::{KeyValue, KeyValueCall, KeyValueRet};
use loco_history::{History, Limits, Operation, ThreadId, check};

fn main() {
    let call = |node, thread, call: KeyValueCall<u64, u64>, from, result: KeyValueRet<u64>, to| {
        Operation::new(ThreadId { node, thread }, call, from, result, to)
    };
    let history = History::from(vec![
        call(0, 0, Insert(7, 1), 100, Done, 420),
        call(1, 0, Get(7), 180, Missing, 260),
        call(2, 0, Get(7), 300, Found(1), 390),
        call(1, 0, Insert(9, 10), 300, Done, 700),
        call(0, 0, Get(9), 500, Found(10), 610),
        call(2, 0, Update(9, 11), 760, Done, 1010),
        call(0, 0, Get(9), 800, Found(11), 900),
        call(1, 0, Get(9), 930, Found(11), 1040),
        call(0, 0, Get(9), 1060, Found(10), 1150),
        call(2, 1, Update(7, 2), 900, Done, 1200),
        call(1, 0, Delete(9), 1100, Done, 1400),
        call(2, 0, Get(9), 1450, Missing, 1520),
        Operation::pending(ThreadId { node: 0, thread: 1 }, Insert(9, 12), 1250),
    ]);
    let spec = KeyValue::new();
    println!("{}", check(&spec, &history, &Limits::default()).html());
}
