//! The reader of herd7's x86 tests against an interpreter of x86-TSO that works on bytes and on addresses as values: the two agree on the
//! final states and conditions of random tests, or the reader refuses what its words cannot say.
//!
//! `MOWGLI_X86=COUNT,SEED` compares so many tests.

mod interpreter;

use std::collections::{BTreeMap, BTreeSet};

use mowgli::explore;
use mowgli::generate::Random;
use mowgli::litmus::{Formula, Kind, Litmus, Operand, Quantifier};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::{Budget, Outcome};
use mowgli::star::x86;

use interpreter::{Final, run};

const LOCATIONS: [&str; 2] = ["x", "y"];
const REGISTERS: [[&str; 2]; 4] = [["rax", "eax"], ["rbx", "ebx"], ["rsi", "esi"], ["rbp", "ebp"]];

/// The content of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Held {
    Number(u64),
    Address(usize),
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Register(usize),
    Constant(i64),
    Location(usize),
    Through(usize),
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Fence,
    /// The last is whether 64 bits are moved, here and below.
    Move(Place, Place, bool),
    /// `xchg` of a place in memory and a register.
    Exchange(Place, usize, bool),
    /// `lock cmpxchg` of a place in memory and a register.
    CompareExchange(Place, usize, bool),
    /// `add` of a constant to a register or a place in memory; the first `bool` is whether it is locked.
    Add(Place, i64, bool, bool),
}

impl Step {
    /// Returns the places that it names, and whether it is of 64 bits; nothing for a fence.
    fn places(&self) -> Option<(Vec<Place>, bool)> {
        Some(match *self {
            Step::Fence => return None,
            Step::Move(to, from, wide) => (vec![to, from], wide),
            Step::Exchange(at, r, wide) | Step::CompareExchange(at, r, wide) => {
                (vec![at, Place::Register(r)], wide)
            }
            Step::Add(at, n, _, wide) => (vec![at, Place::Constant(n)], wide),
        })
    }
}

/// A formula as the test writes it. A register is asked by its 64-bit name or by the name of its lower half.
#[derive(Clone, Debug)]
enum Asked {
    Register(usize, usize, bool, bool, i64),
    Location(usize, bool, i64),
    Not(Box<Asked>),
    And(Vec<Asked>),
    Or(Vec<Asked>),
}

impl Asked {
    /// Returns whether a register has the name of its lower half.
    fn names_half(&self) -> bool {
        match self {
            Asked::Register(_, _, wide, ..) => !wide,
            Asked::Location(..) => false,
            Asked::Not(a) => a.names_half(),
            Asked::And(all) | Asked::Or(all) => all.iter().any(Asked::names_half),
        }
    }
}

struct Case {
    intel: bool,
    initial: [i64; 2],
    registers: Vec<[Held; 4]>,
    threads: Vec<Vec<Step>>,
    filter: Option<Asked>,
    quantifier: Quantifier,
    asked: Asked,
}

fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[random.below(from.len())]
}

fn constant(random: &mut Random, odd: bool) -> i64 {
    match odd && random.below(3) == 0 {
        true => pick(
            random,
            &[-1, -2, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x1_0000_0001],
        ),
        false => pick(random, &[0, 1, 2, 3]),
    }
}

impl Case {
    fn random(seed: u64) -> Case {
        let random = &mut Random::new(seed);
        let intel = random.below(3) == 0;
        // Sizes: 32 bits, 64 bits, or both.
        let sizes = if intel { 0 } else { random.below(3) };
        let odd = random.below(3) == 0;
        let threads = 1 + random.below(3);
        let most = [6, 4, 2][threads - 1];
        let mut case = Case {
            intel,
            initial: [0, 1].map(|_| {
                if random.below(4) == 0 {
                    constant(random, odd)
                } else {
                    0
                }
            }),
            registers: Vec::new(),
            threads: Vec::new(),
            filter: None,
            quantifier: pick(
                random,
                &[Quantifier::Exists, Quantifier::NotExists, Quantifier::Forall],
            ),
            asked: Asked::And(Vec::new()),
        };
        for _ in 0..threads {
            case.registers
                .push(std::array::from_fn(|r| match random.below(6) {
                    0 => Held::Number(constant(random, odd) as u64),
                    1..=4 if r == 2 => Held::Address(random.below(2)),
                    1 if random.below(3) == 0 => Held::Address(random.below(2)),
                    _ => Held::Number(0),
                }));
            let count = 1 + random.below(most);
            let steps = (0..count).map(|_| step(random, sizes, odd)).collect();
            case.threads.push(steps);
        }
        case.asked = asked(random, threads, odd, 2);
        if random.below(4) == 0 {
            case.filter = Some(asked(random, threads, odd, 1));
        }
        case
    }

