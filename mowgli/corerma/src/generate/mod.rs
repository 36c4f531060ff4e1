//! Every test up to a size that exercises a rule, as coreRMA'16 section 6 makes them.
//!
//! `sketch` enumerates programs up to symmetry, `pivot` keeps those in which the rule breaks a cycle, and
//! [`mod@crate::outcome`] finds the outputs. The work is divided into units that do not depend on one another, so that the command
//! can spread it over threads and machines. [`distinguish`] looks for tests that separate two models.
//! [`table6`] has the figures of the paper. `docs/evidence/generation.md` says how the paper is
//! read.

pub mod distinguish;
mod file;
mod pivot;
mod sketch;
pub mod table6;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use mowgli::program::{Expr, Loc, Location, Node, Reg};

pub use pivot::{applications, pivot};
pub use sketch::{Op, PROCESSES_MAX, Sketch, Space, Step};

use crate::action::{Action, actions};
pub use crate::execution::Reading;
use crate::execution::{LeftOut, Next, Problem};
use crate::outcome::register_values;
use crate::program::{Access, Process, Program, Statement};
use crate::rules::Rule;
use crate::switches::Switches;
use crate::value::Value;

/// The largest size of a test.
pub const SIZE_MAX: usize = 32;

/// Steps that the sketches of one unit have in common.
const UNIT_DEPTH: usize = 3;

/// Makes the tests of one rule, number of processes and size.
#[derive(Clone, Debug)]
pub struct Generator {
    space: Space,
    units: Vec<Vec<Step>>,
    switches: Switches,
    rule: Rule,
    reading: Reading,
    scope: Scope,
}

/// Tests that are made besides those that a reader of coreRMA'16 would expect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Programs in which some processes do not communicate with the others: several tests side by side.
    pub unconnected: bool,
    /// Pivots of WS in which the other rules order the two writes whatever the execution, so that WS chooses nothing.
    pub decided: bool,
}

/// Final values of the registers of each process.
pub type Output = Vec<Vec<Value>>;

/// A test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// The program.
    pub program: Program,
    /// Its actions, initial writes among them.
    pub size: usize,
    /// The application of the rule that breaks a cycle.
    pub pivot: LeftOut,
    /// The outputs that the model allows.
    pub outputs: BTreeSet<Output>,
}

/// Bounds that cannot be used.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// No processes, or too many.
    #[error("tests have 1 to PROCESSES_MAX ({PROCESSES_MAX}) processes")]
    Processes,
    /// Too large.
    #[error("tests have at most SIZE_MAX ({SIZE_MAX}) actions")]
    Size,
    /// The rule gives no pair of happens-before.
    #[error("rule {0} orders nothing in this model, so it is no pivot; pivots are {1}")]
    Rule(Rule, String),
}

mowgli::debug_as_display!(Unusable);

/// Lists the rules that can be pivots under these switches.
pub fn pivots(switches: Switches) -> Vec<Rule> {
    let is_pivot = |rule: &Rule| match rule {
        // Program order orders all actions, as the other rules do some of them.
        Rule::NoC | Rule::C | Rule::Po => false,
        // Without WS, happens-before says to which writes R1 applies, and not a choice.
        Rule::R1 => switches.has(Rule::R1) && switches.has(Rule::Ws),
        rule => switches.has(*rule),
    };
    Rule::ALL.into_iter().filter(is_pivot).collect()
}

impl Generator {
    /// Prepares the tests in which `rule` is the pivot, with `processes` processes and at most `size` actions.
    ///
    /// # Errors
    ///
    /// Fails when a bound is out of range or the rule orders nothing.
    pub fn new(switches: Switches, rule: Rule, processes: usize, size: usize) -> Result<Generator, Unusable> {
        if !(1..=PROCESSES_MAX).contains(&processes) {
            return Err(Unusable::Processes);
        }
        if size > SIZE_MAX {
            return Err(Unusable::Size);
        }
        let usable = pivots(switches);
        if !usable.contains(&rule) {
            let names: Vec<&str> = usable.iter().map(|rule| rule.name()).collect();
            return Err(Unusable::Rule(rule, names.join(", ")));
        }
        let space = Space::new(processes, size);
        Ok(Generator {
            units: space.prefixes(UNIT_DEPTH),
            space,
            switches,
            rule,
            reading: Reading::default(),
            scope: Scope::default(),
        })
    }

    /// Makes the tests that `scope` adds, too.
    pub fn with_scope(mut self, scope: Scope) -> Generator {
        self.scope = scope;
        self
    }

    /// Makes only the tests that have a pivot with this reading.
    pub fn with_reading(mut self, reading: Reading) -> Generator {
        self.reading = reading;
        self
    }

    /// Returns the space of the sketches that are looked at.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Returns the number of units.
    pub fn units(&self) -> usize {
        self.units.len()
    }

