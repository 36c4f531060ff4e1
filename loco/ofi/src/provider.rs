//! The providers of this host: libfabric's offers, the mapping of the contract to each, and the choice of one.
//!
//! Relies on `ffi` and `order`. Used by `port`, which opens the one that is taken, and by `loco doctor` and `loco fabrics`.

use std::ffi::{CStr, CString, c_char};
use std::ptr::{self, NonNull};

use loco_fabric::{FabricError, Result};

use crate::config::{Library, OfiConfig};
use crate::ffi::types::*;
use crate::ffi::{Api, system};
use crate::order::{Attributes, Mapping};

/// The version of libfabric's interface that this crate is written for.
const INTERFACE: u32 = 1 << 16 | 17;

/// The longest piece of an operation, in bytes. A provider may set a shorter limit for its atomics.
pub(crate) const PIECE_BYTES_MAX: usize = 8192;

/// Providers by which remote memory is accessed without the peer's CPU. `auto` prefers them to shared memory.
const RDMA: [&str; 5] = ["verbs", "cxi", "efa", "psm3", "opx"];

/// An offer of libfabric: one provider, domain and address.
pub(crate) struct Offer {
    pub(crate) api: &'static Api,
    info: NonNull<Info>,
}

// SAFETY: the structure is ours alone, and nothing in it belongs to a thread.
unsafe impl Send for Offer {}
// SAFETY: as above; it does not change while shared.
unsafe impl Sync for Offer {}

/// A provider as users see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfiProvider {
    /// The name, with the layers of libfabric above it: `tcp;ofi_rxm`.
    pub name: String,
    /// The device or interface.
    pub domain: String,
    /// Whether the peer's process must take part in every operation. A thread of each node then does.
    pub manual_progress: bool,
    /// Whether remote memory is accessed without the peer's CPU.
    pub rdma: bool,
    /// The mapping of the contract: which orders the provider gives, and which are bought by waiting.
    pub mapping: Mapping,
}

/// Returns the library's table.
///
/// # Errors
/// Returns [`FabricError::Config`] with the remedy where the library is missing.
fn api(library: Library) -> Result<&'static Api> {
    if let Library::Given(api) = library {
        return Ok(api);
    }
    system().map_err(|error| {
        FabricError::Config(format!(
            "libfabric cannot be used: {error}; install it (Debian, Ubuntu: `apt install libfabric1`; Fedora, RHEL: \
             `dnf install libfabric`)"
        ))
    })
}

/// Returns the version of the host's libfabric (`1.17`).
///
/// # Errors
/// Returns [`FabricError::Config`] where the library is missing.
pub fn library_version() -> Result<String> {
    let api = api(Library::System)?;
    // SAFETY: no preconditions.
    let version = unsafe { (api.version)() };
    Ok(format!("{}.{}", version >> 16, version & 0xffff))
}

/// Returns the usable offers of this host's libfabric, best first.
///
/// # Errors
/// Returns [`FabricError::Config`], which says what is missing and what to do.
pub fn providers(config: &OfiConfig) -> Result<Vec<OfiProvider>> {
    Ok(offers(config)?
        .iter()
        .filter(|offer| faulty(&offer.name()).is_none())
        .map(|offer| offer.describe(config))
        .collect())
}

/// Fails unless a node with this configuration could come up here. Returns the provider that it would take.
///
/// # Errors
/// Returns [`FabricError::Config`], which says what is missing and what to do.
pub fn usable(config: &OfiConfig) -> Result<OfiProvider> {
    let offer = choose(config)?;
    Ok(offer.describe(config))
}

/// Returns the first provider for networks that works without the peer's CPU, if there is one that can be used.
///
/// # Errors
/// Returns [`FabricError::Config`] if there is none.
pub fn usable_rdma(config: &OfiConfig) -> Result<OfiProvider> {
    providers(config)?
        .into_iter()
        .find(|provider| provider.rdma)
        .ok_or_else(|| FabricError::Config("libfabric has no provider for an RDMA device here".to_owned()))
}

/// Returns the offer that a node with this configuration takes.
pub(crate) fn choose(config: &OfiConfig) -> Result<Offer> {
    let mut refused = Vec::new();
    for offer in offers(config)? {
        if let Some(why) = faulty(&offer.name()) {
            refused.push(format!("{}: {why}", offer.name()));
            continue;
        }
        if !offer.mapping(config).needs_delivery() || offer.has_delivery_complete(config) {
            return Ok(offer);
        }
        refused.push(format!(
            "{}: it neither keeps the order of operations nor reports when they are placed (FI_DELIVERY_COMPLETE)",
            offer.name()
        ));
    }
    Err(FabricError::Config(refused.join("; ")))
}

