//! The facts about this machine without which a measurement means nothing.

use std::fs;
use std::thread;

use serde::Serialize;

/// The facts about the machine in every record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Model name of the first processor.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// System name and release.
    pub kernel: String,
    /// Bytes of an ordinary page.
    pub page_size_bytes: usize,
    /// Bytes of main memory, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

impl Machine {
    /// Collects the facts about this machine. Facts that it does not tell are `unknown`.
    pub fn this() -> Machine {
        let uname = rustix::system::uname();
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let memory_kib =
            field(&meminfo, "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        Machine {
            cpu: field(&cpuinfo, "model name").unwrap_or("unknown").to_owned(),
            cores: thread::available_parallelism().map_or(1, usize::from),
            kernel: format!(
                "{} {}",
                uname.sysname().to_string_lossy(),
                uname.release().to_string_lossy()
            ),
            page_size_bytes: rustix::param::page_size(),
            memory_bytes: memory_kib.map(|kib| kib * 1024),
        }
    }
}

/// Returns the value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}
