//! The tests of coreRMA as a source: one rule, number of processes and size, or the rows of coreRMA'16 Table 6.

use std::sync::atomic::AtomicBool;

use mowgli::outcome::Limit;
use mowgli_corerma::generate::{Generator, Reading, Scope, Unusable, pivots, table6};
use mowgli_corerma::rules::Rule;
use mowgli_corerma::switches::Model;

use super::Args;
use super::source::{Made, Plan, Source};
use crate::Error;

/// The tests of one rule.
struct CoreRma {
    generator: Generator,
    model: Model,
    rule: Rule,
    description: String,
}

impl Source for CoreRma {
    fn describe(&self) -> String {
        self.description.clone()
    }

    fn units(&self) -> usize {
        self.generator.units()
    }

    fn unit(&self, unit: usize, cancel: &AtomicBool) -> Result<Vec<Made>, Limit> {
        let tests = self.generator.unit(unit, cancel).ok_or(Limit::Cancelled)?;
        let made = tests.iter().map(|test| {
            let litmus = test.litmus(self.model, self.rule);
            Made {
                text: litmus.print(),
                name: litmus.name,
                outcomes: test.outputs.len(),
            }
        });
        Ok(made.collect())
    }
}

/// Returns what the arguments ask for under a model of coreRMA.
pub(super) fn plans(args: &Args, model: Model) -> Result<Vec<Plan>, Error> {
    if args.bounds.is_of_instructions() {
        return Err(Error::Usage(format!(
            "--nodes, --locations, --without and --with-rmw are not for {model}: its tests have one process a node, and the rule says which \
             statements they need"
        )));
    }
    if args.table6 {
        let rows = table6::ROWS.iter().map(|row| {
            let folder = format!("{}-P{}", row.rule, row.processes);
            plan(
                args,
                model,
                row.rule,
                row.processes,
                row.size + args.larger,
                folder,
            )
        });
        return rows.collect();
    }
    let known = || {
        let names: Vec<&str> = pivots(model.switches()).iter().map(|r| r.name()).collect();
        names.join(", ")
    };
    let Some(pivot) = &args.pivot else {
        return Err(Error::Usage(format!(
            "--pivot RULE says which rule the tests exercise: one of {}; or --table6 for the suite of coreRMA'16",
            known()
        )));
    };
    let Some(size) = args.size else {
        return Err(Error::Usage(
            "--size S says how many actions a test has at most, initial writes among them; 8 takes a second"
                .to_owned(),
        ));
    };
    let rule = pivot.parse::<Rule>().map_err(|e| Error::Usage(e.to_string()))?;
    Ok(vec![plan(
        args,
        model,
        rule,
        args.bounds.processes.unwrap_or(1),
        size,
        String::new(),
    )?])
}

fn plan(
    args: &Args,
    model: Model,
    rule: Rule,
    processes: usize,
    size: usize,
    folder: String,
) -> Result<Plan, Error> {
    let reading = if args.flushed {
        Reading::Flushed
    } else {
        Reading::Any
    };
    let asked = |error: &Unusable| match error {
        Unusable::Processes => format!("--processes {processes}: "),
        Unusable::Size if args.table6 => format!("--larger {}: ", args.larger),
        Unusable::Size => format!("--size {size}: "),
        Unusable::Rule(..) => String::new(),
    };
    let generator = Generator::new(model.switches(), rule, processes, size)
        .map_err(|e| Error::Usage(format!("{}{e}", asked(&e))))?
        .with_reading(reading)
        .with_scope(Scope {
            unconnected: args.unconnected,
            decided: args.decided,
        });
    let switches = [
        (args.flushed, ", flushed"),
        (args.unconnected, ", unconnected too"),
        (args.decided, ", decided too"),
    ];
    let switches: String = switches.iter().filter(|s| s.0).map(|s| s.1).collect();
    Ok(Plan {
        folder,
        source: Box::new(CoreRma {
            generator,
            model,
            rule,
            description: format!("{model}, pivot {rule}, {processes} processes, size {size}{switches}"),
        }),
    })
}
