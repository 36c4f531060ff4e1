//! Runs the system in real time, with controller and converters on nodes of a job. Relies on owned variables
//! for the exchange between the sides, and on the models; used by `power run`.
//!
//! The lowest node is the controller, and the others have the converters. The controller owns the duty
//! cycles, and the converters' nodes own the voltages. Each of these variables exists only on its two nodes.
//! Both sides run loops of fixed period by the clock. All times of the model may be stretched by the same
//! factor, for hosts that cannot keep up: a period of 40 us stretched by 100 takes 4 ms.
//!
//! A message takes next to no time of a stretched model, whatever the network: a microsecond stretched by 100 is a tenth of
//! a millisecond. So each side holds its values back for the time that a message takes in the model
//! ([`RealPlan::delay`]). Without that, periods would be stable for which the paper's system is not.
//!
//! A late converter catches up, because the physics that it models would have gone on. A late controller has
//! missed its turn.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use loco::fabric::{Fabric, NodeId, Time};
use loco::{Barrier, Channel, Manager, OwnedVar, Parent as _, Thread};
use loco_app::Stop;

use crate::link::{ControllerLink, ConverterLink, controller_iteration, converter_iteration};
use crate::{Controller, Converter, Params, PowerError, Result, Run, Sample};

/// The runs to make.
#[derive(Clone, Debug)]
pub struct RealPlan {
    /// The system. Its converters are dealt out to the nodes in turn.
    pub params: Params,
    /// The periods of the controller's loop, in the model's time. Each has a run of its own.
    pub periods: Vec<Duration>,
    /// The length of each run, in the model's time.
    pub duration: Duration,
    /// The time that a message takes each way, in the model's time, besides what the network takes.
    pub delay: Duration,
    /// The factor by which the model's times are multiplied.
    pub slow_down: u32,
}

impl RealPlan {
    /// Returns the options that must be equal on all nodes.
    fn options(&self) -> String {
        let periods: Vec<_> = self.periods.iter().map(|p| p.as_micros().to_string()).collect();
        format!(
            "--converters {} --periods {} --duration {} --delay {} --slow-down {}",
            self.params.converters,
            periods.join(","),
            self.duration.as_millis(),
            self.delay.as_micros(),
            self.slow_down
        )
    }
}

/// A run as the controller saw it.
#[derive(Clone, Debug)]
pub struct RealRun {
    /// The measurement: a sample for each iteration of the controller, in the model's time.
    pub run: Run,
    /// The number of iterations that the controller missed because it was late.
    pub missed: u64,
}

/// The time left above which a thread sleeps between looks at the clock. Below it, the thread yields.
const SLEEP_MIN: Duration = Duration::from_micros(300);
/// The thread sleeps for the time left divided by this. The rest is for waking up late.
const SLEEP_SHARE: u32 = 2;
/// The number that says that no run follows.
const OVER: u64 = u64::MAX;

/// Runs this node's part, together with all others, until all periods have been run or the controller is
/// asked to `stop`. Only the controller gets the runs.
///
/// # Errors
/// Returns [`PowerError::Parameter`], or [`PowerError::Link`] when a node is gone or there is none for the
/// converters.
pub fn run_real<F: Fabric>(fabric: F, plan: &RealPlan, stop: &Stop) -> Result<Vec<RealRun>> {
    plan.params.validate()?;
    if plan.slow_down == 0 || plan.periods.iter().any(Duration::is_zero) {
        return Err(PowerError::Parameter {
            name: "period or slow-down",
            value: "0".to_owned(),
            remedy: "give what is more than nothing",
        });
    }
    let manager = Manager::new(fabric)?;
    let [controller, converters @ ..] = manager.nodes() else {
        return Err(PowerError::Link("a job without nodes".to_owned()));
    };
    if converters.is_empty() {
        let why = "one node is the controller alone: start two at least (loco run -n 2)";
        return Err(PowerError::Link(why.to_owned()));
    }
    let _agreement = loco_app::agreement(&manager, plan.options())?;
    let side = Variables::new(&manager, *controller, converters, plan.params.converters)?;
    // The number of the next run, counted from 1.
    let next = OwnedVar::<u64, F>::new(&manager, "next", *controller)?;
    let line = Barrier::new(&manager, "line")?;
    loco_app::wait_for_ready(&manager)?;
    let thread = manager.thread()?;
    // A run may take any time. The loss of a node ends it.
    thread.set_deadline(Some(Time::NEVER));
    let is_controller = manager.node() == *controller;
    let mut runs = Vec::new();
    for number in 1.. {
        side.reset(&thread)?;
        if is_controller {
            let over = number as usize > plan.periods.len() || stop.is_asked();
            next.store(if over { OVER } else { number })?;
            next.push(&thread)?.wait(&thread)?;
        }
        // The barrier completes what was pushed before it.
        line.wait(&thread)?;
        if next.load() == OVER {
            break;
        }
        if number == 1 {
            // From here on there is something to show, also of a run that is interrupted.
            stop.begin_work();
        }
        let period = plan.periods[number as usize - 1];
        if is_controller {
            runs.push(control(&thread, &side, plan, period, stop)?);
        } else {
            convert(&thread, &side, plan, stop)?;
        }
        line.wait(&thread)?;
    }
    Ok(runs)
}

