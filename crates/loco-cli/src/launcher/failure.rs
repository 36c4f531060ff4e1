//! Finds the node that brought a job down. When one node fails, the others notice and fail too, and the
//! kernel may report them first.

use std::fmt;
use std::fs;

use loco::fabric::NodeId;
use rustix::process::{Pid, WaitStatus};

/// Shells report exit codes above this for a program that was killed by a signal.
const SIGNAL_BASE: i32 = 128;
/// The flag of a process that is exiting (`PF_EXITING` in the kernel's `sched.h`).
const EXITING: u64 = 0x4;
/// The bit of SIGKILL in a set of signals.
const SIGKILL_BIT: u64 = 1 << 8;

/// A failure of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The node's id.
    pub node: NodeId,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Exit(i32),
    Signal(i32),
}

impl Failure {
    /// Returns the failure of a node; `None` if it ended with exit code 0.
    pub(super) fn of(node: NodeId, status: WaitStatus) -> Option<Failure> {
        let end = match (status.exit_status(), status.terminating_signal()) {
            (Some(0), _) | (None, None) => return None,
            (Some(code), _) => End::Exit(code),
            (None, Some(signal)) => End::Signal(signal),
        };
        Some(Failure { node, end })
    }

    /// Returns the exit code that shells report: 128 plus the signal if one killed the node.
    pub fn code(&self) -> u8 {
        let code = match self.end {
            End::Exit(code) => code,
            End::Signal(signal) => SIGNAL_BASE + signal,
        };
        u8::try_from(code).unwrap_or(u8::MAX)
    }

    /// Returns whether a signal killed the node, or the program that the node's shell ran.
    fn is_by_signal(&self) -> bool {
        match self.end {
            End::Exit(code) => code > SIGNAL_BASE,
            End::Signal(_) => true,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.end {
            End::Exit(code) => write!(f, "{} ended with exit code {code}", self.node),
            End::Signal(signal) => write!(f, "{} was killed by signal {signal}", self.node),
        }
    }
}

/// Returns the failure that most likely caused the others. `failures` is in the order in which the kernel
/// reported them. It is the first failure by a signal, because survivors end with an exit code; else the
/// first.
pub(super) fn culprit(failures: &[Failure]) -> Option<&Failure> {
    let by_signal = failures.iter().find(|failure| failure.is_by_signal());
    by_signal.or(failures.first())
}

/// Returns whether a signal killed some node. That node is then the culprit, and no later failure can change
/// that.
pub(super) fn is_decided(failures: &[Failure]) -> bool {
    failures.iter().any(Failure::is_by_signal)
}

/// Returns whether a process is about to end: it is exiting, or SIGKILL is on its way to it. A process closes
/// its connections while it exits, so a peer that notices may end before the process itself does.
pub(super) fn is_on_its_way_out(pid: Pid) -> bool {
    let read = |name| fs::read_to_string(format!("/proc/{}/{name}", pid.as_raw_nonzero()));
    let exiting = read("stat").is_ok_and(|stat| is_exiting(&stat));
    exiting || read("status").is_ok_and(|status| is_being_killed(&status))
}

fn is_exiting(stat: &str) -> bool {
    // The name, in parentheses, may hold any characters. After it come state, parent, group, session,
    // terminal, its group, and flags.
    let flags = stat
        .rsplit_once(')')
        .and_then(|(_, after)| after.split_whitespace().nth(6)?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & EXITING != 0)
}

fn is_being_killed(status: &str) -> bool {
    status
        .lines()
        .filter_map(|line| line.strip_prefix("SigPnd:").or(line.strip_prefix("ShdPnd:")))
        .filter_map(|set| u64::from_str_radix(set.trim(), 16).ok())
        .any(|set| set & SIGKILL_BIT != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(node: u16, code: i32) -> Failure {
        Failure {
            node: NodeId(node),
            end: End::Exit(code),
        }
    }

    #[test]
    fn a_signal_is_blamed_before_those_that_noticed() {
        let killed = Failure {
            node: NodeId(2),
            end: End::Signal(9),
        };
        assert_eq!(culprit(&[exit(0, 1), exit(1, 1), killed]), Some(&killed));
        assert!(is_decided(&[exit(0, 1), killed]));
        // A shell reports a signal in this way.
        assert_eq!(culprit(&[exit(0, 1), exit(2, 137)]), Some(&exit(2, 137)));
    }

    #[test]
    fn without_a_signal_the_first_is_blamed() {
        assert_eq!(culprit(&[exit(1, 7), exit(0, 1)]), Some(&exit(1, 7)));
        assert!(!is_decided(&[exit(1, 7), exit(0, 1)]));
        assert_eq!(culprit(&[]), None);
    }

    #[test]
    fn the_process_table_is_understood() {
        assert!(is_exiting("7 (a) b) R 1 7 7 0 -1 4194564 0 0"));
        assert!(!is_exiting("7 (a) b) R 1 7 7 0 -1 4194560 0 0"));
        assert!(is_being_killed(
            "Name:\tx\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000100\n"
        ));
        assert!(!is_being_killed(
            "SigPnd:\t0000000000004000\nShdPnd:\t0000000000000000\n"
        ));
        let own = rustix::process::getpid();
        assert!(!is_on_its_way_out(own));
    }
}
