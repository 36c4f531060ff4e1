//! Crossing the border: arguments from C are checked here, and results go out from here.

use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, TryLockError};

use loco::fabric::NodeId;

use crate::status::{BUSY, Failure, OK, PANIC, Status, report};

/// A place for a result: a pointer to memory that may still hold anything.
pub(crate) type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// A place for a new handle.
pub(crate) type New<'a, T> = Out<'a, Box<T>>;

/// Does the work of a call. No panic gets past here. Errors become a number and the thread's last error.
pub(crate) fn call(work: impl FnOnce() -> Result<Status, Failure>) -> Status {
    // State that a panic left half done is behind locks, which report it, or in the handle of one thread.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(status)) => status,
        Ok(Err(failure)) => report(failure),
        Err(payload) => report(Failure::panic(&*payload)),
    }
}

/// Does the work of a call that only succeeds or fails.
pub(crate) fn run(work: impl FnOnce() -> Result<(), Failure>) -> Status {
    call(|| work().map(|()| OK))
}

/// Frees a handle; NULL is no handle.
pub(crate) fn free<T>(handle: Option<Box<T>>) -> Status {
    run(|| {
        drop(handle);
        Ok(())
    })
}

/// Defines the functions of `loco.h` that make a handle by the name of an object, and the one that frees it:
///
/// ```text
/// handle! {
///     new loco_region_new(len: usize) -> region: Region = |parent, name| Region(SharedRegion::new(parent, name, len)?);
///     free loco_region_free;
/// }
/// ```
///
/// A `new` takes the node and the name before the arguments that are listed, and the place of the handle after them. A
/// handle that is freed in another way has no `free` here.
macro_rules! handle {
    ($(
        new $new:ident($($argument:ident: $type:ty),*) -> $handle:ident: $Handle:ident
            = |$parent:ident, $name:ident| $make:expr;
    )+ $(free $free:ident;)?) => {
        $(
            #[doc = concat!("Implements `", stringify!($new), "` of `loco.h`.")]
            ///
            /// # Safety
            /// See `loco.h`.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $new(
                node: Option<&$crate::node::Node>,
                name: *const std::ffi::c_char,
                $($argument: $type,)*
                $handle: $crate::border::New<'_, $Handle>,
            ) -> $crate::status::Status {
                use $crate::border::{Need as _, run, text};
                run(|| {
                    let (node, out) = (node.need("node")?, $handle.need(stringify!($handle))?);
                    // SAFETY: the caller's promise.
                    let $name = unsafe { text(name, "name") }?;
                    let $parent = &node.parent();
                    out.write(Box::new($make));
                    Ok(())
                })
            }
        )+
        $crate::border::handle!(@free $($Handle)+; $($free)?);
    };
    (@free $Handle:ident $($same:ident)*;) => {};
    (@free $Handle:ident $($same:ident)*; $free:ident) => {
        #[doc = concat!("Implements `", stringify!($free), "` of `loco.h`.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $free(handle: Option<Box<$Handle>>) -> $crate::status::Status {
            $crate::border::free(handle)
        }
    };
}
pub(crate) use handle;

/// Takes a handle that one thread at a time uses, for one call.
///
/// Returns `BUSY` when another thread is in the middle of a call, and `PANIC` when a call panicked.
pub(crate) fn hold<T>(handle: &Mutex<T>) -> Result<MutexGuard<'_, T>, Failure> {
    handle.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => {
            Failure::new(BUSY, "another thread is in the middle of a call on this handle")
        }
        TryLockError::Poisoned(_) => Failure::new(
            PANIC,
            "a call on this handle panicked, and may have left it half done",
        ),
    })
}

/// Arguments that must not be NULL.
pub(crate) trait Need: Sized {
    /// The type of an argument that is not NULL.
    type Value;

    /// Returns the argument, or the failure that says which one is NULL.
    fn need(self, name: &str) -> Result<Self::Value, Failure>;
}

impl<T> Need for Option<T> {
    type Value = T;

    fn need(self, name: &str) -> Result<T, Failure> {
        self.ok_or_else(|| null(name))
    }
}

#[cold]
fn null(name: &str) -> Failure {
    Failure::usage(format!("the argument `{name}` is NULL"))
}