/// The variables of this node: all pairs on the controller, its own pairs on the other nodes.
struct Variables<F: Fabric> {
    pairs: Vec<Pair<F>>,
    here: NodeId,
}

/// The variables that the controller shares with one converter.
struct Pair<F: Fabric> {
    /// The number of the converter.
    index: usize,
    duty: OwnedVar<f64, F>,
    volts: OwnedVar<f64, F>,
}

impl<F: Fabric> Variables<F> {
    fn new(manager: &Manager<F>, controller: NodeId, nodes: &[NodeId], count: usize) -> Result<Self> {
        let here = manager.node();
        let mut pairs = Vec::new();
        for index in 0..count {
            let node = nodes[index % nodes.len()];
            if here != controller && here != node {
                continue;
            }
            let both = manager.among([controller, node]);
            let pair = Channel::builder(&both, &format!("converter{index}")).join()?;
            pairs.push(Pair {
                index,
                duty: OwnedVar::new(&pair, "duty", controller)?,
                volts: OwnedVar::new(&pair, "volts", node)?,
            });
        }
        Ok(Variables { pairs, here })
    }

    /// Sets everything that this node owns to 0 everywhere.
    fn reset(&self, thread: &Thread<F>) -> Result<()> {
        for Pair { duty, volts, .. } in &self.pairs {
            for variable in [duty, volts] {
                if variable.owner() == self.here {
                    variable.store(0.0)?;
                    variable.push(thread)?.wait(thread)?;
                }
            }
        }
        Ok(())
    }
}

/// Values that one side has computed and that are still under way in the model, with the times at which they arrive.
struct UnderWay {
    delay: Duration,
    values: VecDeque<(Duration, Vec<f64>)>,
}

impl UnderWay {
    fn new(plan: &RealPlan) -> UnderWay {
        UnderWay {
            delay: plan.delay * plan.slow_down,
            values: VecDeque::new(),
        }
    }

    /// Sends values off at a time of the run.
    fn send(&mut self, at: Duration, values: Vec<f64>) {
        self.values.push_back((at.saturating_add(self.delay), values));
    }

    /// Hands over what has arrived by `now`, and returns when something arrives next.
    fn arrive(
        &mut self,
        now: Duration,
        mut hand_over: impl FnMut(&[f64]) -> Result<()>,
    ) -> Result<Option<Duration>> {
        while self.values.front().is_some_and(|&(at, _)| at <= now)
            && let Some((_, values)) = self.values.pop_front()
        {
            hand_over(&values)?;
        }
        Ok(self.values.front().map(|&(at, _)| at))
    }
}

/// The controller's view in one iteration. It collects the duty cycles, which are pushed when they have been under way.
struct ControllerSide<'a, F: Fabric> {
    variables: &'a Variables<F>,
    duties: Vec<f64>,
}

impl<F: Fabric> ControllerLink for ControllerSide<'_, F> {
    fn voltages(&mut self, into: &mut [f64]) -> Result<()> {
        for pair in &self.variables.pairs {
            into[pair.index] = pair.volts.load();
        }
        Ok(())
    }

    fn push_duties(&mut self, duties: &[f64]) -> Result<()> {
        self.duties = duties.to_vec();
        Ok(())
    }
}

/// A converter's view. It keeps its latest voltage, which is pushed when it has been under way.
struct ConverterSide<'a, F: Fabric> {
    duty: &'a OwnedVar<f64, F>,
    volts: f64,
}

impl<F: Fabric> ConverterLink for ConverterSide<'_, F> {
    fn duty(&mut self) -> Result<f64> {
        Ok(self.duty.load())
    }

    fn push_voltage(&mut self, volts: f64) -> Result<()> {
        self.volts = volts;
        Ok(())
    }
}

fn control<F: Fabric>(
    thread: &Thread<F>,
    variables: &Variables<F>,
    plan: &RealPlan,
    period: Duration,
    stop: &Stop,
) -> Result<RealRun> {
    let mut controller = Controller::new(&plan.params, period);
    let mut under_way = UnderWay::new(plan);
    let push = |duties: &[f64]| {
        for Pair { index, duty, .. } in &variables.pairs {
            duty.store(duties[*index])?;
            duty.push_untracked(thread)?;
        }
        Ok(())
    };
    let mut volts = vec![0.0; plan.params.converters];
    let mut samples = Vec::new();
    let mut missed = 0;
    let mut clock = Ticks::start(period, plan);
    while let Some((tick, at)) = clock.next(|now| under_way.arrive(now, push))? {
        missed += tick;
        let mut link = ControllerSide {
            variables,
            duties: Vec::new(),
        };
        let output = controller_iteration(&mut controller, &mut link, &mut volts)?;
        under_way.send(at, link.duties);
        samples.push(Sample {
            at_ns: nanoseconds(at / plan.slow_down),
            volts: output,
        });
        if stop.is_asked() {
            break;
        }
    }
    Ok(RealRun {
        run: Run {
            controller_period: period,
            reference_volts: plan.params.reference_volts,
            samples,
        },
        missed,
    })
}

