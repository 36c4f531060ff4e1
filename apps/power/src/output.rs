//! Writes CSV files and plots of runs. Relies on plotters' SVG backend; used by the `power` command.

use std::fmt::Display;
use std::io::Write;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::{PowerError, Result, Run};

/// Size of the plot, in pixels.
const WIDTH: u32 = 960;
const TITLE_HEIGHT: u32 = 30;
const PANEL_HEIGHT: u32 = 190;
/// The most points drawn for one series. Each is the lowest or highest of its stretch, so that no peak is
/// lost.
const POINTS_MAX: usize = 2_000;

/// Writes the runs as `controller_period_us,time_us,output_volts`, with a header line.
///
/// # Errors
/// Returns [`PowerError::Io`] if a write fails.
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

/// Draws output voltage over time as SVG, as in LOCO'26 Fig. 21. Each run has a panel of its own, because
/// curves in one panel would hide one another. All panels have the same axes and the reference as a dashed
/// line.
///
/// # Errors
/// Returns [`PowerError::Plot`] if the file cannot be written.
pub fn write_svg(path: &Path, runs: &[Run]) -> Result<()> {
    let samples = || runs.iter().flat_map(|run| &run.samples);
    let end_ms = (samples().map(|s| s.at_ns).max().unwrap_or(0) as f64 / 1e6).max(1e-3);
    let top = samples().map(|s| s.volts).fold(1.0, f64::max) * 1.05;
    let bottom = samples().map(|s| s.volts).fold(0.0, f64::min);
    let axes = Axes {
        end_ms,
        volts: bottom..top,
    };
    let height = TITLE_HEIGHT + PANEL_HEIGHT * u32::try_from(runs.len().max(1)).unwrap_or(u32::MAX);
    let root = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE).map_err(plot)?;
    let root = root
        .titled(
            "Output voltage by period of the controller's loop",
            ("sans-serif", 20),
        )
        .map_err(plot)?;
    let panels = root.split_evenly((runs.len().max(1), 1));
    for (index, (run, panel)) in runs.iter().zip(&panels).enumerate() {
        draw(panel, run, &axes, Palette99::pick(index).to_rgba())?;
    }
    root.present().map_err(plot)
}

/// The axes that all panels have in common.
struct Axes {
    end_ms: f64,
    volts: std::ops::Range<f64>,
}

/// Draws one run in its panel.
fn draw(panel: &DrawingArea<SVGBackend<'_>, Shift>, run: &Run, axes: &Axes, color: RGBAColor) -> Result<()> {
    let period = run.controller_period.as_nanos() as f64 / 1e3;
    let mut chart = ChartBuilder::on(panel)
        .caption(format!("{period} us"), ("sans-serif", 15))
        .margin(6)
        .x_label_area_size(32)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..axes.end_ms, axes.volts.clone())
        .map_err(plot)?;
    chart
        .configure_mesh()
        .x_desc("time, ms")
        .y_desc("output, V")
        .y_labels(4)
        .draw()
        .map_err(plot)?;
    let reference = [(0.0, run.reference_volts), (axes.end_ms, run.reference_volts)];
    chart
        .draw_series(DashedLineSeries::new(reference, 6, 4, BLACK.stroke_width(1)))
        .map_err(plot)?;
    chart
        .draw_series(LineSeries::new(points(run), color))
        .map_err(plot)?;
    Ok(())
}

/// Returns the samples as (ms, V), thinned to the lowest and highest of each stretch.
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
