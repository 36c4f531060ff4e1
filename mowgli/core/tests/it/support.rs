//! Generates small random programs from a seed, for the laws of the declarative engine.

use mowgli::program::{
    BinaryOp, Expr, Instr, Loc, Location, Node, Program, PutSrc, Reg, Thread, Value, WorkId,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// The instructions and sizes that programs may have.
#[derive(Clone, Copy)]
pub struct Shape {
    pub nodes: u8,
    pub threads: usize,
    pub instructions: usize,
    pub locations_a_node: u8,
    pub remote: bool,
    pub rmw: bool,
    pub waits: bool,
}

/// Programs that plain enumeration can still finish.
pub const SMALL: Shape = Shape {
    nodes: 2,
    threads: 2,
    instructions: 3,
    locations_a_node: 1,
    remote: true,
    rmw: false,
    waits: false,
};

/// Returns the program of a seed.
pub fn program(seed: u64, shape: Shape) -> Program {
    let mut rng = StdRng::seed_from_u64(seed);
    let rng = &mut rng;
    let count = shape.nodes * shape.locations_a_node;
    let locations: Vec<Location> = (0..count)
        .map(|i| Location {
            name: format!("x{i}"),
            node: Node(i % shape.nodes),
            init: 0,
            relaxed: false,
        })
        .collect();
    let threads = (0..shape.threads)
        .map(|t| {
            let node = Node(rng.random_range(0..shape.nodes));
            let mut thread = Thread {
                name: format!("P{t}"),
                node,
                registers: Vec::new(),
                work_ids: if shape.waits {
                    vec!["d".into(), "e".into()]
                } else {
                    Vec::new()
                },
                code: Vec::new(),
            };
            for i in 0..shape.instructions {
                let value = (10 * (t + 1) + i) as Value;
                let instr = instruction(rng, shape, &locations, &mut thread, value);
                thread.code.push(instr);
            }
            thread
        })
        .collect();
    Program {
        nodes: shape.nodes,
        locations,
        threads,
    }
}

fn instruction(
    rng: &mut StdRng,
    shape: Shape,
    locations: &[Location],
    thread: &mut Thread,
    value: Value,
) -> Instr {
    let node = thread.node;
    let pick = |rng: &mut StdRng, near: bool| {
        let fits = |l: &Location| (l.node == node) == near;
        let all: Vec<usize> = (0..locations.len()).filter(|&i| fits(&locations[i])).collect();
        Loc(all[rng.random_range(0..all.len())] as u16)
    };
    let here = pick(rng, true);
    let kinds = match (shape.remote, shape.rmw) {
        (false, _) => 5,
        (true, false) => 11,
        (true, true) => 14,
    };
    let kind = rng.random_range(0..kinds);
    let (there, peer) = match shape.remote {
        true => {
            let there = pick(rng, false);
            (there, locations[usize::from(there.0)].node)
        }
        false => (here, node),
    };
    let work = (shape.waits && rng.random_bool(0.7)).then(|| WorkId(rng.random_range(0..2)));
    let latest = thread.registers.len().checked_sub(1).map(|r| Reg(r as u16));
    let value = match latest {
        Some(reg) if rng.random_bool(0.2) => Expr::Binary(
            BinaryOp::Add,
            Box::new(Expr::Reg(reg)),
            Box::new(Expr::Const(value)),
        ),
        _ => Expr::Const(value),
    };
    let fresh = |thread: &mut Thread| {
        thread.registers.push(format!("r{}", thread.registers.len()));
        Reg(thread.registers.len() as u16 - 1)
    };
    match kind {
        0 => Instr::Store { loc: here, value },
        1 | 2 => Instr::Load {
            reg: fresh(thread),
            loc: here,
        },
        3 => Instr::Cas {
            reg: Some(fresh(thread)),
            loc: here,
            expected: Expr::Const(0),
            new: value,
        },
        4 => Instr::Mfence,
        5 => Instr::Put {
            dst: there,
            src: PutSrc::Value(value),
            work,
        },
        6 => Instr::Put {
            dst: there,
            src: PutSrc::Loc(here),
            work,
        },
        7 | 8 => Instr::Get {
            dst: here,
            src: there,
            work,
        },
        9 if shape.waits => Instr::Wait {
            work: WorkId(rng.random_range(0..2)),
        },
        9 => Instr::Poll { node: peer },
        10 => Instr::Rfence { node: peer },
        11 | 12 => Instr::RemoteFaa {
            dst: here,
            target: there,
            add: value,
            work,
        },
        _ => Instr::RemoteCas {
            dst: here,
            target: there,
            expected: Expr::Const(0),
            new: value,
            work,
        },
    }
}
