//! Messages to and fro between two processes by iceoryx2: publishers that loan samples, subscribers that ask for them without
//! pause.
//!
//! Used by the command `iceoryx2` of this program, which starts itself again for the process that answers.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::{Path as IceoryxPath, *};
use nix::unistd::getppid;

/// Round trips between two looks at the clock: reading it takes as long as one.
const PIECE: u64 = 64;
/// Looks for a message before the other process is asked for: whether it is still there, and to let it run.
const LONG: u64 = 100_000;

/// Measures the time of messages to and fro, or answers the process that does.
#[derive(Clone, Debug, Parser)]
pub struct PingPong {
    /// Round trips.
    iterations: u64,
    /// Bytes of a message: 64 or 4096.
    size: usize,
    /// Answer the process that keeps its services in this folder.
    #[arg(long, value_name = "FOLDER")]
    answer: Option<PathBuf>,
}

impl PingPong {
    /// Returns half the time of a round trip in nanoseconds: the median of pieces, without the first tenth.
    ///
    /// # Errors
    /// If iceoryx2 fails, the other process ends early, or a message is not the one that was sent.
    pub fn run(&self) -> Result<Option<f64>> {
        set_log_level(LogLevel::Error);
        match self.size {
            64 => self.run_sized::<8>(),
            4096 => self.run_sized::<512>(),
            other => bail!("messages of {other} bytes: there are 64 and 4096"),
        }
    }

    fn run_sized<const WORDS: usize>(&self) -> Result<Option<f64>> {
        if let Some(folder) = &self.answer {
            let asking = getppid();
            let ends = Ends::<WORDS>::open(folder, ["pong", "ping"])?;
            println!("ready");
            for number in 1..=self.iterations {
                ends.receive(number, || {
                    ensure!(getppid() == asking, "the process that asks has ended");
                    Ok(())
                })?;
                ends.send(number)?;
            }
            // The last message stays until it has been read.
            let _ = std::io::stdin().lines().next();
            return Ok(None);
        }
        let folder = tempfile::Builder::new().prefix("peers-").tempdir();
        let folder = Leftovers(folder.context("making a folder for iceoryx2")?);
        let ends = Ends::<WORDS>::open(folder.0.path(), ["ping", "pong"])?;
        let mut child = self.start(folder.0.path())?;
        let measured = self.ask(&ends, &mut child);
        if measured.is_err() {
            let _ = child.kill();
        }
        drop(child.stdin.take());
        let status = child.wait()?;
        let measured = measured?;
        ensure!(status.success(), "the process that answers: {status}");
        Ok(Some(measured))
    }

    /// Starts the process that answers, and waits until its ports are there.
    fn start(&self, folder: &Path) -> Result<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--loco", "none", "iceoryx2", &self.iterations.to_string()]);
        command.arg(self.size.to_string()).arg("--answer").arg(folder);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        if line.trim() != "ready" {
            let status = child.wait()?;
            bail!("the process that answers did not begin: {status}");
        }
        Ok(child)
    }

    fn ask<const WORDS: usize>(&self, ends: &Ends<WORDS>, child: &mut Child) -> Result<f64> {
        let warm_up = self.iterations / 10;
        let mut pieces = Vec::new();
        let mut begin = Instant::now();
        for number in 1..=self.iterations {
            ends.send(number)?;
            ends.receive(number, || {
                let ended = child.try_wait()?;
                ensure!(ended.is_none(), "the process that answers ended early: {ended:?}");
                Ok(())
            })?;
            if number >= warm_up && (number - warm_up).is_multiple_of(PIECE) {
                if number > warm_up {
                    pieces.push(begin.elapsed().as_secs_f64() * 1e9 / (2 * PIECE) as f64);
                }
                begin = Instant::now();
            }
        }
        ensure!(!pieces.is_empty(), "{} round trips are too few", self.iterations);
        pieces.sort_by(f64::total_cmp);
        Ok(pieces[pieces.len() / 2])
    }
}

