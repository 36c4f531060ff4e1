//! A program on the machine, run by hand: the caller sees which steps are enabled, takes one, and can go back.
//!
//! Relies on [`super::state`] for states and moves and on [`super::trace`] for their words. All enabled steps are offered, without
//! reduction. Used by the page of `mowgli serve`.

use serde::Serialize;

use super::code::{self, Code, Loops, Op};
use super::state::{Move, Ran, State};
use super::trace::{self, TraceStep};
use super::{Actor, accepts};
use crate::machine::{Addr, Buffer, Config, View};
use crate::model::{Model, RmwAtomicity, Tier};
use crate::outcome::{Budget, Limit, Outcome};
use crate::program::{Program, Value};

/// A program on the machine, in one of its states.
#[derive(Debug)]
pub struct Stepper<'p> {
    program: &'p Program,
    codes: Vec<Code>,
    config: Config,
    state: State,
    ran: Ran,
    past: Vec<(State, TraceStep)>,
}

/// A step that can be taken now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enabled {
    /// The step in words, with its thread and the part that takes it.
    pub step: TraceStep,
    /// The entry of a buffer that it concerns; `None` for steps of the CPU.
    pub entry: Option<(Buffer, usize)>,
}

/// The position of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Position {
    /// The place of the next instruction in the thread's code, as [`crate::event::Event::path`]; `None` at the end.
    pub next: Option<Vec<u16>>,
    /// The values of the registers.
    pub registers: Vec<Value>,
}

/// Whether an execution has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Steps are enabled.
    Running,
    /// Every thread has ended and every buffer has drained.
    Final(Outcome),
    /// A thread waits for what cannot happen, such as the completion of an operation that was never posted, or goes round a loop that
    /// accesses nothing.
    Stuck,
    /// An assumption failed: the execution is discarded.
    Discarded,
    /// A loop that accesses nothing has made too many iterations to go on.
    LoopBound {
        /// The thread.
        thread: usize,
        /// The bound.
        bound: u32,
    },
}

/// There is no enabled step of this number. The state is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no step {number}: {enabled} steps are enabled, counted from 0")]
pub struct NoSuchStep {
    /// The number asked for.
    pub number: usize,
    /// The number of steps that are enabled.
    pub enabled: usize,
}

crate::debug_as_display!(NoSuchStep);

impl<'p> Stepper<'p> {
    /// Starts a program on the model's machine.
    ///
    /// # Errors
    /// Fails for programs that the engine does not accept, as [`super::outcomes`] does.
    pub fn new(program: &'p Program, model: Model, atomicity: RmwAtomicity) -> Result<Stepper<'p>, Limit> {
        Stepper::on(program, model, Config::new(model, atomicity))
    }

    /// Starts a program on the machine whose queue pairs have the six buffers of RDMA-TSO'24 Fig. 7.
    ///
    /// # Errors
    /// Fails for programs that the engine does not accept, and for models over another network than the papers'.
    pub fn concrete(
        program: &'p Program,
        model: Model,
        atomicity: RmwAtomicity,
    ) -> Result<Stepper<'p>, Limit> {
        if model.tier() != Tier::Ibta {
            let text = "the machine with six buffers has the papers' network: take the one with three";
            return Err(Limit::Undefined(text.to_owned()));
        }
        Stepper::on(program, model, Config::new(model, atomicity).concrete())
    }

