//! The part of the litmus language that RDMA-TSO'24 needs, with the outcomes that its model allows.
//!
//! A test is read from `litmus/rdma-tso24/NAME.litmus`: `x := 1` stores, `a := x` loads, `z^2 := x` puts, `a := y^2`
//! gets, `poll(n)`, `rfence(n)`, `mfence`. Its outcomes come from `NAME.litmus.expected`, the section of model
//! `rdma-tso`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

/// A statement with its names resolved. Locations and registers are numbered over all nodes and threads.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Store(usize, u64),
    /// Loads a location into a register.
    Load(usize, usize),
    Fence,
    /// Puts a location or a constant at a peer's location.
    Put(u16, usize, Result<usize, u64>),
    /// Gets a peer's location into a location.
    Get(u16, usize, usize),
    Poll(u16),
    RemoteFence(u16),
}

/// A register or location that an outcome is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Observed {
    Register(usize),
    Location(usize),
}

/// The values that a condition is about.
pub type Outcome = BTreeMap<Observed, u64>;

/// A condition of a test.
#[derive(Debug)]
pub struct Query {
    /// The outcome that the condition asks for.
    pub asked: Outcome,
    /// Set if the paper says that the outcome does not occur.
    pub forbidden: bool,
    /// All outcomes that the model allows, over the same registers and locations.
    pub allowed: BTreeSet<Outcome>,
}

/// A litmus test.
#[derive(Debug)]
pub struct Litmus {
    /// Node and first value of each location.
    pub locations: Vec<(u16, u64)>,
    pub registers: usize,
    /// Node and statements of each thread.
    pub threads: Vec<(u16, Vec<Step>)>,
    pub queries: Vec<Query>,
}

/// Returns the directory of the tests.
pub fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../litmus/rdma-tso24")
}

#[derive(Default)]
struct Names {
    locations: HashMap<String, usize>,
    registers: HashMap<(usize, String), usize>,
}

impl Names {
    fn register(&mut self, thread: usize, name: &str) -> usize {
        let next = self.registers.len();
        *self.registers.entry((thread, name.to_owned())).or_insert(next)
    }

    /// Reads `0:a`, `x` or `[x]`.
    fn observed(&self, name: &str) -> Observed {
        match name.split_once(':') {
            Some((thread, register)) => {
                Observed::Register(self.registers[&(thread.parse().unwrap(), register.to_owned())])
            }
            None => Observed::Location(self.locations[name.trim_matches(['[', ']'])]),
        }
    }

    /// Reads terms `what=value`, separated by `separator`.
    fn outcome(&self, text: &str, separator: &str) -> Outcome {
        let terms = text
            .split(separator)
            .map(str::trim)
            .filter(|term| !term.is_empty());
        terms
            .map(|term| {
                let (what, value) = term.split_once('=').unwrap();
                (self.observed(what), value.parse().unwrap())
            })
            .collect()
    }
}

impl Litmus {
    /// Reads a test with its expected outcomes.
    pub fn read(name: &str) -> Litmus {
        let path = directory().join(format!("{name}.litmus"));
        let text = std::fs::read_to_string(&path).unwrap();
        let expected = std::fs::read_to_string(path.with_extension("litmus.expected")).unwrap();
        let (head, rest) = text.split_once('}').unwrap();
        let (_, declared) = head.split_once('{').unwrap();
        let (table, conditions) = rest.split_once("exists").unwrap();
        let mut names = Names::default();
        let mut locations = Vec::new();
        for declaration in declared.split(';').map(str::trim).filter(|d| !d.is_empty()) {
            let (place, value) = declaration.split_once('=').unwrap();
            let (location, node) = place.split_once('@').unwrap();
            names.locations.insert(location.to_owned(), locations.len());
            locations.push((node.parse().unwrap(), value.parse().unwrap()));
        }
        let mut threads: Vec<(u16, Vec<Step>)> = Vec::new();
        for (row, line) in table.trim().lines().enumerate() {
            for (thread, cell) in line.trim_end_matches([' ', ';']).split('|').enumerate() {
                let cell = cell.trim();
                if row == 0 {
                    let (_, node) = cell.split_once('@').unwrap();
                    threads.push((node.parse().unwrap(), Vec::new()));
                } else if !cell.is_empty() {
                    threads[thread].1.push(step(cell, thread, &mut names));
                }
            }
        }
        let (_, section) = expected.split_once("Model rdma-tso\n").unwrap();
        let section = section.split("\n\n").next().unwrap();
        let mut states = section.split("Test ").skip(1).map(|test| {
            let lines = test.lines().skip_while(|line| !line.starts_with("States"));
            let states = lines.skip(1).take_while(|line| line.ends_with(';'));
            states
                .map(|line| names.outcome(line, ";"))
                .collect::<BTreeSet<_>>()
        });
        let queries: Vec<_> = conditions
            .split("exists")
            .map(|query| {
                let (condition, verdict) = query.split_once(')').unwrap();
                Query {
                    asked: names.outcome(condition.trim().trim_start_matches('('), "/\\"),
                    forbidden: verdict
                        .lines()
                        .any(|line| line.starts_with("forbidden") && line.contains("rdma-tso;")),
                    allowed: states.next().unwrap(),
                }
            })
            .collect();
        for query in &queries {
            assert!(!query.allowed.is_empty(), "{name}: no outcome is allowed");
            assert_eq!(query.allowed.contains(&query.asked), !query.forbidden, "{name}");
        }
        Litmus {
            registers: names.registers.len(),
            locations,
            threads,
            queries,
        }
    }
}

fn step(text: &str, thread: usize, names: &mut Names) -> Step {
    let argument = |name: &str| {
        let rest = text.strip_prefix(name)?.strip_prefix('(')?;
        Some(rest.strip_suffix(')')?.parse().unwrap())
    };
    if text == "mfence" {
        return Step::Fence;
    }
    if let Some(peer) = argument("poll") {
        return Step::Poll(peer);
    }
    if let Some(peer) = argument("rfence") {
        return Step::RemoteFence(peer);
    }
    let (to, from) = text.split_once(" := ").unwrap();
    let remote = |side: &str| -> Option<(String, u16)> {
        let (name, peer) = side.split_once('^')?;
        Some((name.to_owned(), peer.parse().unwrap()))
    };
    match (remote(to), remote(from), from.parse::<u64>()) {
        (Some((to, peer)), None, Ok(value)) => Step::Put(peer, names.locations[&to], Err(value)),
        (Some((to, peer)), None, Err(_)) => Step::Put(peer, names.locations[&to], Ok(names.locations[from])),
        (None, Some((from, peer)), _) => Step::Get(peer, names.locations[&from], names.locations[to]),
        (None, None, Ok(value)) => Step::Store(names.locations[to], value),
        (None, None, Err(_)) => Step::Load(names.locations[from], names.register(thread, to)),
        (Some(_), Some(_), _) => panic!("{text}: remote to remote"),
    }
}
