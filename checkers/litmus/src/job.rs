//! Runs many tests in one job.
//!
//! Every node calls [`run`] with the same tests. Node 0 leads: it asks the model, chooses stresses, commands batches,
//! judges what they showed and hands on a [`Record`] for each test as soon as it is done. Relies on [`Node`]. Used by
//! the command and by tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loco_fabric::{Fabric, Std};
use loco_job::Mesh;
use mowgli::outcome::Outcome;

use crate::allowed::Allowed;
use crate::code::Code;
use crate::error::{Error, Result};
use crate::node::{Command, Node};
use crate::oracle::{Oracle, Theory};
use crate::record::{Part, Record};
use crate::search::{self, Search, Strategy};
use crate::stress::Constant;
use crate::test::Test;

/// The number of tests that share left-over time.
const SPREAD: u32 = 8;

/// The tests' conditions and limits.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The runs of each test.
    pub runs: u64,
    /// The most runs of one batch.
    pub batch: usize,
    /// How stresses are chosen.
    pub stress: Strategy,
    /// The seed of all choices.
    pub seed: u64,
    /// The longest time of a run, after which a test that has not ended has hung.
    pub patience: Duration,
    /// The longest time for the runs of one test; a test that reaches it has fewer runs. [`Strategy::Auto`] ends a
    /// test earlier: when every allowed outcome was seen, or when no outcome was seen only once and nothing new came
    /// for as long as the earlier outcomes took, at least half of this time. Left-over time goes to later tests, so
    /// that the tests take this time on average.
    pub time: Option<Duration>,
    /// The model, or `None` for the one that fits the test.
    pub model: Option<Theory>,
    /// The name of the fabric in records.
    pub fabric: String,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            runs: 1000,
            batch: 250,
            stress: Strategy::Default,
            seed: 1,
            patience: Duration::from_secs(10),
            time: None,
            model: None,
            fabric: String::new(),
        }
    }
}

/// Takes the job's progress, on the leader.
pub trait Listener {
    /// Returns whether a test is to be left out on this fabric with this number of nodes: its result is there
    /// already.
    fn is_done(&mut self, _: &Test, _fabric: &str, _nodes: usize) -> bool {
        false
    }

    /// Takes the result of a test.
    ///
    /// # Errors
    /// An error ends the job, and [`run`] returns it.
    fn record(&mut self, record: Record) -> Result<()>;

    /// Takes the results of the present test when the job was stopped. It has fewer runs than the plan asks for.
    ///
    /// # Errors
    /// An error ends the job, and [`run`] returns it.
    fn cut_short(&mut self, _: Record) -> Result<()> {
        Ok(())
    }

    /// Takes note of a test that cannot be run on a fabric.
    ///
    /// # Errors
    /// An error ends the job, and [`run`] returns it.
    fn refused(&mut self, _: &Test, _why: &str) -> Result<()> {
        Ok(())
    }

    /// Returns whether the job is to end after the current batch.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Runs `tests`. The nodes other than the leader return when it has ended the job.
///
/// # Errors
/// Fails if the fabric fails or a peer is lost, which names the test; if the nodes have different tests; or if the
/// listener fails.
pub fn run<F: Fabric<Control = Mesh, Platform = Std>>(
    fabric: F,
    tests: &[Test],
    plan: &Plan,
    listener: &mut dyn Listener,
) -> Result<()> {
    let mut node = Node::new(fabric)?;
    check_same_tests(&node, tests)?;
    if !node.leads() {
        follow(&mut node, tests)?;
        return Ok(node.end()?);
    }
    let mut leader = Leader::new(node, plan)?;
    for (index, test) in tests.iter().enumerate() {
        if listener.is_stopped() {
            break;
        }
        // Time reserved for the last tests may go unused.
        let left = u32::try_from(tests.len() - index).map_or(SPREAD, |left| left.min(SPREAD));
        leader.take(test, index, left, listener)?;
    }
    leader.end()
}

/// Fails unless all nodes were started with the same tests.
fn check_same_tests<F: Fabric<Control = Mesh, Platform = Std>>(node: &Node<F>, tests: &[Test]) -> Result<()> {
    let hashes: String = tests
        .iter()
        .flat_map(|test| [test.name.as_str(), " ", &test.hash, "\n"])
        .collect();
    let mine = mowgli::litmus::fingerprint_of(&hashes);
    let given = node.exchange("litmus tests", mine.as_bytes())?;
    match given.iter().position(|theirs| theirs != &given[0]) {
        Some(other) => Err(Error::OtherTests(node.id(other))),
        None => Ok(()),
    }
}

/// The node that leads a job, with what it keeps from test to test.
struct Leader<'a, F: Fabric> {
    node: Node<F>,
    plan: &'a Plan,
    search: Search,
    oracle: Oracle,
    /// The name of the fabric in records.
    fabric: String,
    /// The time that earlier tests have left over.
    saved: Duration,
}

