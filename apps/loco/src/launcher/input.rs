//! Gives standard input to one node of a job.
//!
//! A node gets a file or a pipe directly. It may not read a terminal, because its process group is not in the
//! foreground. In that case this program reads the terminal and forwards the input. It also forwards whatever goes to a node
//! on another host.

use std::fs;
use std::io::{IsTerminal, Read, Write, stdin};
use std::os::unix::fs::MetadataExt as _;
use std::process::{ChildStdin, Stdio};
use std::thread;

use film::null_device;

use crate::error::CliError;

/// The standard input of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// No input: the node reads the end at once.
    None,
    /// The standard input of this program.
    Inherited,
    /// The input that this program reads and passes on.
    Forwarded,
}

impl Input {
    /// Chooses the input of the node that is to have it. In the background a terminal is left alone, because
    /// reading it would stop this program.
    pub(super) fn choose() -> Input {
        if !stdin().is_terminal() {
            return Input::Inherited;
        }
        match rustix::termios::tcgetpgrp(stdin()) {
            Ok(foreground) if foreground == rustix::process::getpgrp() => Input::Forwarded,
            _ => Input::None,
        }
    }

    /// Chooses the input of the node when it runs on another host.
    pub(super) fn choose_far() -> Input {
        match Input::choose() {
            Input::Inherited if is_null() => Input::None,
            Input::Inherited => Input::Forwarded,
            other => other,
        }
    }

    pub(super) fn stdio(self) -> Result<Stdio, CliError> {
        Ok(match self {
            Input::None => null_device().map_err(CliError::os("starting a node"))?,
            Input::Inherited => Stdio::inherit(),
            Input::Forwarded => Stdio::piped(),
        })
    }
}

/// Returns whether the standard input is the null device.
fn is_null() -> bool {
    let device = |path| fs::metadata(path).ok().map(|found| found.rdev());
    device("/dev/null").is_some_and(|null| null != 0 && device("/proc/self/fd/0") == Some(null))
}

/// Starts a thread that writes `first`, and then forwards input until there is no more or nobody reads it. The thread ends with
/// the program.
pub(super) fn forward(mut pipe: ChildStdin, first: Vec<u8>) -> Result<(), CliError> {
    thread::Builder::new()
        .name("loco-input".to_owned())
        .spawn(move || {
            if pipe.write_all(&first).is_err() {
                return;
            }
            let mut typed = [0; 4096];
            while let Ok(len @ 1..) = stdin().read(&mut typed) {
                if pipe.write_all(&typed[..len]).is_err() {
                    return;
                }
            }
        })
        .map_err(CliError::os("starting the thread that reads the input"))?;
    Ok(())
}
