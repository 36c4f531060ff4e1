//! The service thread: it leads when this node's turn comes, so that others' appends wait for no call of this node.
//!
//! A step that fails while it may succeed later is tried again, after pauses that grow. The end of this node ends the thread.

use loco_fabric::{AtomicCell, Fabric, Time};

use super::Shared;
use crate::channels::service::{self, RETRY_MIN};
use crate::{Error, Parent, Result};

/// Leads until the log is dropped, or it fails for good.
pub(super) fn serve<F: Fabric>(shared: &Shared<F>) {
    if let Err(error) = try_to_serve(shared) {
        tracing::error!(log = shared.channel.name(), %error, "the service thread ends: this node leads no more by itself");
    }
}

fn try_to_serve<F: Fabric>(shared: &Shared<F>) -> Result<()> {
    let stopped = || shared.stop.load() != 0;
    let thread = shared.channel.manager().thread()?;
    if !service::wait_until_ready(&shared.channel, &thread, stopped)? {
        return Ok(());
    }
    thread.set_deadline(Some(Time::NEVER));
    let mut pause = RETRY_MIN;
    while !stopped() {
        let Err(error) = shared.lead_or_wait(&thread, stopped) else {
            pause = RETRY_MIN;
            continue;
        };
        if !may_pass(&error) {
            return Err(error);
        }
        tracing::warn!(log = shared.channel.name(), %error, "leading is tried again");
        service::pause(&shared.channel, &mut pause, stopped);
    }
    Ok(())
}

/// Returns true if the step that failed with `error` may succeed later.
fn may_pass(error: &Error) -> bool {
    // Too few participants are left, and it stays so.
    let are_few = matches!(error, Error::PeerLost { object: Some(_), .. });
    !are_few && service::may_pass(error)
}
