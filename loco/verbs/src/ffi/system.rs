//! Opens the libraries of this host, once.

use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

use super::Api;
use super::library::Library;

/// The status of a library, for `loco doctor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LibraryStatus {
    /// Name of the shared object.
    pub soname: &'static str,
    /// The loader's message, if the library could not be opened.
    pub error: Option<String>,
}

/// Returns the table of the host's libraries. The error says which library or symbol is missing.
pub(crate) fn system() -> Result<&'static Api, String> {
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    API.get_or_init(|| {
        let verbs = open(Library::Verbs)?;
        let cm = open(Library::ConnectionManager)?;
        let find = |library, symbol: &'static CStr| {
            let handle = match library {
                Library::Verbs => verbs,
                Library::ConnectionManager => cm,
            };
            // SAFETY: the handle is open (and stays so: it is never closed), the symbol is a C string. `dlsym` gives
            // the default version of a symbol, which is what a program linked today would get.
            let address = unsafe { libc::dlsym(handle.0, symbol.as_ptr()) };
            if address.is_null() {
                Err(format!(
                    "{:?} has no `{:?}`: it is too old",
                    library.soname(),
                    symbol
                ))
            } else {
                Ok(address)
            }
        };
        // SAFETY: the symbols are functions with the signatures of the headers; `layout` checks the structures.
        unsafe { Api::fill(find) }
    })
    .as_ref()
    .map_err(Clone::clone)
}

/// Returns the address of a function of `libibverbs.so.1`, if both are there.
pub(crate) fn symbol(name: &'static CStr) -> Option<*mut c_void> {
    let verbs = open(Library::Verbs).ok()?;
    // SAFETY: the handle is open and stays so; the symbol is a C string.
    let address = unsafe { libc::dlsym(verbs.0, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// Tries to open both libraries.
pub(crate) fn library_status() -> [LibraryStatus; 2] {
    [Library::Verbs, Library::ConnectionManager].map(|library| LibraryStatus {
        soname: library.soname().to_str().unwrap_or_default(),
        error: open(library).err(),
    })
}

/// An open library. It is never closed, because its functions are kept for the life of the process.
#[derive(Clone, Copy)]
struct Handle(*mut c_void);

fn open(library: Library) -> Result<Handle, String> {
    // SAFETY: a C string; the initialisers of these libraries have no preconditions.
    let handle = unsafe { libc::dlopen(library.soname().as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if !handle.is_null() {
        return Ok(Handle(handle));
    }
    // SAFETY: `dlerror` returns null or a C string that stays valid until this thread's next call of it.
    let message = unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            "cannot be opened".to_owned()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    };
    Err(message)
}
