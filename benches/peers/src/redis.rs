//! A Redis server with the keys of the store, and two clients of it at once.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::programs::{free_port, number, output};

/// Keys in the server: as many as `loco bench kv --key-space-mb 1` fills.
const KEYS: &str = "50000";
/// Attempts to reach a server that begins, and the pause between them.
const ATTEMPTS: (u32, Duration) = (200, Duration::from_millis(20));

/// A running server at a port of the loopback, which keeps nothing on disk. It ends when this is dropped.
pub struct Redis {
    server: Child,
    address: String,
}

impl Redis {
    /// Starts a server in `folder` and fills it by the program `client` (`kv_redis.c`).
    ///
    /// # Errors
    /// If the server or the client fails.
    pub fn start(folder: &Path, client: &Path) -> Result<Redis> {
        let port = free_port()?;
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.arg("--port").arg(port.to_string());
        command.arg("--dir").arg(folder);
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut redis = Redis {
            server: command.spawn().context("starting redis-server")?,
            address: format!("127.0.0.1:{port}"),
        };
        for attempt in 1.. {
            let mut fill = Command::new(client);
            fill.args([&redis.address, "fill", KEYS]);
            match output(fill) {
                Ok(_) => break,
                Err(error) if attempt == ATTEMPTS.0 || redis.server.try_wait()?.is_some() => {
                    return Err(error);
                }
                Err(_) => std::thread::sleep(ATTEMPTS.1),
            }
        }
        Ok(redis)
    }

    /// Runs two clients at once, each with `window` commands in a pipeline, and returns the operations a second of both.
    ///
    /// # Errors
    /// If a client fails.
    pub fn rate(&self, client: &Path, window: &str, mix: &str, seconds: &str) -> Result<f64> {
        let one = |seed: &str| {
            let mut command = Command::new(client);
            command.args([&self.address, KEYS, window, seconds, "uniform", mix, seed]);
            number(&output(command)?)
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(|| one("1"));
            let mine = one("2");
            match other.join() {
                Ok(its) => Ok(mine? + its?),
                Err(_) => bail!("the thread of a client panicked"),
            }
        })
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
