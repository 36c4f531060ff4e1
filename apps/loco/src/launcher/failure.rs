//! Finds the node that brought a job down. When one node fails, the others notice and fail too, and the
//! kernel may report them first.

use std::fmt;
use std::fs;

use loco::fabric::{Missed, NodeId};
use rustix::process::{Pid, WaitStatus};

use super::missed::MissedNodes;

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

/// The exit code of a program in Rust that panicked.
const PANICKED: i32 = 101;
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

    /// Returns how the node ended, for a message that names the node.
    pub(super) fn end(&self) -> impl fmt::Display {
        self.end
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
        write!(f, "{} {}", self.node, self.end)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Exit(code) => write!(f, "ended with exit code {code}"),
            End::Signal(signal) => write!(f, "was killed by signal {signal}"),
            End::NotBegun(_) => f.write_str("did not begin"),
            End::CutOff => f.write_str("was cut off"),
        }
    }
}

/// The failure that the job ends with, and why it came to that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Culprit {
    pub(super) failure: Failure,
    /// The nodes that this one missed, if they did not fail themselves: they ended early, or did not come as far.
    missed: Vec<NodeId>,
}

impl fmt::Display for Culprit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { node, end } = self.failure;
        match self.missed.len() {
            0 => write!(f, "{}", self.failure),
            count => {
                let were = if count == 1 { "was" } else { "were" };
                let missed = NodeId::list(self.missed.iter().copied());
                write!(f, "{missed} {were} missed by {node}, which {end}")
            }
        }
    }
}

/// Returns the failure that caused the others. `failures` is in the order in which the kernel reported them, which says
/// little: a node that notices may be faster than the one that it notices.
///
/// Survivors end with an exit code, so the first failure by a signal or of a connection is the cause. Without any, it is a
/// node that missed no other; of several, one that others lost, then one that panicked, then the first. If all that failed
/// missed somebody, the cause are the nodes that were missed first.
pub(super) fn culprit(failures: &[Failure], missed: &MissedNodes) -> Option<Culprit> {
    let alone = |failure: &Failure| Culprit {
        failure: *failure,
        missed: Vec::new(),
    };
    if let Some(cause) = failures.iter().find(|failure| failure.is_a_cause()) {
        return Some(alone(cause));
    }
    // A node that came late to others may fail because they go.
    let by_itself = |failure: &&Failure| {
        !missed.has_missed(failure.node) && !missed.was_missed(failure.node, Missed::Late)
    };
    let rank = |failure: &&Failure| {
        let lost = missed.was_missed(failure.node, Missed::Lost);
        (!lost, failure.end != End::Exit(PANICKED))
    };
    // The first of the lowest rank.
    if let Some(cause) = failures.iter().filter(by_itself).min_by_key(rank) {
        return Some(alone(cause));
    }
    let find = |node| failures.iter().find(|failure| failure.node == node);
    if let Some((by, nodes)) = missed.first(|node| find(node).is_some()) {
        return find(by).map(|&failure| Culprit {
            failure,
            missed: nodes,
        });
    }
    failures.first().map(alone)
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

    fn blamed(failures: &[Failure], notes: &str) -> String {
        culprit(failures, &MissedNodes::of(notes)).map_or(String::new(), |culprit| culprit.to_string())
    }

    #[test]
    fn a_signal_is_blamed_before_those_that_noticed() {
        let killed = Failure {
            node: NodeId(2),
            end: End::Signal(9),
        };
        assert_eq!(blamed(&[exit(0, 1), exit(1, 1), killed], ""), killed.to_string());
        assert!(is_decided(&[exit(0, 1), killed]));
        // A shell reports a signal in this way.
        assert_eq!(blamed(&[exit(0, 1), exit(2, 137)], ""), exit(2, 137).to_string());
    }

    #[test]
    fn without_a_sign_the_first_is_blamed() {
        assert_eq!(blamed(&[exit(1, 7), exit(0, 1)], ""), exit(1, 7).to_string());
        assert!(!is_decided(&[exit(1, 7), exit(0, 1)]));
        assert_eq!(blamed(&[], ""), "");
    }

    /// Other hosts note nothing, and programs of others neither.
    #[test]
    fn a_panic_is_blamed_before_other_exit_codes() {
        assert_eq!(
            blamed(&[exit(0, 1), exit(1, 101), exit(2, 101)], ""),
            exit(1, 101).to_string()
        );
    }

    #[test]
    fn who_missed_another_is_blamed_after_it() {
        let both = [exit(0, 101), exit(2, 1), exit(1, 1)];
        assert_eq!(
            blamed(&both, "0 lost 1\n2 lost 0\n2 lost 1\n"),
            exit(1, 1).to_string()
        );
        // The lost node notices later that the others go.
        assert_eq!(
            blamed(&both, "2 lost 1\n1 lost 0\n0 lost 1\n"),
            exit(1, 1).to_string()
        );
    }

    #[test]
    fn nodes_that_were_missed_and_did_not_fail_first_are_named_with_the_one_that_did() {
        let early = blamed(&[exit(0, 1)], "0 lost 1\n");
        assert_eq!(early, "node 1 was missed by node 0, which ended with exit code 1");
        let both = blamed(&[exit(2, 1), exit(0, 1)], "2 lost 1\n0 lost 1\n2 lost 0\n");
        assert_eq!(both, "node 1 was missed by node 2, which ended with exit code 1");
        let late = "2 late 0\n2 late 1\n1 lost 2\n0 lost 2\n";
        let late = blamed(&[exit(2, 1), exit(1, 1), exit(0, 1)], late);
        assert_eq!(
            late,
            "nodes 0, 1 were missed by node 2, which ended with exit code 1"
        );
    }

    #[test]
    fn a_host_that_was_not_reached_is_blamed_before_those_that_waited_for_it() {
        for end in [End::NotBegun(255), End::CutOff] {
            let unreached = Failure { node: NodeId(2), end };
            assert_eq!(blamed(&[exit(0, 1), unreached], ""), unreached.to_string());
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