impl<F: Fabric<Control = Mesh, Platform = Std>> Leader<'_, F> {
    fn new(node: Node<F>, plan: &Plan) -> Result<Leader<'_, F>> {
        Ok(Leader {
            search: Search::new(plan.stress.clone(), plan.seed),
            oracle: Oracle::of(plan.model.clone(), node.caps())?,
            fabric: match plan.fabric.is_empty() {
                true => node.caps().name.clone(),
                false => plan.fabric.clone(),
            },
            saved: Duration::ZERO,
            node,
            plan,
        })
    }

    /// Runs a test, unless its result is there already or no fabric can run it, and hands its record on. The test is one of `left`
    /// that share the time left over.
    fn take(&mut self, test: &Test, index: usize, left: u32, listener: &mut dyn Listener) -> Result<()> {
        if listener.is_done(test, &self.fabric, self.node.nodes()) {
            return Ok(());
        }
        if let Some(why) = self.oracle.lacks_regions(&test.litmus.program) {
            return listener.refused(test, &why);
        }
        let code = match Code::new(&test.litmus.program, self.node.nodes()) {
            Ok(code) => Arc::new(code),
            Err(why) => return listener.refused(test, &why.0),
        };
        let judged = Judged::new(&self.oracle, test, &code, &self.plan.stress);
        self.search.begin();
        let mut trial = Trial {
            node: &mut self.node,
            search: &mut self.search,
            plan: self.plan,
            test,
            index,
            code,
            judged: &judged,
            time: self.plan.time.map(|time| time + self.saved / left),
            counts: BTreeMap::new(),
            inlined: BTreeMap::new(),
            made: 0,
            discarded: 0,
            hung: None,
            seconds: 0.0,
            last_new: Duration::ZERO,
        };
        trial.runs(listener)?;
        // A test that was cut short is run again from the start.
        let is_cut_short = listener.is_stopped() && trial.made < self.plan.runs;
        let mut record = judged.record(test, &trial.counts, &trial.inlined);
        record.runs = trial.made;
        record.discarded = trial.discarded;
        record.hung = trial.hung;
        record.seconds = trial.seconds;
        record.stress = self.plan.stress.to_string();
        record.nodes = self.node.nodes();
        record.fabric.clone_from(&self.fabric);
        record.best = self.search.best(&test.family).map(|best| best.to_string());
        if self.plan.stress == Strategy::Auto {
            self.saved = (self.saved + self.plan.time.unwrap_or_default())
                .saturating_sub(Duration::from_secs_f64(record.seconds));
        }
        match is_cut_short {
            true if record.runs == 0 => Ok(()),
            true => listener.cut_short(record),
            false => listener.record(record),
        }
    }

    /// Ends the job on every node.
    fn end(mut self) -> Result<()> {
        self.node.command(&Command {
            test: None,
            runs: 0,
            stress: crate::stress::Stress::default(),
            seed: 0,
            patience: self.plan.patience,
        })?;
        Ok(self.node.end()?)
    }
}

/// Runs what the leader commands, until it ends the job.
fn follow<F: Fabric>(node: &mut Node<F>, tests: &[Test]) -> Result<()> {
    let mut codes: BTreeMap<usize, Arc<Code>> = BTreeMap::new();
    let mut last = "none yet".to_owned();
    loop {
        let command = node.commanded().map_err(Error::in_test(&last))?;
        let Some(index) = command.test else {
            return Ok(());
        };
        let Some(test) = tests.get(index) else {
            return Err(Error::Input(format!(
                "the leader asks for test {index}, which is not there"
            )));
        };
        last.clone_from(&test.name);
        let code = match codes.get(&index) {
            Some(code) => Arc::clone(code),
            None => {
                let code = Code::new(&test.litmus.program, node.nodes()).map_err(|e| Error::Input(e.0))?;
                codes.clear();
                Arc::clone(codes.entry(index).or_insert(Arc::new(code)))
            }
        };
        node.batch(&command, &code).map_err(Error::in_test(&test.name))?;
    }
}

/// The outcomes that the model allows of a test, for each way in which the runs of a job post constants. Puts from memory and
/// inlined puts allow different outcomes, so each batch is judged by the program that it ran.
struct Judged {
    /// The outcomes allowed to runs whose constants come from memory, and to all runs of a program to which the way does not
    /// matter. `None` if the job makes no such runs.
    memory: Option<Allowed>,
    /// The outcomes allowed to runs whose constants are inlined. `None` if the job makes no such runs, or if inlining does not
    /// change the program.
    inline: Option<Allowed>,
}

impl Judged {
    fn new(oracle: &Oracle, test: &Test, code: &Code, strategy: &Strategy) -> Judged {
        let made = |constant| match strategy {
            Strategy::None => constant == Constant::default(),
            Strategy::Fixed(stress) => constant == stress.constant,
            Strategy::Default | Strategy::Auto => true,
        };
        let same = code.as_run(Constant::Memory) == code.as_run(Constant::Inline);
        let ask = |constant| oracle.judge(test, code.as_run(constant));
        Judged {
            memory: (same || made(Constant::Memory)).then(|| ask(Constant::Memory)),
            inline: (!same && made(Constant::Inline)).then(|| ask(Constant::Inline)),
        }
    }

