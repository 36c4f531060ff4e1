//! Gives standard input to one node of a job.
//!
//! A node gets a file or a pipe directly. It may not read a terminal, because its process group is not in the
//! foreground. In that case this program reads the terminal and forwards the input.

use std::io::{IsTerminal, Read, Write, stdin};
use std::process::{ChildStdin, Stdio};
use std::thread;

use crate::error::CliError;

/// The standard input of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// No input: the node reads the end at once.
    None,
    /// The standard input of this program.
    Inherited,
    /// The input that this program reads from its terminal.
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

    pub(super) fn stdio(self) -> Stdio {
        match self {
            Input::None => Stdio::null(),
            Input::Inherited => Stdio::inherit(),
            Input::Forwarded => Stdio::piped(),
        }
    }
}

/// Starts a thread that forwards typed input until there is no more or nobody reads it. The thread ends with
/// the program.
pub(super) fn forward(mut pipe: ChildStdin) -> Result<(), CliError> {
    thread::Builder::new()
        .name("loco-input".to_owned())
        .spawn(move || {
            let mut typed = [0; 4096];
            while let Ok(len @ 1..) = stdin().read(&mut typed) {
                if pipe.write_all(&typed[..len]).is_err() {
                    return;
                }
            }
        })
        .map_err(CliError::os("starting the thread that reads the terminal"))?;
    Ok(())
}