    fn text(&self) -> String {
        let header = if self.intel { "X86" } else { "X86_64" };
        let mut text = format!("{header} t\n\"a {{ in a text\"\n{{");
        for (name, value) in LOCATIONS.iter().zip(self.initial) {
            text.push_str(&format!(" {name}={value};"));
        }
        for (t, registers) in self.registers.iter().enumerate() {
            for (r, held) in registers.iter().enumerate() {
                let name = self.register(r, !self.intel);
                let name = name.trim_start_matches('%');
                match held {
                    Held::Number(0) => {}
                    Held::Number(n) => text.push_str(&format!(" {t}:{name}={};", *n as i64)),
                    Held::Address(l) => text.push_str(&format!(" P{t}:{name}={};", LOCATIONS[*l])),
                }
            }
        }
        text.push_str(" }\n");
        let names: Vec<String> = (0..self.threads.len()).map(|t| format!("P{t}")).collect();
        text.push_str(&format!(" {} ;\n", names.join(" | ")));
        let rows = self.threads.iter().map(Vec::len).max().unwrap();
        for row in 0..rows {
            let cells = self
                .threads
                .iter()
                .map(|t| t.get(row).map_or(String::new(), |s| self.cell(s)));
            text.push_str(&format!(" {} ;\n", cells.collect::<Vec<_>>().join(" | ")));
        }
        text.push_str("(* a note; exists *)\n");
        if let Some(filter) = &self.filter {
            text.push_str(&format!("filter {}\n", self.formula(filter)));
        }
        let quantifier = match self.quantifier {
            Quantifier::Exists => "exists",
            Quantifier::NotExists => "~exists",
            Quantifier::Forall => "forall",
        };
        text.push_str(&format!("{quantifier} {}\n", self.formula(&self.asked)));
        text
    }

    fn register(&self, r: usize, wide: bool) -> String {
        let name = REGISTERS[r][usize::from(!wide)];
        match self.intel {
            true => name.to_uppercase(),
            false => format!("%{name}"),
        }
    }

    fn cell(&self, step: &Step) -> String {
        let Some((places, wide)) = step.places() else {
            return "mfence".to_owned();
        };
        let (open, close) = if self.intel { ('[', ']') } else { ('(', ')') };
        let place = |place: &Place| match place {
            Place::Register(r) => self.register(*r, wide),
            Place::Constant(n) if n % 2 == 0 && *n >= 0 => format!("$0x{n:x}"),
            Place::Constant(n) => format!("${n}"),
            Place::Location(l) => format!("{open}{}{close}", LOCATIONS[*l]),
            Place::Through(r) => format!("{open}{}{close}", self.register(*r, !self.intel)),
        };
        let (first, second) = (place(&places[0]), place(&places[1]));
        let word = match step {
            Step::Add(_, _, true, _) => "lock add",
            Step::Add(..) => "add",
            Step::Exchange(..) => "xchg",
            Step::CompareExchange(..) => "lock cmpxchg",
            _ => "mov",
        };
        match (self.intel, wide) {
            (true, _) => format!("{} {first},{second}", word.to_uppercase()),
            (false, true) => format!("{word}q {second},{first}"),
            (false, false) => format!("{word}l {second},{first}"),
        }
    }

