//! RDMA^WAIT as a library against RDMA^WAIT as a model of `mowgli`: two searches, written apart, on the same random
//! programs, with all registers and all final values compared.

use std::collections::BTreeSet;

use mowgli::declarative;
use mowgli::generate::Random;
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::Budget;
use mowgli::program::{Expr, Instr, Loc, Location, Program, PutSrc, Thread};
use mowgli_libraries::client::{self, Arg, Client, Library, Method, ObjectKind, Setting, Stmt};
use mowgli_libraries::enumerate::{Bounds, RandomClients};
use mowgli_libraries::judge::outcomes_under;
use mowgli_libraries::value::Value;

/// The client as a program of `mowgli`.
fn program(client: &Client) -> Program {
    let locations = client.objects.iter().map(|object| match object.kind {
        ObjectKind::Word { node, init } => Location {
            name: object.name.clone(),
            node,
            init,
            relaxed: false,
        },
        _ => panic!("only words here"),
    });
    let threads = client.threads.iter().enumerate().map(|(t, thread)| Thread {
        name: format!("P{t}"),
        node: thread.node,
        registers: thread.registers.clone(),
        work_ids: thread.work_ids.clone(),
        code: thread.body.iter().map(instruction).collect(),
    });
    Program {
        nodes: client.nodes,
        locations: locations.collect(),
        threads: threads.collect(),
    }
}

fn instruction(stmt: &Stmt) -> Instr {
    let Stmt::Call { result, call } = stmt else {
        panic!("only calls here");
    };
    let loc = |at: usize| match &call.args[at] {
        Arg::Object(o) => Loc(o.0),
        other => panic!("{other:?} is no word"),
    };
    let value = |at: usize| match &call.args[at] {
        Arg::Value(client::Expr::Const(v)) => Expr::Const(v.number()),
        other => panic!("{other:?} is no constant"),
    };
    let work = call.args.iter().find_map(|arg| match arg {
        Arg::Work(work) => Some(*work),
        _ => None,
    });
    match call.method {
        Method::Write => Instr::Store {
            loc: loc(0),
            value: value(1),
        },
        Method::Read => Instr::Load {
            reg: result.expect("reads have a register"),
            loc: loc(0),
        },
        Method::Cas => Instr::Cas {
            reg: *result,
            loc: loc(0),
            expected: value(1),
            new: value(2),
        },
        Method::Mfence => Instr::Mfence,
        Method::Put => Instr::Put {
            dst: loc(0),
            src: PutSrc::Loc(loc(1)),
            work,
        },
        Method::Get => Instr::Get {
            dst: loc(0),
            src: loc(1),
            work,
        },
        Method::RemoteFaa => Instr::RemoteFaa {
            dst: loc(0),
            target: loc(1),
            add: value(2),
            work,
        },
        Method::RemoteCas => Instr::RemoteCas {
            dst: loc(0),
            target: loc(1),
            expected: value(2),
            new: value(3),
            work,
        },
        Method::Wait => Instr::Wait {
            work: work.expect("waits name an identifier"),
        },
        Method::Rfence => match call.args[0] {
            Arg::Node(node) => Instr::Rfence { node },
            ref other => panic!("{other:?} is no node"),
        },
        other => panic!("{other:?} is not of RDMA^WAIT"),
    }
}

/// The methods of the papers.
const PAPERS: &[Method] = &[
    Method::Write,
    Method::Read,
    Method::Cas,
    Method::Mfence,
    Method::Get,
    Method::Put,
    Method::Wait,
    Method::Rfence,
];

#[test]
fn the_library_and_the_model_agree() {
    let bounds = |round| Bounds {
        methods: PAPERS.to_vec(),
        objects_max: 1 + round % 2,
        ..Bounds::of(&[Library::RdmaWait], 3 + round % 4)
    };
    let outcomes = compare(600, bounds);
    assert!(outcomes > 1000, "{outcomes} outcomes say little");
}

/// Remote read-modify-writes, against the axioms of `docs/rmw.md` as the model has them.
#[test]
fn the_library_and_the_model_agree_on_remote_atomics() {
    use Method::{Cas, Get, Put, Read, RemoteCas, RemoteFaa, Wait, Write};
    let bounds = |round| Bounds {
        // More than their share are remote atomics, as methods are drawn by their arguments.
        methods: vec![RemoteFaa, RemoteCas, Read, Write, Cas, Put, Get, Wait],
        objects_max: 1 + round % 2,
        ..Bounds::of(&[Library::RdmaWait], 2 + round % 3)
    };
    let outcomes = compare(400, bounds);
    assert!(outcomes > 500, "{outcomes} outcomes say little");
}

/// Compares the two on random clients, and returns the number of outcomes.
fn compare(rounds: usize, bounds: impl Fn(usize) -> Bounds) -> usize {
    let mut random = Random::new(12);
    let mut outcomes = 0;
    for round in 0..rounds {
        let bounds = bounds(round);
        let mut client = RandomClients::new(&bounds).draw(&mut |n| random.below(n));
        client.observed_words = (0..client.objects.len())
            .map(|o| client::ObjectId(o as u16))
            .collect();
        let library = outcomes_under(&client, Setting::Spec, Budget::default()).expect("it is judged here");
        let model = declarative::outcomes(
            &program(&client),
            Model::RdmaWait,
            RmwAtomicity::Hca,
            &Budget::default(),
        );
        assert!(
            library.is_complete() && model.is_complete(),
            "{:?} {:?}\n{}",
            library.completeness,
            model.completeness,
            client.print()
        );
        let numbers = |values: &[Value]| values.iter().map(Value::number).collect::<Vec<_>>();
        let of_library: BTreeSet<_> = library
            .outcomes
            .iter()
            .map(|o| {
                (
                    o.registers.iter().map(|r| numbers(r)).collect::<Vec<_>>(),
                    numbers(&o.words),
                )
            })
            .collect();
        let of_model: BTreeSet<_> = model
            .outcomes
            .iter()
            .map(|o| (o.registers.clone(), o.memory.clone()))
            .collect();
        outcomes += of_model.len();
        assert_eq!(of_library, of_model, "{}", client.print());
    }
    outcomes
}
