//! Runs the system in simulated time. Relies on the links and the models; used by the tests and by `power
//! simulate`.
//!
//! Time is in whole nanoseconds and every message's delay is a function of the seed, so a run is determined
//! by its arguments. The iterations of one instant run in the order converters, controller. A value that is
//! pushed in an instant with delay 0 is seen by the iterations after it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::link::{ControllerLink, ConverterLink, controller_iteration, converter_iteration};
use crate::{Controller, Converter, Params, PowerError, Result};

/// The time that a pushed value takes to arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// The least delay from controller to converter.
    pub command: Duration,
    /// The least delay from converter to controller.
    pub feedback: Duration,
    /// The largest additional delay, chosen uniformly. Values of one variable never overtake one another.
    pub jitter: Duration,
    /// The seed of the jitter.
    pub seed: u64,
}

impl Default for Delays {
    /// Returns 2 us each way, a usual latency of a small RDMA write, without jitter.
    fn default() -> Self {
        let each = Duration::from_micros(2);
        Delays {
            command: each,
            feedback: each,
            jitter: Duration::ZERO,
            seed: 0,
        }
    }
}

/// The output at an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The simulated time, in nanoseconds.
    pub at_ns: u64,
    /// The sum of the converters' voltages.
    pub volts: f64,
}

/// The measurement of a simulation or a real run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The period of the controller's loop.
    pub controller_period: Duration,
    /// The voltage aimed for.
    pub reference_volts: f64,
    /// The output at each iteration of the converters, by time.
    pub samples: Vec<Sample>,
}

impl Run {
    /// Returns the measure of stability: the largest distance of the output from the reference in the last
    /// half of the run, as a fraction of the reference.
    pub fn deviation(&self) -> f64 {
        let late = &self.samples[self.samples.len() / 2..];
        let worst = late
            .iter()
            .map(|s| (s.volts - self.reference_volts).abs())
            .fold(0.0, f64::max);
        worst / self.reference_volts
    }

    /// Returns the highest output of the run over the reference, minus one: the transient at the start.
    pub fn overshoot(&self) -> f64 {
        let peak = self
            .samples
            .iter()
            .map(|s| s.volts)
            .fold(f64::NEG_INFINITY, f64::max);
        peak / self.reference_volts - 1.0
    }
}

/// Runs the system from discharged converters for `duration` of simulated time.
///
/// # Errors
/// Returns [`PowerError::Parameter`] for a parameter out of its range.
pub fn simulate(
    params: &Params,
    controller_period: Duration,
    delays: &Delays,
    duration: Duration,
) -> Result<Run> {
    params.validate()?;
    let nanos = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
    let (converter_ns, controller_ns) = (nanos(params.converter_period), nanos(controller_period));
    if controller_ns == 0 {
        let (name, value) = ("controller_period", "0".to_owned());
        return Err(PowerError::Parameter {
            name,
            value,
            remedy: "give a period of at least a nanosecond",
        });
    }
    let network = RefCell::new(Network::new(params.converters, delays));
    let mut converters: Vec<Converter> = (0..params.converters)
        .map(|i| Converter::new(params, i))
        .collect();
    let mut controller = Controller::new(params, controller_period);
    let mut volts = vec![0.0; params.converters];
    let end = nanos(duration);
    let mut samples = Vec::with_capacity((end / converter_ns) as usize + 1);
    let (mut converter_at, mut controller_at) = (0_u64, 0_u64);
    while converter_at.min(controller_at) <= end {
        let now = converter_at.min(controller_at);
        network.borrow_mut().now = now;
        if converter_at == now {
            let mut sum = 0.0;
            for (index, converter) in converters.iter_mut().enumerate() {
                sum += converter_iteration(
                    converter,
                    &mut Side {
                        network: &network,
                        index,
                    },
                )?;
            }
            samples.push(Sample {
                at_ns: now,
                volts: sum,
            });
            converter_at = now.saturating_add(converter_ns);
        }
        if controller_at == now {
            controller_iteration(
                &mut controller,
                &mut Side {
                    network: &network,
                    index: 0,
                },
                &mut volts,
            )?;
            controller_at = now.saturating_add(controller_ns);
        }
        if now == u64::MAX {
            break;
        }
    }
    Ok(Run {
        controller_period,
        reference_volts: params.reference_volts,
        samples,
    })
}

/// A variable with one writer as its reader sees it: the last value that has arrived.
#[derive(Default)]
struct Variable {
    visible: f64,
    under_way: VecDeque<(u64, f64)>,
}

impl Variable {
    fn push(&mut self, arrival: u64, value: f64) {
        // There is one writer on one queue pair, so values arrive in the order in which they were pushed.
        let arrival = self
            .under_way
            .back()
            .map_or(arrival, |&(last, _)| arrival.max(last));
        self.under_way.push_back((arrival, value));
    }

    fn read(&mut self, now: u64) -> f64 {
        while let Some(&(arrival, value)) = self.under_way.front()
            && arrival <= now
        {
            self.under_way.pop_front();
            self.visible = value;
        }
        self.visible
    }
}

struct Network {
    now: u64,
    command_ns: u64,
    feedback_ns: u64,
    jitter_ns: u64,
    random: SmallRng,
    duties: Vec<Variable>,
    volts: Vec<Variable>,
}

impl Network {
    fn new(converters: usize, delays: &Delays) -> Self {
        let nanos = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        let variables = || {
            std::iter::repeat_with(Variable::default)
                .take(converters)
                .collect()
        };
        Network {
            now: 0,
            command_ns: nanos(delays.command),
            feedback_ns: nanos(delays.feedback),
            jitter_ns: nanos(delays.jitter),
            random: SmallRng::seed_from_u64(delays.seed),
            duties: variables(),
            volts: variables(),
        }
    }

    /// Returns the arrival time of a value that is pushed now with this least delay.
    fn arrival(&mut self, delay_ns: u64) -> u64 {
        let jitter = if self.jitter_ns == 0 {
            0
        } else {
            self.random.random_range(0..=self.jitter_ns)
        };
        self.now.saturating_add(delay_ns).saturating_add(jitter)
    }
}

/// One party's handle on the network.
struct Side<'a> {
    network: &'a RefCell<Network>,
    index: usize,
}

impl ControllerLink for Side<'_> {
    fn voltages(&mut self, volts: &mut [f64]) -> Result<()> {
        let mut network = self.network.borrow_mut();
        let now = network.now;
        for (place, variable) in volts.iter_mut().zip(&mut network.volts) {
            *place = variable.read(now);
        }
        Ok(())
    }

    fn push_duties(&mut self, duties: &[f64]) -> Result<()> {
        let mut network = self.network.borrow_mut();
        for (index, &duty) in duties.iter().enumerate() {
            let delay_ns = network.command_ns;
            let arrival = network.arrival(delay_ns);
            network.duties[index].push(arrival, duty);
        }
        Ok(())
    }
}

impl ConverterLink for Side<'_> {
    fn duty(&mut self) -> Result<f64> {
        let mut network = self.network.borrow_mut();
        let now = network.now;
        Ok(network.duties[self.index].read(now))
    }

    fn push_voltage(&mut self, volts: f64) -> Result<()> {
        let mut network = self.network.borrow_mut();
        let delay_ns = network.feedback_ns;
        let arrival = network.arrival(delay_ns);
        network.volts[self.index].push(arrival, volts);
        Ok(())
    }
}
