//! The service thread: it leads when this node's turn comes, so that others' appends wait for no call of this node.
//!
//! A step that fails while it may succeed later is tried again, after pauses that grow. The end of this node ends the thread.

use std::time::Duration;

use loco_fabric::{AtomicCell, Fabric, FabricError, Peers, Time, Wait};

use super::Shared;
use crate::{Error, Parent, Result, Thread};

/// During set-up, the time between two checks whether the log is ready or being dropped.
const SET_UP_PAUSE: Duration = Duration::from_millis(50);
/// The pause after a step that failed, and the longest one.
const RETRY_MIN: Duration = Duration::from_millis(1);
const RETRY_MAX: Duration = Duration::from_millis(250);

/// Leads until the log is dropped, or it fails for good.
pub(super) fn serve<F: Fabric>(shared: &Shared<F>) {
    if let Err(error) = try_to_serve(shared) {
        tracing::error!(log = shared.channel.name(), %error, "the service thread ends: this node leads no more by itself");
    }
}

fn try_to_serve<F: Fabric>(shared: &Shared<F>) -> Result<()> {
    let manager = shared.channel.manager();
    let stopped = || shared.stop.load() != 0;
    let thread = manager.thread()?;
    loop {
        let deadline = thread.now().after(SET_UP_PAUSE);
        let ready = manager
            .setup()
            .wait_until_ready(Some(shared.channel.name()), deadline);
        match ready {
            Ok(()) => break,
            Err(_) if stopped() => return Ok(()),
            Err(error) if error.is_timeout() => {}
            Err(error) => return Err(error),
        }
    }
    thread.set_deadline(Some(Time::NEVER));
    let mut pause = RETRY_MIN;
    while !stopped() {
        let Err(error) = step(shared, &thread, stopped) else {
            pause = RETRY_MIN;
            continue;
        };
        if !may_pass(&error) {
            return Err(error);
        }
        tracing::warn!(log = shared.channel.name(), %error, "leading is tried again");
        let wait = Wait {
            what: shared.channel.name(),
            peers: Peers::None,
            deadline: None,
        };
        let stop = || stopped().then_some(());
        // The end of the pause is no error.
        let _ = thread.fabric().wait_within(wait, pause, stop);
        pause = (pause * 2).min(RETRY_MAX);
    }
    Ok(())
}

/// Leads until there is something new, or waits until this node leads.
fn step<F: Fabric>(shared: &Shared<F>, thread: &Thread<F>, stopped: impl Fn() -> bool) -> Result<()> {
    let leader = shared.leader();
    if leader == shared.node() {
        return shared.pass_and_wait(thread, stopped);
    }
    let stop = || stopped().then_some(());
    match thread.wait_for(true, shared.channel.name(), Peers::One(leader), stop) {
        Err(error) if error.lost_peer() == Some(leader) && shared.is_gone(leader) => Ok(()),
        waited => waited,
    }
}

/// Returns true if the step that failed with `error` may succeed later.
fn may_pass(error: &Error) -> bool {
    match error {
        Error::Fabric(
            FabricError::DeclaredLost | FabricError::Unsupported(_) | FabricError::UnknownPeer(_),
        ) => false,
        // Too few participants are left, and it stays so.
        Error::PeerLost { object: Some(_), .. } => false,
        Error::Fabric(_) | Error::Timeout { .. } | Error::TooManyThreads { .. } | Error::PeerLost { .. } => {
            true
        }
        _ => false,
    }
}
