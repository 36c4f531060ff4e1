//! Climbs the ladder of an object: `cargo run --example climb -- OBJECT [SECONDS [RUNG...]]`.

use std::time::Duration;

use loco_check::{Ladder, Object};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let object: Object = arguments.next().ok_or("say which object")?.parse()?;
    let seconds: u64 = arguments.next().map_or(Ok(60), |text| text.parse())?;
    let mut ladder = Ladder::new(object, Duration::from_secs(seconds));
    ladder.only = arguments.collect();
    let report = ladder.climb()?;
    for rung in &report.rungs {
        println!(
            "{:28} {:40} {:>9} states {:>7} random {:7.2} s",
            rung.rung,
            rung.completeness.to_string(),
            rung.stats.states,
            rung.random,
            rung.stats.seconds
        );
        if let Some(failure) = &rung.failure {
            println!("FAILED\n{failure}");
        }
    }
    println!("not called: {:?}; {:.1} s", report.unreached, report.seconds);
    Ok(())
}
