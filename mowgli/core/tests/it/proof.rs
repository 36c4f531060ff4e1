//! Proofs that a changed table is the same model.
//!
//! An execution is consistent if a graph is acyclic. Its edges are those of program order, by the tables, and those of other
//! relations. So a changed table gives the same model if, in every thread, program order gives the same *closure* between the points
//! that other relations can touch. Fences touch no other relation. The only edge into a poll is polls-from, which follows from
//! program order too. So paths through fences and polls count, but they are not ends of paths, with one exception: a path may start
//! at a poll.
//!
//! Few relations touch the issue of a buffered write. *Out of it*, for every edge of `ib` there is an edge of `ob` from the write's
//! observation to the same instantaneous event, which is stronger. There are three exceptions: an edge to a CPU read of the same
//! thread to which the write is forwarded (it matters to events before the write only if the event is the read itself), an edge to the
//! poll of a put, and, without PCIe, an edge to a NIC read to which the write is forwarded. *Into* the issue of a NIC remote write, with
//! PCIe, there is only `nfo` from an earlier NIC remote read (G8 forbids a later one). That read is itself before the events that the
//! write is before: by H9 and H10, for remote writes by `nfo` with the order of their observations, and for reads and atomics by `oppo`.
//!
//! It is enough to look at two instructions with distinct fences and polls between them, for three reasons. An edge that a change
//! adds or removes is between two instructions. More instructions add the same edges to both models. A path that passes two fences
//! of one kind and queue pair can skip one of them, because a cell looks only at kinds and queue pairs.

use std::collections::BTreeSet;

use mowgli::event::{Event, Kind};
use mowgli::model::RmwAtomicity;
use mowgli::models::{Part, Spec};
use mowgli::outcome::Budget;
use mowgli::program::{Expr, Instr, Loc, Location, Node, Program, PutSrc, Reg, Thread};

use mowgli::declarative::unfold;

/// The closure of program order in every thread that matters, under one model.
pub struct Proof {
    threads: Vec<Vec<Event>>,
    closures: Vec<BTreeSet<(usize, usize)>>,
}

impl Proof {
    pub fn new(spec: &Spec) -> Proof {
        let threads = threads(spec);
        let closures = threads.iter().map(|events| closure(spec, events)).collect();
        Proof { threads, closures }
    }

    /// Returns whether the changed model orders all threads in the same way.
    pub fn is_harmless(&self, changed: &Spec) -> bool {
        self.threads
            .iter()
            .zip(&self.closures)
            .all(|(events, expected)| closure(changed, events) == *expected)
    }
}

/// Returns the closure of program order between points (issue `2e`, observation `2e + 1`) that other
/// relations can touch.
fn closure(spec: &Spec, events: &[Event]) -> BTreeSet<(usize, usize)> {
    let n = 2 * events.len();
    let observe = |e: usize| 2 * e + usize::from(!spec.is_instantaneous(&events[e]));
    let mut after = vec![0u64; n];
    for (b, later) in events.iter().enumerate() {
        after[2 * b] |= if observe(b) == 2 * b { 0 } else { 1 << observe(b) };
        for (a, earlier) in events[..b].iter().enumerate() {
            let keeps = |part| spec.preserves(part, earlier, later);
            if keeps(Part::Ippo) || spec.ib.contains(Part::Iso) && spec.iso_issue(earlier, later) {
                after[2 * a] |= 1 << (2 * b);
            }
            if keeps(Part::Oppo) || spec.ob.contains(Part::Iso) && spec.iso_observe(earlier, later) {
                after[observe(a)] |= 1 << observe(b);
            }
        }
    }
    // Program order goes forward, so one pass from the end closes it.
    for p in (0..n).rev() {
        let mut rest = after[p];
        while rest != 0 {
            let q = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            after[p] |= after[q];
        }
    }
    let event = |p: usize| &events[p / 2];
    // An issue of its own, apart from the observation.
    let issue = |p: usize| p.is_multiple_of(2) && !spec.is_instantaneous(event(p));
    let fence = |p: usize| matches!(event(p).kind, Kind::Fence | Kind::NicFence);
    let starts = |p: usize| {
        let flushed = issue(p) && event(p).kind == Kind::NicRemoteWrite && spec.flushes;
        !fence(p) && !flushed
    };
    let ends = |p: usize, q: usize| match event(q).kind {
        Kind::Fence | Kind::NicFence | Kind::Poll => false,
        Kind::LocalWrite if issue(q) => event(p).kind == Kind::LocalRead,
        Kind::NicRemoteWrite if issue(q) => event(q).is_completion() || spec.forward_nic,
        Kind::NicLocalWrite if issue(q) => spec.forward_nic,
        _ => true,
    };
    (0..n)
        .flat_map(|p| (0..n).map(move |q| (p, q)))
        .filter(|&(p, q)| after[p] >> q & 1 == 1 && starts(p) && ends(p, q))
        .collect()
}

