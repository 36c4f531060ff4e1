//! The program `kv`: its load and its shell. Relies on `loco-kv`; used by the list of programs.

use std::sync::Arc;
use std::sync::mpsc;

use loco_app::Stop;
use loco_kv::command::{Args, Command, Load};
use loco_kv::{KvError, shell, workload};

use crate::{Failed, LONG, NoProgram, Node, all_done, options};

/// The slots of the shell's store, where the command has thousands: each is memory of every node.
const SLOTS: u32 = 4;

pub(crate) fn read(call: &[String], nodes: u16, input: &[u8]) -> Result<Arc<Node>, NoProgram> {
    match options::<Args>(call)?.command {
        Command::Load(load) => read_load(&load, nodes),
        Command::Shell { .. } => Ok(read_shell(input)),
    }
}

fn read_load(load: &Load, nodes: u16) -> Result<Arc<Node>, NoProgram> {
    let usage = |why: &str| Err(NoProgram::Usage(format!("kv load: {why}")));
    let mut plan = load.plan();
    let Some(each) = plan.ops else {
        return usage("give --ops N, since no time passes under the model");
    };
    if plan.restore.is_some() || plan.snapshot.is_some() {
        return usage("--restore and --snapshot use files, which all executions would share");
    }
    plan.duration = LONG;
    // A batch is not cut short.
    let each = each.next_multiple_of(plan.window as u64);
    let expected = each * u64::from(plan.threads) * u64::from(nodes);
    Ok(Arc::new(move |fabric| {
        let outcome = workload::run(fabric, &plan, &Stop::default()).map_err(failed)?;
        outcome.map_or(Ok(()), |outcome| {
            all_done("operations", outcome.reads + outcome.writes, expected)
        })
    }))
}

fn read_shell(input: &[u8]) -> Arc<Node> {
    let input: Arc<[u8]> = input.into();
    Arc::new(move |fabric| {
        let lines = || {
            let (sender, lines) = mpsc::channel();
            for line in input.split_inclusive(|&byte| byte == b'\n') {
                // The receiver is below.
                let _ = sender.send(Ok(line.to_vec()));
            }
            Ok(lines)
        };
        let mut answers = Vec::new();
        let tally = shell::run(
            fabric,
            shell::config(SLOTS),
            lines,
            &mut answers,
            &Stop::default(),
        );
        match tally.map_err(failed)?.mistakes {
            0 => Ok(()),
            _ => Err(Failed::wrong(String::from_utf8_lossy(&answers).into_owned())),
        }
    })
}

fn failed(error: KvError) -> Failed {
    let object = match &error {
        KvError::Object(object) => Some(object),
        _ => None,
    };
    Failed::new(&error, object)
}