    /// Makes the tests of a unit, in a fixed order. Returns `None` if `cancel` was set meanwhile.
    pub fn unit(&self, unit: usize, cancel: &AtomicBool) -> Option<Vec<Test>> {
        let mut tests = Vec::new();
        let complete = self.space.visit(&self.units[unit], &mut |sketch| {
            tests.extend(self.test(sketch));
            // Relaxed: the flag publishes no other data.
            !cancel.load(Ordering::Relaxed)
        });
        complete.then_some(tests)
    }

    /// Returns the test of a sketch, if it is the one of its kind and has a pivot.
    pub fn test(&self, sketch: &Sketch) -> Option<Test> {
        if !has_parts(sketch, self.rule)
            || !(self.scope.unconnected || sketch.is_connected())
            || !sketch.is_canonical(&self.space)
        {
            return None;
        }
        let program = program(sketch, &self.space);
        let actions = actions(&program);
        let home = |p: u8| program.processes[usize::from(p)].node;
        let pivot = pivot(
            &actions,
            &program.locations,
            home,
            self.switches,
            self.rule,
            self.reading,
            self.scope.decided,
        )?;
        let outputs = outputs(&program, &actions, self.switches);
        Some(Test {
            size: sketch.size(&self.space),
            program,
            pivot,
            outputs,
        })
    }
}

/// Returns whether the sketch has the operations that the rule is about.
fn has_parts(sketch: &Sketch, rule: Rule) -> bool {
    let any = |is: fn(&Op) -> bool| sketch.code.iter().flatten().any(is);
    match rule {
        Rule::F1 | Rule::F2 | Rule::F3 => any(|op| matches!(op, Op::Flush(_))),
        Rule::Pg => any(|op| matches!(op, Op::Put(..) | Op::Get(..))),
        Rule::Ga => any(|op| matches!(op, Op::Rga(..))),
        Rule::CasF | Rule::CasT => any(|op| matches!(op, Op::Cas(..))),
        _ => true,
    }
}

/// Finds the outputs of a program whose accesses are all atomic.
fn outputs(program: &Program, actions: &[Action], switches: Switches) -> BTreeSet<Output> {
    let problem = Problem::new(actions, |p| program.processes[usize::from(p)].node, switches);
    let mut outputs = BTreeSet::new();
    problem.visit(&mut |execution| {
        outputs.insert(register_values(program, execution));
        Next::Continue
    });
    outputs
}

/// Gives a sketch names and values: locations X, Y, .. with the initial values 0, 1, .., registers a, b, .. in the order of the text,
/// and for each local write another value.
pub fn program(sketch: &Sketch, space: &Space) -> Program {
    let processes = sketch.code.len();
    let count = space.locations();
    let is_used = |x: u8| processes > 1 || sketch.uses(x);
    let names = ["X", "Y", "Z", "W"];
    let mut place = [Loc(0); PROCESSES_MAX];
    let mut locations = Vec::new();
    for x in (0..count as u8).filter(|&x| is_used(x)) {
        place[usize::from(x)] = Loc(locations.len() as u16);
        locations.push(Location {
            name: names[usize::from(x)].to_owned(),
            node: Node(if processes == 1 { 0 } else { x }),
            init: i64::from(x),
            relaxed: false,
        });
    }
    let at = |x: u8| Access::atomic(place[usize::from(x)]);
    let (mut fresh, mut registers) = (count as i64, 0u8);
    let mut out = Vec::new();
    for (p, code) in sketch.code.iter().enumerate() {
        let mut process = Process {
            node: Node(p as u8),
            registers: Vec::new(),
            code: Vec::new(),
        };
        for &op in code {
            let statement = match op {
                Op::Read(x) => {
                    process.registers.push(register_name(registers));
                    registers += 1;
                    Statement::Read {
                        reg: Reg(process.registers.len() as u16 - 1),
                        from: at(x),
                    }
                }
                Op::Write(x) => {
                    fresh += 1;
                    Statement::Write {
                        to: at(x),
                        value: Expr::Const(fresh - 1),
                    }
                }
                Op::Flush(n) => Statement::Flush { node: Node(n) },
                Op::Get(x, z) => Statement::Get {
                    to: at(x),
                    from: at(z),
                },
                Op::Put(z, x) => Statement::Put {
                    to: at(z),
                    from: at(x),
                },
                Op::Rga(x, z, y) => Statement::Rga {
                    to: at(x),
                    target: at(z),
                    addend: at(y),
                },
                Op::Cas(x, z, y, w) => Statement::Cas {
                    to: at(x),
                    target: at(z),
                    expected: at(y),
                    new: at(w),
                },
            };
            process.code.push(statement);
        }
        out.push(process);
    }
    Program {
        nodes: processes as u8,
        locations,
        processes: out,
    }
}

/// Returns `a`, `b`, .. `z`, and `r26` and so on after them.
fn register_name(index: u8) -> String {
    if index < 26 {
        char::from(b'a' + index).to_string()
    } else {
        format!("r{index}")
    }
}
