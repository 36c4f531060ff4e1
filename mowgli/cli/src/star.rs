//! `mowgli star`: the star translation of a shared-memory program.

use std::fs;

use mowgli::counted::counted;
use mowgli::model::{Model, RmwAtomicity};
use mowgli::star::{self, Options, Server};

use crate::{Error, Exit, output, source, values};

/// Translate a shared-memory program to an RDMA program of one server and clients
///
/// All locations move to the server's node. One thread stays there; each other thread becomes a client on its own node, whose loads
/// are gets and whose stores are puts, with polls where results are used and remote fences where gets could be overtaken. The result
/// has the outcomes of the source under sequential consistency (Robust'25 5.3); `mowgli robust` confirms it. A verdict that the
/// source states for sc is stated for the models of the translation.
///
/// FILE is a litmus test with everything on one node, a built-in test, a test of herd7 for X86 or X86_64 (loads, stores and mfence), or
/// `-` for standard input. A cas of a client becomes a remote compare-and-swap.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES\n  \
    mowgli star shm-SB\n  \
    mowgli star shm-Peterson --early --model rdma-sc\n  \
    mowgli star shm-ticket-lock --server none -o translated.litmus\n  \
    mowgli star mine.x86 | mowgli check -\n\n\
EXIT STATUS\n  \
    0  translated\n  \
    2  wrong usage, the file cannot be read or written, has errors, or has no translation")]
pub(crate) struct Args {
    /// A shared-memory program
    file: String,
    /// Post each get right after the operation before it, so that it runs during the computation before its use
    #[arg(long)]
    early: bool,
    /// The model to translate for: rdma-sc or rdma-tso, which needs mfence on the server
    #[arg(long, value_name = "MODEL", default_value = "rdma-tso", value_parser = values::translated())]
    model: Model,
    /// The thread that stays on the server's node, or none
    #[arg(long, value_name = "THREAD", default_value = "0", value_parser = server)]
    server: Server,
    /// Atomicity of remote compare-and-swaps: against each other (hca), or against every access (glob)
    #[arg(long, value_name = "ATOMICITY", default_value = "hca", value_parser = values::rmw())]
    rmw: RmwAtomicity,
    /// Write the translation to a file
    #[arg(short, long, value_name = "FILE")]
    output: Option<String>,
}

fn server(text: &str) -> Result<Server, String> {
    if text == "none" {
        return Ok(Server::Idle);
    }
    let digits = text.strip_prefix('P').unwrap_or(text);
    let thread = digits.parse();
    thread.map(Server::Thread).map_err(|_| {
        format!("`{text}` is no thread: write one from 0 or P0, the first, to the last, or none")
    })
}

pub(crate) fn run(args: &Args) -> Result<Exit, Error> {
    let source::Test { path, litmus, .. } = source::load_one(&args.file)?;
    let threads = litmus.program.threads.len();
    if let Server::Thread(thread) = args.server
        && thread >= threads
    {
        let count = counted(threads, "thread");
        return Err(Error::Usage(format!(
            "--server {thread}: {path} has {count}, numbered from 0; write one of them, or none"
        )));
    }
    let options = Options {
        server: args.server,
        early: args.early,
        model: args.model,
        rmw: args.rmw,
    };
    let translated = star::translate(&litmus, &options)
        .map_err(|refused| Error::Usage(format!("{path} has no star translation: {refused}")))?;
    let text = translated.print();
    match &args.output {
        None => output::print(&text)?,
        Some(file) => fs::write(file, text).map_err(|source| Error::Write {
            path: file.clone(),
            source,
        })?,
    }
    Ok(Exit::AsStated)
}
