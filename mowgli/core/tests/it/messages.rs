//! Send and receive, writes with immediate, and the CPU's exchange.
//!
//! The engines, the two pipelines, the reduction and the models' files are compared on random programs of a sender and a receiver.
//! `MOWGLI_MESSAGES=COUNT,SEED` compares so many.

use std::collections::BTreeSet;

use mowgli::cat::{self, ModelFile};
use mowgli::check::{self, Engine};
use mowgli::explore::{Options, outcomes_with};
use mowgli::generate::Random;
use mowgli::litmus::{Kind, Litmus, Setting, Verdict, parse};
use mowgli::model::{Model, RmwAtomicity, Tier};
use mowgli::outcome::{Budget, Search};
use mowgli::program::Program;
use mowgli::{declarative, robust};

const HCA: RmwAtomicity = RmwAtomicity::Hca;

fn litmus(text: &str) -> Litmus {
    parse(text).unwrap_or_else(|e| panic!("{text}: {e}")).litmus
}

/// A sender on node 1 and a receiver on node 2.
fn test(sender: &[&str], receiver: &[&str], condition: &str) -> Litmus {
    let mut text = "RDMA t\n{ a@1=7; b@1=0; x@2=0; y@2=0; z@2=0; }\nP0@1 | P1@2 ;\n".to_owned();
    for row in 0..sender.len().max(receiver.len()) {
        let cell = |column: &[&str]| column.get(row).copied().unwrap_or_default().to_owned();
        text.push_str(&format!("{} | {} ;\n", cell(sender), cell(receiver)));
    }
    litmus(&format!("{text}exists ({condition})\n"))
}

#[track_caller]
fn decided(litmus: &Litmus, model: Model, verdict: Verdict) {
    let setting = Setting { model, rmw: HCA };
    let answer = check::run(&litmus.program, setting, Engine::Both, &Budget::default()).unwrap();
    assert_eq!(answer.disagreement, None, "{model}:\n{}", litmus.print());
    assert!(!answer.search.outcomes.is_empty(), "{model}:\n{}", litmus.print());
    let found = check::judge(litmus, 0, &answer.search).verdict();
    assert_eq!(found, Some(verdict), "{model}:\n{}", litmus.print());
}

fn tier(tier: Tier) -> Model {
    Model::RdmaTso.on(tier).unwrap()
}

#[test]
fn a_polled_receive_has_the_data_of_its_send() {
    let sent = test(
        &["send(2, a)"],
        &["recv(P0, x)", "pollrecv(P0)", "r := x"],
        "1:r=7",
    );
    for model in Model::ALL.into_iter().chain(Model::TIERED) {
        if check::applicable(&sent.program, model).is_ok() {
            decided(&sent, model, Verdict::Required);
        }
    }
    let unpolled = test(&["send(2, a)"], &["recv(P0, x)", "r := x"], "1:r=0");
    decided(&unpolled, Model::RdmaTso, Verdict::Allowed);
}

/// The remedy of the field: a write with immediate behind the data. On the tiers that take receives in any order its completion says nothing of
/// other operations, unless it asks for strong order.
#[test]
fn the_completion_of_a_write_with_immediate_announces_the_writes_before_it() {
    let receiver = ["recv(P0)", "i := pollrecv(P0)", "r := x"];
    let announced = test(&["x^2 := a", "imm(3) y^2 := 1"], &receiver, "~ (1:r=7 /\\ 1:i=3)");
    let empty = test(&["x^2 := a", "imm(3) send(2)"], &receiver, "~ (1:r=7 /\\ 1:i=3)");
    let strong = test(
        &["x^2 := a", "strong imm(3) y^2 := 1"],
        &receiver,
        "~ (1:r=7 /\\ 1:i=3)",
    );
    for t in [Tier::Ibta, Tier::OooRw, Tier::PcieRelaxed] {
        let model = if t == Tier::Ibta { Model::RdmaTso } else { tier(t) };
        decided(&announced, model, Verdict::Forbidden);
        decided(&empty, model, Verdict::Forbidden);
        decided(&strong, model, Verdict::Forbidden);
    }
    for t in [Tier::OooAll, Tier::Unordered] {
        decided(&announced, tier(t), Verdict::Allowed);
        decided(&empty, tier(t), Verdict::Allowed);
        decided(&strong, tier(t), Verdict::Forbidden);
    }
    // A flag in place of the completion is what goes wrong there.
    let flag = test(
        &["x^2 := a", "y^2 := 1"],
        &["f := y", "r := x"],
        "1:f=1 /\\ 1:r=0",
    );
    decided(&flag, tier(Tier::OooRw), Verdict::Allowed);
}

