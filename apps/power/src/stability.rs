//! Decides whether the system is stable without running it. Relies on the converter's transition and the
//! controller's gains; used to state and to test the limit of the controller period.
//!
//! Near the reference nothing is clamped and the system is linear. The converters' sum follows the equations
//! of one converter with nominal values. One controller period is then a matrix over these values: current,
//! voltage, the voltages on their way to the controller, the duty cycles on their way to the converter, and
//! the controller's own duty cycle and last error. A small disturbance grows from period to period by the
//! spectral radius of this matrix.

use std::time::Duration;

use crate::converter::Transition;
use crate::{Delays, Params, PowerError, Result};

/// Returns the spectral radius of one controller period. Below 1 the system is stable, and the distance to
/// the reference shrinks by this factor each period; above 1 it is not stable. Jitter is left out. Delays
/// count in whole converter periods, because a converter looks only then.
///
/// # Errors
/// Returns [`PowerError::Parameter`] if the controller period is not a multiple of the converter period.
pub fn radius(params: &Params, controller_period: Duration, delays: &Delays) -> Result<f64> {
    params.validate()?;
    let tick = params.converter_period.as_nanos();
    let period = controller_period.as_nanos();
    if period == 0 || !period.is_multiple_of(tick) {
        let (name, value) = ("controller_period", format!("{controller_period:?}"));
        return Err(PowerError::Parameter {
            name,
            value,
            remedy: "give a multiple of the converter period",
        });
    }
    let ticks = |d: Duration| d.as_nanos().div_ceil(tick) as usize;
    let system = Linear {
        transition: Transition::new(params, params.inductance, params.capacitance),
        proportional: params.proportional / params.input_volts,
        integral: params.integral * controller_period.as_secs_f64() / params.input_volts,
        ticks: (period / tick) as usize,
        feedback: ticks(delays.feedback),
        // The controller runs after the converters of its instant, so even a message without delay is for the
        // next tick.
        command: ticks(delays.command).max(1),
    };
    let n = system.dimension();
    let mut matrix = vec![vec![0.0; n]; n];
    for column in 0..n {
        let mut unit = vec![0.0; n];
        unit[column] = 1.0;
        for (row, value) in system.period(unit).into_iter().enumerate() {
            matrix[row][column] = value;
        }
    }
    Ok(spectral_radius(matrix))
}

/// Returns the controller period at which the phase margin of the continuous open loop is used up, by the
/// usual approximation of a sampled loop. The delays are half a period for the hold, the age of the voltage
/// read, and the time to the iteration that applies the new duty cycle. The result is zero if the messages
/// alone use up the margin. It is `None` if the loop gain is never one, because the approximation then says
/// nothing.
pub fn period_limit(params: &Params, delays: &Delays) -> Option<Duration> {
    let (r, l, c, load) = (
        params.inductor_ohms,
        params.inductance,
        params.capacitance,
        params.load_ohms,
    );
    // These are the converter's v / (d V_in) and the PI controller, at s = jw.
    let loop_gain = |w: f64| {
        let (re, im) = (1.0 + r / load - l * c * w * w, w * (l / load + r * c));
        params.proportional.hypot(params.integral / w) / re.hypot(im)
    };
    let phase = |w: f64| {
        let (re, im) = (1.0 + r / load - l * c * w * w, w * (l / load + r * c));
        (-params.integral / w).atan2(params.proportional) - im.atan2(re)
    };
    // The gain falls past its resonance. Search for the last crossing from above every pole, by halving.
    let (mut low, mut high) = (1.0, 1e9);
    if loop_gain(low) <= 1.0 || loop_gain(high) >= 1.0 {
        return None;
    }
    for _ in 0..200 {
        let middle = f64::sqrt(low * high);
        if loop_gain(middle) > 1.0 {
            low = middle
        } else {
            high = middle
        }
    }
    let tick = params.converter_period;
    let in_ticks =
        |d: Duration| tick * u32::try_from(d.as_nanos().div_ceil(tick.as_nanos())).unwrap_or(u32::MAX);
    // The iteration that first sees a duty cycle applies it to the period before it.
    let messages = in_ticks(delays.feedback) + in_ticks(delays.command).saturating_sub(tick);
    let margin_s = (std::f64::consts::PI + phase(low)) / low;
    Some(Duration::from_secs_f64(
        (2.0 * (margin_s - messages.as_secs_f64())).max(0.0),
    ))
}

struct Linear {
    transition: Transition,
    proportional: f64,
    integral: f64,
    /// The number of converter periods in a controller period.
    ticks: usize,
    /// The age of the voltage that the controller reads, in ticks.
    feedback: usize,
    /// The ticks from the push of a duty cycle to the iteration that uses it.
    command: usize,
}

impl Linear {
    /// Returns the size of the state: current, voltages 0..=feedback ticks old, the duty cycles that the next
    /// `command` iterations use, the controller's duty cycle and its last error.
    fn dimension(&self) -> usize {
        1 + (self.feedback + 1) + self.command + 2
    }

    /// Runs one controller iteration and the converter iterations up to the next.
    fn period(&self, state: Vec<f64>) -> Vec<f64> {
        let mut current = state[0];
        let mut volts = state[1..self.feedback + 2].to_vec();
        let mut coming = state[self.feedback + 2..self.feedback + 2 + self.command].to_vec();
        let (mut duty, last_error) = (state[state.len() - 2], state[state.len() - 1]);
        let error = -volts[self.feedback];
        duty += self.proportional * (error - last_error) + self.integral * error;
        // The last slot is for the first iteration that sees the new duty cycle, and for all after it.
        let last = self.command - 1;
        coming[last] = duty;
        for _ in 0..self.ticks {
            let Transition { a, b } = &self.transition;
            let (i, v, d) = (current, volts[0], coming[0]);
            current = a[0][0] * i + a[0][1] * v + b[0] * d;
            volts.rotate_right(1);
            volts[0] = a[1][0] * i + a[1][1] * v + b[1] * d;
            coming.rotate_left(1);
            coming[last] = duty;
        }
        [vec![current], volts, coming, vec![duty, error]].concat()
    }
}

/// Returns the spectral radius, by Gelfand's formula on repeated squares that are normalised on the way.
fn spectral_radius(mut matrix: Vec<Vec<f64>>) -> f64 {
    const SQUARINGS: i32 = 24;
    let n = matrix.len();
    // The invariant is matrix^(2^k) = exp(log_scale) * matrix.
    let mut log_scale = 0.0;
    for k in 0..=SQUARINGS {
        let norm = matrix.iter().flatten().map(|x| x * x).sum::<f64>().sqrt();
        if norm == 0.0 {
            return 0.0;
        }
        log_scale += norm.ln();
        for x in matrix.iter_mut().flatten() {
            *x /= norm;
        }
        if k < SQUARINGS {
            let square = |r: usize, c: usize| (0..n).map(|j| matrix[r][j] * matrix[j][c]).sum::<f64>();
            matrix = (0..n).map(|r| (0..n).map(|c| square(r, c)).collect()).collect();
            log_scale *= 2.0;
        }
    }
    (log_scale / 2.0_f64.powi(SQUARINGS)).exp()
}
