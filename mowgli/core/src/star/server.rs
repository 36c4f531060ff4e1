//! The thread that stays with the locations: its loads and stores remain, and under TSO the fences of Def. 14 are added.
//!
//! Robust'25 5.3 does not mention them. Without one between a store and a later load of shared locations, store buffering shows
//! between the server and a client.

use std::collections::BTreeSet;

use crate::model::Model;
use crate::program::{Instr, Loc};

/// Translates the server's thread. `shared` are the locations that other threads access too.
pub(super) fn thread(code: &[Instr], shared: &BTreeSet<Loc>, model: Model) -> Vec<Instr> {
    match model {
        Model::RdmaTso => {
            let mut stored = false;
            fence(code, shared, &mut stored)
        }
        _ => code.to_vec(),
    }
}

/// Adds fences to a block. `stored` says whether a store to a shared location may be in the store buffer.
fn fence(block: &[Instr], shared: &BTreeSet<Loc>, stored: &mut bool) -> Vec<Instr> {
    let mut out = Vec::new();
    for instr in block {
        match instr {
            Instr::Store { loc, .. } => *stored |= shared.contains(loc),
            Instr::Load { loc, .. } if *stored && shared.contains(loc) => {
                out.push(Instr::Mfence);
                *stored = false;
            }
            Instr::Mfence | Instr::Cas { .. } | Instr::Swap { .. } => *stored = false,
            _ => {}
        }
        out.push(match instr {
            Instr::If {
                cond,
                then,
                otherwise,
            } => {
                let (mut a, mut b) = (*stored, *stored);
                let then = fence(then, shared, &mut a);
                let otherwise = fence(otherwise, shared, &mut b);
                *stored = a || b;
                Instr::If {
                    cond: cond.clone(),
                    then,
                    otherwise,
                }
            }
            Instr::Choose(blocks) => {
                let before = *stored;
                let mut branches = Vec::new();
                *stored = false;
                for block in blocks {
                    let mut after = before;
                    branches.push(fence(block, shared, &mut after));
                    *stored |= after;
                }
                Instr::Choose(branches)
            }
            Instr::While { cond, body, bound } => {
                let before = *stored;
                let mut after = before;
                let mut fenced = fence(body, shared, &mut after);
                if after && !before {
                    // The second iteration begins with a store of the first.
                    fenced = fence(body, shared, &mut after);
                }
                *stored = before || after;
                Instr::While {
                    cond: cond.clone(),
                    body: fenced,
                    bound: *bound,
                }
            }
            other => other.clone(),
        });
    }
    out
}