    fn formula(&self, asked: &Asked) -> String {
        let relation = |equal: bool| if equal { "=" } else { "<>" };
        let join = |all: &[Asked], by: &str| {
            let all: Vec<String> = all.iter().map(|a| self.formula(a)).collect();
            format!("({})", all.join(by))
        };
        match asked {
            Asked::Register(t, r, wide, equal, n) => {
                let name = self.register(*r, *wide && !self.intel);
                format!("{t}:{}{}{n}", name.trim_start_matches('%'), relation(*equal))
            }
            Asked::Location(l, equal, n) => format!("[{}]{}{n}", LOCATIONS[*l], relation(*equal)),
            Asked::Not(a) => format!("(not {})", self.formula(a)),
            Asked::And(all) => join(all, " /\\ "),
            Asked::Or(all) => join(all, " \\/ "),
        }
    }

    fn steps(&self) -> impl Iterator<Item = &Step> {
        self.threads.iter().flatten()
    }

    /// Returns whether some access has 32 bits, and whether some has 64.
    fn sizes(&self) -> [bool; 2] {
        [false, true].map(|wanted| {
            self.steps()
                .any(|s| s.places().is_some_and(|(_, wide)| wide == wanted))
        })
    }

    /// Returns whether all that the test has is of 32 bits: its moves, or without moves some register's name in a condition.
    fn is_narrow(&self) -> bool {
        let [long, quad] = self.sizes();
        let named = [Some(&self.asked), self.filter.as_ref()];
        self.intel || !quad && (long || named.into_iter().flatten().any(Asked::names_half))
    }

    /// Returns what each register holds at the end, as far as addresses go, or `None` if a thread uses an address or number as the other.
    fn kinds(&self) -> Option<Vec<[Held; 4]>> {
        let mut registers = self.registers.clone();
        for (thread, held) in self.threads.iter().zip(&mut registers) {
            for step in thread {
                let Some((places, _)) = step.places() else {
                    continue;
                };
                for place in &places {
                    if let Place::Through(r) = place
                        && !matches!(held[*r], Held::Address(_))
                    {
                        return None;
                    }
                }
                let Step::Move(to, from, wide) = step else {
                    // Only moves are of addresses.
                    let uses =
                        |p: &Place| matches!(p, Place::Register(r) if matches!(held[*r], Held::Address(_)));
                    let accumulator = matches!(step, Step::CompareExchange(..));
                    if places.iter().any(uses) || accumulator && matches!(held[0], Held::Address(_)) {
                        return None;
                    }
                    continue;
                };
                let from = match from {
                    Place::Register(r) => held[*r],
                    _ => Held::Number(0),
                };
                let cut = matches!(from, Held::Address(_)) && !wide && !self.intel;
                match to {
                    Place::Register(r) if !cut => held[*r] = from,
                    _ if matches!(from, Held::Address(_)) => return None,
                    _ => {}
                }
            }
        }
        Some(registers)
    }
}

fn step(random: &mut Random, sizes: usize, odd: bool) -> Step {
    let wide = match sizes {
        0 => false,
        1 => true,
        _ => random.below(2) == 0,
    };
    // The third register mostly holds an address, which most instructions refuse.
    let register = |random: &mut Random| pick(random, &[0, 1, 3, 0, 1, 3, 0, 1, 3, 2]);
    let memory = |random: &mut Random| match random.below(3) {
        0 => Place::Through(if random.below(3) == 0 { register(random) } else { 2 }),
        _ => Place::Location(random.below(2)),
    };
    match random.below(14) {
        0 => Step::Fence,
        10 | 11 => Step::Exchange(memory(random), register(random), wide),
        12 => Step::CompareExchange(memory(random), register(random), wide),
        13 => match random.below(3) {
            0 => Step::Add(
                Place::Register(register(random)),
                constant(random, odd),
                false,
                wide,
            ),
            locked => Step::Add(memory(random), constant(random, odd), locked == 1, wide),
        },
        1..=3 => Step::Move(memory(random), Place::Constant(constant(random, odd)), wide),
        4 => Step::Move(memory(random), Place::Register(register(random)), wide),
        5..=7 => Step::Move(Place::Register(register(random)), memory(random), wide),
        8 => Step::Move(
            Place::Register(register(random)),
            Place::Constant(constant(random, odd)),
            wide,
        ),
        _ => Step::Move(
            Place::Register(register(random)),
            Place::Register(register(random)),
            wide,
        ),
    }
}

