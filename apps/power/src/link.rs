//! What the two sides exchange. Relies on the two models; implemented by the simulated network here, and by
//! owned variables between nodes (`real`).

use crate::{Controller, Converter, Result};

/// The controller's side: it writes all duty cycles and reads all voltages.
pub trait ControllerLink {
    /// Fills `volts`, one a converter, with the latest values that have arrived. Before the first, 0.
    ///
    /// # Errors
    /// The exchange failed; the loop should stop with all duty cycles at 0.
    fn voltages(&mut self, volts: &mut [f64]) -> Result<()>;

    /// Pushes `duties`, one a converter. Returns without waiting for them to arrive.
    ///
    /// # Errors
    /// The exchange failed.
    fn push_duties(&mut self, duties: &[f64]) -> Result<()>;
}

/// A converter's side: it writes its voltage and reads its duty cycle.
pub trait ConverterLink {
    /// Returns the latest duty cycle that has arrived. Before the first, 0.
    ///
    /// # Errors
    /// The exchange failed.
    fn duty(&mut self) -> Result<f64>;

    /// Pushes the voltage. Returns without waiting for it to arrive.
    ///
    /// # Errors
    /// The exchange failed.
    fn push_voltage(&mut self, volts: f64) -> Result<()>;
}

/// One iteration of the controller's loop; returns the output as the controller sees it: the sum of the latest
/// voltages. `volts` has one place a converter and is scratch space, so that the loop does not allocate.
///
/// # Errors
/// Those of the link.
pub fn controller_iteration(
    controller: &mut Controller,
    link: &mut impl ControllerLink,
    volts: &mut [f64],
) -> Result<f64> {
    link.voltages(volts)?;
    link.push_duties(controller.step(volts))?;
    Ok(volts.iter().sum())
}

/// One iteration of a converter's loop; returns its new voltage.
///
/// # Errors
/// Those of the link.
pub fn converter_iteration(converter: &mut Converter, link: &mut impl ConverterLink) -> Result<f64> {
    let volts = converter.step(link.duty()?);
    link.push_voltage(volts)?;
    Ok(volts)
}