/// Receiver not ready: the message waits, so what is written before a receive is posted is there for the sender.
#[test]
fn a_message_waits_for_its_receive() {
    let buffer = test(&["send(2, a)"], &["r := x", "recv(P0, x)"], "1:r=7");
    decided(&buffer, Model::RdmaTso, Verdict::Forbidden);
    let ready = test(
        &["send(2)", "poll(2)", "b := y^2", "poll(2)", "r := b"],
        &["y := 1", "recv(P0)"],
        "0:r=0",
    );
    for model in [Model::Sc, Model::RdmaSc, Model::RdmaTso, tier(Tier::Unordered)] {
        decided(&ready, model, Verdict::Forbidden);
    }
    let unpolled = test(
        &["send(2)", "b := y^2", "poll(2)", "poll(2)", "r := b"],
        &["y := 1", "recv(P0)"],
        "0:r=0",
    );
    decided(&unpolled, Model::RdmaTso, Verdict::Forbidden);
    decided(&unpolled, tier(Tier::OooRw), Verdict::Allowed);
}

#[test]
fn messages_take_receives_in_their_order() {
    let two = test(
        &["send(2, 1)", "send(2, 2)"],
        &[
            "recv(P0, x)",
            "recv(P0, y)",
            "pollrecv(P0)",
            "pollrecv(P0)",
            "r := x",
            "s := y",
        ],
        "1:r=1 /\\ 1:s=2",
    );
    decided(&two, Model::RdmaTso, Verdict::Required);
    decided(&two, tier(Tier::OooRw), Verdict::Required);
    let model = tier(Tier::OooAll);
    let refused = check::applicable(&two.program, model).unwrap_err();
    assert!(refused.to_string().contains("in any order"), "{refused}");
}

#[test]
fn an_exchange_writes_and_gives_the_old_value() {
    let text =
        "RDMA t\n{ x@1=0; y@1=0; }\nP0@1 | P1@1 ;\nr := swap(x, 1) | s := swap(x, 2) ;\nu := y | y := 1 ;\n";
    for (condition, verdict) in [
        ("0:r=0 /\\ 1:s=0", Verdict::Forbidden),
        (
            "(0:r=0 /\\ 1:s=1 /\\ x=2) \\/ (1:s=0 /\\ 0:r=2 /\\ x=1)",
            Verdict::Required,
        ),
    ] {
        let test = litmus(&format!("{text}exists ({condition})\n"));
        decided(&test, Model::Tso, verdict);
        decided(&test, Model::Sc, verdict);
    }
    // It drains the store buffer, as xchg does.
    let buffering = "RDMA SB\n{ x@1=0; y@1=0; }\nP0@1 | P1@1 ;\nswap(x, 1) | swap(y, 1) ;\nr := y | s := x ;\nexists (0:r=0 /\\ 1:s=0)\n";
    decided(&litmus(buffering), Model::Tso, Verdict::Forbidden);
}

#[test]
fn what_is_printed_is_read_again() {
    let test = test(
        &[
            "send(2, a)",
            "unsignaled imm(1) send(2, inline(3))",
            "strong imm y^2 := 4",
            "imm(2) send(2)",
            "r := swap(b, 2)",
        ],
        &[
            "recv(P0, x)",
            "recv(P0, z)",
            "recv(P0)",
            "recv(P0)",
            "pollrecv(P0)",
            "s := pollrecv(P0)",
        ],
        "1:s=0",
    );
    let text = test.print();
    assert_eq!(litmus(&text).program, test.program, "{text}");
    assert!(!text.contains('>'), "{text}");
}