/// Returns the reason that a provider is refused although its attributes would do.
fn faulty(provider: &str) -> Option<&'static str> {
    let core = provider.split(';').next().unwrap_or(provider);
    (core == "shm").then_some(
        "with libfabric 1.17 it mixes up the data of atomic writes that are to be delivered, and when a process is lost the \
         operations of the others do not end (docs/networks.md); the fabric `shm` joins the processes of a host",
    )
}

/// Returns all offers, those over a loopback address of IPv4 or any address of IPv6 last. Unless a provider is named,
/// those of RDMA devices come first, and emulations and test aids are left out (see `any_provider` of [`OfiConfig`]).
fn offers(config: &OfiConfig) -> Result<Vec<Offer>> {
    let api = api(config.library)?;
    let list = ask(api, config, 0).map_err(|error| {
        let what = config.provider.as_deref().unwrap_or("any provider");
        let at = config
            .address
            .as_deref()
            .map(|address| format!(" at {address}"))
            .unwrap_or_default();
        FabricError::Config(format!(
            "libfabric offers no endpoint of {what}{at} with remote memory access and atomics ({error}); `fi_info -l` \
             lists its providers, and `loco fabrics` those that can be used"
        ))
    })?;
    let mut offers = list;
    if config.provider.is_none() && !config.any_provider {
        // The remaining providers are emulations and test aids, which are taken by name only.
        offers.retain(|offer| offer.is_rdma() || offer.name().starts_with("tcp"));
    }
    offers.sort_by_key(|offer| (config.provider.is_none() && !offer.is_rdma(), offer.is_local()));
    Ok(offers)
}

/// Asks libfabric for its offers.
fn ask(api: &'static Api, config: &OfiConfig, op_flags: u64) -> std::io::Result<Vec<Offer>> {
    let invalid = |_| std::io::Error::from(std::io::ErrorKind::InvalidInput);
    let provider = config.provider.as_deref().map(CString::new);
    let provider = provider.transpose().map_err(invalid)?;
    // The shared-memory provider takes an address for a name.
    let over_ip = !config
        .provider
        .as_deref()
        .is_some_and(|name| name.starts_with("shm"));
    let address = config
        .address
        .as_deref()
        .filter(|_| over_ip)
        .map(CString::new)
        .transpose()
        .map_err(invalid)?;
    // SAFETY: null asks for an empty structure with all its parts.
    let hints = unsafe { (api.dupinfo)(ptr::null()) };
    let hints = NonNull::new(hints).ok_or(std::io::ErrorKind::OutOfMemory)?;
    let hints = Offer { api, info: hints };
    // SAFETY: `fi_dupinfo` gives every part, and they are ours alone.
    unsafe {
        let info = hints.info.as_ptr();
        (*info).caps = FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
        (*info).mode = FI_CONTEXT | FI_CONTEXT2;
        (*(*info).ep_attr).ep_type = FI_EP_RDM;
        (*(*info).tx_attr).op_flags = op_flags;
        (*(*info).domain_attr).threading = FI_THREAD_DOMAIN;
        (*(*info).domain_attr).mr_mode =
            FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
        if let Some(provider) = &provider {
            // Freed with the rest by `fi_freeinfo`, hence from C's allocator.
            (*(*info).fabric_attr).prov_name = libc::strdup(provider.as_ptr());
        }
    }
    let mut list = ptr::null_mut();
    // SAFETY: the hints are complete; the strings are C strings or null.
    let status = unsafe {
        (api.getinfo)(
            INTERFACE,
            address.as_ref().map_or(ptr::null(), |address| address.as_ptr()),
            ptr::null(),
            if address.is_some() { FI_SOURCE } else { 0 },
            hints.info.as_ptr(),
            &raw mut list,
        )
    };
    api.ok(status)?;
    let mut offers = Vec::new();
    let mut at = list;
    while let Some(info) = NonNull::new(at) {
        // SAFETY: an entry of the list; the copy is ours.
        unsafe {
            at = (*info.as_ptr()).next;
            if let Some(copy) = NonNull::new((api.dupinfo)(info.as_ptr())) {
                let offer = Offer { api, info: copy };
                if offer.is_complete() {
                    offers.push(offer);
                }
            }
        }
    }
    // SAFETY: the list is libfabric's, and nothing points to it any more.
    unsafe { (api.freeinfo)(list) };
    if offers.is_empty() {
        return Err(std::io::ErrorKind::NotFound.into());
    }
    Ok(offers)
}

