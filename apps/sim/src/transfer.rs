//! The program `transfer`. Relies on `loco-transfer`; used by the list of programs.

use std::sync::Arc;

use loco_app::Stop;
use loco_transfer::TransferError;
use loco_transfer::command::Args;

use crate::{Failed, LONG, NoProgram, Node, all_done, options};

pub(crate) fn read(call: &[String], nodes: u16, _: &[u8]) -> Result<Arc<Node>, NoProgram> {
    let mut plan = options::<Args>(call)?.plan();
    let Some(each) = plan.transfers else {
        return Err(NoProgram::Usage(
            "transfer: give --transfers N, since no time passes under the model".to_owned(),
        ));
    };
    plan.duration = LONG;
    let expected = each * u64::from(plan.threads) * u64::from(nodes);
    Ok(Arc::new(move |fabric| {
        let outcome = loco_transfer::run(fabric, &plan, &Stop::default()).map_err(failed)?;
        outcome.map_or(Ok(()), |outcome| {
            all_done("transfers", outcome.transfers + outcome.short, expected)
        })
    }))
}

fn failed(error: TransferError) -> Failed {
    let object = match &error {
        TransferError::Object(object) => Some(object),
        _ => None,
    };
    Failed::new(&error, object)
}
