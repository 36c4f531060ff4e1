//! `loco nic`: runs a program that uses verbs on the weakest NIC that its tier allows.
//!
//! The program is unchanged: it finds this project's `libibverbs.so.1` and `librdmacm.so.1` before the system's, through
//! `LD_LIBRARY_PATH`. What the library is told is in variables `LOCO_NIC_*`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, BufRead as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use loco::fabric::Tier;
use loco_host::dispatch::HostTable;
use loco_host::places::{self, Place};
use rustix::process::{Pid, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::CliError;

mod hosts;

/// The library, as cargo names it.
const LIBRARY: &str = "libloco_nic.so";
/// The names under which programs look for it.
const NAMES: [&str; 2] = ["libibverbs.so.1", "librdmacm.so.1"];

/// What the names of a world's files begin with, and how many places it has, as the library has it.
const PREFIX: &str = "nic";
const PLACES: u32 = (1 << 12) - 1;

/// How much the NIC does out of the ordinary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Stress {
    /// Everything at once and in order: plain and fast.
    None,
    /// Every liberty of the tier, all the time.
    Default,
    /// Every liberty of the tier in phases, and few between them.
    Auto,
}

/// Run PROGRAM, which uses libibverbs or librdmacm, on a NIC that takes every liberty of its tier.
///
/// PROGRAM is unchanged and needs no RDMA hardware, no kernel module and no root. It finds a device `loco0` with an active port, or
/// several (--devices); GID 1 of `loco0` has this host's address. Processes that are started with the same --world meet, also from
/// several terminals. Requests that are not supported fail with EOPNOTSUPP and a line that names them.
///
/// With --hosts, those of several hosts meet, too: run it on each host, with the same file and the same LOCO_SECRET. The host with an
/// id of the file listens at the address that the file has for it, and lets in who knows the secret.
///
/// At the end, a line says what the NIC did. The seed decides what it does, but not when the program's own threads run: a run with
/// the same seed is alike, and not the same. The exit code is that of PROGRAM (128 plus the signal if one killed it), 127 if it
/// is not found.
#[derive(clap::Args)]
pub struct Args {
    /// Order that the network keeps: ibta, ooo-rw, ooo-all, pcie-relaxed or unordered (`docs/ordering-models.md`).
    #[arg(long, value_name = "TIER", default_value = "ibta", value_parser = tier)]
    tier: Tier,
    /// How much the NIC does out of the ordinary.
    #[arg(long, value_name = "HOW", default_value = "default")]
    stress: Stress,
    /// How the NIC chooses what is late: random, pct:DEPTH (priorities of chains of steps, which change at DEPTH - 1 points) or
    /// delays:COUNT (nothing but so many delays), both of every 256 steps. A step is the read of a source, an execution, a placement,
    /// a completion, a pause between two words, or the choice of their order.
    #[arg(long, value_name = "HOW", default_value = "random", value_parser = schedule)]
    schedule: String,
    /// Seed of all random choices; drawn if it is not given.
    #[arg(long, value_name = "N", value_parser = loco_app::number::<u64>(..))]
    seed: Option<u64>,
    /// Folder where processes meet; one of the user if it is not given.
    #[arg(long, value_name = "DIR")]
    world: Option<PathBuf>,
    /// Hosts file (`id host[:port]` per line) of the hosts where processes meet.
    #[arg(long, value_name = "FILE")]
    hosts: Option<PathBuf>,
    /// Id of this host in the hosts file; needed if several are this machine.
    #[arg(long, value_name = "ID", requires = "hosts", value_parser = loco_app::number::<u16>(..))]
    host: Option<u16>,
    /// Number of devices (loco0, loco1, ...), up to 8. The first has this host's address, the others 127.0.0.2, 127.0.0.3 and so on, or
    /// none with --hosts.
    #[arg(long, value_name = "N", default_value = "1", value_parser = loco_app::number::<u8>(1..=8))]
    devices: u8,
    /// Write a timeline of operations to FILE, for viewers of Chrome's traces.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Lose one of N datagrams and unreliable messages, at random.
    #[arg(long, value_name = "N", value_parser = loco_app::number::<u32>(1..))]
    drop: Option<u32>,
    /// Break the queue pair of one of N requests, at random.
    #[arg(long, value_name = "N", value_parser = loco_app::number::<u32>(1..))]
    kill_qp: Option<u32>,
    /// Lose the link to the target of one of N requests for good, at random.
    #[arg(long, value_name = "N", value_parser = loco_app::number::<u32>(1..))]
    lose_link: Option<u32>,
    /// The program, and its arguments.
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM [ARGS]...")]
    command: Vec<OsString>,
}

fn tier(name: &str) -> Result<Tier, String> {
    let found = Tier::ALL.into_iter().find(|tier| tier.name() == name);
    found.ok_or_else(|| {
        let names: Vec<_> = Tier::ALL.iter().map(|tier| tier.name()).collect();
        format!("the tiers are {}", names.join(", "))
    })
}

