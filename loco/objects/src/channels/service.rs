//! Steps that the service threads of objects share: to wait until the channel is ready, and to pause before a failed step is tried again.

use std::time::Duration;

use loco_fabric::{Fabric, FabricError, Peers, Wait};

use crate::channels::channel::Channel;
use crate::channels::parent::Parent as _;
use crate::operations::thread::Thread;
use crate::{Error, Result};

/// During set-up, the time between two checks whether the channel is ready or the object is being dropped.
const SET_UP_PAUSE: Duration = Duration::from_millis(50);
/// The pause after a step that failed, and the longest one.
pub(crate) const RETRY_MIN: Duration = Duration::from_millis(1);
pub(crate) const RETRY_MAX: Duration = Duration::from_millis(250);

/// Waits until `channel` is ready. Returns false if `stopped` comes first.
///
/// # Errors
/// Returns the errors of set-up, apart from timeouts.
pub(crate) fn wait_until_ready<F: Fabric>(
    channel: &Channel<F>,
    thread: &Thread<F>,
    stopped: impl Fn() -> bool,
) -> Result<bool> {
    loop {
        match channel.wait_for_ready_until(thread.now().after(SET_UP_PAUSE)) {
            Ok(()) => return Ok(true),
            Err(_) if stopped() => return Ok(false),
            Err(error) if error.is_timeout() => {}
            Err(error) => return Err(error),
        }
    }
}

/// Waits before a step is tried again, until `stopped` at most. The next pause is longer.
pub(crate) fn pause<F: Fabric>(channel: &Channel<F>, pause: &mut Duration, stopped: impl Fn() -> bool) {
    let wait = Wait {
        what: channel.name(),
        peers: Peers::None,
        deadline: None,
    };
    // The end of the pause is no error.
    let fabric = channel.manager().fabric();
    let _ = fabric.wait_within(wait, *pause, || stopped().then_some(()));
    *pause = (*pause * 2).min(RETRY_MAX);
}

/// Returns true if the step that failed with `error` may succeed later.
pub(crate) fn may_pass(error: &Error) -> bool {
    match error {
        Error::Fabric(
            FabricError::DeclaredLost | FabricError::Unsupported(_) | FabricError::UnknownPeer(_),
        ) => false,
        Error::Fabric(_) | Error::Timeout { .. } | Error::TooManyThreads { .. } | Error::PeerLost { .. } => {
            true
        }
        _ => false,
    }
}
