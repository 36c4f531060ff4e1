//! Prints the nodes' output: whole lines, each with the node's id before it, in the order in which they come.
//!
//! Whoever reads our output may stop reading, and then a write does not return. So threads of their own write: one for each
//! stream of a node, and one for the launcher's messages. The launcher itself never writes, so that it sees timeouts and
//! signals all the same.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

use anstyle::{AnsiColor, Style};
use indicatif::ProgressBar;
use loco::fabric::NodeId;
use loco_app::{complain, is_coloured};

use super::{Event, Node};
use crate::error::CliError;

/// The length above which a line is passed on in pieces.
const LINE_BYTES_MAX: u64 = 64 << 10;

const COLOURS: [AnsiColor; 6] = [
    AnsiColor::Cyan,
    AnsiColor::Green,
    AnsiColor::Yellow,
    AnsiColor::Magenta,
    AnsiColor::Blue,
    AnsiColor::Red,
];

/// Writes lines of all nodes to our own standard output and error.
pub(super) struct Printer {
    prefix: bool,
    bar: Option<ProgressBar>,
    /// The number of digits of the longest id.
    width: usize,
    /// The place to report that standard output cannot be written; empty once it has been reported.
    failed: Mutex<Option<mpsc::Sender<Event>>>,
    /// The messages of the launcher, for the thread that writes them.
    messages: mpsc::Sender<String>,
    /// The number of these messages, and how many have been written.
    said: AtomicU64,
    heard: Arc<AtomicU64>,
    /// The number of lines of nodes that have been written.
    lines: AtomicU64,
}

#[derive(Clone, Copy)]
enum Stream {
    Out,
    Err,
}

impl Printer {
    pub(super) fn new(
        prefix: bool,
        bar: Option<ProgressBar>,
        nodes: &[Node],
        events: mpsc::Sender<Event>,
    ) -> Result<Printer, CliError> {
        let longest = nodes.iter().map(|node| node.id.0).max().unwrap_or(0);
        let (messages, waiting) = mpsc::channel::<String>();
        let heard = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&heard);
        thread::Builder::new()
            .name("loco-messages".to_owned())
            .spawn(move || {
                for message in waiting {
                    complain(format_args!("loco: {message}"));
                    // Release: whoever sees the count sees the message written.
                    counter.fetch_add(1, Ordering::Release);
                }
            })
            .map_err(CliError::os("starting the thread of the launcher's messages"))?;
        Ok(Printer {
            prefix,
            bar,
            width: longest.to_string().len(),
            failed: Mutex::new(Some(events)),
            messages,
            said: AtomicU64::new(0),
            heard,
            lines: AtomicU64::new(0),
        })
    }

    /// Returns whether every message of the launcher has been written.
    pub(super) fn is_heard(&self) -> bool {
        // Acquire pairs with the release of the thread that writes.
        self.heard.load(Ordering::Acquire) == self.said.load(Ordering::Acquire)
    }

    /// Returns a number that grows with everything that is written.
    pub(super) fn written(&self) -> u64 {
        // Relaxed: only whether it grows is of interest.
        self.lines.load(Ordering::Relaxed) + self.heard.load(Ordering::Relaxed)
    }

    /// Starts threads that print the output of a node. `look` sees each line of its standard output first, and
    /// removes the parts that are not the program's; an emptied line is not printed.
    pub(super) fn read(
        printer: &Arc<Printer>,
        node: NodeId,
        out: Option<impl Read + Send + 'static>,
        err: Option<impl Read + Send + 'static>,
        look: impl FnMut(&mut Vec<u8>) + Send + 'static,
    ) -> Result<Vec<JoinHandle<()>>, CliError> {
        let mut readers = Vec::new();
        if let Some(out) = out {
            readers.push(Printer::reader(printer, node, Stream::Out, out, look)?);
        }
        if let Some(err) = err {
            readers.push(Printer::reader(printer, node, Stream::Err, err, |_| ())?);
        }
        Ok(readers)
    }

    fn reader(
        printer: &Arc<Printer>,
        node: NodeId,
        stream: Stream,
        source: impl Read + Send + 'static,
        mut look: impl FnMut(&mut Vec<u8>) + Send + 'static,
    ) -> Result<JoinHandle<()>, CliError> {
        let printer = Arc::clone(printer);
        let print = move || {
            let mut source = BufReader::new(source);
            let mut line = Vec::new();
            // An error ends the output too: the node is gone.
            while let Ok(1..) = (&mut source).take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
                look(&mut line);
                if !line.is_empty() {
                    printer.line(node, stream, &line);
                }
                line.clear();
            }
        };
        thread::Builder::new()
            .name(format!("loco-output-{}", node.0))
            .spawn(print)
            .map_err(CliError::os("starting a thread for a node's output"))
    }

    /// Prints a message of the launcher itself, soon.
    pub(super) fn say(&self, what: &str) {
        self.said.fetch_add(1, Ordering::Release);
        // The thread lives as long as this sender.
        let _ = self.messages.send(what.to_owned());
    }

    fn line(&self, node: NodeId, stream: Stream, line: &[u8]) {
        let write = || match stream {
            Stream::Out => self.write(&mut io::stdout().lock(), is_coloured(&io::stdout()), node, line),
            Stream::Err => self.write(&mut io::stderr().lock(), is_coloured(&io::stderr()), node, line),
        };
        let written = match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        };
        self.lines.fetch_add(1, Ordering::Relaxed);
        if let (Err(error), Stream::Out) = (written, stream) {
            // Reading continues, so that no node blocks on its way to its end.
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(events) = failed.take() {
                let _ = events.send(Event::OutputFailed(error.into()));
            }
        }
    }

    /// Writes one line with one write, so that lines of different nodes do not mix.
    fn write(&self, to: &mut impl Write, colour: bool, node: NodeId, line: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(line.len() + 24);
        if self.prefix {
            let style = match colour {
                true => Style::new().fg_color(Some(COLOURS[usize::from(node.0) % COLOURS.len()].into())),
                false => Style::new(),
            };
            write!(bytes, "{style}[{:>width$}]{style:#} ", node.0, width = self.width)?;
        }
        bytes.extend_from_slice(line);
        if !line.ends_with(b"\n") && self.prefix {
            bytes.push(b'\n');
        }
        to.write_all(&bytes)?;
        to.flush()
    }
}
