//! Ends every child of this process. As a subreaper, this process becomes the parent of processes that its
//! children leave behind. Killing children until there are none therefore ends all descendants.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};

/// Kills all children except `spared`. Returns false if some are still there after `patience`.
pub(super) fn kill_all(spared: Pid, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        let left = children(spared);
        if left.is_empty() {
            return true;
        }
        for &pid in &left {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Lists the children of this process by the process table.
fn children(spared: Pid) -> Vec<Pid> {
    let own = rustix::process::getpid();
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(Pid::from_raw)
        .filter(|&pid| pid != spared && parent(pid) == Some(own))
        .collect()
}

fn parent(pid: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name, in parentheses, may hold any characters. State and parent follow it.
    let (_, after) = stat.rsplit_once(')')?;
    Pid::from_raw(after.split_whitespace().nth(1)?.parse().ok()?)
}
