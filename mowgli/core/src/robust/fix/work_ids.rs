//! Work identifiers of RDMA^WAIT for operations that have none, so that a wait can name them. Used by `edit`.

use std::collections::BTreeSet;

use crate::program::{Instr, Thread, WorkId};

/// Adds a work identifier to a thread: `done`, or with a number if the name is taken.
pub(super) fn fresh(thread: &mut Thread, names: &BTreeSet<String>) -> WorkId {
    let taken = |name: &String| thread.work_ids.contains(name) || names.contains(name);
    let mut numbered = std::iter::once("done".to_owned()).chain((2..).map(|n| format!("done{n}")));
    let name = numbered.find(|name| !taken(name));
    thread.work_ids.extend(name);
    WorkId((thread.work_ids.len() - 1) as u16)
}

/// Numbers the work identifiers of a thread in the order in which its text names them, as the parser does. Drops those
/// that the text does not name.
pub(super) fn in_order_of_use(thread: &mut Thread) {
    let mut used: Vec<WorkId> = Vec::new();
    each_work(&mut thread.code, &mut |work| {
        let at = used.iter().position(|known| known == work).unwrap_or_else(|| {
            used.push(*work);
            used.len() - 1
        });
        *work = WorkId(at as u16);
    });
    let names = used
        .iter()
        .map(|work| thread.work_ids[usize::from(work.0)].clone());
    thread.work_ids = names.collect();
}

fn each_work(block: &mut [Instr], visit: &mut dyn FnMut(&mut WorkId)) {
    for instr in block {
        if let Some(Some(work)) = work_of(instr) {
            visit(work);
        }
        match instr {
            Instr::Wait { work } => visit(work),
            Instr::If { then, otherwise, .. } => {
                each_work(then, visit);
                each_work(otherwise, visit);
            }
            Instr::While { body, .. } => each_work(body, visit),
            Instr::Choose(blocks) => blocks.iter_mut().for_each(|b| each_work(b, visit)),
            _ => {}
        }
    }
}

/// Returns the work identifier of an operation.
pub(super) fn work_of(instr: &mut Instr) -> Option<&mut Option<WorkId>> {
    match instr.request_mut() {
        Instr::Put { work, .. }
        | Instr::Get { work, .. }
        | Instr::RemoteFaa { work, .. }
        | Instr::RemoteCas { work, .. }
        | Instr::RemoteSwap { work, .. } => Some(work),
        _ => None,
    }
}
