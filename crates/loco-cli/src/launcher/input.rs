//! Standard input for one node of a job.
//!
//! A file or a pipe the node simply gets. A terminal it may not read, as its process group is not the one in the
//! foreground: there this program reads, and hands on.

use std::io::{IsTerminal, Read, Write, stdin};
use std::process::{ChildStdin, Stdio};
use std::thread;

use crate::error::CliError;

/// What a node gets as its standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Nothing: it reads the end at once.
    None,
    /// What this program has.
    Inherited,
    /// What this program reads from its terminal.
    Forwarded,
}

impl Input {
    /// For the node that is to have it. In the background a terminal is left alone: reading would stop this program.
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

/// A thread that hands on what is typed until there is no more, or nobody reads it. It ends with the program.
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
