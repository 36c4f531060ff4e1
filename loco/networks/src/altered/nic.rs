//! The NIC of this process, and its functions as the verbs fabric calls them.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::ptr;
use std::sync::OnceLock;

use loco_fabric::Tier;
use loco_verbs::ffi::Api;
use loco_verbs::ffi::types::*;

use super::state::{socket_address, zeroed};

/// The address at which every altered device is reached.
pub(super) const HOST: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// The settings of the NIC of this process, which its first altered device fixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) tier: Tier,
    /// Whether the NIC takes every liberty of the tier, or carries requests out at once and in order.
    pub(super) is_late: bool,
    pub(super) seed: u64,
}

/// The NIC of this process.
pub(super) struct Nic {
    choice: Choice,
    pub(super) api: Api,
    pub(super) context: *mut Context,
}

// SAFETY: the context is never closed, and verbs may be called from every thread.
unsafe impl Send for Nic {}
// SAFETY: as above.
unsafe impl Sync for Nic {}

/// The NIC of this process, or why it does not start: a second try would say something else.
static NIC: OnceLock<Result<Nic, String>> = OnceLock::new();

/// Starts the NIC of this process.
///
/// # Panics
/// Panics if the process has a NIC of another choice already, since it has only one, or if the NIC does not start.
pub(super) fn start(choice: Choice) {
    let nic = NIC.get_or_init(|| started(choice));
    let nic = nic.as_ref().unwrap_or_else(|error| panic!("the NIC: {error}"));
    let (has, wants) = (nic.choice, choice);
    assert_eq!(
        (has.tier, has.is_late),
        (wants.tier, wants.is_late),
        "a process has one NIC"
    );
}

/// Starts the NIC.
fn started(choice: Choice) -> Result<Nic, String> {
    // The system calls such functions in reverse order, so the NIC, which asks later, has removed its files before this one runs.
    // SAFETY: the function takes and returns nothing, and does not unwind.
    unsafe { libc::atexit(remove_world) };
    let is_first = loco_nic::set(|name| match name {
        "LOCO_NIC_WORLD" => Some(world().display().to_string()),
        "LOCO_NIC_TIER" => Some(choice.tier.name().to_owned()),
        "LOCO_NIC_STRESS" => Some(if choice.is_late { "default" } else { "none" }.to_owned()),
        // The verbs fabric relies on it where it buys order of memory that is relaxed (`loco/verbs/src/order.rs`).
        "LOCO_NIC_ATOMICS_PUSH" => Some("1".to_owned()),
        "LOCO_NIC_SEED" => Some(choice.seed.to_string()),
        _ => None,
    });
    if !is_first {
        return Err("something else in this process uses it".to_owned());
    }
    // SAFETY: the library's functions have the signatures of the headers.
    let api = unsafe { Api::of(|symbol| loco_nic::function(symbol.to_str().ok()?)) };
    let api = api.map_err(|error| error.to_string())?;
    let context = context(&api)?;
    Ok(Nic { choice, api, context })
}

/// Returns the folder of this process's NIC, which no other process uses.
fn world() -> PathBuf {
    let of_user = loco_nic::default_world();
    PathBuf::from(format!("{}-test-{}", of_user.display(), std::process::id()))
}

/// Removes that folder when the process ends. A process that is killed leaves it.
extern "C" fn remove_world() {
    let _ = std::fs::remove_dir_all(world());
}

/// Returns the NIC of this process, which has been started.
///
/// # Panics
/// Panics if it was not.
pub(super) fn nic() -> &'static Nic {
    let started = NIC.get().and_then(|nic| nic.as_ref().ok());
    started.unwrap_or_else(|| panic!("a device starts the NIC"))
}

/// Returns the device that identifiers of this host are bound to. The connection manager keeps it open.
fn context(api: &Api) -> Result<*mut Context, String> {
    let mut address = socket_address(HOST, 0);
    let mut id = ptr::null_mut();
    // SAFETY: everything is made here, and given back in reverse order.
    unsafe {
        let channel = (api.create_event_channel)();
        let made = (api.create_id)(channel, &raw mut id, ptr::null_mut(), RDMA_PS_TCP);
        let failed = |what| Err(format!("{what}: {}", std::io::Error::last_os_error()));
        if made != 0 {
            return failed("it has no identifier");
        }
        if (api.bind_addr)(id, (&raw mut address).cast()) != 0 {
            return failed("it does not start");
        }
        let context = (*id).verbs;
        (api.destroy_id)(id);
        (api.destroy_event_channel)(channel);
        Ok(context)
    }
}

/// Returns a copy of the NIC's opened device, with none of its extended operations.
pub(super) fn opened() -> VerbsContext {
    VerbsContext {
        sz: size_of::<VerbsContext>(),
        // SAFETY: the context is open for the life of the process, and its fields do not change.
        context: unsafe { ptr::read(nic().context) },
        ..zeroed()
    }
}
