//! One node of `loco demo`: uses the main objects between processes.

use std::time::Duration;

use loco::fabric::{Fabric, Platform, Std, Time};
use loco::{Barrier, Config, Manager, RingBuffer, RingConfig, Sst, Thread};
use loco_app::{counted, print};
use serde::Serialize;

use crate::error::CliError;
use crate::meet;
use crate::record::Record;

/// Name of the subcommand.
pub const NAME: &str = "demo-node";

/// The number of barriers that are timed.
const BARRIERS: u32 = 20_000;
/// The number of messages that are timed, and their size in bytes.
const MESSAGES: u32 = 200_000;
const MESSAGE_BYTES: usize = 64;
/// The number of messages under way.
const WINDOW: usize = 1024;
/// What each node adds to the time that a call may wait.
const DEADLINE_A_NODE: Duration = Duration::from_secs(1);
/// The lines that the first node says.
const LINES: [&str; 3] = [
    "Hello from the writer: this went through a ring buffer.",
    "Every reader gets every message, whole and in order,",
    "by one-sided writes into its own memory.",
];

/// Be one node of the demonstration: `loco run -n 3 -- loco demo-node`.
#[derive(clap::Args)]
pub struct Args {
    /// Print one line of JSON a result, with the machine's facts.
    #[arg(long)]
    json: bool,
    /// Make only a thousandth of the barriers and messages, for emulated devices.
    #[arg(long)]
    quick: bool,
}

impl Args {
    /// Returns how often to repeat an action that is done `count` times by default.
    fn times(&self, count: u32) -> u32 {
        if self.quick { count / 1000 } else { count }
    }
}

#[derive(Serialize)]
struct Parameters {
    nodes: usize,
    operations: u32,
    /// Size of a message in bytes, where there are messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    size_bytes: Option<usize>,
}

#[derive(Serialize)]
struct Results {
    /// Mean latency of all operations.
    latency_ns_mean: f64,
    operations_per_second: f64,
}

/// One node at work.
struct Node<'a, F: Fabric> {
    manager: &'a Manager<F>,
    thread: Thread<F>,
    barrier: Barrier<F>,
    args: &'a Args,
}

/// Meets the others, and shows a barrier, a broadcast and a shared table; the lowest node reports times.
pub fn node(args: &Args) -> Result<u8, CliError> {
    let start = Std.now();
    show(meet::fabric()?, args, start)?;
    Ok(0)
}

fn show<F: Fabric>(fabric: F, args: &Args, start: Time) -> Result<(), CliError> {
    // Every pair of nodes meets, and they may share few cores.
    let deadline = Config::default().deadline + fabric.nodes().len() as u32 * DEADLINE_A_NODE;
    let manager = Manager::with_config(fabric, Config::default().deadline(deadline))?;
    let first = manager.nodes()[0];
    let barrier = Barrier::new(&manager, "barrier")?;
    let ring = RingBuffer::with_config(
        &manager,
        "news",
        first,
        &RingConfig::new(WINDOW * RingConfig::record_bytes(MESSAGE_BYTES)),
    )?;
    let heard = Sst::<u64, _>::new(&manager, "heard")?;
    loco_app::wait_for_ready(&manager)?;
    let node = Node {
        thread: manager.thread()?,
        manager: &manager,
        barrier,
        args,
    };
    let ready = Std.now().since(start);
    node.say(&format!(
        "process {} meets {}",
        std::process::id(),
        counted(manager.nodes().len() - 1, "other")
    ))?;
    node.together()?;
    if node.is_first() {
        let name = &manager.fabric().caps().name;
        node.say(&format!(
            "all connected over {name} after {:.1} ms",
            ready.as_secs_f64() * 1e3
        ))?;
    }
    node.barriers()?;
    let count = node.broadcast(&ring)?;
    node.table(&heard, count)?;
    node.together()
}

