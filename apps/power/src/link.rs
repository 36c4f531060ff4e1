//! The exchange between the two sides. Relies on the two models; implemented by the simulated network here,
//! and by owned variables between nodes (`real`).

use crate::{Controller, Converter, Result};

/// The controller's side: it writes all duty cycles and reads all voltages.
pub trait ControllerLink {
    /// Fills `volts` with the latest voltage that has arrived from each converter. A voltage is 0 before the
    /// first has arrived.
    ///
    /// # Errors
    /// Fails if the exchange failed. The loop should then stop with all duty cycles at 0.
    fn voltages(&mut self, volts: &mut [f64]) -> Result<()>;

    /// Pushes `duties`, one for each converter. Returns without waiting for them to arrive.
    ///
    /// # Errors
    /// Fails if the exchange failed.
    fn push_duties(&mut self, duties: &[f64]) -> Result<()>;
}

/// A converter's side: it writes its voltage and reads its duty cycle.
pub trait ConverterLink {
    /// Returns the latest duty cycle that has arrived, or 0 before the first.
    ///
    /// # Errors
    /// Fails if the exchange failed.
    fn duty(&mut self) -> Result<f64>;

    /// Pushes the voltage. Returns without waiting for it to arrive.
    ///
    /// # Errors
    /// Fails if the exchange failed.
    fn push_voltage(&mut self, volts: f64) -> Result<()>;
}

/// Runs one iteration of the controller's loop. Returns the output as the controller sees it: the sum of the
/// latest voltages. `volts` has one place for each converter and is scratch space, so that the loop does not
/// allocate.
///
/// # Errors
/// Returns the errors of the link.
pub fn controller_iteration(
    controller: &mut Controller,
    link: &mut impl ControllerLink,
    volts: &mut [f64],
) -> Result<f64> {
    link.voltages(volts)?;
    link.push_duties(controller.step(volts))?;
    Ok(volts.iter().sum())
}

/// Runs one iteration of a converter's loop. Returns its new voltage.
///
/// # Errors
/// Returns the errors of the link.
pub fn converter_iteration(converter: &mut Converter, link: &mut impl ConverterLink) -> Result<f64> {
    let volts = converter.step(link.duty()?);
    link.push_voltage(volts)?;
    Ok(volts)
}
