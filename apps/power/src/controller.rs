//! The controller. Relies on [`Params`]; used by the simulation, and by the controller's process in real
//! time.

use std::time::Duration;

use crate::Params;

/// A discrete PI controller of the sum of the voltages. A further term keeps the converters equal.
///
/// The controller has incremental form: each period adds to the duty cycles, which are clamped to the range of a
/// converter. Nothing therefore winds up while they are at a limit.
#[derive(Clone, Debug)]
pub struct Controller {
    params: Params,
    period_s: f64,
    last_error: f64,
    duties: Vec<f64>,
}

impl Controller {
    /// Returns a controller whose loop has this period. All duty cycles are 0.
    pub fn new(params: &Params, period: Duration) -> Self {
        Controller {
            period_s: period.as_secs_f64(),
            last_error: 0.0,
            duties: vec![0.0; params.converters],
            params: params.clone(),
        }
    }

    /// Runs one period. Takes the latest voltage of each converter, and returns the new duty cycles.
    pub fn step(&mut self, volts: &[f64]) -> &[f64] {
        let params = &self.params;
        let count = params.converters as f64;
        let mean = volts.iter().sum::<f64>() / count;
        let error = (params.reference_volts / count - mean) / params.input_volts;
        let change =
            params.proportional * (error - self.last_error) + params.integral * self.period_s * error;
        self.last_error = error;
        for (duty, volts) in self.duties.iter_mut().zip(volts) {
            let apart = (mean - volts) / params.input_volts;
            *duty = (*duty + change + params.balance * self.period_s * apart).clamp(0.0, 1.0);
        }
        &self.duties
    }
}