impl<F: Fabric> Node<'_, F> {
    /// Times barriers of all nodes. Because nobody leaves a barrier early, the times are meaningful.
    fn barriers(&self) -> Result<(), CliError> {
        self.together()?;
        let begin = Std.now();
        let barriers = self.args.times(BARRIERS);
        for _ in 0..barriers {
            self.barrier.wait_unfenced(&self.thread)?;
        }
        self.report("barrier", barriers, None, Std.now().since(begin))
    }

    /// Lets the first node broadcast a few lines, which the others print, and then messages as fast as it
    /// can. Returns the number of messages that came here.
    fn broadcast(&self, ring: &RingBuffer<F>) -> Result<u64, CliError> {
        let messages = self.args.times(MESSAGES);
        if !self.is_first() {
            let mut reader = ring.reader()?;
            for _ in LINES {
                let line = reader.receive(&self.thread)?;
                self.say(&format!("hears: {}", String::from_utf8_lossy(&line)))?;
            }
            self.together()?;
            let (mut message, mut count) = (Vec::new(), LINES.len() as u64);
            for _ in 0..messages {
                reader.receive_into(&self.thread, &mut message)?;
                count += u64::from(message.len() == MESSAGE_BYTES);
            }
            return Ok(count);
        }
        let mut writer = ring.writer()?;
        for line in LINES {
            writer.submit(&self.thread, line.as_bytes())?;
        }
        writer.wait_until_read(&self.thread)?;
        self.together()?;
        let begin = Std.now();
        for i in 0..messages {
            let mut message = [0; MESSAGE_BYTES];
            message[..4].copy_from_slice(&i.to_ne_bytes());
            writer.submit(&self.thread, &message)?;
        }
        writer.wait_until_read(&self.thread)?;
        self.report("broadcast", messages, Some(MESSAGE_BYTES), Std.now().since(begin))?;
        Ok(0)
    }

    /// Writes this node's row of the table, and reads the others' rows in its own memory.
    fn table(&self, heard: &Sst<u64, F>, count: u64) -> Result<(), CliError> {
        // The count is stored plus one, so that 0 says "not written yet".
        heard.store_mine(count + 1)?;
        heard.push(&self.thread)?.wait(&self.thread)?;
        heard.wait_for_each(&self.thread, |row| row > 0)?;
        let rows = heard.participants().nodes().iter().zip(heard.rows()?);
        let rows = rows.map(|(node, row)| format!("{node} heard {}", row.load() - 1));
        self.say(&format!(
            "reads in its table: {}",
            rows.collect::<Vec<_>>().join(", ")
        ))?;
        Ok(())
    }

    fn together(&self) -> Result<(), CliError> {
        Ok(self.barrier.wait(&self.thread)?)
    }

    fn is_first(&self) -> bool {
        self.manager.nodes().first() == Some(&self.manager.node())
    }

    fn say(&self, text: &str) -> Result<(), CliError> {
        if !self.args.json {
            print(text)?;
        }
        Ok(())
    }

    /// Reports the time of `operations`, on the first node.
    fn report(
        &self,
        name: &'static str,
        operations: u32,
        size_bytes: Option<usize>,
        time: Duration,
    ) -> Result<(), CliError> {
        if !self.is_first() {
            return Ok(());
        }
        let results = Results {
            latency_ns_mean: time.as_secs_f64() * 1e9 / f64::from(operations),
            operations_per_second: f64::from(operations) / time.as_secs_f64(),
        };
        if self.args.json {
            let parameters = Parameters {
                nodes: self.manager.nodes().len(),
                operations,
                size_bytes,
            };
            let fabric = self.manager.fabric().caps().name.clone();
            print(Record::new(name, fabric, parameters, results).line()?)?;
        } else if let Some(size_bytes) = size_bytes {
            print(format_args!(
                "{} of {size_bytes} bytes to each of {}: {:.3} us each, {:.1} million a second",
                counted(operations, "message"),
                counted(self.manager.nodes().len() - 1, "reader"),
                results.latency_ns_mean / 1e3,
                results.operations_per_second / 1e6
            ))?;
        } else {
            print(format_args!(
                "{}: {:.2} us each, {:.2} million a second",
                counted(operations, "barrier"),
                results.latency_ns_mean / 1e3,
                results.operations_per_second / 1e6
            ))?;
        }
        Ok(())
    }
}