    fn on(program: &'p Program, model: Model, config: Config) -> Result<Stepper<'p>, Limit> {
        accepts(program, model)?;
        let codes = code::compile(program, Loops::Free).map_err(Limit::TooLarge)?;
        let (state, ran) = State::new(program, &codes, config);
        Ok(Stepper {
            program,
            codes,
            config,
            state,
            ran,
            past: Vec::new(),
        })
    }

    fn moves(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        if self.ran == Ran::Ready {
            self.state.moves(&self.codes, &mut Vec::new(), &mut moves);
        }
        moves
    }

    fn describe(&self, mv: Move) -> TraceStep {
        let described = trace::describe(self.program, &self.codes, &self.state, mv);
        described.unwrap_or_else(|| TraceStep {
            thread: crate::program::ThreadId(0),
            actor: Actor::Cpu,
            text: String::new(),
        })
    }

    /// Lists the enabled steps in a fixed order: threads first, then their buffers.
    pub fn enabled(&self) -> Vec<Enabled> {
        let enabled = |mv: Move| Enabled {
            step: self.describe(mv),
            entry: match mv {
                Move::Hardware(step) => Some(self.state.machine.entry_of(step)),
                Move::Act(_) | Move::Choose(..) => None,
            },
        };
        self.moves().into_iter().map(enabled).collect()
    }

    /// Returns the number of enabled steps.
    pub fn enabled_count(&self) -> usize {
        self.moves().len()
    }

    /// Takes the enabled step of this number.
    ///
    /// # Errors
    /// Returns [`NoSuchStep`] if fewer steps are enabled.
    pub fn take(&mut self, number: usize) -> Result<(), NoSuchStep> {
        let moves = self.moves();
        let Some(&mv) = moves.get(number) else {
            return Err(NoSuchStep {
                number,
                enabled: moves.len(),
            });
        };
        let words = self.describe(mv);
        self.past.push((self.state.clone(), words));
        self.ran = self.state.make(mv, &self.codes);
        Ok(())
    }

    /// Takes the last step back. Returns whether there was one.
    pub fn back(&mut self) -> bool {
        let Some((before, _)) = self.past.pop() else {
            return false;
        };
        self.state = before;
        self.ran = Ran::Ready;
        true
    }

    /// Lists the steps that were taken.
    pub fn past(&self) -> impl Iterator<Item = &TraceStep> {
        self.past.iter().map(|(_, words)| words)
    }

    /// Shows the state of the machine.
    pub fn view(&self) -> View {
        let name = |addr: Addr| {
            let location = self.program.locations.get(addr.0 as usize);
            location.map_or_else(|| format!("{addr:?}"), |l| l.name.clone())
        };
        self.state.machine.view(&name)
    }

    /// Returns the position of each thread.
    pub fn positions(&self) -> Vec<Position> {
        let position = |(thread, code): (usize, &Code)| {
            let at = self.state.threads[thread].at as usize;
            let ended = matches!(self.state.op(thread as u16, &self.codes), Op::End);
            Position {
                next: (!ended).then(|| code.places[at].clone()),
                registers: self.state.registers(thread)[..code.program_registers].to_vec(),
            }
        };
        self.codes.iter().enumerate().map(position).collect()
    }

    /// Returns whether the execution has ended, and how.
    pub fn end(&self) -> End {
        match self.ran {
            Ran::Discard => return End::Discarded,
            Ran::Endless => return End::Stuck,
            Ran::LoopBound { thread, bound, .. } => {
                return End::LoopBound {
                    thread: thread.into(),
                    bound,
                };
            }
            Ran::Ready => {}
        }
        match (self.enabled_count(), self.state.outcome(&self.codes)) {
            (0, Some(outcome)) => End::Final(outcome),
            (0, None) => End::Stuck,
            _ => End::Running,
        }
    }

    /// Finds a shortest way from the initial state to an outcome that `wanted` accepts, as numbers for [`Stepper::take`]; `None` if
    /// there is none.
    ///
    /// # Errors
    /// Returns the limit at which the search stopped.
    pub fn schedule_to(
        &self,
        wanted: &dyn Fn(&Outcome) -> bool,
        budget: &Budget<'_>,
    ) -> Result<Option<Vec<usize>>, Limit> {
        let Some(way) = trace::find(self.program, self.config, wanted, budget)? else {
            return Ok(None);
        };
        let (state, ran) = State::new(self.program, &self.codes, self.config);
        let mut again = Stepper {
            program: self.program,
            codes: Vec::new(),
            config: self.config,
            state,
            ran,
            past: Vec::new(),
        };
        let mut schedule = Vec::new();
        for mv in way {
            let mut moves = Vec::new();
            again.state.moves(&self.codes, &mut Vec::new(), &mut moves);
            schedule.extend(moves.iter().position(|&m| m == mv));
            again.ran = again.state.make(mv, &self.codes);
        }
        Ok(Some(schedule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    /// Every test of the catalogue with a condition that a machine reaches: its schedule leads there, step by step and back.
    #[test]
    fn schedules_lead_to_their_outcome_and_back() {
        lead_there_and_back(|program, model, rmw| Stepper::new(program, model, rmw));
    }

    #[test]
    fn schedules_lead_there_and_back_on_the_concrete_machine() {
        lead_there_and_back(|program, model, rmw| Stepper::concrete(program, model, rmw));
    }

    type Start = for<'p> fn(&'p Program, Model, RmwAtomicity) -> Result<Stepper<'p>, Limit>;

    fn lead_there_and_back(start: Start) {
        let mut reached = 0;
        for entry in catalogue::entries() {
            let litmus = entry.parse().unwrap();
            if crate::check::applicable(&litmus.program, Model::RdmaTso).is_err() {
                continue;
            }
            let budget = Budget {
                states_max: Some(20_000),
                ..Budget::default()
            };
            let formula = &litmus.queries[0].condition.formula;
            let mut stepper = start(&litmus.program, Model::RdmaTso, RmwAtomicity::Hca).unwrap();
            let (first, places) = (stepper.view(), stepper.positions());
            let Ok(Some(schedule)) = stepper.schedule_to(&|o| formula.holds(o), &budget) else {
                continue;
            };
            for &number in &schedule {
                let enabled = stepper.enabled();
                let view = stepper.view();
                for Enabled { step, entry } in &enabled {
                    let thread = &view.threads[usize::from(step.thread.0)];
                    let entries = |peer: u16| thread.queue_pairs.iter().find(|qp| qp.peer == peer).unwrap();
                    let length = match (step.actor, entry) {
                        (Actor::Cpu, None) => continue,
                        (Actor::StoreBuffer, Some((Buffer::StoreBuffer, _))) => thread.store_buffer.len(),
                        (Actor::Nic(peer), Some((Buffer::Pipe, _))) => entries(peer).pipe.len(),
                        (Actor::Nic(peer), Some((Buffer::RemoteWrites, _))) => {
                            entries(peer).remote_writes.len()
                        }
                        (Actor::Nic(peer), Some((Buffer::LocalWrites, _))) => {
                            entries(peer).local_writes.len()
                        }
                        other => panic!("{}: {other:?}", litmus.name),
                    };
                    assert!(entry.unwrap().1 < length, "{}: {step}", litmus.name);
                }
                stepper.take(number).unwrap();
            }
            let End::Final(outcome) = stepper.end() else {
                panic!("{}: {:?}", litmus.name, stepper.end());
            };
            assert!(formula.holds(&outcome), "{}", litmus.name);
            assert_eq!(stepper.past().count(), schedule.len());
            assert!(stepper.take(0).is_err());
            while stepper.back() {}
            assert_eq!(
                (stepper.view(), stepper.positions()),
                (first, places),
                "{}",
                litmus.name
            );
            reached += 1;
        }
        assert!(reached > 50, "{reached}");
    }

    #[test]
    fn executions_without_an_end_say_why() {
        let ends = |body: &str| {
            let text = format!("RDMA t\n{{ x@1=0; y@2=0; }}\nP0@1 ;\n{body} ;\nexists (x=1)");
            let litmus = crate::litmus::parse(&text).unwrap().litmus;
            let stepper = Stepper::new(&litmus.program, Model::RdmaTso, RmwAtomicity::Hca).unwrap();
            let mut stepper = stepper;
            while stepper.take(0).is_ok() {}
            stepper.end()
        };
        assert_eq!(ends("poll(2)"), End::Stuck);
        assert_eq!(ends("assume(0)"), End::Discarded);
        assert_eq!(
            ends("r := 0 ;\nwhile (1) bound 2 { r := r + 1 }"),
            End::LoopBound { thread: 0, bound: 2 }
        );
        assert_eq!(ends("while (1) bound 2 { }"), End::Stuck);
        assert!(matches!(ends("x := 1"), End::Final(_)));
    }

    #[test]
    fn the_next_instruction_is_where_the_text_has_it() {
        let text = "RDMA t\n{ x@1=0; }\nP0@1 ;\nx := 1 ;\nchoose { x := 2 } or { a := x; x := 3 } ;\nx := 4 ;\nexists (x=1)";
        let litmus = crate::litmus::parse(text).unwrap().litmus;
        let mut stepper = Stepper::new(&litmus.program, Model::Sc, RmwAtomicity::Hca).unwrap();
        let mut places = Vec::new();
        loop {
            places.push(stepper.positions()[0].next.clone());
            // The second branch, and otherwise the only step.
            let number = stepper.enabled_count().saturating_sub(1);
            if stepper.take(number).is_err() {
                break;
            }
        }
        let expected: [Option<Vec<u16>>; 6] = [
            Some(vec![0]),
            Some(vec![1]),
            Some(vec![1, 1, 0]),
            Some(vec![1, 1, 1]),
            Some(vec![2]),
            None,
        ];
        assert_eq!(places, expected);
    }
}