fn asked(random: &mut Random, threads: usize, odd: bool, depth: usize) -> Asked {
    let many = |random: &mut Random| {
        (0..1 + random.below(2))
            .map(|_| asked(random, threads, odd, depth - 1))
            .collect()
    };
    match random.below(if depth == 0 { 3 } else { 7 }) {
        0 | 1 => {
            let wide = random.below(3) != 0;
            let (thread, register) = (random.below(threads), random.below(4));
            Asked::Register(
                thread,
                register,
                wide,
                random.below(4) != 0,
                constant(random, odd),
            )
        }
        2 => Asked::Location(random.below(2), random.below(4) != 0, constant(random, odd)),
        3 => Asked::Not(Box::new(asked(random, threads, odd, depth - 1))),
        4 | 5 => Asked::And(many(random)),
        _ => Asked::Or(many(random)),
    }
}

/// Returns whether a final state satisfies a formula; `None` if it asks for the value of an address.
fn holds(case: &Case, asked: &Asked, end: &Final) -> Option<bool> {
    let narrow = case.is_narrow();
    let equal = |held: u64, n: i64, long: bool| match long {
        true => held as u32 == n as u32,
        false => held == n as u64,
    };
    let all = |all: &[Asked]| {
        all.iter()
            .map(|a| holds(case, a, end))
            .collect::<Option<Vec<bool>>>()
    };
    Some(match asked {
        Asked::Location(l, is, n) => equal(end.0[*l], *n, narrow) == *is,
        Asked::Register(t, r, wide, is, n) => match end.1[*t][*r] {
            Held::Number(held) => equal(held, *n, !wide || case.intel) == *is,
            Held::Address(_) => return None,
        },
        Asked::Not(a) => !holds(case, a, end)?,
        Asked::And(fs) => all(fs)?.iter().all(|b| *b),
        Asked::Or(fs) => all(fs)?.iter().any(|b| *b),
    })
}

/// Returns the states of the reader's program, without registers that end with an address.
fn states(litmus: &Litmus, names: &BTreeMap<(usize, usize), Operand>) -> BTreeSet<Vec<i64>> {
    let found = explore::outcomes(&litmus.program, Model::Tso, RmwAtomicity::Hca, &Budget::default());
    assert!(found.is_complete());
    let value = |o: &Outcome| {
        let operands = names.values();
        let registers = operands.map(|op| op.find(&o.registers, &o.memory).unwrap());
        let memory = LOCATIONS.map(|name| {
            let at = litmus
                .program
                .locations
                .iter()
                .position(|l| l.name == name)
                .unwrap();
            o.memory[at]
        });
        memory.into_iter().chain(registers).collect()
    };
    found.outcomes.iter().map(value).collect()
}

#[derive(Debug, Default)]
struct Tally {
    same: usize,
    through: usize,
    locked: usize,
    overwritten: usize,
    negative: usize,
    filtered: usize,
    refused: BTreeMap<&'static str, usize>,
}