#[test]
fn mistakes_are_named() {
    let wrong = |sender: &str, receiver: &str| {
        let text = format!(
            "RDMA t\n{{ a@1=7; x@2=0; }}\nP0@1 | P1@2 | P2@2 ;\n{sender} | {receiver} | ;\nexists (x=1)\n"
        );
        let error = parse(&text).unwrap_err();
        let messages: Vec<String> = error.diagnostics.iter().map(|d| d.message.clone()).collect();
        messages.join("; ")
    };
    for (sender, receiver, says) in [
        ("send(2, a)", "", "no receive is left"),
        ("send(2, a)", "recv(P0)", "no buffer"),
        ("", "pollrecv(P0)", "never succeeds"),
        ("send(2, a)", "recv(P7, x)", "no thread `P7`"),
        ("if (1) { send(2, a) }", "recv(P0, x)", "outside of blocks"),
        ("imm a := 1", "", "only puts and sends"),
        ("send(2, a)", "recv(P0, a)", "is on node 1"),
        (
            "send(2, a)",
            "x := pollrecv(P0)",
            "gives its immediate data to a register",
        ),
    ] {
        let found = wrong(sender, receiver);
        assert!(found.contains(says), "{sender} | {receiver}: {found}");
    }
    let two = "RDMA t\n{ x@2=0; }\nP0@1 | P1@2 | P2@2 ;\nsend(2) | recv(P0) | ;\nsend(2) | | recv(P0) ;\nexists (x=0)\n";
    let error = parse(two).unwrap_err();
    assert_eq!(error.diagnostics[0].kind, Kind::WrongOperand);
    assert!(error.diagnostics[0].message.contains("two threads"), "{error}");
}

#[test]
fn the_conditions_for_robustness_are_not_defined_for_messages() {
    let sent = test(&["send(2, a)"], &["recv(P0, x)", "pollrecv(P0)"], "x=7");
    let found = robust::conditions(
        &sent.program,
        &robust::Question::of(Model::RdmaTso),
        &Budget::default(),
    );
    let robust::Finding::Unknown(limit) = found.ldrf else {
        panic!("{found:?}");
    };
    assert!(limit.to_string().contains("messages"), "{limit}");
}

