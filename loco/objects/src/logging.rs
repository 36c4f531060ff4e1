//! Logs to standard error as an environment variable asks, for programs that have no log of their own.
//!
//! Relies on `tracing-subscriber`. Used by the commands, and by the interfaces for C and Python.

use std::io::Write as _;
use std::sync::Once;

use tracing_subscriber::EnvFilter;

/// The environment variable that selects what is logged.
const LOG: &str = "LOCO_LOG";

/// Logs to standard error what the environment variable `LOCO_LOG` asks for, and nothing without it. For example,
/// `LOCO_LOG=loco_job=debug` shows how nodes meet, and `LOCO_LOG=info` also which network and which pages are used. The
/// syntax is that of [`EnvFilter`].
///
/// Only the first call has an effect, and none if the program has set a subscriber of `tracing`: that one gets the messages. A value that
/// is not a filter is reported on standard error, and nothing is logged.
pub fn log_to_stderr() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let Some(wanted) = std::env::var(LOG).ok().filter(|wanted| !wanted.is_empty()) else {
            return;
        };
        match EnvFilter::try_new(&wanted) {
            Ok(filter) => {
                let log = tracing_subscriber::fmt().with_env_filter(filter);
                // An error says that there is a subscriber already.
                let _ = log.with_writer(std::io::stderr).try_init();
            }
            Err(error) => {
                // A message that cannot be written is dropped.
                let _ = writeln!(std::io::stderr(), "{LOG}=`{wanted}` is ignored: {error}");
            }
        }
    });
}
