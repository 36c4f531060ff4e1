//! Walks through the states of a world: takes moves, tells which of them need not be interleaved with others,
//! and consults a run where the behaviour of a thread is not known yet.
//!
//! The reduction takes a move at once and alone (a persistent set of one move) if the move commutes with
//! everything else that can happen, now or later. Such moves are
//! * thread moves that nobody else sees: a store or a post (into the thread's own store buffer), a fence, a load of a
//!   word that nobody else writes any more, a read-modify-write or a lock that nobody else uses any more, and, where
//!   the thread's node cannot stop before, notes, a call where nobody else returns any more, a return where nobody else
//!   calls any more;
//! * a poll in vain by which a thread finds that what it waits for has not come, and parks;
//! * machine steps on words that nobody else touches any more ([`crate::state::sharing`]) if they commute within their queue pair
//!   ([`Machine::commutes`](mowgli::machine::Machine::commutes)) and tell no poller anything.
//!
//! A node that stops takes along what its threads know and what its store buffers hold, and what its queue pairs hold may be
//! cut off. So its moves of the first kind commute with its end, except those that the end of an execution shows. A step of the
//! machine commutes with it unless a check of complete executions looks at the word.
//!
//! Every path is finite (threads make progress or park), so nothing is put off for ever.

use mowgli::machine::{Addr, Rule, Step};
use smallvec::SmallVec;

use crate::exploring::polling::{self, PathStep};
use crate::exploring::trail::Trail;
use crate::fabric::request::{Access, Deadline, Note, Reply, Request};
use crate::fabric::{coroutine, place};
use crate::reports::schedule::Schedule;
use crate::state::behaviour::Past;
use crate::state::sharing::{Agent, SeenAccesses};
use crate::state::waits::Waits;
use crate::state::{Common, Move, State, Status, agent_of};
use crate::world::World;
use crate::world::run::{GrantedStep, Run, Start, unknown};
use crate::{Config, Memory, SimError};

/// The most moves that are taken to find where a thread makes its next request.
const PLACE_MOVES: usize = 64;

/// Builds a world.
pub(crate) type Builder<'a> = &'a (dyn Fn(&mut World) + Sync);

/// A position: a state and how it was reached.
pub(crate) struct Position {
    pub(crate) state: State,
    /// Requests granted since the set-up.
    pub(crate) path: Trail<PathStep>,
    /// Moves taken since the set-up.
    pub(crate) schedule: Trail<Move>,
}

impl Clone for Position {
    fn clone(&self) -> Position {
        Position {
            state: self.state.clone(),
            path: self.path.clone(),
            schedule: self.schedule.clone(),
        }
    }

    fn clone_from(&mut self, source: &Position) {
        self.state.clone_from(&source.state);
        self.path.clone_from(&source.path);
        self.schedule.clone_from(&source.schedule);
    }
}

/// One explorer's view of an exploration.
pub(crate) struct Walker<'a> {
    pub(crate) common: &'a Common,
    pub(crate) config: &'a Config,
    builder: Builder<'a>,
    run: Option<Run>,
    /// The path that the run has followed.
    followed: Trail<PathStep>,
    pub(crate) seen: SeenAccesses,
    pub(crate) runs: u64,
    scratch: Vec<Step>,
    /// Points where a thread is parked after a failed evaluation, and whose condition has yet to be checked.
    pub(crate) unchecked: Vec<(Position, u16)>,
}

impl<'a> Walker<'a> {
    pub(crate) fn new(
        common: &'a Common,
        config: &'a Config,
        builder: Builder<'a>,
        seen: SeenAccesses,
    ) -> Self {
        Walker {
            common,
            config,
            builder,
            run: None,
            followed: Trail::default(),
            seen,
            runs: 0,
            scratch: Vec::new(),
            unchecked: Vec::new(),
        }
    }

    /// Returns the position after the set-up.
    pub(crate) fn start(&mut self) -> Result<Position, SimError> {
        coroutine::follows(None);
        let Start { run, mut state } = Run::start(self.common, self.config, self.builder)?;
        self.runs += 1;
        run.learn(self.common, &state)?;
        self.run = Some(run);
        self.followed = Trail::default();
        self.take_effect(&mut state);
        Ok(Position {
            state,
            path: Trail::default(),
            schedule: Trail::default(),
        })
    }

