//! CSV and plot of runs. Relies on plotters' SVG backend; used by the `power` command.

use std::fmt::Display;
use std::io::Write;
use std::path::Path;

use plotters::prelude::*;

use crate::{PowerError, Result, Run};

/// Points drawn for one series at most; each is the lowest or highest of its stretch, so that no peak is lost.
const POINTS_MAX: usize = 2_000;

/// Writes the runs as `controller_period_us,time_us,output_volts`, with a header line.
///
/// # Errors
/// [`PowerError::Io`].
pub fn write_csv(out: &mut impl Write, runs: &[Run]) -> Result<()> {
    writeln!(out, "controller_period_us,time_us,output_volts")?;
    for run in runs {
        let period_us = run.controller_period.as_nanos() as f64 / 1e3;
        for sample in &run.samples {
            writeln!(
                out,
                "{period_us},{},{:.6}",
                sample.at_ns as f64 / 1e3,
                sample.volts
            )?;
        }
    }
    Ok(())
}

/// Draws output voltage over time as SVG, one series a run, as in LOCO'26 Fig. 21.
///
/// # Errors
/// [`PowerError::Plot`] if the file cannot be written.
pub fn write_svg(path: &Path, runs: &[Run]) -> Result<()> {
    let samples = || runs.iter().flat_map(|run| &run.samples);
    let end_ms = samples().map(|s| s.at_ns).max().unwrap_or(0) as f64 / 1e6;
    let top = samples().map(|s| s.volts).fold(1.0, f64::max) * 1.05;
    let bottom = samples().map(|s| s.volts).fold(0.0, f64::min);
    let root = SVGBackend::new(path, (960, 540)).into_drawing_area();
    root.fill(&WHITE).map_err(plot)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(
            "Output voltage by period of the controller's loop",
            ("sans-serif", 20),
        )
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..end_ms.max(1e-3), bottom..top)
        .map_err(plot)?;
    chart
        .configure_mesh()
        .x_desc("time, ms")
        .y_desc("output, V")
        .draw()
        .map_err(plot)?;
    // The longest period swings most: drawn first, it does not hide the others.
    let mut order: Vec<&Run> = runs.iter().collect();
    order.sort_by_key(|run| std::cmp::Reverse(run.controller_period));
    for (index, run) in order.into_iter().enumerate() {
        let color = Palette99::pick(index).to_rgba();
        chart
            .draw_series(LineSeries::new(points(run), color))
            .map_err(plot)?
            .label(format!("{} us", run.controller_period.as_nanos() as f64 / 1e3))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()
        .map_err(plot)?;
    root.present().map_err(plot)
}

/// The samples as (ms, V), thinned to the lowest and highest of each stretch.
fn points(run: &Run) -> Vec<(f64, f64)> {
    let stretch = run.samples.len().div_ceil(POINTS_MAX / 2).max(1);
    let mut points = Vec::with_capacity(POINTS_MAX);
    for samples in run.samples.chunks(stretch) {
        let by_volts = |a: &&crate::Sample, b: &&crate::Sample| a.volts.total_cmp(&b.volts);
        let (low, high) = (samples.iter().min_by(by_volts), samples.iter().max_by(by_volts));
        let mut both: Vec<_> = low.into_iter().chain(high).collect();
        both.sort_by_key(|s| s.at_ns);
        both.dedup();
        points.extend(both.into_iter().map(|s| (s.at_ns as f64 / 1e6, s.volts)));
    }
    points
}

fn plot(error: impl Display) -> PowerError {
    PowerError::Plot(error.to_string())
}
