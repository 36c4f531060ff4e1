//! The scripts that go through a connection to the far side.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use loco::fabric::var;

use super::super::Node;
use super::Remote;
use crate::error::CliError;

/// The command on `ssh`'s command line: a shell that reads one line and runs it. Any login shell takes this as it
/// stands: there is no newline, no backslash and no exclamation mark in it, and one pair of quotes.
pub(super) const BEGIN: &str = "exec /bin/sh -c 'IFS= read -r loco && eval \"$loco\"'";

/// Functions that kill the processes of a node.
const SWEEP: &str = include_str!("sweep.sh");

/// The variable by which the far side finds the processes of a node.
const RUN: &str = "LOCO_RUN";

/// Returns the script that runs `program` as `node` on its host.
pub(in crate::launcher) fn node(
    node: &Node,
    remote: &Remote,
    program: &[OsString],
    mark: &str,
    input: bool,
) -> Result<Vec<u8>, CliError> {
    let mut text = Vec::new();
    assign(&mut text, "loco_mark", mark.as_ref());
    assign(&mut text, "loco_directory", directory()?.as_os_str());
    assign(
        &mut text,
        "loco_input",
        OsStr::new(if input { "yes" } else { "no" }),
    );
    text.extend(b"loco_environment() {\n");
    for name in &node.unset {
        text.extend(format!("unset {name}\n").into_bytes());
    }
    for (name, value) in environment(node, remote, std::env::vars_os()) {
        assign(&mut text, &name, &value);
        text.extend(format!("export {name}\n").into_bytes());
    }
    text.extend(b":\n}\nset --");
    for argument in program {
        text.push(b' ');
        quote(&mut text, argument);
    }
    text.push(b'\n');
    text.extend(SWEEP.as_bytes());
    text.extend(include_bytes!("far.sh"));
    Ok(whole(&text, mark))
}

/// Returns the script that takes the rest of the connection's input to the process `holder`.
pub(in crate::launcher) fn feeder(holder: i32, mark: &str) -> Vec<u8> {
    let mut text = Vec::new();
    assign(&mut text, "loco_mark", mark.as_ref());
    assign(&mut text, "loco_holder", holder.to_string().as_ref());
    text.extend(include_bytes!("feed.sh"));
    whole(&text, mark)
}

/// Returns the script with a first line that reads the rest of it. A shell reads its input by single bytes, so the
/// bytes after the script stay in the connection.
fn whole(text: &[u8], mark: &str) -> Vec<u8> {
    let first = format!(
        "loco_newline=$(printf '\\nx'); loco_newline=${{loco_newline%x}}; loco_script=; \
         while IFS= read -r loco && [ \"$loco\" != 'end {mark}' ]; do \
         loco_script=$loco_script$loco$loco_newline; done; \
         [ \"$loco\" = 'end {mark}' ] || exit 1; eval \"$loco_script\"\n"
    );
    [first.as_bytes(), text, format!("end {mark}\n").as_bytes()].concat()
}

/// Returns the variables that the node gets from here: ours and those of the user that begin with `LOCO_` or are exported.
fn environment(
    node: &Node,
    remote: &Remote,
    ours: impl Iterator<Item = (OsString, OsString)>,
) -> BTreeMap<String, OsString> {
    let passed = |name: &String| {
        let asked = name.starts_with("LOCO_") || remote.export.contains(name);
        asked
            && ![RUN, var::MISSED].contains(&name.as_str())
            && is_name(name)
            && !node.unset.contains(&name.as_str())
    };
    let mut variables: BTreeMap<String, OsString> = ours
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| passed(name))
        .collect();
    let set = node.set.iter();
    variables.extend(set.map(|(name, value)| ((*name).to_owned(), value.into())));
    variables
}

/// Returns whether a shell takes this as the name of a variable.
pub fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    let first = bytes
        .next()
        .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    first && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns the working directory by the name that the user's shell has for it, which other hosts are likelier to know
/// than the one with all links resolved.
fn directory() -> Result<PathBuf, CliError> {
    let real = std::env::current_dir().map_err(CliError::os("finding the working directory"))?;
    let same = |path: &Path| {
        let (Ok(a), Ok(b)) = (path.metadata(), real.metadata()) else {
            return false;
        };
        (a.dev(), a.ino()) == (b.dev(), b.ino())
    };
    let named = std::env::var_os("PWD").map(PathBuf::from);
    Ok(named
        .filter(|path| path.is_absolute() && same(path))
        .unwrap_or(real))
}

fn assign(text: &mut Vec<u8>, name: &str, value: &OsStr) {
    text.extend(name.as_bytes());
    text.push(b'=');
    quote(text, value);
    text.push(b'\n');
}

/// Appends a word that a shell takes as exactly `word`.
fn quote(text: &mut Vec<u8>, word: &OsStr) {
    text.push(b'\'');
    for &byte in word.as_bytes() {
        match byte {
            b'\'' => text.extend(b"'\\''"),
            byte => text.push(byte),
        }
    }
    text.push(b'\'');
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    use loco::fabric::NodeId;
    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    #[test]
    fn the_environment_is_that_of_the_job() {
        let node = Node {
            id: NodeId(1),
            unset: vec!["LOCO_HOSTS"],
            set: vec![("LOCO_NODE", "1".to_owned())],
            departures: None,
            remote: None,
        };
        let remote = Remote {
            ssh: "ssh".to_owned(),
            host: "alpha".to_owned(),
            export: vec!["PATH".to_owned()],
        };
        let ours = [
            "LOCO_HOSTS",
            "LOCO_NODE",
            "LOCO_LOG",
            "LOCO_RUN",
            "LOCO_A-B",
            "HOME",
            "PATH",
        ];
        let ours = ours.into_iter().map(|name| (name.into(), "outer".into()));
        let found: Vec<_> = environment(&node, &remote, ours).into_iter().collect();
        let expected = [("LOCO_LOG", "outer"), ("LOCO_NODE", "1"), ("PATH", "outer")];
        assert_eq!(
            found,
            expected.map(|(name, value)| (name.to_owned(), value.into()))
        );
    }

    /// In the midst of `exec` a process has no environment by which it could be found.
    #[test]
    fn a_process_that_runs_another_program_meanwhile_is_killed_too() {
        let again = tempfile::NamedTempFile::new().unwrap();
        fs::write(
            &again,
            "i=0; while [ $i -lt 500 ]; do i=$((i + 1)); done; exec sh \"$0\"\n",
        )
        .unwrap();
        let mark = format!("loco-{}-again", std::process::id());
        let sweep = format!("loco_mark={mark}\n{SWEEP}loco_sweep");
        for _ in 0..30 {
            let mut process = Command::new("sh")
                .arg(again.path())
                .env(RUN, &mark)
                .spawn()
                .unwrap();
            let ended = Command::new("sh").args(["-c", &sweep]).status().unwrap();
            // A process that the sweep has killed may not have ended yet. One that it has left ends by this other signal.
            kill_process(Pid::from_child(&process), Signal::TERM).unwrap();
            let by = process.wait().unwrap().signal();
            assert_eq!(by, Some(Signal::KILL.as_raw()));
            assert!(ended.success());
        }
    }

    #[test]
    fn the_first_command_suits_any_login_shell() {
        assert!(!BEGIN.contains(['!', '\\', '\n', '`']));
        assert_eq!(BEGIN.matches('\'').count(), 2);
    }
}