/// Writes a random program: a sender, a receiver that posts enough receives, and sometimes a third thread that looks.
fn random(seed: u64, waits: bool) -> Program {
    let random = &mut Random::new(seed);
    let pick = |random: &mut Random, all: &[&'static str]| all[random.below(all.len())].to_owned();
    let data = ["a", "b", "1", "inline(2)", "3"];
    let there = ["x", "y", "z"];
    let most = 1 + random.below(2);
    let (mut messages, mut buffers) = (0, Vec::new());
    let (mut pending, mut registers, mut named) = (0, 0, false);
    let mut sender: Vec<String> = Vec::new();
    for _ in 0..2 + random.below(3) {
        let (value, place) = (pick(random, &data), pick(random, &there));
        let asks = ["", "", "", "strong ", "unsignaled ", "strong unsignaled "][random.below(6)];
        let becomes = if waits && random.once_in(2) {
            named = true;
            ":=[d]"
        } else {
            ":="
        };
        let immediate = ["imm ", "imm(4) "][random.below(2)];
        let mut posted = true;
        let operation = match random.below(12) {
            0..=2 if messages < most => {
                messages += 1;
                buffers.push(true);
                format!("send(2, {value})")
            }
            3..=5 if messages < most => {
                messages += 1;
                buffers.push(random.once_in(2));
                match random.below(4) {
                    0 => format!("{immediate}send(2)"),
                    _ => format!("{immediate}{place}^2 {becomes} {value}"),
                }
            }
            0..=6 => format!("{place}^2 {becomes} {value}"),
            7 => format!("b {becomes} {place}^2"),
            8 => format!("b {becomes} rfaa({place}^2, 5)"),
            9 if pending > 0 || waits => {
                posted = false;
                pending -= i32::from(!waits);
                if waits && !named {
                    "mfence".to_owned()
                } else if waits {
                    "wait(d)".to_owned()
                } else {
                    "poll(2)".to_owned()
                }
            }
            10 => {
                posted = false;
                "rfence(2)".to_owned()
            }
            _ => {
                posted = false;
                registers += 1;
                match random.below(3) {
                    0 => "a := 8".to_owned(),
                    1 => format!("p{registers} := b"),
                    _ => format!("p{registers} := swap(b, 9)"),
                }
            }
        };
        if posted {
            pending += i32::from(!asks.contains("unsignaled"));
            sender.push(format!("{asks}{operation}"));
        } else {
            sender.push(operation);
        }
    }
    // Receives in their order, each poll behind some receive, and accesses anywhere.
    let mut receiver: Vec<String> = Vec::new();
    let mut polls = random.below(messages + 1);
    let access = |random: &mut Random, n: usize| {
        let place = pick(random, &there);
        match random.below(6) {
            0 => format!("{place} := 6"),
            1 => format!("q{n} := swap({place}, 6)"),
            2 => "mfence".to_owned(),
            _ => format!("q{n} := {place}"),
        }
    };
    for (n, buffer) in buffers.iter().enumerate() {
        if random.once_in(2) {
            receiver.push(access(random, n));
        }
        receiver.push(match buffer {
            true => format!("recv(P0, {})", pick(random, &there)),
            false => "recv(P0)".to_owned(),
        });
        if polls > 0 && random.once_in(2) {
            polls -= 1;
            receiver.push(format!("i{n} := pollrecv(P0)"));
        }
    }
    for n in 0..polls {
        receiver.push(format!("j{n} := pollrecv(P0)"));
    }
    for n in 10..11 + random.below(2) {
        receiver.push(access(random, n));
    }
    let third = random.once_in(4);
    let mut text = "RDMA t\n{ a@1=7; b@1=0; x@2=0; y@2=0; z@2=0; }\nP0@1 | P1@2".to_owned();
    text.push_str(if third { " | P2@2 ;\n" } else { " ;\n" });
    for row in 0..sender.len().max(receiver.len()).max(2) {
        let cell = |column: &[String]| column.get(row).cloned().unwrap_or_default();
        text.push_str(&format!("{} | {}", cell(&sender), cell(&receiver)));
        if third {
            let cell = if row < 2 {
                access(random, 20 + row)
            } else {
                String::new()
            };
            text.push_str(&format!(" | {cell}"));
        }
        text.push_str(" ;\n");
    }
    litmus(&format!("{text}exists (true)\n")).program
}

#[track_caller]
fn same(what: &str, one: &Search, other: &Search, program: &Program) {
    if !one.is_complete() || !other.is_complete() {
        return;
    }
    let only: BTreeSet<_> = one.outcomes.symmetric_difference(&other.outcomes).collect();
    let side = if one.outcomes.len() > other.outcomes.len() {
        "first"
    } else {
        "second"
    };
    let text = Litmus {
        name: "t".to_owned(),
        description: None,
        program: program.clone(),
        observed: Vec::new(),
        queries: Vec::new(),
        stated: Vec::new(),
    };
    assert!(
        only.is_empty(),
        "{what}: {only:?}, more in the {side}\n{}",
        text.print()
    );
}

/// The engines agree with one another, the machine's two pipelines and its reduction too, and models with their files.
#[test]
fn engines_and_files_agree_on_random_programs() {
    let asked = std::env::var("MOWGLI_MESSAGES").unwrap_or_else(|_| "60,1".to_owned());
    let (count, first) = asked.split_once(',').unwrap();
    let (count, first): (u64, u64) = (count.parse().unwrap(), first.parse().unwrap());
    let files: Vec<(Model, ModelFile)> = Model::ALL
        .into_iter()
        .chain(Model::TIERED)
        .map(|model| (model, ModelFile::of(model)))
        .collect();
    let budget = || Budget {
        states_max: Some(2_000_000),
        ..Budget::default()
    };
    let (mut compared, mut with_messages, mut refused) = (0u64, 0u64, 0u64);
    for seed in first..first + count {
        let program = random(seed, seed % 4 == 3);
        with_messages += u64::from(program.has_messages());
        for (model, file) in &files {
            let by_file = cat::decide(&program, file, HCA, None, &budget());
            if check::applicable(&program, *model).is_err() {
                assert!(by_file.is_err(), "seed {seed}: {model}.cat");
                refused += 1;
                continue;
            }
            let about = |what: &str| format!("seed {seed} under {model}: {what}");
            let declarative = declarative::outcomes(&program, *model, HCA, &budget());
            let options = Options {
                workers: 1,
                ..Options::new(*model, HCA)
            };
            let machine = outcomes_with(&program, &options, &budget());
            same(&about("axioms, machine"), &declarative, &machine, &program);
            let plain = Options {
                reduction: false,
                ..options
            };
            if seed % 5 == 0 {
                let every = outcomes_with(&program, &plain, &budget());
                same(&about("reduced, all states"), &machine, &every, &program);
            }
            if model.tier() == Tier::Ibta {
                let concrete = Options {
                    machine: options.machine.concrete(),
                    ..options
                };
                let concrete = outcomes_with(&program, &concrete, &budget());
                same(&about("machine, concrete machine"), &machine, &concrete, &program);
            }
            let by_file = by_file.unwrap_or_else(|e| panic!("seed {seed}: {model}.cat: {e}"));
            same(&about("axioms, file"), &declarative, &by_file, &program);
            compared += u64::from(declarative.is_complete() && machine.is_complete());
        }
    }
    println!("{compared} comparisons on {count} programs, {with_messages} with messages, {refused} refused");
    assert!(compared > 5 * count && with_messages * 2 > count, "{compared}");
}
