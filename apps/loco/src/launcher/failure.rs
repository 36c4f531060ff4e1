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
    /// The program did not begin on its host; `ssh` or the host's shell ended with this code.
    NotBegun(u8),
    /// The connection to the host was lost.
    CutOff,
}

/// The exit code with which `ssh` says that it has failed itself.
pub(super) const SSH_FAILED: u8 = 255;

impl Failure {
    /// Returns the failure of a node whose program did not begin.
    pub(super) fn not_begun(node: NodeId, status: WaitStatus) -> Failure {
        let code = status.exit_status().and_then(|code| u8::try_from(code).ok());
        let end = End::NotBegun(code.filter(|&code| code != 0).unwrap_or(SSH_FAILED));
        Failure { node, end }
    }

    /// Returns the failure of a node whose connection was lost.
    pub(super) fn cut_off(node: NodeId) -> Failure {
        Failure {
            node,
            end: End::CutOff,
        }
    }

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
            End::NotBegun(code) => i32::from(code),
            End::CutOff => i32::from(SSH_FAILED),
        };
        u8::try_from(code).unwrap_or(u8::MAX)
    }

    /// Returns whether the program did not begin.
    pub(super) fn is_not_begun(&self) -> bool {
        matches!(self.end, End::NotBegun(_))
    }

    /// Returns whether the connection to the node was lost.
    pub(super) fn is_cut_off(&self) -> bool {
        self.end == End::CutOff
    }

    /// Returns whether this cannot be the consequence of another node's failure: a signal killed the node, or the program that
    /// the node's shell ran, or the node's host was not reached.
    fn is_a_cause(&self) -> bool {
        match self.end {
            End::Exit(code) => code > SIGNAL_BASE,
            End::Signal(_) | End::NotBegun(_) | End::CutOff => true,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.end {
            End::Exit(code) => write!(f, "{} ended with exit code {code}", self.node),
            End::Signal(signal) => write!(f, "{} was killed by signal {signal}", self.node),
            End::NotBegun(_) => write!(f, "{} did not begin", self.node),
            End::CutOff => write!(f, "{} was cut off", self.node),
        }
    }
}

/// Returns the failure that most likely caused the others. `failures` is in the order in which the kernel
/// reported them. It is the first failure by a signal or of a connection, because survivors end with an exit
/// code; else the first.
pub(super) fn culprit(failures: &[Failure]) -> Option<&Failure> {
    let cause = failures.iter().find(|failure| failure.is_a_cause());
    cause.or(failures.first())
}

/// Returns whether one of the failures cannot be the consequence of another. That node is then the culprit, and no later
/// failure can change that.
pub(super) fn is_decided(failures: &[Failure]) -> bool {
    failures.iter().any(Failure::is_a_cause)
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
    fn a_host_that_was_not_reached_is_blamed_before_those_that_waited_for_it() {
        for end in [End::NotBegun(255), End::CutOff] {
            let unreached = Failure { node: NodeId(2), end };
            assert_eq!(culprit(&[exit(0, 1), unreached]), Some(&unreached));
            assert_eq!(unreached.code(), 255);
        }
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