fn convert<F: Fabric>(
    thread: &Thread<F>,
    variables: &Variables<F>,
    plan: &RealPlan,
    stop: &Stop,
) -> Result<()> {
    let mut converters: Vec<_> = variables
        .pairs
        .iter()
        .map(|Pair { index, duty, .. }| {
            let link = ConverterSide { duty, volts: 0.0 };
            (Converter::new(&plan.params, *index), link)
        })
        .collect();
    let mut under_way = UnderWay::new(plan);
    let push = |values: &[f64]| {
        for (Pair { volts, .. }, value) in variables.pairs.iter().zip(values) {
            volts.store(*value)?;
            volts.push_untracked(thread)?;
        }
        Ok(())
    };
    let mut clock = Ticks::start(plan.params.converter_period, plan);
    while let Some((behind, at)) = clock.next(|now| under_way.arrive(now, push))? {
        if stop.is_asked() {
            break;
        }
        for (converter, link) in &mut converters {
            for _ in 0..=behind {
                converter_iteration(converter, link)?;
            }
        }
        under_way.send(at, converters.iter().map(|(_, link)| link.volts).collect());
    }
    Ok(())
}

/// A loop of fixed period, by the clock.
struct Ticks {
    start: Instant,
    period: Duration,
    end: Duration,
    /// The time of the next tick.
    due: Duration,
}

impl Ticks {
    fn start(period: Duration, plan: &RealPlan) -> Ticks {
        Ticks {
            start: Instant::now(),
            period: period * plan.slow_down,
            end: plan.duration * plan.slow_down,
            due: Duration::ZERO,
        }
    }

    /// Waits for the next tick. Returns the number of ticks that were missed before it, and its time. Meanwhile `deliver`
    /// is called with the time, whenever it has said that it wants to be and once before the tick.
    fn next(
        &mut self,
        mut deliver: impl FnMut(Duration) -> Result<Option<Duration>>,
    ) -> Result<Option<(u64, Duration)>> {
        if self.due > self.end {
            return Ok(None);
        }
        let now = loop {
            let now = self.start.elapsed();
            let wanted = deliver(now.min(self.due))?;
            if self.due <= now {
                break now;
            }
            let left = wanted.unwrap_or(self.due).min(self.due).saturating_sub(now);
            match left > SLEEP_MIN {
                true => thread::sleep(left / SLEEP_SHARE),
                false => thread::yield_now(),
            }
        };
        let missed = nanoseconds(now.saturating_sub(self.due)) / nanoseconds(self.period).max(1);
        let ticks = u32::try_from(missed).unwrap_or(u32::MAX);
        let at = self.due.saturating_add(self.period.saturating_mul(ticks));
        self.due = at.saturating_add(self.period);
        Ok(Some((missed, at)))
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl From<loco::Error> for PowerError {
    fn from(error: loco::Error) -> PowerError {
        PowerError::Link(error.to_string())
    }
}

impl From<loco::fabric::FabricError> for PowerError {
    fn from(error: loco::fabric::FabricError) -> PowerError {
        PowerError::Link(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_late_hears_how_many_ticks_were_missed() {
        let millis = Duration::from_millis;
        let mut ticks = Ticks {
            start: Instant::now() - millis(350),
            period: millis(100),
            end: millis(600),
            due: Duration::ZERO,
        };
        // Ticks 0, 100 and 200 are over, and 300 is late.
        let next = |ticks: &mut Ticks| ticks.next(|_| Ok(None)).unwrap();
        assert_eq!(next(&mut ticks), Some((3, millis(300))));
        assert_eq!(next(&mut ticks), Some((0, millis(400))));
        assert!(ticks.start.elapsed() >= millis(400));
        ticks.due = millis(601);
        assert_eq!(next(&mut ticks), None);
    }

    #[test]
    fn values_arrive_after_the_delay_and_in_order() {
        let millis = Duration::from_millis;
        let mut under_way = UnderWay {
            delay: millis(20),
            values: VecDeque::new(),
        };
        under_way.send(millis(0), vec![1.0]);
        under_way.send(millis(10), vec![2.0]);
        let mut seen = Vec::new();
        let mut arrive = |now| {
            let next = under_way.arrive(now, |values| {
                seen.extend_from_slice(values);
                Ok(())
            });
            (next.unwrap(), seen.clone())
        };
        assert_eq!(arrive(millis(19)), (Some(millis(20)), vec![]));
        assert_eq!(arrive(millis(25)), (Some(millis(30)), vec![1.0]));
        assert_eq!(arrive(millis(30)), (None, vec![1.0, 2.0]));
    }
}