    /// Brings a run to this position, so that the next request of every thread is known.
    pub(crate) fn consult(&mut self, at: &Position) -> Result<(), SimError> {
        let (fabric, tier, schedule) = (self.config.fabric, self.config.tier, at.schedule.clone());
        coroutine::follows(Some(Box::new(move || {
            Schedule::new(fabric, tier, schedule.to_vec()).to_string()
        })));
        match self.go_on(at) {
            Some(followed) => followed?,
            None => self.run_again(&at.path)?,
        }
        self.followed.clone_from(&at.path);
        match &self.run {
            Some(run) => run.learn(self.common, &at.state),
            None => Ok(()),
        }
    }

    /// Lets the run go on to this position, if it is on the way there.
    fn go_on(&mut self, at: &Position) -> Option<Result<(), SimError>> {
        // Mostly the position is the next of the execution that the run follows. To compare the whole path at each request would
        // take most of the time of a long execution.
        if let Some(new) = at.path.since(&self.followed) {
            let new = self.replies(new);
            return self.run.as_mut()?.go_on(self.common, &new);
        }
        let path = self.replies(at.path.to_vec());
        self.run.as_mut()?.follow(self.common, &path)
    }

    /// Returns the schedule that led here.
    pub(crate) fn schedule(&self, at: &Position) -> Schedule {
        Schedule::new(self.config.fabric, self.config.tier, at.schedule.to_vec())
    }

    /// Returns the replies of a path.
    fn replies(&self, path: Vec<PathStep>) -> Vec<GrantedStep> {
        let reply = |past: Option<Past>| past.map_or(Reply::Unit, |past| self.common.behaviour.reply(past));
        path.into_iter()
            .map(|(thread, past)| ((thread, reply(past)), past))
            .collect()
    }

    /// Runs the world from its beginning to the end of a path.
    fn run_again(&mut self, path: &Trail<PathStep>) -> Result<(), SimError> {
        let steps = self.replies(path.to_vec());
        // Drop the old threads before new ones start.
        self.run = None;
        let Start { mut run, .. } = Run::start(self.common, self.config, self.builder)?;
        self.runs += 1;
        if let Some(followed) = run.follow(self.common, &steps) {
            followed?;
        }
        self.run = Some(run);
        self.followed.clone_from(path);
        Ok(())
    }

    /// Runs the execution that led here again, from its beginning.
    ///
    /// # Errors
    /// Returns [`SimError::NotDeterministic`] if a thread then asks for other things.
    pub(crate) fn repeat(&mut self, at: &Position) -> Result<(), SimError> {
        self.run_again(&at.path)
    }

    /// Says which thread does the same again and again without waiting, and where, if one does.
    pub(crate) fn polls(&mut self, at: &Position) -> Option<String> {
        let thread = polling::thread(self.common, &at.path.to_vec())?;
        let place = self.place(at.clone(), thread);
        let name = &at.state.info(thread).name;
        Some(polling::says(thread, name, place.as_deref()))
    }

    /// Makes every request leave its place, until the scope ends. The threads start afresh.
    pub(crate) fn traces(&mut self) -> place::Traces {
        self.run = None;
        place::trace()
    }

    /// Returns where in the program a thread makes the request that is about to be granted, if the move does that and the request is
    /// one of the program and not of the library.
    pub(crate) fn place_of(&mut self, at: &mut Position, what: Move) -> Result<Option<String>, SimError> {
        let Move::Thread(thread) = what else {
            return Ok(None);
        };
        let tells = matches!(
            at.state.request(self.common, thread),
            Some(
                Request::Post { .. }
                    | Request::Direct { .. }
                    | Request::WaitBegin { .. }
                    | Request::Note(Note::Call(_) | Note::Mark(_))
            )
        );
        if !tells {
            return Ok(None);
        }
        self.consult(at)?;
        Ok(place::of(thread))
    }

    /// Goes on until the thread makes another request, and returns where in the program it makes it. Returns `None` if nothing
    /// leads there within few moves.
    fn place(&mut self, mut at: Position, thread: u16) -> Option<String> {
        // The run then lags behind by no more than what follows.
        self.consult(&at).ok()?;
        let mut moves = Vec::new();
        let before = at.path.len();
        place::watch(thread);
        for _ in 0..PLACE_MOVES {
            self.moves(&mut at.state, &mut moves);
            let own = moves.iter().find(|&&what| what == Move::Thread(thread));
            let step = moves.iter().find(|what| matches!(what, Move::Machine(_)));
            let Some(&what) = own.or(step) else { break };
            if !self.take(&mut at, what).ok()? {
                break;
            }
            let since = &at.path.to_vec()[before..];
            if since.iter().any(|&(of, _)| of == thread) {
                // Its next request may be known, so that nobody has asked the run.
                self.consult(&at).ok()?;
                break;
            }
        }
        self.unchecked.clear();
        place::watched(thread)
    }

