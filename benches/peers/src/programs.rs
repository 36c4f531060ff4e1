//! The programs that are run: `loco`, and the C programs beside this crate, which are compiled here.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use wait_timeout::ChildExt as _;

use crate::redis::Redis;
use crate::rows::{Bench, Side};

/// A turn that takes longer has gone wrong.
const PATIENCE: Duration = Duration::from_secs(120);

/// The interface of the loopback, for programs that choose one.
const LOOPBACK: &str = "lo";

/// Where the programs are.
pub struct Programs {
    loco: PathBuf,
    before: Option<PathBuf>,
    /// Started at its first turn. It is dropped before its folder.
    redis: RefCell<Option<Redis>>,
    folder: tempfile::TempDir,
}

impl Programs {
    /// Compiles what the compilers of this machine can.
    ///
    /// # Errors
    /// If there is no folder for them, or no `loco`.
    pub fn build(loco: &Path, before: Option<&Path>) -> Result<Programs> {
        for path in [Some(loco), before].into_iter().flatten() {
            if !path.is_file() {
                bail!("there is no program {}", path.display());
            }
        }
        let folder = tempfile::tempdir().context("making a folder")?;
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let compile = |compiler: &str, name: &str, options: &[&str]| {
            // A compiler or a library may be missing: `lacks` says so.
            let _ = Command::new(compiler)
                .arg("-O2")
                .arg("-o")
                .arg(folder.path().join(name))
                .arg(here.join(name).with_extension("c"))
                .args(options)
                .stderr(Stdio::null())
                .status();
        };
        compile("cc", "memory", &[]);
        compile("cc", "sockets", &[]);
        compile("cc", "lmdb", &["-llmdb"]);
        compile("cc", "ofi", &["-lfabric", "-lpthread"]);
        compile("cc", "kv_redis", &["-lhiredis", "-lm"]);
        for name in ["mpi", "barrier", "ibcast", "lock"] {
            compile("mpicc", name, &[]);
        }
        Ok(Programs {
            loco: loco.to_owned(),
            before: before.map(Path::to_owned),
            redis: RefCell::new(None),
            folder,
        })
    }

    /// Returns what is missing for a side, if anything is.
    pub fn lacks(&self, side: &Side) -> Option<String> {
        let there = |name: &str| self.folder.path().join(name).is_file();
        match side {
            Side::Loco(_) | Side::Before(_) | Side::Own { .. } => None,
            Side::Memory { .. } => (!there("memory")).then(|| "no C compiler".into()),
            Side::Mpi { program, .. } => (!there(program)).then(|| "no mpicc: install libopenmpi-dev".into()),
            Side::Sockets { .. } => (!there("sockets")).then(|| "no C compiler".into()),
            Side::Lmdb { .. } => (!there("lmdb")).then(|| "no LMDB: install liblmdb-dev".into()),
            Side::Libfabric { .. } => (!there("ofi")).then(|| "no libfabric: install libfabric-dev".into()),
            Side::Redis { .. } if !there("kv_redis") => Some("no hiredis: install libhiredis-dev".into()),
            Side::Redis { .. } => {
                (!starts("redis-server", "--version")).then(|| "no redis-server: install redis-server".into())
            }
            Side::Ucx { .. } => {
                (!starts("ucx_perftest", "-h")).then(|| "no ucx_perftest: install ucx-utils".into())
            }
        }
    }

    /// Runs a side once, with so many iterations or for so long, and returns its figure.
    ///
    /// # Errors
    /// If the program fails, takes minutes, or prints no figure.
    pub fn run(&self, side: &Side, iterations: u64, turn: Duration) -> Result<f64> {
        let amount = match side.is_timed() {
            true => turn.as_secs_f64().to_string(),
            false => iterations.to_string(),
        };
        match side {
            Side::Loco(bench) => loco(&self.loco, bench, &amount),
            Side::Before(bench) => {
                let before = self.before.as_ref().context("there is no --before")?;
                loco(before, bench, &amount)
            }
            Side::Memory { arguments } | Side::Sockets { arguments } => {
                let program = if matches!(side, Side::Memory { .. }) {
                    "memory"
                } else {
                    "sockets"
                };
                let mut command = Command::new(self.folder.path().join(program));
                command.arg(arguments[0]).arg(&amount).args(&arguments[1..]);
                number(&output(command)?)
            }
            Side::Mpi {
                program,
                layers,
                arguments,
                ranks,
                ..
            } => {
                let mut command = Command::new("mpirun");
                command.args(["--allow-run-as-root", "--oversubscribe", "-n", ranks]);
                command.args(layers.split_whitespace());
                command.arg(self.folder.path().join(program));
                match arguments.split_first() {
                    Some((what, more)) => command.arg(what).arg(&amount).args(more),
                    None => command.arg(&amount),
                };
                number(&output(command)?)
            }
            Side::Lmdb { window } => {
                let folder = self.folder.path().join("database");
                std::fs::create_dir_all(&folder)?;
                let mut command = Command::new(self.folder.path().join("lmdb"));
                command
                    .arg(&folder)
                    .arg(&amount)
                    .arg(crate::maps::KEYS.to_string())
                    .arg(window);
                number(&output(command)?)
            }
            Side::Own { arguments } => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("--loco").arg(&self.loco).arg(arguments[0]);
                // A map's name comes before the number of operations.
                let before = usize::from(arguments[0] == "map");
                let (name, more) = arguments[1..].split_at(before);
                command.args(name).arg(&amount).args(more);
                number(&output(command)?)
            }
            Side::Libfabric { arguments } => {
                let mut command = Command::new(self.folder.path().join("ofi"));
                command.arg(arguments[0]).arg(&amount).args(&arguments[1..]);
                number(&output(command)?)
            }
            Side::Redis { window, mix } => {
                let client = self.folder.path().join("kv_redis");
                let mut redis = self.redis.borrow_mut();
                let running = match redis.take() {
                    Some(running) => running,
                    None => Redis::start(self.folder.path(), &client)?,
                };
                redis.insert(running).rate(&client, window, mix, &amount)
            }
            Side::Ucx {
                test,
                size,
                transports,
                column,
                scale,
            } => Ok(ucx(test, size, transports, *column, &amount)? * scale),
        }
    }
}

