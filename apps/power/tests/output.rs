//! Tests the files that the command writes.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use loco_power::*;

fn runs() -> Vec<Run> {
    let run = |us| {
        let period = Duration::from_micros(us);
        simulate(
            &Params::default(),
            period,
            &Delays::default(),
            Duration::from_millis(5),
        )
        .unwrap()
    };
    vec![run(40), run(80)]
}

#[test]
fn csv_has_a_line_for_each_sample() {
    let mut bytes = Vec::new();
    output::write_csv(&mut bytes, &runs()).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("controller_period_us,time_us,output_volts"));
    assert_eq!(lines.next(), Some("40,0,0.000000"));
    // There are 0 to 5 ms in steps of 10 us, twice.
    assert_eq!(lines.count(), 2 * 501 - 1);
    let last: Vec<&str> = text.lines().last().unwrap().split(',').collect();
    assert_eq!(last[..2], ["80", "5000"]);
}

/// In a common panel, the curve of a long period would hide the others.
#[test]
fn the_plot_has_a_labelled_panel_for_each_period() {
    let path = std::env::temp_dir().join(format!("loco-power-{}.svg", std::process::id()));
    output::write_svg(&path, &runs()).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
    let count = |label: &str| text.lines().filter(|line| line.trim() == label).count();
    assert_eq!((count("40 us"), count("80 us")), (1, 1));
    // Each panel has axes of its own.
    assert_eq!((count("time, ms"), count("output, V")), (2, 2));
}

#[test]
fn a_plot_that_cannot_be_written_is_an_error() {
    let path = std::env::temp_dir().join("no-such-folder/plot.svg");
    assert!(matches!(
        output::write_svg(&path, &runs()),
        Err(PowerError::Plot(_))
    ));
}
