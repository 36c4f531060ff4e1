//! Outlines of programs, and the marks of events that depend on regions.

use super::{Frame, Path, Site, State, Unfolding};
use crate::event::{Event, Kind};
use crate::program::Instr;

impl<'p> Unfolding<'p> {
    /// Does the step of an outline, if that differs from a step of an execution: blocks follow one another, and nothing is awaited or
    /// assumed.
    pub(super) fn outlined(&self, state: &mut State<'p>, instr: &'p Instr, at: &Site) -> bool {
        match instr {
            Instr::If { .. } | Instr::While { .. } | Instr::Choose(_) | Instr::Assume(_) => {}
            Instr::Poll { node } => {
                state.push(at.event(Kind::Poll).to(*node), None);
            }
            _ => return false,
        }
        // The last frame comes first.
        for (number, code) in instr.blocks().into_iter().enumerate().rev() {
            state.frames.push(Frame::Block {
                code,
                next: 0,
                place: [at.place.as_slice(), &[number as u16]].concat(),
            });
        }
        true
    }

    /// Marks the writes of NICs into regions of relaxed ordering. An atomic that reads and writes in one step is carried out at the memory.
    pub(super) fn mark_relaxed(&self, path: &mut Path) {
        let buffered = |e: &&mut Event| matches!(e.kind, Kind::NicRemoteWrite | Kind::NicLocalWrite);
        for event in path.events.iter_mut().filter(buffered) {
            let location = event.loc.map(|l| &self.program.locations[usize::from(l.0)]);
            event.relaxed = location.is_some_and(|l| l.relaxed);
        }
    }
}