    /// Takes a move that is enabled. Returns false if the move cannot be taken. The caller checks the conditions that
    /// are then [`unchecked`](Walker::unchecked).
    pub(crate) fn take(&mut self, at: &mut Position, what: Move) -> Result<bool, SimError> {
        let mut wakes = self.config.memory == Memory::Strong || may_wake(what);
        let taken = match what {
            Move::Machine(step) => at.state.take(step),
            Move::Fault(fault) => at.state.fail(fault),
            Move::Thread(thread) => {
                let Some(request) = at.state.request(self.common, thread) else {
                    return Ok(false);
                };
                let granted = at.state.grant(self.common, &mut self.seen, thread, request);
                match (granted, request) {
                    (None, _) => false,
                    // The thread stops here. It gets its reply once it is woken, if ever.
                    (Some(_), Request::Park | Request::Leave | Request::End(_)) => {
                        wakes = true;
                        true
                    }
                    (Some(reply), _) => {
                        at.state.advance(self.common, thread, &reply);
                        let past = at.state.threads[usize::from(thread)].past;
                        at.path.push((thread, Some(past)));
                        wakes |= !wakes_nobody(request);
                        true
                    }
                }
            }
        };
        if taken {
            at.schedule.push(what);
            self.take_effect(&mut at.state);
            let parked = match what {
                Move::Thread(thread) => at.state.failed_evaluation(thread).map(|past| (thread, past)),
                Move::Machine(_) | Move::Fault(_) => None,
            };
            match (wakes, what) {
                (true, _) => self.wake_threads(at)?,
                (false, Move::Thread(thread)) => {
                    let past = at.state.threads[usize::from(thread)].past;
                    if self.common.behaviour.request(past).is_none() {
                        self.consult(at)?;
                    }
                }
                (false, Move::Machine(_) | Move::Fault(_)) => {}
            }
            if let Some((thread, past)) = parked
                && self.common.behaviour.fails_first(past)
            {
                self.unchecked.push((at.clone(), thread));
            }
        }
        Ok(taken)
    }

    /// Lets everything that has been issued take effect, if the memory is strong. One thread has issued all of it, in
    /// order, so the order of the steps does not matter.
    fn take_effect(&mut self, state: &mut State) {
        while self.config.memory == Memory::Strong {
            self.scratch.clear();
            state.machine.steps(&mut self.scratch);
            match self.scratch.first() {
                Some(&step) if state.take(step) => {}
                _ => return,
            }
        }
    }

    /// Wakes the threads whose conditions have become true, and learns their next requests.
    pub(crate) fn wake_threads(&mut self, at: &mut Position) -> Result<(), SimError> {
        while let Some((thread, reply)) = at.state.wake(self.common) {
            let past = at.state.threads[usize::from(thread)].past;
            at.path.push((thread, (reply != Reply::Unit).then_some(past)));
        }
        if unknown(self.common, &at.state).is_some() {
            self.consult(at)?;
        }
        at.state.resume(self.common);
        Ok(())
    }

    /// Lists every enabled move: first those of threads, then those of the machine, then faults with the
    /// optional ones last.
    pub(crate) fn moves(&mut self, state: &mut State, moves: &mut Vec<Move>) {
        moves.clear();
        for thread in 0..state.threads.len() as u16 {
            if let Some(request) = state.request(self.common, thread)
                && state.is_enabled(self.common, thread, request)
            {
                moves.push(Move::Thread(thread));
            }
        }
        self.list(state);
        moves.extend(self.scratch.iter().map(|&s| Move::Machine(s)));
        state.faults(self.common, moves.is_empty(), moves);
    }

    /// Finds a move that need not be interleaved with others. If there is none, `moves` holds every enabled
    /// move.
    pub(crate) fn commuting(&mut self, at: &mut Position, moves: &mut Vec<Move>) -> Option<Move> {
        let state = &mut at.state;
        moves.clear();
        // The thread or the machine that made the last move can often make the next one alone, too. It is
        // tried first, so that nothing else need be tried until it stops.
        let last = at.schedule.last().copied();
        if let Some(Move::Thread(thread)) = last
            && self.goes_alone(state, thread) == Some(true)
        {
            return Some(Move::Thread(thread));
        }
        let machine_first = matches!(last, Some(Move::Machine(_)));
        if machine_first && let Some(step) = self.lists_steps(state) {
            return Some(Move::Machine(step));
        }
        for thread in 0..state.threads.len() as u16 {
            match self.goes_alone(state, thread) {
                Some(true) => return Some(Move::Thread(thread)),
                Some(false) => moves.push(Move::Thread(thread)),
                None => {}
            }
        }
        if !machine_first && let Some(step) = self.lists_steps(state) {
            return Some(Move::Machine(step));
        }
        moves.extend(self.scratch.iter().map(|&step| Move::Machine(step)));
        state.faults(self.common, moves.is_empty(), moves);
        None
    }

