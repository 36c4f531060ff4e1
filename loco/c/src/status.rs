//! The results of calls: a number, and for errors a message that is kept for the thread.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};

use loco::{Error, ErrorKind};

/// The result of every call; `loco_status` in C.
pub type Status = c_int;

/// Declares the numbers, once for Rust, for their names in C, and for the test that compares them with the header.
macro_rules! statuses {
    ($($name:ident = $value:literal, $c:literal;)*) => {
        $(pub(crate) const $name: Status = $value;)*

        /// Each status with its name in C.
        pub(crate) const STATUSES: &[(&CStr, Status)] = &[$(($c, $value)),*];
    };
}

statuses! {
    OK = 0, c"LOCO_OK";
    AGAIN = 1, c"LOCO_AGAIN";
    NOT_FOUND = 2, c"LOCO_NOT_FOUND";
    DUPLICATE = 3, c"LOCO_DUPLICATE";
    FULL = 4, c"LOCO_FULL";
    ENDED = 5, c"LOCO_ENDED";
    PEER_LOST = -1, c"LOCO_PEER_LOST";
    TIMEOUT = -2, c"LOCO_TIMEOUT";
    MISMATCH = -3, c"LOCO_MISMATCH";
    USAGE = -4, c"LOCO_USAGE";
    EXHAUSTED = -5, c"LOCO_EXHAUSTED";
    UNSUPPORTED = -6, c"LOCO_UNSUPPORTED";
    SYSTEM = -7, c"LOCO_SYSTEM";
    REFUSED = -8, c"LOCO_REFUSED";
    POISONED = -9, c"LOCO_POISONED";
    CLOSED = -10, c"LOCO_CLOSED";
    WRONG_THREAD = -11, c"LOCO_WRONG_THREAD";
    BUSY = -12, c"LOCO_BUSY";
    BUFFER_TOO_SMALL = -13, c"LOCO_BUFFER_TOO_SMALL";
    PANIC = -14, c"LOCO_PANIC";
    DECLARED_LOST = -15, c"LOCO_DECLARED_LOST";
    BAD_FILE = -16, c"LOCO_BAD_FILE";
}

/// The reason that a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    message: String,
    /// The node whose loss this reports.
    lost: Option<u16>,
    /// The system's error number.
    os: Option<i32>,
}

impl Failure {
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Failure {
        Failure {
            status,
            message: message.into(),
            lost: None,
            os: None,
        }
    }

    /// Makes the failure of a call that is used wrongly.
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure::new(USAGE, message)
    }

    /// Makes the failure of a call that panicked.
    pub(crate) fn panic(payload: &(dyn Any + Send)) -> Failure {
        let what = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        Failure::new(
            PANIC,
            format!("the library panicked, which is a mistake in it: {what}"),
        )
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure {
            status: status_of(error.kind()),
            // With its causes.
            message: format!("{error:?}"),
            lost: error.lost_peer().map(|node| node.0),
            os: error.os_error().and_then(std::io::Error::raw_os_error),
        }
    }
}

fn status_of(kind: ErrorKind) -> Status {
    match kind {
        ErrorKind::PeerLost => PEER_LOST,
        ErrorKind::DeclaredLost => DECLARED_LOST,
        ErrorKind::Timeout => TIMEOUT,
        ErrorKind::Mismatch => MISMATCH,
        ErrorKind::Usage => USAGE,
        ErrorKind::Exhausted => EXHAUSTED,
        ErrorKind::Unsupported => UNSUPPORTED,
        ErrorKind::Refused => REFUSED,
        ErrorKind::Poisoned => POISONED,
        ErrorKind::Closed => CLOSED,
        ErrorKind::Panicked => PANIC,
        ErrorKind::BadFile => BAD_FILE,
        // `ErrorKind` grows. A kind that is not named here is a failure of a lower layer.
        _ => SYSTEM,
    }
}

/// The last failure of a thread.
struct Last {
    message: CString,
    lost: c_int,
    os: c_int,
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::new(Last { message: CString::default(), lost: -1, os: 0 });
}

/// Keeps a failure for `loco_last_error` and returns its number.
pub(crate) fn report(failure: Failure) -> Status {
    let message = CString::new(failure.message.replace('\0', " ")).unwrap_or_default();
    let last = Last {
        message,
        lost: failure.lost.map_or(-1, c_int::from),
        os: failure.os.unwrap_or(0),
    };
    // A thread that is ending has no place for it any more. The number suffices.
    let _ = LAST.try_with(|place| place.replace(last));
    failure.status
}

/// Implements `loco_last_error` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().message.as_ptr())
        .unwrap_or(c"".as_ptr())
}

/// Implements `loco_last_lost_node` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_last_lost_node() -> c_int {
    LAST.try_with(|last| last.borrow().lost).unwrap_or(-1)
}

/// Implements `loco_last_os_error` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_last_os_error() -> c_int {
    LAST.try_with(|last| last.borrow().os).unwrap_or(0)
}

/// Implements `loco_status_name` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_status_name(status: Status) -> *const c_char {
    let named = STATUSES.iter().find(|&&(_, number)| number == status);
    named.map_or(c"no status of loco", |&(name, _)| name).as_ptr()
}

/// Implements `loco_version` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_version() -> *const c_char {
    VERSION.as_ptr()
}

/// This package's version, for C.
const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => c"",
};
