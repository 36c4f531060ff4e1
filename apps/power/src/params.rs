//! The numbers of the model. Relies on nothing; used by all other parts.
//!
//! # The converter
//!
//! The model is a buck converter, averaged over its switching period (Erickson and Maksimovic, *Fundamentals
//! of Power Electronics*, chapter 7). It has the input `V_in`, duty cycle `d`, inductor `L` with resistance
//! `r`, output capacitor `C`, and its share `R` of the load:
//!
//! ```text
//! L di/dt = d V_in - r i - v          C dv/dt = i - v / R
//! ```
//!
//! The converters are in series on one load. They are equal, so each sees an N-th of the load, and a
//! converter is simulated from its own state alone. With the values below the poles are real, at 6.3 and 27.2
//! thousand per second. These are time constants of 160 and 37 us, so the converters' loop of 10 us
//! approximates continuous time as in the paper. It does so exactly for a duty cycle that changes only
//! between iterations.
//!
//! # The controller
//!
//! The controller is a discrete PI controller in incremental form on the error of the sum. Its zero `K_i /
//! K_p` is put on the slow pole of the converter, which leaves the open loop `K_i / s` with the fast pole `p`
//! and the delay. With the values below its gain crosses one at `w` = 25.5 thousand per second. There the
//! phase margin of `pi/2 - atan(w/p)` = 47 degrees allows a delay of 32 us. Two delays use this up: half a
//! controller period for the hold, and the 10 us that a voltage is old when the controller reads it. The
//! limit is a controller period of
//!
//! ```text
//! 2 ((pi/2 - atan(w/p)) / w - 10 us) ~ 44 us
//! ```
//!
//! A period of 40 us is therefore stable and one of 50 us is not.
//! [`stability::period_limit`](crate::stability::period_limit) computes this for any parameters, and
//! [`stability::radius`](crate::stability::radius) does so without its approximations.

use std::time::Duration;

use crate::{PowerError, Result};

/// The paper's number of converters.
pub const CONVERTERS: usize = 20;
/// The paper's period of the converters' loop.
pub const CONVERTER_PERIOD: Duration = Duration::from_micros(10);
/// The longest controller period at which the paper's system, and ours, is stable.
pub const STABLE_PERIOD_MAX: Duration = Duration::from_micros(40);

/// The parameters of a system.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// The number of converters.
    pub converters: usize,
    /// The period of the converters' loop.
    pub converter_period: Duration,
    /// The input voltage of each converter, in volts.
    pub input_volts: f64,
    /// The voltage that the sum is to reach, in volts.
    pub reference_volts: f64,
    /// The inductance, in henries.
    pub inductance: f64,
    /// The inductor's series resistance, in ohms.
    pub inductor_ohms: f64,
    /// The output capacitance, in farads.
    pub capacitance: f64,
    /// The share of the load of one converter, in ohms.
    pub load_ohms: f64,
    /// The largest deviation of a converter's `L` and `C`, as a fraction. The converter's number determines
    /// its deviation.
    pub tolerance: f64,
    /// The proportional gain: duty cycle per relative error (error of the mean voltage over the input
    /// voltage).
    pub proportional: f64,
    /// The integral gain, per second.
    pub integral: f64,
    /// The gain of the term that moves each converter towards the mean, per second. It does not change the
    /// sum.
    pub balance: f64,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            converters: CONVERTERS,
            converter_period: CONVERTER_PERIOD,
            input_volts: 24.0,
            reference_volts: 12.0 * CONVERTERS as f64,
            inductance: 100e-6,
            inductor_ohms: 0.01,
            capacitance: 60e-6,
            load_ohms: 0.5,
            tolerance: 0.02,
            proportional: 5.6,
            integral: 35_000.0,
            balance: 1_000.0,
        }
    }
}

impl Params {
    /// Refuses parameters that make no sense.
    ///
    /// # Errors
    /// Returns [`PowerError::Parameter`], which names the first of these parameters.
    pub fn validate(&self) -> Result<()> {
        let positive = [
            ("input_volts", self.input_volts),
            ("inductance", self.inductance),
            ("capacitance", self.capacitance),
            ("load_ohms", self.load_ohms),
        ];
        let wrong = |name, value: String, remedy| Err(PowerError::Parameter { name, value, remedy });
        for (name, value) in positive {
            if !(value.is_finite() && value > 0.0) {
                return wrong(name, value.to_string(), "give a positive number");
            }
        }
        for (name, value) in [
            ("inductor_ohms", self.inductor_ohms),
            ("proportional", self.proportional),
            ("integral", self.integral),
            ("balance", self.balance),
        ] {
            if !(value.is_finite() && value >= 0.0) {
                return wrong(name, value.to_string(), "give a number that is not negative");
            }
        }
        if self.converters == 0 {
            return wrong("converters", "0".to_owned(), "give at least one");
        }
        if self.converter_period.is_zero() {
            return wrong(
                "converter_period",
                "0".to_owned(),
                "give a period of at least a nanosecond",
            );
        }
        if !(0.0..1.0).contains(&self.tolerance) {
            return wrong(
                "tolerance",
                self.tolerance.to_string(),
                "give a fraction from 0 to below 1",
            );
        }
        let reachable = self.input_volts * self.converters as f64;
        if !(0.0..=reachable).contains(&self.reference_volts) {
            let value = self.reference_volts.to_string();
            return wrong(
                "reference_volts",
                value,
                "give at most the input voltage times the converters",
            );
        }
        Ok(())
    }
}
