//! Random walks on the model's machine in place of a fabric, to check the runner and to measure what blind chance
//! shows.
//!
//! A run takes enabled steps of the machine, each equally likely, until none is left. Its outcome is judged by the
//! declarative model, like an outcome of a fabric. A forbidden outcome is an error of the machine or of the model.
//! Relies on `mowgli`'s machine. Used by the command as the fabric `model`.

use std::collections::BTreeMap;
use std::time::Instant;

use loco_fabric::Atomicity;
use mowgli::explore::{End, Stepper};
use mowgli::generate::Random;
use mowgli::outcome::Outcome;

use crate::error::Result;
use crate::job::{Listener, Plan};
use crate::oracle::{Oracle, Theory, usual};
use crate::record::{Part, Record};
use crate::test::Test;

/// The name of the fabric in records.
pub const MODEL: &str = "model";
/// The stress in records, which is none.
const STRESS: &str = "none";
/// The maximum number of steps of a run. Loops that wait for others may take long.
const STEPS_MAX: usize = 10_000;

/// The end of a walk.
enum Walked {
    Outcome(Outcome),
    Discarded,
    /// A thread waits for something that cannot happen.
    Stuck(usize),
}

/// Runs `tests` on the machine of the plan's model, or of the one that fits a test.
///
/// # Errors
/// Fails if the listener fails.
pub fn run(tests: &[Test], plan: &Plan, listener: &mut dyn Listener) -> Result<()> {
    let oracle = Oracle::new(plan.model.clone(), Atomicity::Hca);
    let mut random = Random::new(plan.seed);
    for test in tests {
        if listener.is_stopped() {
            break;
        }
        if listener.is_done(test, MODEL, 1) {
            continue;
        }
        let program = &test.litmus.program;
        let model = match &plan.model {
            Some(Theory::BuiltIn(model)) => *model,
            _ => usual(program),
        };
        if let Err(limit) = Stepper::new(program, model, oracle.atomicity) {
            listener.refused(test, &limit.to_string())?;
            continue;
        }
        let allowed = oracle.judge(test, program);
        let begin = Instant::now();
        let (mut counts, mut discarded, mut made) = (BTreeMap::<Outcome, u64>::new(), 0, 0);
        let mut hung = None;
        while made < plan.runs && hung.is_none() && !listener.is_stopped() {
            if plan.time.is_some_and(|time| begin.elapsed() >= time) {
                break;
            }
            let Ok(stepper) = Stepper::new(program, model, oracle.atomicity) else {
                break;
            };
            made += 1;
            match walk(stepper, &mut random) {
                Walked::Outcome(outcome) => *counts.entry(outcome).or_default() += 1,
                Walked::Discarded => discarded += 1,
                Walked::Stuck(thread) => hung = Some(program.threads[thread].name.clone()),
            }
        }
        let part = Part {
            inlined: false,
            allowed: &allowed,
            counts: &counts,
        };
        let mut record = Record::new(test, &[part]);
        record.runs = made;
        record.discarded = discarded;
        record.hung = hung;
        record.seconds = begin.elapsed().as_secs_f64();
        STRESS.clone_into(&mut record.stress);
        record.nodes = 1;
        MODEL.clone_into(&mut record.fabric);
        match listener.is_stopped() && made < plan.runs {
            true if made == 0 => {}
            true => listener.cut_short(record)?,
            false => listener.record(record)?,
        }
    }
    Ok(())
}

fn walk(mut stepper: Stepper<'_>, random: &mut Random) -> Walked {
    for _ in 0..STEPS_MAX {
        match stepper.enabled_count() {
            0 => break,
            enabled => {
                if stepper.take(random.below(enabled)).is_err() {
                    break;
                }
            }
        }
    }
    match stepper.end() {
        End::Final(outcome) => Walked::Outcome(outcome),
        End::Stuck => {
            let open = stepper.positions().iter().position(|at| at.next.is_some());
            Walked::Stuck(open.unwrap_or(0))
        }
        End::Discarded | End::LoopBound { .. } | End::Running => Walked::Discarded,
    }
}