/// The folder of a measurement. What iceoryx2 leaves in shared memory has the folder's name, and is removed with it.
struct Leftovers(tempfile::TempDir);

impl Drop for Leftovers {
    fn drop(&mut self) {
        let Ok(name) = name(self.0.path()) else { return };
        let segments = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
        for segment in segments.filter(|it| it.file_name().to_string_lossy().starts_with(name)) {
            let _ = std::fs::remove_file(segment.path());
        }
    }
}

fn name(folder: &Path) -> Result<&str> {
    let name = folder.file_name().and_then(|name| name.to_str());
    name.context("a folder with a name in UTF-8")
}

/// A message: as many words.
type Message<const WORDS: usize> = [u64; WORDS];

/// The two ends that a process has: it publishes at one and receives at the other.
struct Ends<const WORDS: usize> {
    publisher: Publisher<ipc::Service, Message<WORDS>, ()>,
    subscriber: Subscriber<ipc::Service, Message<WORDS>, ()>,
    // Its ports live as long as it.
    _node: Node<ipc::Service>,
}

impl<const WORDS: usize> Ends<WORDS> {
    /// Opens the services, first the one that this process publishes at.
    fn open(folder: &Path, names: [&str; 2]) -> Result<Self> {
        let mut config = Config::default();
        let root = folder.to_str().context("a folder with a name in UTF-8")?;
        let root = IceoryxPath::new(root.as_bytes()).map_err(|error| failed("naming a folder", error))?;
        config.global.set_root_path(&root);
        let prefix = FileName::new(name(folder)?.as_bytes());
        config.global.prefix = prefix.map_err(|error| failed("naming its files", error))?;
        let node = NodeBuilder::new()
            .config(&config)
            .create::<ipc::Service>()
            .map_err(|error| failed("making a node", error))?;
        let service = |name: &str| {
            node.service_builder(
                &name
                    .try_into()
                    .map_err(|error| failed("naming a service", error))?,
            )
            .publish_subscribe::<Message<WORDS>>()
            .max_publishers(1)
            .max_subscribers(1)
            .history_size(0)
            .open_or_create()
            .map_err(|error| failed("opening a service", error))
        };
        let publisher = service(names[0])?.publisher_builder().create();
        let subscriber = service(names[1])?.subscriber_builder().create();
        Ok(Ends {
            publisher: publisher.map_err(|error| failed("making a publisher", error))?,
            subscriber: subscriber.map_err(|error| failed("making a subscriber", error))?,
            _node: node,
        })
    }

    /// Sends message `number` in a loaned sample.
    fn send(&self, number: u64) -> Result<()> {
        let sample = self
            .publisher
            .loan_uninit()
            .map_err(|error| failed("loaning a sample", error))?
            .write_payload([number; WORDS]);
        let receivers = sample.send().map_err(|error| failed("sending a sample", error))?;
        ensure!(receivers == 1, "message {number} went to {receivers} processes");
        Ok(())
    }

    /// Receives message `number` and checks it. Calls `check` when it has waited for long.
    fn receive(&self, number: u64, mut check: impl FnMut() -> Result<()>) -> Result<()> {
        let mut looks = 0_u64;
        let sample = loop {
            let found = self.subscriber.receive();
            if let Some(sample) = found.map_err(|error| failed("receiving a sample", error))? {
                break sample;
            }
            looks += 1;
            if looks.is_multiple_of(LONG) {
                check()?;
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        };
        // Without a branch for each word, so that the compiler takes several at a time.
        let right = sample
            .payload()
            .iter()
            .fold(0, |differ, &word| differ | (word ^ number))
            == 0;
        ensure!(right, "message {number} is not as it was sent");
        Ok(())
    }
}

/// Its errors are enumerations that say what failed.
fn failed(what: &str, error: impl std::fmt::Debug) -> anyhow::Error {
    anyhow::anyhow!("iceoryx2: {what}: {error:?}")
}