fn compare(seed: u64, tally: &mut Tally) {
    let case = Case::random(seed);
    let text = case.text();
    let kinds = case.kinds();
    let litmus = match x86::parse(&text) {
        Ok(litmus) => litmus,
        Err(error) => {
            let first = &error.diagnostics[0];
            let ends = kinds.as_ref();
            let why = match first.kind {
                // The sizes matter; whether they do is a question about constants, and too strict an answer shows in the count.
                Kind::OutOfRange => "size",
                Kind::WrongOperand if ends.is_none() => "address",
                Kind::WrongOperand if first.message.contains("ends with an address") => "asked",
                Kind::WrongOperand if first.message.contains("two memory operands") => "memory",
                Kind::WrongOperand if first.message.contains("cuts an address") && !case.intel => "cut",
                _ => panic!("seed {seed}: {first}\n{text}"),
            };
            assert!(first.help.is_some(), "{text}\n{first}");
            *tally.refused.entry(why).or_default() += 1;
            return;
        }
    };
    let kinds = kinds.unwrap_or_else(|| panic!("seed {seed}: accepted\n{text}"));
    let ends = run(&case);
    let mut names = BTreeMap::new();
    for (t, registers) in kinds.iter().enumerate() {
        for (r, held) in registers.iter().enumerate() {
            let name = case.register(r, !case.intel);
            let known = litmus.program.threads[t].registers.iter();
            let at = known
                .clone()
                .position(|known| known == name.trim_start_matches('%'));
            if let (Held::Number(_), Some(at)) = (held, at) {
                let thread = mowgli::program::ThreadId(t as u8);
                names.insert((t, r), Operand::Reg(thread, mowgli::program::Reg(at as u16)));
            }
        }
    }
    let narrow = case.is_narrow();
    let number = |n: u64| if narrow { i64::from(n as i32) } else { n as i64 };
    let expected: BTreeSet<Vec<i64>> = ends
        .iter()
        .map(|(memory, registers)| {
            let registers = names.keys().map(|(t, r)| match registers[*t][*r] {
                Held::Number(n) => number(n),
                Held::Address(_) => panic!("seed {seed}\n{text}"),
            });
            memory.iter().map(|n| number(*n)).chain(registers).collect()
        })
        .collect();
    assert_eq!(states(&litmus, &names), expected, "seed {seed}\n{text}");
    // The question.
    let truth: Vec<bool> = ends
        .iter()
        .filter(|end| case.filter.as_ref().is_none_or(|f| holds(&case, f, end).unwrap()))
        .map(|end| holds(&case, &case.asked, end).unwrap())
        .collect();
    let found = explore::outcomes(&litmus.program, Model::Tso, RmwAtomicity::Hca, &Budget::default());
    let condition = &litmus.queries[0].condition;
    let formula: &Formula = &condition.formula;
    let mut read = found.outcomes.iter().map(|o| formula.holds(o));
    let (theirs, ours) = match case.quantifier {
        Quantifier::Exists => (truth.contains(&true), read.any(|b| b)),
        Quantifier::NotExists => (!truth.contains(&true), !read.any(|b| b)),
        Quantifier::Forall => (!truth.contains(&false), read.all(|b| b)),
    };
    assert_eq!(condition.quantifier, case.quantifier);
    assert_eq!(ours, theirs, "seed {seed}\n{text}");
    tally.same += 1;
    let places = || {
        case.steps()
            .filter_map(Step::places)
            .flat_map(|(places, _)| places)
    };
    tally.through += usize::from(places().any(|p| matches!(p, Place::Through(_))));
    let locked = |s: &Step| {
        matches!(
            s,
            Step::Exchange(..) | Step::CompareExchange(..) | Step::Add(_, _, true, _)
        )
    };
    tally.locked += usize::from(case.steps().any(locked));
    tally.overwritten += usize::from(case.registers.iter().zip(&case.threads).any(|(held, steps)| {
        steps
            .iter()
            .any(|s| matches!(s, Step::Move(Place::Register(r), ..) if matches!(held[*r], Held::Address(_))))
    }));
    tally.negative += usize::from(places().any(|p| matches!(p, Place::Constant(n) if n < 0)));
    tally.filtered += usize::from(case.filter.is_some());
}

#[test]
fn random_tests_mean_what_an_interpreter_of_x86_says() {
    let asked = std::env::var("MOWGLI_X86").ok();
    let (count, seed) = match asked.as_deref().and_then(|s| s.split_once(',')) {
        Some((count, seed)) => (count.parse().unwrap(), seed.parse().unwrap()),
        None => (6_000, 0),
    };
    let mut tally = Tally::default();
    (seed..seed + count).for_each(|seed| compare(seed, &mut tally));
    if asked.is_some() {
        eprintln!("{tally:?}");
    }
    let share = |n: usize, of: usize| n as u64 * of as u64 >= count;
    assert!(share(tally.same, 4), "{tally:?}");
    assert!(
        share(tally.through, 10) && share(tally.overwritten, 25) && share(tally.locked, 10),
        "{tally:?}"
    );
    assert!(
        share(tally.negative, 200) && share(tally.filtered, 20),
        "{tally:?}"
    );
}
