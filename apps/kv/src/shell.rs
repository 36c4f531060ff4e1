//! The interactive shell: a store of texts, one command a line. Relies on the store; used by the `kv` command.
//!
//! The lowest node of a job reads the commands; the others hold their part of the store until it has ended.

use std::fmt::Display;
use std::io::{self, BufRead, Read as _, Write};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use loco::fabric::Fabric;
use loco::{Bytes, Inserted, KvConfig, KvStore, Manager, Thread};
use loco_app::{OutputError, Stop, counted};

use crate::orders::{Leader, Orders};
use crate::{KvError, Result};

/// The longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 4096;
/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 256;
/// The longest line that is read, in bytes: several times the longest command.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// The most lines that wait for the commands before them.
const LINES_MAX: usize = 64;
/// The time between two checks whether the program was told to stop.
const LOOK: Duration = Duration::from_millis(50);

const HELP: &str = "\
get KEY            the value of a key
put KEY VALUE      gives a key a value, whether it has one or not
insert KEY VALUE   the same for a key that is not there
update KEY VALUE   the same for a key that is there
delete KEY         removes a key
list [PREFIX]      the keys, in order
snapshot FILE      writes all keys and values to a file, as of one moment
restore FILE       gives all keys of such a file their values, on all nodes; each reads the file
stats              what this node knows of the store
help               this text
quit               ends the job
A value, or a file's name, goes to the end of the line; keys have no spaces. Lines that start with # are skipped.";

type Store<F> = KvStore<Bytes, Bytes, F>;

