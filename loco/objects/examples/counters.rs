//! Nodes whose counters Prometheus scrapes, each at a port of its own: 9000 plus the node's id, or an argument plus the id. Start
//! three, and end them by Enter: `loco run -n 3 -- cargo run --features metrics --example counters`
use std::error::Error;
use std::time::Duration;

use loco::fabric::Time;
use loco::metrics::Counters;
use loco::prelude::*;
use metrics_exporter_prometheus::PrometheusBuilder;

fn main() -> Result<(), Box<dyn Error>> {
    let first_port: u16 = std::env::args().nth(1).map_or(Ok(9000), |port| port.parse())?;
    loco::run(|node| {
        let port = first_port + node.node().0;
        PrometheusBuilder::new()
            .with_http_listener(([127, 0, 0, 1], port))
            .install()?;
        let _counters = Counters::publish(node, Duration::from_millis(250))?;

        let steps = AtomicVar::<u64>::new(node, "steps", node.nodes()[0])?;
        let lock = TicketLock::new(node, "lock", node.nodes()[0])?;
        let barrier = Barrier::new(node, "barrier")?;
        node.wait_for_ready()?;
        let thread = node.thread()?;
        for _ in 0..1000 {
            let _guard = lock.lock(&thread, Scope::Thread)?;
            steps.fetch_add(&thread, 1)?;
        }
        println!("{}: http://127.0.0.1:{port}/metrics", node.node());
        if node.node() == node.nodes()[0] {
            std::io::stdin().read_line(&mut String::new())?;
        }
        thread.set_deadline(Some(Time::NEVER)); // the user takes any time
        barrier.wait(&thread)?;
        Ok::<_, Box<dyn Error>>(())
    })
}