    /// Lists the steps of the machine in `scratch`, without those that wait for a link.
    fn list(&mut self, state: &State) {
        self.scratch.clear();
        state.machine.steps(&mut self.scratch);
        if state.losses.links.is_unsettled() {
            self.scratch.retain(|&step| !state.waits_for_link(step));
        }
    }

    /// Lists the steps of the machine in `scratch`. Returns the first step that need not be interleaved with others, if
    /// there is one.
    fn lists_steps(&mut self, state: &State) -> Option<Step> {
        self.list(state);
        let mut steps = self.scratch.iter();
        steps.find(|&&step| self.step_commutes(state, step)).copied()
    }

    /// Returns whether the thread's move need not be interleaved with others, or `None` if no move of the thread is
    /// enabled.
    fn goes_alone(&self, state: &mut State, thread: u16) -> Option<bool> {
        let request = state.request(self.common, thread)?;
        state
            .is_enabled(self.common, thread, request)
            .then(|| self.thread_commutes(state, thread, request) || self.only_parks(state, thread, request))
    }

    /// Returns whether the thread, which evaluates the condition of a wait, would only poll in vain and park. Such an
    /// evaluation changes nothing else, and a completion wakes the thread at the point where it is now.
    fn only_parks(&self, state: &mut State, thread: u16, request: &Request) -> bool {
        let polls = *request == Request::Poll && self.common.waits == Waits::Merged;
        if !polls || !state.only_reads(thread) || !state.polls_in_vain(thread) {
            return false;
        }
        let polls = state.threads[usize::from(thread)].past;
        let mut reply = Reply::Completions(SmallVec::new());
        let mut at = polls;
        while let Some(next) = self.common.behaviour.known(at, &reply) {
            at = next;
            // Nobody else touches what the evaluation reads after the poll, so the evaluation will find the
            // value that is there now.
            reply = match self.common.behaviour.request(at) {
                Some(read @ &Request::Load { word }) if self.thread_commutes(state, thread, read) => {
                    let addr = state.addr(self.common, word);
                    match state.machine.load(thread, addr) {
                        Some(value) => Reply::Value(value as u64),
                        None => return false,
                    }
                }
                Some(Request::Park) => return self.common.behaviour.resumption(at) == Some(polls),
                _ => return false,
            };
        }
        false
    }

    fn step_commutes(&self, state: &State, step: Step) -> bool {
        let how = state.machine.commutes(step);
        if !how.in_queue_pair || how.notifies {
            return false;
        }
        let touched = state.machine.footprint(step);
        let agent = agent_of(step);
        let conflicts =
            |word: Option<Addr>, write| word.is_some_and(|word| self.conflicts(state, word, agent, write));
        touched.unit.is_none()
            && !conflicts(touched.reads, false)
            && !conflicts(touched.writes, true)
            && !touched
                .writes
                .is_some_and(|word| self.overtakes(state, step, word))
    }

    /// Returns whether the step places a write that another write of the same queue pair may yet overtake, or the other way round.
    pub(crate) fn overtakes(&self, state: &State, step: Step, word: Addr) -> bool {
        if !state.machine.reorders_writes() {
            return false;
        }
        let later = self.seen.overtakers(word, agent_of(step));
        state.machine.races(step) || state.may_ask_any(later)
    }

    /// Returns whether another agent may yet access the word, and one of the two writes, or whether an access that a loss
    /// may forestall shows at the end.
    fn conflicts(&self, state: &State, word: Addr, agent: Agent, write: bool) -> bool {
        // The loss of the writer's node may come before the write.
        if write && state.losses.is_settling() && self.common.is_checked(word) {
            return true;
        }
        let mut others = self.seen.words.others(word, agent, write);
        others.any(|other| state.may_access(word, other))
    }

