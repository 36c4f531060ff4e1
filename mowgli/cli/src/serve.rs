//! `mowgli serve`: the page, on a local port.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use mowgli_web::{Options, Server};

use crate::budget::{self, Limits, Run};
use crate::{Error, Exit, output, values};

/// Explore tests in a browser: verdicts, execution graphs, and the machine step by step
///
/// Starts a server on this machine and prints the address of its page. The address has a random token, without which the server
/// answers nothing: whoever has the address can use the page. Nothing is loaded from the network.
///
/// The page has an editor for litmus tests, clients of libraries and model files, with the catalogue to choose from. It shows
/// verdicts of several models side by side while you type, execution graphs, cycles and what would lift them, and the machine's
/// buffers as you step through an execution. docs/page.md is its manual.
///
/// Ctrl-C stops the server.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES
  mowgli serve
  mowgli serve --open
  mowgli serve --port 7700 --limit time=1m,memory=4G
  mowgli serve --listen 0.0.0.0 --port 7700   for other machines too

EXIT STATUS
  2  wrong usage, or the port is taken
  130  stopped by Ctrl-C")]
pub(crate) struct Args {
    /// The port; 0 takes a free one
    #[arg(short, long, default_value = "0", allow_negative_numbers = true, value_parser = values::whole::<u16>(0..=u64::from(u16::MAX)))]
    port: u16,
    /// The address to listen on: of this machine only, unless you say otherwise
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    listen: IpAddr,
    /// Open the page in the browser
    #[arg(long)]
    open: bool,
    #[arg(short, long, default_value = "time=10s,memory=2G", value_name = "LIMITS", help = budget::HELP, long_help = budget::LONG_HELP)]
    limit: Limits,
}

/// The longest time of a search, if `--limit` names none.
const TIME: Duration = Duration::from_secs(10);

/// Time between two looks at the flag of Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &Args) -> Result<Exit, Error> {
    let run = Run::start(args.limit);
    let options = Options {
        address: SocketAddr::new(args.listen, args.port),
        limits: run.of_searches(TIME),
    };
    let cannot = |error: std::io::Error| {
        let address = options.address;
        Error::Usage(format!(
            "cannot listen on {address}: {error}; --port 0 takes a free port"
        ))
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(cannot)?;
    runtime.block_on(async {
        let server = Server::listen(options).await.map_err(cannot)?;
        let url = server.url();
        output::print(&format!("The page is at {url}\nCtrl-C stops it.\n"))?;
        if args.open {
            open(&url);
        }
        let stop = async {
            while run.stopped().is_none() {
                tokio::time::sleep(LOOK).await;
            }
        };
        server.run(stop).await.map_err(cannot)
    })?;
    // Searches under way have been told to stop; nobody waits for them.
    runtime.shutdown_background();
    Ok(Exit::AsStated)
}

/// Opens an address in the user's browser. The address has been printed, so that there is another way if this fails.
fn open(url: &str) {
    if let Err(error) = film::open(url) {
        output::complain(format_args!("mowgli: {error}; open the address yourself"));
    }
}
