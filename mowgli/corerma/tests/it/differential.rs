//! The search for outcomes against the brute force of `naive`, on random programs with and without atomic accesses.
//!
//! `MOWGLI_CORERMA_PROGRAMS=20000 cargo test -p mowgli-corerma --test it differential::` runs so many; `MOWGLI_FUZZ_SEED` sets the seed.

use std::collections::BTreeSet;

use mowgli::outcome::Budget;
use mowgli::program::{BinaryOp, Expr, Loc, Location, Node, Reg};
use mowgli_corerma::action::actions;
use mowgli_corerma::litmus::program_text;
use mowgli_corerma::outcome::outcomes;
use mowgli_corerma::program::{Access, Process, Program, Statement};
use mowgli_corerma::rules::{Rule, Rules};
use mowgli_corerma::switches::{Model, Switches};
use mowgli_corerma::value::UNDEFINED;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

fn statement(rng: &mut StdRng, process: usize, processes: usize, plain: bool) -> Statement {
    let atomic = |rng: &mut StdRng| !plain || rng.random_ratio(2, 3);
    // Locations 0 and 1 belong to process 0, 2 and 3 to process 1.
    let own = |rng: &mut StdRng| {
        let loc = Loc((2 * process + rng.random_range(0..2)) as u16);
        Access {
            loc,
            atomic: atomic(rng),
        }
    };
    let any = |rng: &mut StdRng| {
        let loc = Loc(rng.random_range(0..2 * processes) as u16);
        Access {
            loc,
            atomic: atomic(rng),
        }
    };
    match rng.random_range(0..12) {
        0..3 => Statement::Read {
            reg: Reg(rng.random_range(0..2)),
            from: own(rng),
        },
        3..5 => Statement::Write {
            to: own(rng),
            value: [
                Expr::Const(rng.random_range(2..5)),
                Expr::Reg(Reg(0)),
                Expr::Binary(
                    BinaryOp::Add,
                    Box::new(Expr::Reg(Reg(1))),
                    Box::new(Expr::Const(1)),
                ),
            ]
            .choose(rng)
            .unwrap()
            .clone(),
        },
        5..7 => Statement::Get {
            to: own(rng),
            from: any(rng),
        },
        7..9 => Statement::Put {
            to: any(rng),
            from: own(rng),
        },
        9 => Statement::Rga {
            to: own(rng),
            target: any(rng),
            addend: own(rng),
        },
        10 => Statement::Cas {
            to: own(rng),
            target: any(rng),
            expected: own(rng),
            new: own(rng),
        },
        _ => Statement::Flush {
            node: Node(rng.random_range(0..processes) as u8),
        },
    }
}

pub fn program(rng: &mut StdRng) -> Program {
    let processes = rng.random_range(1..3);
    let plain = rng.random();
    let location = |at: usize| Location {
        name: format!("x{at}"),
        node: Node((at / 2) as u8),
        init: (at % 2) as i64,
        relaxed: false,
    };
    let mut made = Vec::new();
    for p in 0..processes {
        let count = rng.random_range(1..if processes == 1 { 5 } else { 4 });
        made.push(Process {
            node: Node(p as u8),
            registers: vec!["a".to_owned(), "b".to_owned()],
            code: (0..count).map(|_| statement(rng, p, processes, plain)).collect(),
        });
    }
    Program {
        nodes: processes as u8,
        locations: (0..2 * processes).map(location).collect(),
        processes: made,
    }
}

/// Brute force needs the product of all choices.
fn is_small(program: &Program) -> bool {
    let actions = actions(program);
    let mut choices = 1usize;
    for a in &actions {
        let writes = actions.iter().filter(|b| b.writes() && b.loc == a.loc).count();
        if a.reads() {
            choices = choices.saturating_mul(writes + 1);
        }
        if a.writes() && a.atomic {
            choices = choices.saturating_mul(2);
        }
    }
    choices <= 2000
}