    fn thread_commutes(&self, state: &mut State, thread: u16, request: &Request) -> bool {
        match *request {
            Request::Fence | Request::WaitEnd | Request::Park | Request::Join { .. } => true,
            // A node that leaves leaves no store behind: its exit is after the stores of all of its threads.
            Request::Store { .. } => !state.may_leave_others(thread),
            // The end of an execution shows whether these moves came before the node stopped, so their order matters.
            Request::Spawn { .. } | Request::Note(Note::Mark(_)) => !state.may_stop(thread),
            Request::End(_) => !state.ends_faults(thread),
            Request::WaitBegin { deadline, .. } => !matches!(deadline, Deadline::Within(_)),
            Request::Post { owner, peer, .. } => {
                owner == thread && !state.losses.may_refuse(state.info(thread).node, peer)
            }
            Request::Direct { peer, word, access } => {
                !state.losses.may_refuse(state.info(thread).node, peer)
                    && self.thread_commutes(state, thread, &access.to(word))
            }
            Request::Load { word } => {
                let addr = state.addr(self.common, word);
                !self.conflicts(state, addr, Agent::cpu(thread), false)
            }
            Request::Rmw { word, .. } => {
                let addr = state.addr(self.common, word);
                !self.conflicts(state, addr, Agent::cpu(thread), true)
            }
            Request::Lock { lock, .. } | Request::TryLock { lock } => {
                let index = state.lock_index(self.common, lock.0);
                !state.may_ask_any(self.seen.lock_users(index, thread, true))
            }
            Request::Unlock { lock, .. } => {
                let index = state.lock_index(self.common, lock.0);
                !state.may_ask_any(self.seen.lock_users(index, thread, false))
            }
            Request::Poll
            | Request::Now
            | Request::Lost
            | Request::Reach { .. }
            | Request::Send { .. }
            | Request::Receive
            | Request::Close
            | Request::Faulted
            | Request::HasHappened(_)
            | Request::Leave => false,
            Request::Note(Note::Call(_) | Note::Return(_)) => {
                let returns = matches!(request, Request::Note(Note::Return(_)));
                !state.may_stop(thread) && !state.may_ask_any(self.seen.history_of_others(thread, returns))
            }
        }
    }

    /// Runs the checks of the world on a complete execution. Returns the message of the first that panics.
    pub(crate) fn check_end(&mut self, state: &State) -> Result<Option<String>, SimError> {
        if self.run.is_none() {
            self.run = Some(Run::start(self.common, self.config, self.builder)?.run);
            self.followed = Trail::default();
            self.runs += 1;
        }
        let checked = self.common.checked();
        let failed = self
            .run
            .as_ref()
            .map_or(Ok(None), |run| run.check_end(self.common, state))?;
        // Whether a lost node's last write to such a word has arrived makes a difference after all.
        self.seen.fresh |= state.losses.is_lossy() && self.common.checked() > checked;
        Ok(failed)
    }

    /// Returns the assertion that failed in a thread, if one has.
    pub(crate) fn failed(&self, state: &State) -> Option<(u16, String)> {
        state.threads.iter().enumerate().find_map(|(index, t)| {
            if t.status != Status::Failed {
                return None;
            }
            let message = match self.common.behaviour.request(t.past) {
                Some(Request::End(Err(message))) => message.to_string(),
                _ => "failed".to_owned(),
            };
            Some((index as u16, message))
        })
    }
}

/// Returns whether a move of the machine or a fault may wake a parked thread. What a thread's move does depends on
/// its request: see [`wakes_nobody`].
fn may_wake(what: Move) -> bool {
    match what {
        Move::Thread(_) => false,
        Move::Fault(_) | Move::Machine(Step::Drain { .. }) => true,
        Move::Machine(Step::Nic { rule, .. }) => match rule {
            // These write no memory, and bring no completion to where it can be polled.
            Rule::LocalRead | Rule::RemoteRead | Rule::RemoteWrite | Rule::AtomicWrite | Rule::Fence => false,
            Rule::AtomicRead
            | Rule::Respond
            | Rule::Complete
            | Rule::PlaceLocal
            | Rule::PlaceRemote
            | Rule::Forward => true,
        },
    }
}

/// Returns whether a granted request changes nothing that a parked thread looks at. A store in a store buffer is
/// seen only by the thread that made it, which is not parked.
fn wakes_nobody(request: &Request) -> bool {
    matches!(
        request,
        Request::Load { .. }
            | Request::Store { .. }
            | Request::Direct {
                access: Access::Load | Access::Store(_),
                ..
            }
            | Request::Fence
            | Request::Post { .. }
            | Request::WaitBegin { .. }
            | Request::WaitEnd
            | Request::Note(_)
    )
}
