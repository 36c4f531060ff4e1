//! A distributed DC/DC converter system under digital control (LOCO'26 appendix B.2, LOCO'25 appendix B).
//!
//! One controller regulates the duty cycles of N buck converters in series, whose output is the sum of their
//! voltages. The two sides share only two arrays of variables with one writer each: duty cycles, written by
//! the controller, and voltages, each written by its converter. Both sides run loops of fixed period. The age
//! of the values that a side reads decides whether the system is stable. The system therefore tests a network
//! memory's latency.
//!
//! The parts:
//!
//! - [`params`]: every number of the model, and its origin;
//! - [`Converter`] and [`Controller`]: one period of each side;
//! - [`link`]: the exchange between the sides, as two small traits, and the body of each side's loop over
//!   them;
//! - [`simulate`]: the whole system in simulated time, with message delays; deterministic;
//! - [`run_real`]: controller and converters on nodes of a job, by the clock;
//! - [`stability`]: the growth of a small disturbance from one controller period to the next, by linear algebra;
//! - [`output`]: CSV, and an SVG plot with one panel a controller period.
//!
//! The paper gives the periods and the number of converters, but not the component values; those here are
//! ours.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod controller;
mod converter;
mod error;
pub mod link;
pub mod output;
pub mod params;
mod real;
mod simulation;
pub mod stability;

pub use controller::Controller;
pub use converter::Converter;
pub use error::{PowerError, Result};
pub use params::Params;
pub use real::{RealPlan, RealRun, run_real};
pub use simulation::{Delays, Run, Sample, simulate};
