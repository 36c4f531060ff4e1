//! Finds the nodes of this user on this host, and reads the pages on which they show what their threads wait for.
//!
//! A page is an open file of the node without a name in any file system. It is found among the open files of processes in `/proc`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use loco::fabric::NodeId;
use loco_trace::waits::{self, NodePage, SERVICES, Who};

/// The most bytes of a page that are read.
const BYTES_MAX: u64 = 1 << 24;

/// A node that was found.
pub struct Node {
    /// Its page, with the waits that did not change between the first look and the last.
    pub page: NodePage,
    /// Its process, as this one calls it.
    pub process: u32,
    /// The program's name, without its folder.
    pub program: String,
    /// Its threads that wait or hold something.
    pub threads: BTreeMap<u32, Thread>,
}

/// A thread.
pub struct Thread {
    /// Its name.
    pub name: String,
    /// Set if a signal or a debugger has stopped it.
    pub is_stopped: bool,
}

/// The open file that is the page of a node.
pub struct Page {
    process: u32,
    file: File,
}

impl Page {
    /// Returns the pages of all nodes that this user may look at.
    pub fn find() -> Vec<Page> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        for (process, folder) in processes() {
            for file in pages_of(&folder) {
                let Ok(meta) = file.metadata() else { continue };
                // A process that was forked from a node has the node's page, too, and comes after it.
                if meta.len() <= BYTES_MAX && seen.insert((meta.dev(), meta.ino())) {
                    found.push(Page { process, file });
                }
            }
        }
        found
    }

    /// Reads the page. `None` if it is none of this version.
    pub fn read(&self) -> Option<NodePage> {
        let length = self.file.metadata().ok()?.len().min(BYTES_MAX);
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        self.file.read_exact_at(&mut bytes, 0).ok()?;
        waits::read(&bytes)
    }
}

/// Returns the processes of this host, in ascending order, with their folders.
fn processes() -> BTreeMap<u32, PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbered =
        entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())));
    numbered.collect()
}

/// Opens the pages that a process has open. Those of other users cannot be opened, and those of a process that ends are none.
fn pages_of(folder: &Path) -> Vec<File> {
    let own = std::process::id().to_string();
    if folder.file_name().is_some_and(|name| *name == *own) {
        return Vec::new();
    }
    let entries = fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
    let is_page = |path: &PathBuf| {
        let to = fs::read_link(path).unwrap_or_default();
        let begin = format!("/memfd:{} ", waits::NAME);
        to.to_str().is_some_and(|to| to.starts_with(&begin))
    };
    let paths = entries.map(|entry| entry.path()).filter(is_page);
    let files = paths.filter_map(|path| File::open(path).ok());
    // Opened, not only linked: a number may be that of another file by now.
    files
        .filter(|file| {
            let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            is_page(&path)
        })
        .collect()
}

/// Returns what a page says of a node, with the names of the threads that it names.
pub fn node(page: &Page, says: NodePage) -> Node {
    let folder = PathBuf::from(format!("/proc/{}", page.process));
    let arguments = fs::read(folder.join("cmdline")).unwrap_or_default();
    let holders = says.objects.iter().filter_map(|object| object.holder);
    let named: BTreeSet<u32> = says
        .waits
        .iter()
        .map(|wait| wait.who)
        .chain(holders)
        .map(|who| who.thread)
        .collect();
    Node {
        threads: named.into_iter().map(|id| (id, thread(&folder, id))).collect(),
        page: says,
        process: page.process,
        program: program(&arguments),
    }
}

/// Returns the name of the program that was started with these arguments, each of which ends with a zero. A program in Python has
/// the name of its file or module, too.
fn program(arguments: &[u8]) -> String {
    let arguments = String::from_utf8_lossy(arguments);
    let mut arguments = arguments.split('\0').filter(|argument| !argument.is_empty());
    let Some(program) = arguments.next().map(last_part) else {
        return "a program that has ended".to_owned();
    };
    match run_by_python(arguments) {
        Some(file) if program.starts_with("python") => format!("{program} {}", last_part(file)),
        _ => program.to_owned(),
    }
}

/// Returns the name of a file without its folder.
fn last_part(path: &str) -> &str {
    let name = Path::new(path).file_name().and_then(|name| name.to_str());
    name.unwrap_or(path)
}

/// Returns the file or the module that an interpreter of Python runs with these arguments. `None` if it runs what it reads, or what
/// the arguments themselves say.
fn run_by_python<'a>(mut arguments: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    loop {
        let argument = arguments.next()?;
        if argument == "--check-hash-based-pycs" {
            arguments.next();
            continue;
        }
        let letters = match argument.strip_prefix('-') {
            None => return Some(argument),
            // Of long options none but the one above has a value.
            Some(long) if long.starts_with('-') => continue,
            Some("") => return None,
            Some(letters) => letters,
        };
        // Letters stand together, and what is behind one that has a value is the value.
        let Some(at) = letters.find(['c', 'm', 'W', 'X']) else {
            continue;
        };
        let (letter, joined) = letters[at..].split_at(1);
        let value = match joined {
            "" => arguments.next(),
            joined => Some(joined),
        };
        match letter {
            "c" => return None,
            "m" => return value,
            _ => {}
        }
    }
}

fn thread(process: &Path, id: u32) -> Thread {
    let folder = process.join("task").join(id.to_string());
    let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
    let stat = fs::read_to_string(folder.join("stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(')')
        .and_then(|(_, after)| after.split_whitespace().next());
    Thread {
        name: name.trim_end().to_owned(),
        is_stopped: matches!(state, Some("T" | "t")),
    }
}

impl Node {
    /// Returns the node's number.
    pub fn id(&self) -> NodeId {
        self.page.node
    }

    /// Returns whether the thread serves the node and does nothing for the program.
    pub fn is_service(&self, who: Who) -> bool {
        self.threads
            .get(&who.thread)
            .is_some_and(|thread| thread.name.starts_with(SERVICES))
    }

    /// Returns the name of a thread, for people.
    pub fn name_of(&self, who: Who) -> String {
        let name = self
            .threads
            .get(&who.thread)
            .map_or("", |thread| thread.name.as_str());
        let task = if who.of_task { ", an asynchronous call" } else { "" };
        match name {
            "" => format!("thread {}{task}", who.thread),
            name => format!("{name}{task}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_named_as_people_call_them() {
        assert_eq!(program(b"/bin/kv\0load\0"), "kv");
        assert_eq!(
            program(b"/usr/bin/python3\0-u\0work/hello.py\0x\0"),
            "python3 hello.py"
        );
        assert_eq!(program(b"python3.11\0"), "python3.11");
        assert_eq!(program(b"/bin/kv\0-c\0file\0"), "kv");
        assert_eq!(program(b""), "a program that has ended");
    }

    #[test]
    fn options_of_python_are_no_programs() {
        for (arguments, name) in [
            ("-c import loco", "python3"),
            ("-uc code word", "python3"),
            ("-ccode word", "python3"),
            ("- word", "python3"),
            ("-m pkg.job x", "python3 pkg.job"),
            ("-um job x", "python3 job"),
            ("-mjob x", "python3 job"),
            ("-W error a/job.py", "python3 job.py"),
            ("-Werror -X dev job.py", "python3 job.py"),
            ("-uX dev -Xfaulthandler job.py x", "python3 job.py"),
            ("--check-hash-based-pycs never job.py", "python3 job.py"),
            ("--version", "python3"),
            ("-W", "python3"),
        ] {
            let line = format!("python3 {arguments} ").replace(' ', "\0");
            assert_eq!(program(line.as_bytes()), name, "{arguments}");
        }
    }
}