impl Offer {
    /// Returns the structure, for libfabric's functions.
    pub(crate) fn info(&self) -> *mut Info {
        self.info.as_ptr()
    }

    fn is_complete(&self) -> bool {
        // SAFETY: the structure is live.
        let info = unsafe { self.info.as_ref() };
        !info.tx_attr.is_null()
            && !info.rx_attr.is_null()
            && !info.ep_attr.is_null()
            && !info.domain_attr.is_null()
            && !info.fabric_attr.is_null()
    }

    pub(crate) fn tx(&self) -> &TxAttr {
        // SAFETY: live and complete, see `is_complete`; so are those below.
        unsafe { &*self.info.as_ref().tx_attr }
    }

    pub(crate) fn rx(&self) -> &RxAttr {
        // SAFETY: as for `tx`.
        unsafe { &*self.info.as_ref().rx_attr }
    }

    fn ep(&self) -> &EpAttr {
        // SAFETY: as for `tx`.
        unsafe { &*self.info.as_ref().ep_attr }
    }

    pub(crate) fn domain(&self) -> &DomainAttr {
        // SAFETY: as for `tx`.
        unsafe { &*self.info.as_ref().domain_attr }
    }

    /// Returns true if the registration mode asks for `bits`.
    pub(crate) fn registers_with(&self, bits: i32) -> bool {
        let mode = self.domain().mr_mode;
        mode & bits != 0
            || mode & FI_MR_BASIC != 0 && bits & (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY) != 0
    }

    /// Returns the provider's name.
    pub(crate) fn name(&self) -> String {
        // SAFETY: as for `tx`.
        unsafe { text((*self.info.as_ref().fabric_attr).prov_name) }
    }

    fn is_rdma(&self) -> bool {
        let name = self.name();
        RDMA.contains(&name.split(';').next().unwrap_or_default())
    }

    /// Returns true for an address that is taken last: a loopback address of IPv4, which other hosts cannot reach, or
    /// any address of IPv6.
    fn is_local(&self) -> bool {
        // SAFETY: live; the address has the length given.
        unsafe {
            let info = self.info.as_ref();
            let at = info.src_addr.cast::<libc::sockaddr>();
            if at.is_null() || info.src_addrlen < size_of::<libc::sockaddr>() {
                return false;
            }
            match i32::from(at.read_unaligned().sa_family) {
                libc::AF_INET => {
                    at.cast::<libc::sockaddr_in>()
                        .read_unaligned()
                        .sin_addr
                        .s_addr
                        .to_ne_bytes()[0]
                        == 127
                }
                // Addresses of IPv6 are taken after all of IPv4.
                libc::AF_INET6 => true,
                _ => false,
            }
        }
    }

    pub(crate) fn mapping(&self, config: &OfiConfig) -> Mapping {
        let ep = self.ep();
        let attributes = Attributes {
            provider: self.name(),
            msg_order: self.tx().msg_order & self.rx().msg_order,
            raw_bytes_max: ep.max_order_raw_size,
            war_bytes_max: ep.max_order_war_size,
            waw_bytes_max: ep.max_order_waw_size,
        };
        Mapping::of(&attributes, config.trust, PIECE_BYTES_MAX)
    }

    /// Returns true if the provider can say that an operation is placed.
    fn has_delivery_complete(&self, config: &OfiConfig) -> bool {
        let config = config.clone().provider(Some(self.name()));
        ask(self.api, &config, FI_DELIVERY_COMPLETE).is_ok()
    }

    /// Returns true if the peer's process must take part in every operation.
    pub(crate) fn manual_progress(&self) -> bool {
        self.domain().data_progress != FI_PROGRESS_AUTO
    }

    pub(crate) fn describe(&self, config: &OfiConfig) -> OfiProvider {
        OfiProvider {
            name: self.name(),
            // SAFETY: null or a C string.
            domain: unsafe { text(self.domain().name) },
            manual_progress: self.manual_progress(),
            rdma: self.is_rdma(),
            mapping: self.mapping(config),
        }
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        // SAFETY: made by `fi_dupinfo`, and freed once.
        unsafe { (self.api.freeinfo)(self.info.as_ptr()) };
    }
}

/// Copies a C string, or returns an empty string for null.
///
/// # Safety
/// Null, or a C string.
unsafe fn text(at: *const c_char) -> String {
    if at.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned()
}