/// Reads an argument's bytes. NULL is allowed if `len` is 0.
///
/// # Safety
/// `data` is NULL or points to `len` bytes that nobody writes while the result lives.
pub(crate) unsafe fn bytes<'a>(data: *const c_void, len: usize, name: &str) -> Result<&'a [u8], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    check(data.is_null(), len, name)?;
    // SAFETY: not NULL, of a length that a slice may have; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(data.cast(), len) })
}

/// Returns an argument's place for bytes. NULL is allowed if `len` is 0.
///
/// # Safety
/// `data` is NULL or points to `len` bytes that nobody else accesses while the result lives.
pub(crate) unsafe fn bytes_mut<'a>(
    data: *mut c_void,
    len: usize,
    name: &str,
) -> Result<&'a mut [u8], Failure> {
    if len == 0 {
        return Ok(&mut []);
    }
    check(data.is_null(), len, name)?;
    // SAFETY: as above. Bytes that C has not set yet are written before they are read.
    Ok(unsafe { std::slice::from_raw_parts_mut(data.cast(), len) })
}

/// Returns the words to which results go.
///
/// # Safety
/// See [`bytes_mut`], for `count` words that are aligned and set.
pub(crate) unsafe fn words_mut<'a>(
    data: *mut u64,
    count: usize,
    name: &str,
) -> Result<&'a mut [u64], Failure> {
    check(data.is_null(), count.saturating_mul(size_of::<u64>()), name)?;
    // SAFETY: as above.
    Ok(unsafe { std::slice::from_raw_parts_mut(data, count) })
}

/// Reads an argument's node ids.
///
/// # Safety
/// See [`bytes`], for `count` ids.
pub(crate) unsafe fn node_ids(ids: *const u16, count: usize, name: &str) -> Result<Vec<NodeId>, Failure> {
    if count == 0 {
        return Ok(Vec::new());
    }
    check(ids.is_null(), count.saturating_mul(size_of::<u16>()), name)?;
    // SAFETY: as above.
    let ids = unsafe { std::slice::from_raw_parts(ids, count) };
    Ok(ids.iter().copied().map(NodeId).collect())
}

fn check(is_null: bool, len: usize, name: &str) -> Result<(), Failure> {
    if is_null {
        return Err(null(name));
    }
    if isize::try_from(len).is_err() {
        return Err(Failure::usage(format!(
            "the length of `{name}` is {len}, which no object in memory has"
        )));
    }
    Ok(())
}

/// Reads an argument's string.
///
/// # Safety
/// `text` is NULL or a string that ends with a zero and that nobody writes while the result lives.
pub(crate) unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(null(name));
    }
    // SAFETY: not NULL; the rest is the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| {
        Failure::usage(format!(
            "the argument `{name}` is not UTF-8: `{}`",
            text.to_string_lossy()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{USAGE, loco_last_error};

    fn last() -> String {
        // SAFETY: a string of this thread, which no call changes meanwhile.
        unsafe { CStr::from_ptr(loco_last_error()) }
            .to_string_lossy()
            .into_owned()
    }

    #[test]
    fn a_panic_becomes_a_status_with_its_message() {
        let status = run(|| panic!("at {} o'clock", 5));
        assert_eq!(status, PANIC);
        assert!(last().ends_with("at 5 o'clock"), "{}", last());
        assert_eq!(run(|| Ok(())), OK);
        // A success leaves the last error alone, as errno.
        assert!(last().ends_with("at 5 o'clock"), "{}", last());
    }

    #[test]
    fn null_and_impossible_lengths_are_refused() {
        // SAFETY: refused before anything is read.
        let refused = unsafe { bytes(std::ptr::null(), 1, "data") };
        assert_eq!(report(refused.expect_err("NULL")), USAGE);
        assert!(last().contains("`data` is NULL"), "{}", last());
        let byte = 0_u8;
        // SAFETY: as above.
        let refused = unsafe { bytes((&raw const byte).cast(), usize::MAX, "data") };
        assert_eq!(report(refused.expect_err("too long")), USAGE);
        // SAFETY: as above.
        assert_eq!(unsafe { bytes(std::ptr::null(), 0, "data") }.expect("none"), b"");
        // SAFETY: a string of bytes that are no UTF-8.
        let refused = unsafe { text(c"\xff".as_ptr(), "name") };
        assert_eq!(report(refused.expect_err("Latin-1")), USAGE);
        assert!(last().contains("not UTF-8"), "{}", last());
    }
}