/// Checks the name of a schedule. The library reads it again.
fn schedule(text: &str) -> Result<String, String> {
    let number = match text.split_once(':') {
        Some(("pct" | "delays", number)) => number,
        _ if text == "random" => "1",
        _ => return Err("the schedules are random, pct:DEPTH and delays:COUNT".to_owned()),
    };
    match number.parse::<u32>() {
        Ok(1..=16) => Ok(text.to_owned()),
        _ => Err("the number after the colon is from 1 to 16".to_owned()),
    }
}

/// Runs the program. Returns its exit code.
pub fn run(args: &Args) -> Result<u8, CliError> {
    if args.stress == Stress::None && args.schedule != "random" {
        let text = format!("--schedule {} has no effect with --stress none", args.schedule);
        return Err(CliError::Usage(text));
    }
    let library = library()?;
    let hosts = args.hosts.as_deref().map(|file| hosts::read(file, args.host));
    let hosts = hosts.transpose()?;
    let world = args.world.clone();
    let world = world.unwrap_or_else(|| default_world(hosts.as_ref().map(HostTable::own_address)));
    let world = std::path::absolute(world).map_err(CliError::os("naming the world's folder"))?;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&world)
        .map_err(CliError::os("making the world's folder"))?;
    if args.world.is_none() {
        check_own(&world)?;
    }
    let names = names(&world, &library).map_err(CliError::os("naming the library in the world's folder"))?;
    // This process has a place, too: if it is killed, its report is not left behind.
    let (place, ()) = Place::take(&world, PREFIX, PLACES, |_| Ok(Some(())))
        .map_err(CliError::os("taking a place in the world's folder"))?;
    let report = place.file("report");
    if let Some(hosts) = &hosts {
        hosts::serve_host(hosts, &place).inspect_err(|_| place.leave())?;
    }
    let seed = args.seed.unwrap_or_else(rand::random);
    let trace = args.trace.as_deref().map(begin_trace).transpose()?;

    let Some((program, rest)) = args.command.split_first() else {
        return Err(CliError::Usage("no program was given".to_owned()));
    };
    let stress = match args.stress {
        Stress::None => "none",
        Stress::Default => "default",
        Stress::Auto => "auto",
    };
    let mut command = Command::new(program);
    command
        .args(rest)
        .env("LD_LIBRARY_PATH", before(&names, "LD_LIBRARY_PATH"))
        .env("LOCO_NIC_WORLD", &world)
        .env("LOCO_NIC_DEVICES", args.devices.to_string())
        .env("LOCO_NIC_TIER", args.tier.name())
        .env("LOCO_NIC_STRESS", stress)
        .env("LOCO_NIC_SCHEDULE", &args.schedule)
        .env("LOCO_NIC_SEED", seed.to_string())
        .env("LOCO_NIC_REPORT", &report)
        .env_remove("LOCO_NIC_ATOMICS_PUSH")
        .env_remove("LOCO_NIC_HOSTS");
    if let Some(hosts) = &hosts {
        command
            .env("LOCO_NIC_HOSTS", hosts.text())
            .env("LOCO_NIC_HOST", hosts.own().to_string());
    }
    if let Some(trace) = &trace {
        command.env("LOCO_NIC_TRACE", trace);
    }
    let faults = [
        ("LOCO_NIC_DROP", args.drop),
        ("LOCO_NIC_KILL_QP", args.kill_qp),
        ("LOCO_NIC_LOSE_LINK", args.lose_link),
    ];
    for (variable, rate) in faults {
        if let Some(rate) = rate {
            command.env(variable, rate.to_string());
        }
    }
    let status = wait(command, program).inspect_err(|_| place.leave())?;
    if let Some(trace) = &trace {
        end_trace(trace).map_err(CliError::os("writing the trace"))?;
    }
    let counts = counts(&report);
    place.leave();
    // A program that was killed has left its files.
    let _ = places::sweep(&world, PREFIX);
    let tier = args.tier.name();
    // A closed standard error is no reason to change the program's exit code.
    let _ = writeln!(
        io::stderr(),
        "loco nic: tier {tier}, stress {stress}, seed {seed}: {counts}"
    );
    Ok(code(status))
}

/// Returns the library: beside this program, where cargo puts it, or where an installation has it.
fn library() -> Result<PathBuf, CliError> {
    let program = std::env::current_exe().map_err(CliError::os("finding this program"))?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    // What cargo builds for this program is in `deps`; beside it there may be an older one.
    let places = [folder.join("deps"), folder.to_owned(), folder.join("../lib/loco")];
    let found = places
        .iter()
        .map(|place| place.join(LIBRARY))
        .find(|path| path.exists());
    found.ok_or_else(|| {
        let text =
            "is not beside this program, nor in ../lib/loco; build it with `cargo build --package loco-nic`";
        CliError::Usage(format!("{LIBRARY} {text}"))
    })
}