/// Returns a port of the loopback that nobody listens at.
///
/// # Errors
/// If there is none.
pub fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Returns true if there is such a program.
fn starts(program: &str, option: &str) -> bool {
    let command = &mut Command::new(program);
    let command = command.arg(option).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok()
}

fn loco(program: &Path, bench: &Bench, amount: &str) -> Result<f64> {
    let mut command = Command::new(program);
    command
        .arg("bench")
        .args(&bench.arguments)
        .args(["--fabric", bench.fabric, "--nodes", bench.nodes, "--json"])
        .env("LOCO_OFI_ADDRESS", "127.0.0.1");
    command.args([if bench.timed { "--duration" } else { "--iters" }, amount]);
    let lines = output(command)?;
    for line in lines.lines() {
        let record: serde_json::Value = serde_json::from_str(line).context("a line of `loco bench`")?;
        if record["name"] == bench.result {
            let value =
                find(&record, bench.field).with_context(|| format!("no `{}` in {line}", bench.field))?;
            return Ok(value * bench.part);
        }
    }
    bail!("`loco bench` gave no `{}`: {lines}", bench.result)
}

/// Finds a number of this name at any depth.
fn find(value: &serde_json::Value, name: &str) -> Option<f64> {
    let fields = value.as_object()?;
    fields
        .get(name)
        .and_then(serde_json::Value::as_f64)
        .or_else(|| fields.values().find_map(|inner| find(inner, name)))
}

/// Runs a test of `ucx_perftest` with its server, and returns a column of its last line, counted from the end.
fn ucx(test: &str, size: &str, transports: &str, column: usize, iterations: &str) -> Result<f64> {
    let port = free_port()?.to_string();
    let perftest = || {
        let mut command = Command::new("ucx_perftest");
        command
            .env("UCX_TLS", transports)
            .env("UCX_NET_DEVICES", LOOPBACK);
        command.args(["-p", &port]);
        command
    };
    let mut server = perftest().stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let mut lines = Err(anyhow::anyhow!("its server did not answer"));
    for _ in 0..50 {
        let mut client = perftest();
        client.args(["127.0.0.1", "-t", test, "-s", size, "-n", iterations, "-f"]);
        lines = output(client);
        if lines.is_ok() || server.try_wait()?.is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = server.kill();
    let _ = server.wait();
    let lines = lines?;
    let last = lines
        .lines()
        .rev()
        .find(|line| line.split_whitespace().count() > column)
        .context("ucx_perftest printed nothing")?;
    let words: Vec<&str> = last.split_whitespace().collect();
    words[words.len() - 1 - column]
        .parse()
        .with_context(|| format!("no figure in `{last}`"))
}

/// Runs a command to its end, and returns what it printed.
///
/// # Errors
/// If it fails, or takes minutes.
pub fn output(mut command: Command) -> Result<String> {
    let what = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context(what.clone())?;
    let Some(status) = child.wait_timeout(PATIENCE)? else {
        let _ = child.kill();
        let _ = child.wait();
        bail!("{what} took more than {} s", PATIENCE.as_secs());
    };
    let printed = child.wait_with_output()?;
    if !status.success() {
        bail!(
            "{what}: {status}: {}",
            String::from_utf8_lossy(&printed.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&printed.stdout).into_owned())
}

/// Reads the first number of what was printed.
///
/// # Errors
/// If there is none.
pub fn number(text: &str) -> Result<f64> {
    let word = text.split_whitespace().next().context("nothing was printed")?;
    word.parse().with_context(|| format!("`{word}` is no number"))
}