/// Two instructions with up to three distinct fences and polls between them, as events.
fn threads(spec: &Spec) -> Vec<Vec<Event>> {
    let connectors = [
        Instr::Mfence,
        Instr::Rfence { node: Node(1) },
        Instr::Rfence { node: Node(2) },
        Instr::Poll { node: Node(1) },
    ];
    let mut between: Vec<Vec<Instr>> = vec![vec![]];
    let mut longest = vec![vec![]];
    for _ in 0..3 {
        longest = longest
            .iter()
            .flat_map(|row: &Vec<Instr>| {
                let fresh = connectors.iter().filter(|c| !row.contains(c));
                fresh.map(|c| [row.as_slice(), std::slice::from_ref(c)].concat())
            })
            .collect();
        between.extend(longest.iter().cloned());
    }
    let mut all = Vec::new();
    for first in instructions().iter().chain(&connectors[3..]) {
        for middle in &between {
            for last in &instructions() {
                // An earlier put on each queue pair makes the polls possible.
                let mut code: Vec<Instr> = (0..4).map(|i| put(1 + i % 2)).collect();
                let skipped = code.len();
                code.push(first.clone());
                code.extend(middle.iter().cloned());
                code.push(last.clone());
                all.extend(events(spec, code, skipped));
            }
        }
    }
    all
}

fn put(node: u16) -> Instr {
    Instr::Put {
        dst: Loc(node),
        src: PutSrc::Loc(Loc(0)),
        work: None,
    }
}

/// Returns every kind of instruction that makes events with other relations, on two queue pairs.
fn instructions() -> Vec<Instr> {
    let mut all = vec![
        Instr::Load {
            reg: Reg(0),
            loc: Loc(0),
        },
        Instr::Store {
            loc: Loc(0),
            value: Expr::Const(1),
        },
        Instr::Cas {
            reg: None,
            loc: Loc(0),
            expected: Expr::Const(0),
            new: Expr::Const(1),
        },
    ];
    for node in [1, 2] {
        all.push(put(node));
        all.push(Instr::Get {
            dst: Loc(0),
            src: Loc(node),
            work: None,
        });
        all.push(Instr::RemoteCas {
            dst: Loc(0),
            target: Loc(node),
            expected: Expr::Const(0),
            new: Expr::Const(1),
            work: None,
        });
    }
    all
}

/// Returns the events of each path of the code, without those of the first `skipped` instructions.
fn events(spec: &Spec, code: Vec<Instr>, skipped: usize) -> Vec<Vec<Event>> {
    assert_eq!(spec.atomicity, RmwAtomicity::Hca);
    let location = |node: u8| Location {
        name: format!("l{node}"),
        node: Node(node),
        init: 0,
        relaxed: false,
    };
    let program = Program {
        nodes: 3,
        locations: (0..3).map(location).collect(),
        threads: vec![Thread {
            name: "P0".to_owned(),
            node: Node(0),
            registers: vec!["r".to_owned()],
            work_ids: Vec::new(),
            code,
        }],
    };
    let paths = unfold::paths(&program, 0, spec, &Budget::default()).unwrap();
    let kept = |e: &Event| e.instance as usize >= skipped;
    paths
        .into_iter()
        .map(|path| path.events.into_iter().filter(kept).collect())
        .collect()
}