/// Returns a random choice of the rules. CAS-F and CAS-T go together, since they order the same actions.
fn some_rules(rng: &mut StdRng) -> Rules {
    let mut rules = Rules::NONE.with(Rule::NoC).with(Rule::C);
    for rule in Rule::ALL.into_iter().filter(|&rule| rule != Rule::CasT) {
        // Program order leaves the other rules nothing to order.
        let of_six = if rule == Rule::Po { 1 } else { 4 };
        if rng.random_ratio(of_six, 6) {
            rules = rules.with(rule);
        }
    }
    match rules.has(Rule::CasF) {
        true => rules.with(Rule::CasT),
        false => rules,
    }
}

pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn brute_force_finds_the_same_outcomes() {
    let mut rng = StdRng::seed_from_u64(number("MOWGLI_FUZZ_SEED", 1));
    let count = number("MOWGLI_CORERMA_PROGRAMS", 400);
    let (mut done, mut undefined, mut several) = (0, 0, 0);
    while done < count {
        let program = program(&mut rng);
        if !is_small(&program) {
            continue;
        }
        let models = [
            Model::STOCK,
            Model::FIG4,
            Model::INFINIBAND,
            Model::INLINED,
            Model::SC,
        ];
        let model = models.choose(&mut rng).unwrap().switches();
        let switches = match rng.random() {
            true => model,
            false => model.with_rules(some_rules(&mut rng)),
        };
        let found = outcomes(&program, &switches, &Budget::default());
        assert!(found.is_complete());
        let expected = crate::naive::outcomes(&program, switches);
        assert_eq!(
            found.outcomes,
            expected,
            "program {done} under {switches:?}:\n{}",
            program_text(&program)
        );
        assert!(!expected.is_empty(), "{}", program_text(&program));
        let mut values = expected.iter().flat_map(|o| o.registers.iter().flatten());
        undefined += u64::from(values.any(|&v| v == UNDEFINED));
        several += u64::from(expected.len() > 1);
        done += 1;
    }
    println!("{done} programs, {undefined} with an undefined value, {several} with several outcomes");
    assert!(undefined * 20 > done && several * 4 > done);
}

/// A guarantee only removes outcomes.
#[test]
fn stronger_networks_allow_less() {
    let mut rng = StdRng::seed_from_u64(number("MOWGLI_FUZZ_SEED", 2));
    let order = [
        (Model::STOCK, Model::FIG4),
        (Model::FIG4, Model::UNORDERED),
        (Model::INFINIBAND, Model::UNORDERED),
        (Model::STOCK, Model::INFINIBAND),
        (Model::INLINED, Model::STOCK),
        (Model::ATOMIC_RGA, Model::STOCK),
        (Model::SC, Model::INLINED),
        (Model::SC, Model::INFINIBAND),
        (Model::STOCK, "corerma-R1".parse().unwrap()),
        (Model::STOCK, "corerma-R2".parse().unwrap()),
        (Model::STOCK, "corerma-LO".parse().unwrap()),
    ];
    let mut strict = BTreeSet::new();
    for _ in 0..400 {
        let mut program = program(&mut rng);
        // With conflicts a stronger order can turn an undefined value into a number, which is not one outcome less.
        atomic(&mut program);
        let of = |switches: Switches| outcomes(&program, &switches, &Budget::default()).outcomes;
        for (stronger, weaker) in order {
            let (less, more) = (of(stronger.switches()), of(weaker.switches()));
            assert!(
                less.is_subset(&more),
                "{stronger} and {weaker}:\n{}",
                program_text(&program)
            );
            if less != more {
                strict.insert((stronger, weaker));
            }
        }
    }
    assert_eq!(strict.len(), order.len(), "each pair is told apart: {strict:?}");
}

fn atomic(program: &mut Program) {
    let accesses = program.processes.iter_mut().flat_map(|p| &mut p.code);
    for statement in accesses {
        match statement {
            Statement::Read { from: a, .. } | Statement::Write { to: a, .. } => a.atomic = true,
            Statement::Get { to: a, from: b } | Statement::Put { to: a, from: b } => {
                (a.atomic, b.atomic) = (true, true);
            }
            Statement::Rga { to, target, addend } => {
                (to.atomic, target.atomic, addend.atomic) = (true, true, true);
            }
            Statement::Cas {
                to,
                target,
                expected,
                new,
            } => {
                (to.atomic, target.atomic) = (true, true);
                (expected.atomic, new.atomic) = (true, true);
            }
            Statement::Flush { .. } => {}
        }
    }
}