/// A line as a command.
#[derive(Debug, PartialEq, Eq)]
enum Command<'a> {
    Nothing,
    Get(&'a str),
    Put(&'a str, &'a str),
    Insert(&'a str, &'a str),
    Update(&'a str, &'a str),
    Delete(&'a str),
    List(&'a str),
    Snapshot(&'a Path),
    Restore(&'a Path),
    Stats,
    Help,
    Quit,
}

/// The number of commands and mistakes among the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of commands that were carried out, whatever the answer.
    pub commands: usize,
    /// The number of lines that were not a command.
    pub mistakes: usize,
}

/// Returns the settings of the shell's store.
pub fn config(slots_per_node: u32) -> KvConfig {
    KvConfig::default()
        .slots_per_node(slots_per_node)
        .value_bytes_max(VALUE_BYTES_MAX)
        .key_bytes_max(KEY_BYTES_MAX)
}

/// Lines as they come, up to an error.
pub type Lines = mpsc::Receiver<io::Result<Vec<u8>>>;

/// Serves commands from the lines of `input` until their end, `quit`, or `stop`. Only the lowest node opens the input.
/// Answers go to `output`. A command that fails is not an error of this call, but a lost peer or a broken
/// pipe is.
///
/// # Errors
/// Returns the errors of set-up, `PeerLost` on the nodes that do not read when the reading node is gone,
/// `Input`, and `Output`.
pub fn run<F: Fabric>(
    fabric: F,
    config: KvConfig,
    input: impl FnOnce() -> Result<Lines>,
    output: &mut impl Write,
    stop: &Stop,
) -> Result<Tally> {
    let manager = Manager::new(fabric)?;
    let reads = manager.nodes()[0];
    let store = Store::<F>::new(&manager, "kv", config)?;
    let orders = Orders::new(&manager, reads)?;
    loco_app::wait_for_ready(&manager)?;
    stop.begin_work();
    let thread = manager.thread()?;
    if manager.node() != reads {
        orders.follow(&thread, &store, stop)?;
        return Ok(Tally::default());
    }
    let greeting = format!(
        "a store on {}; `help` lists the commands",
        counted(manager.nodes().len(), "node")
    );
    say(output, greeting)?;
    let mut leader = orders.lead()?;
    let tally = serve(&thread, &store, &mut leader, input()?, output, stop);
    // The others need not wait any more, whatever ended the shell.
    leader.end(&thread)?;
    tally
}

/// Writes an answer at once: a person or a program is waiting for it.
fn say(output: &mut impl Write, answer: impl Display) -> Result<(), OutputError> {
    writeln!(output, "{answer}")?;
    Ok(output.flush()?)
}

/// Starts a thread that reads lines, so that waiting for input can be interrupted. Returns the lines as they
/// come, up to an error. The thread reads only a little ahead.
///
/// # Errors
/// Returns `Os` if the system refuses the thread.
pub fn lines(mut input: impl BufRead + Send + 'static) -> Result<Lines> {
    let (sender, receiver) = mpsc::sync_channel(LINES_MAX);
    std::thread::Builder::new()
        .name("kv-input".to_owned())
        .spawn(move || {
            while let Some(line) = read_line(&mut input).transpose() {
                let is_last = line.is_err();
                if sender.send(line).is_err() || is_last {
                    return;
                }
            }
        })
        .map_err(|source| KvError::Os {
            what: "starting the thread that reads commands",
            source,
        })?;
    Ok(receiver)
}

/// Reads the next line; `None` after the last. A line that is too long is an error, because a device gives bytes without end.
fn read_line(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    input.take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line)?;
    if line.len() as u64 > LINE_BYTES_MAX {
        let text = format!("a line of more than {LINE_BYTES_MAX} bytes, which no command needs");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok((!line.is_empty()).then_some(line))
}

fn serve<F: Fabric>(
    thread: &Thread<F>,
    store: &Store<F>,
    leader: &mut Leader<F>,
    lines: Lines,
    output: &mut impl Write,
    stop: &Stop,
) -> Result<Tally> {
    let mut tally = Tally::default();
    while !stop.is_asked() {
        let line = match lines.recv_timeout(LOOK) {
            Ok(line) => line.map_err(KvError::Input)?,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let text = String::from_utf8_lossy(&line);
        match parse(&text) {
            Ok(Command::Nothing) => continue,
            Ok(Command::Quit) => {
                tally.commands += 1;
                break;
            }
            Ok(command) => {
                tally.commands += 1;
                // A command that fails leaves the store as it was, or reports what is unknown. The next one may
                // succeed.
                match carry_out(thread, store, leader, &command) {
                    Ok(answer) => say(output, answer)?,
                    Err(error) => say(output, format_args!("error: {error}"))?,
                }
            }
            Err(mistake) => {
                tally.mistakes += 1;
                say(output, format_args!("error: {mistake}"))?;
            }
        }
    }
    Ok(tally)
}

fn parse(line: &str) -> std::result::Result<Command<'_>, String> {
    let line = line.trim();
    let (name, rest) = split(line);
    let key = || match split(rest) {
        ("", _) => Err(format!("`{name}` needs a key: {name} KEY")),
        (key, "") => Ok(key),
        (_, more) => Err(format!("`{name}` takes one key, and there is `{more}` after it")),
    };
    let entry = || match split(rest) {
        ("", _) | (_, "") => Err(format!("`{name}` needs a key and a value: {name} KEY VALUE")),
        entry => Ok(entry),
    };
    let file = || match rest {
        "" => Err(format!("`{name}` needs a file: {name} FILE")),
        file => Ok(Path::new(file)),
    };
    let alone = |command| match rest {
        "" => Ok(command),
        more => Err(format!("`{name}` takes nothing, and there is `{more}` after it")),
    };
    match name {
        "" => Ok(Command::Nothing),
        _ if name.starts_with('#') => Ok(Command::Nothing),
        "get" => key().map(Command::Get),
        "put" => entry().map(|(key, value)| Command::Put(key, value)),
        "insert" => entry().map(|(key, value)| Command::Insert(key, value)),
        "update" => entry().map(|(key, value)| Command::Update(key, value)),
        "delete" => key().map(Command::Delete),
        "list" if rest.is_empty() => Ok(Command::List("")),
        "list" => key().map(Command::List),
        "snapshot" => file().map(Command::Snapshot),
        "restore" => file().map(Command::Restore),
        "stats" => alone(Command::Stats),
        "help" => alone(Command::Help),
        "quit" | "exit" => alone(Command::Quit),
        _ => Err(format!("there is no command `{name}`; `help` lists them")),
    }
}

/// Returns the first word, and the text that follows it.
fn split(text: &str) -> (&str, &str) {
    match text.split_once(char::is_whitespace) {
        Some((word, rest)) => (word, rest.trim_start()),
        None => (text, ""),
    }
}

fn carry_out<F: Fabric>(
    thread: &Thread<F>,
    store: &Store<F>,
    leader: &mut Leader<F>,
    command: &Command<'_>,
) -> Result<String, loco::Error> {
    let bytes = |text: &str| Bytes(text.as_bytes().to_vec());
    let full = || "full: this node has no free slot; delete a key of its own first".to_owned();
    let missing = |key: &str| format!("no key `{key}`");
    Ok(match *command {
        Command::Get(key) => match store.get(thread, &bytes(key))? {
            Some(value) => String::from_utf8_lossy(&value.0).into_owned(),
            None => missing(key),
        },
        Command::Insert(key, value) => match store.insert(thread, &bytes(key), &bytes(value))? {
            Inserted::Done => "inserted".to_owned(),
            Inserted::Duplicate => format!("the key `{key}` is there already; nothing changed"),
            Inserted::Full => full(),
        },
        Command::Update(key, value) => match store.update(thread, &bytes(key), &bytes(value))? {
            true => "updated".to_owned(),
            false => missing(key),
        },
        Command::Put(key, value) => {
            let (key, value) = (bytes(key), bytes(value));
            // Another node may insert or delete the key in between. Then the other call of the two applies.
            loop {
                if store.update(thread, &key, &value)? {
                    break "updated".to_owned();
                }
                match store.insert(thread, &key, &value)? {
                    Inserted::Done => break "inserted".to_owned(),
                    Inserted::Duplicate => {}
                    Inserted::Full => break full(),
                }
            }
        }
        Command::Delete(key) => match store.delete(thread, &bytes(key))? {
            true => "deleted".to_owned(),
            false => missing(key),
        },
        Command::List(prefix) => {
            let keys = store.keys();
            let mut keys: Vec<_> = keys
                .iter()
                .map(|key| String::from_utf8_lossy(&key.0))
                .filter(|key| key.starts_with(prefix))
                .collect();
            keys.sort_unstable();
            match keys.len() {
                0 => "no keys".to_owned(),
                _ => keys.join("\n"),
            }
        }
        Command::Snapshot(file) => {
            let snapshot = store.snapshot(thread, file)?;
            format!(
                "{} in {}",
                counted(snapshot.keys, "key"),
                counted(snapshot.bytes, "byte")
            )
        }
        Command::Restore(file) => {
            let restored = leader.restore(thread, store, file)?;
            if restored.failed > 0 {
                return Ok(format!(
                    "error: {} failed and have not restored their part, and say why on standard error",
                    counted(restored.failed, "node")
                ));
            }
            format!(
                "{} restored: {} inserted, {} updated",
                counted(restored.keys, "key"),
                restored.inserted,
                restored.updated
            )
        }
        Command::Stats => {
            let stats = store.stats();
            format!(
                "{}; on this node {}, {} writes done, {} torn and {} stale reads",
                counted(stats.keys, "key"),
                counted(stats.free_slots, "free slot"),
                stats.writes,
                stats.torn_reads,
                stats.stale_reads
            )
        }
        Command::Help => HELP.to_owned(),
        Command::Nothing | Command::Quit => String::new(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn lines_are_commands() {
        assert_eq!(parse("  get  a "), Ok(Command::Get("a")));
        assert_eq!(parse("put a b c"), Ok(Command::Put("a", "b c")));
        assert_eq!(parse("list"), Ok(Command::List("")));
        assert_eq!(parse("list ab"), Ok(Command::List("ab")));
        assert_eq!(parse(""), Ok(Command::Nothing));
        assert_eq!(parse("# remark"), Ok(Command::Nothing));
        assert_eq!(parse("exit"), Ok(Command::Quit));
        assert_eq!(
            parse("snapshot a file"),
            Ok(Command::Snapshot(Path::new("a file")))
        );
    }

    /// Gives lines without end, and counts the bytes.
    struct Endless(Arc<AtomicU64>);

    impl io::Read for Endless {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            into.fill(b'\n');
            self.0.fetch_add(into.len() as u64, Ordering::SeqCst);
            Ok(into.len())
        }
    }

    #[test]
    fn input_without_end_takes_bounded_memory() {
        let endless = io::BufReader::new(io::repeat(b'x'));
        let received = lines(endless).unwrap();
        let error = received.recv().unwrap().unwrap_err().to_string();
        assert!(error.contains("more than 65536 bytes"), "{error}");
        assert!(received.recv().is_err(), "nothing is read after that");

        let read = Arc::new(AtomicU64::new(0));
        let received = lines(io::BufReader::with_capacity(16, Endless(read.clone()))).unwrap();
        for taken in 0..1_000 {
            assert_eq!(received.recv().unwrap().unwrap(), b"\n");
            // The lines that wait, one in the hands of the reader, and its buffer.
            let ahead = read.load(Ordering::SeqCst) - taken;
            assert!(ahead <= LINES_MAX as u64 + 34, "{ahead} lines ahead");
        }
    }

    #[test]
    fn the_last_line_needs_no_end() {
        let received = lines(&b"get a\nquit"[..]).unwrap();
        let all: Vec<_> = received.iter().map(io::Result::unwrap).collect();
        assert_eq!(all, [&b"get a\n"[..], b"quit"]);
    }

    #[test]
    fn mistakes_say_what_is_wrong() {
        for (line, part) in [
            ("get", "needs a key"),
            ("get a b", "takes one key"),
            ("insert a", "needs a key and a value"),
            ("quit now", "takes nothing"),
            ("restore", "needs a file"),
            ("fetch a", "no command `fetch`"),
        ] {
            let mistake = parse(line).unwrap_err();
            assert!(mistake.contains(part), "{line}: {mistake}");
        }
    }
}