/// Returns the folder of a user's world. Worlds of several hosts have one for each host: hosts may share the folder for temporary
/// files.
fn default_world(address: Option<SocketAddr>) -> PathBuf {
    let user = rustix::process::getuid().as_raw();
    let name = match address {
        None => format!("loco-nic-{user}"),
        Some(address) => format!("loco-nic-{user}-{}-{}", address.ip(), address.port()),
    };
    std::env::temp_dir().join(name)
}

/// Refuses the user's folder if somebody else has made it first: its owner could give programs another library.
fn check_own(world: &Path) -> Result<(), CliError> {
    let found = fs::symlink_metadata(world).map_err(CliError::os("looking at the world's folder"))?;
    if found.is_dir() && found.uid() == rustix::process::getuid().as_raw() {
        return Ok(());
    }
    let world = world.display();
    Err(CliError::Usage(format!(
        "{world} belongs to another user; name another folder with --world"
    )))
}

/// Makes a folder that has the library under the names that programs look for. Each library has its own, so that programs of two
/// builds do not change one another's.
fn names(world: &Path, library: &Path) -> io::Result<PathBuf> {
    let library = library.canonicalize()?;
    let mut hasher = DefaultHasher::new();
    library.hash(&mut hasher);
    let folder = world.join(format!("lib-{:016x}", hasher.finish()));
    fs::create_dir_all(&folder)?;
    for name in NAMES {
        match symlink(&library, folder.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(folder)
}

/// Returns the value of a path variable with a folder before what it has.
fn before(folder: &Path, variable: &str) -> OsString {
    let mut value = folder.as_os_str().to_owned();
    if let Some(others) = std::env::var_os(variable).filter(|others| !others.is_empty()) {
        value.push(":");
        value.push(others);
    }
    value
}

/// Runs a command to its end. Interrupts reach it by themselves, as it is of the same group; other signals are passed on.
fn wait(mut command: Command, program: &OsString) -> Result<ExitStatus, CliError> {
    signal_hook::flag::register(SIGINT, Arc::new(AtomicBool::new(false)))
        .map_err(CliError::os("handling interrupts"))?;
    let mut child = command.spawn().map_err(|source| CliError::Start {
        program: program.to_string_lossy().into_owned(),
        source,
    })?;
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let mut signals = Signals::new([SIGTERM, SIGHUP]).map_err(CliError::os("handling signals"))?;
    let handle = signals.handle();
    let passing = std::thread::spawn(move || {
        for signal in &mut signals {
            let signal = if signal == SIGHUP {
                Signal::HUP
            } else {
                Signal::TERM
            };
            if let Some(process) = process {
                let _ = rustix::process::kill_process(process, signal);
            }
        }
    });
    let status = child.wait().map_err(CliError::os("waiting for the program"));
    handle.close();
    let _ = passing.join();
    status
}

fn code(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|signal| 128 + signal);
    let code = status.code().or(signal).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

/// Adds up what the processes have counted. One that was killed has said nothing.
fn counts(report: &Path) -> String {
    let lines = fs::read_to_string(report).unwrap_or_default();
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, count) in lines.split_whitespace().filter_map(|word| word.split_once('=')) {
        *sums.entry(name).or_default() += count.parse().unwrap_or(0);
    }
    let processes = lines.lines().count();
    let words: Vec<_> = sums
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(name, count)| format!("{count} {}", name.replace('-', " ")))
        .collect();
    match (processes, words.is_empty()) {
        // One that ends by a signal or `_exit` says nothing.
        (0, _) => "no process has said what it did with the device".to_owned(),
        (_, true) => "nothing was sent".to_owned(),
        _ => words.join(", "),
    }
}

fn begin_trace(path: &Path) -> Result<PathBuf, CliError> {
    let path = std::path::absolute(path).map_err(CliError::os("naming the trace"))?;
    fs::write(&path, "[\n").map_err(CliError::os("writing the trace"))?;
    Ok(path)
}

/// Makes a list of what the processes have written, each of which ends its lines with commas. Lines that a killed process has left
/// unfinished are dropped.
fn end_trace(path: &Path) -> io::Result<()> {
    let whole = path.with_extension("whole");
    let mut lines = io::BufReader::new(fs::File::open(path)?);
    let mut to = io::BufWriter::new(fs::File::create(&whole)?);
    let (mut line, mut separator) = (Vec::new(), "[\n");
    while lines.read_until(b'\n', &mut line)? > 0 {
        let event = line.strip_suffix(b",\n").unwrap_or_default();
        if serde_json::from_slice::<serde::de::IgnoredAny>(event).is_ok() {
            to.write_all(separator.as_bytes())?;
            to.write_all(event)?;
            separator = ",\n";
        }
        line.clear();
    }
    to.write_all(if separator == "[\n" { b"[]\n" } else { b"\n]\n" })?;
    to.flush()?;
    fs::rename(&whole, path)
}