    fn all(&self, holds: impl FnMut(&Allowed) -> bool) -> bool {
        self.memory.iter().chain(&self.inline).all(holds)
    }

    /// Judges what the runs of a test showed; `inlined` is the part of `counts` that inlined runs showed.
    fn record(
        &self,
        test: &Test,
        counts: &BTreeMap<Outcome, u64>,
        inlined: &BTreeMap<Outcome, u64>,
    ) -> Record {
        let others = counts.iter().filter_map(|(outcome, &count)| {
            let count = count - inlined.get(outcome).copied().unwrap_or(0);
            (count > 0).then(|| (outcome.clone(), count))
        });
        let others = others.collect();
        let part = |allowed, inlined, counts| Part {
            inlined,
            allowed,
            counts,
        };
        let memory = self.memory.iter().map(|allowed| part(allowed, false, &others));
        let inline = self.inline.iter().map(|allowed| part(allowed, true, inlined));
        Record::new(test, &memory.chain(inline).collect::<Vec<_>>())
    }
}

/// The runs of one test.
struct Trial<'a, F: Fabric> {
    node: &'a mut Node<F>,
    search: &'a mut Search,
    plan: &'a Plan,
    test: &'a Test,
    index: usize,
    code: Arc<Code>,
    judged: &'a Judged,
    /// The longest time for the runs.
    time: Option<Duration>,
    counts: BTreeMap<Outcome, u64>,
    /// The part of `counts` that runs with inlined constants showed.
    inlined: BTreeMap<Outcome, u64>,
    made: u64,
    discarded: u64,
    hung: Option<String>,
    seconds: f64,
    /// The time from the first run to the last outcome that was new.
    last_new: Duration,
}

impl<F: Fabric> Trial<'_, F> {
    fn runs(&mut self, listener: &dyn Listener) -> Result<()> {
        let begin = Instant::now();
        while self.made < self.plan.runs && self.hung.is_none() && !listener.is_stopped() {
            if self
                .time
                .is_some_and(|time| begin.elapsed() >= time || self.is_exhausted(begin.elapsed()))
            {
                break;
            }
            let seen = self.counts.len();
            self.batch().map_err(Error::in_test(&self.test.name))?;
            if self.counts.len() > seen {
                self.last_new = begin.elapsed();
            }
        }
        self.seconds = begin.elapsed().as_secs_f64();
        Ok(())
    }

    /// Returns whether more runs could not, or are unlikely to, show anything new. The share of runs that show
    /// something new is estimated by the share of runs whose outcome was seen only once (Good and Turing).
    fn is_exhausted(&self, elapsed: Duration) -> bool {
        let is_seen = |outcome: &Outcome| self.counts.contains_key(outcome);
        let patience = self.last_new.max(self.time.unwrap_or_default() / 2);
        let is_dry = elapsed >= self.last_new + patience && self.counts.values().all(|&count| count > 1);
        self.plan.stress == Strategy::Auto
            && (is_dry
                || self
                    .judged
                    .all(|allowed| allowed.complete && allowed.outcomes.iter().all(is_seen)))
    }

    fn batch(&mut self) -> loco_fabric::Result<()> {
        let begin = Instant::now();
        let left = usize::try_from(self.plan.runs - self.made).unwrap_or(usize::MAX);
        let (stress, runs) = self.search.next(&self.test.family, left.min(self.plan.batch));
        let command = Command {
            test: Some(self.index),
            runs,
            stress,
            seed: self.search.seed(),
            patience: self.plan.patience,
        };
        self.node.command(&command)?;
        let shown = self.node.batch(&command, &self.code)?;
        let runs = shown.outcomes.len() + shown.discarded as usize;
        let is_first = self.made == 0;
        self.made += runs as u64;
        self.discarded += shown.discarded;
        let thread = shown.hung.map(|thread| &self.test.litmus.program.threads[thread]);
        self.hung = thread.map(|thread| thread.name.clone());
        let before = self.counts.clone();
        for outcome in shown.outcomes {
            if stress.constant == Constant::Inline && self.judged.inline.is_some() {
                *self.inlined.entry(outcome.clone()).or_default() += 1;
            }
            *self.counts.entry(outcome).or_default() += 1;
        }
        let changed = self.counts.iter().filter_map(|(outcome, &count)| {
            let known = before.get(outcome).copied().unwrap_or(0);
            (count > known).then(|| 1.0 / (1.0 + known as f64))
        });
        // The first batch of a test shows the common outcomes under any stress, so it says nothing about the stress.
        if !is_first {
            let outcome = search::Outcome {
                reward: changed.sum(),
                is_new: self.counts.len() > before.len(),
                runs,
                time: begin.elapsed(),
            };
            self.search.learn(&self.test.family, command.stress, &outcome);
        }
        Ok(())
    }
}
