//! The two locks as one, and the data that they protect.

use std::sync::Arc;

use loco::fabric::{NodeId, Time};
use loco::fence::Scope;
use loco::{
    LockConfig, LockGuard, Manager, Result, SharedRegion, SharedVar, TasLock, Thread, TicketLock, Unlock,
};

use crate::methods::did;
use crate::stage::Fabric;

/// The operations that the worlds need of either lock.
pub(super) trait Lock: Unlock<Fabric> + Sized + Send + Sync + 'static {
    fn new(manager: &Manager<Fabric>, home: NodeId, config: LockConfig) -> Result<Self>;
    fn lock<'a>(&'a self, thread: &'a Thread<Fabric>, scope: Scope) -> Result<LockGuard<'a, Self, Fabric>>;
    fn lock_until<'a>(
        &'a self,
        thread: &'a Thread<Fabric>,
        scope: Scope,
        deadline: Time,
    ) -> Result<LockGuard<'a, Self, Fabric>>;
    fn try_lock<'a>(
        &'a self,
        thread: &'a Thread<Fabric>,
        scope: Scope,
    ) -> Result<Option<LockGuard<'a, Self, Fabric>>>;
}

impl Lock for TicketLock<Fabric> {
    fn new(manager: &Manager<Fabric>, home: NodeId, config: LockConfig) -> Result<Self> {
        TicketLock::with_config(manager, "lock", home, config)
    }

    fn lock<'a>(&'a self, thread: &'a Thread<Fabric>, scope: Scope) -> Result<LockGuard<'a, Self, Fabric>> {
        did("TicketLock::lock");
        self.lock(thread, scope)
    }

    fn lock_until<'a>(
        &'a self,
        thread: &'a Thread<Fabric>,
        scope: Scope,
        deadline: Time,
    ) -> Result<LockGuard<'a, Self, Fabric>> {
        did("TicketLock::lock_until");
        self.lock_until(thread, scope, deadline)
    }

    fn try_lock<'a>(
        &'a self,
        thread: &'a Thread<Fabric>,
        scope: Scope,
    ) -> Result<Option<LockGuard<'a, Self, Fabric>>> {
        did("TicketLock::try_lock");
        self.try_lock(thread, scope)
    }
}

impl Lock for TasLock<Fabric> {
    fn new(manager: &Manager<Fabric>, home: NodeId, config: LockConfig) -> Result<Self> {
        TasLock::with_config(manager, "lock", home, config)
    }

    fn lock<'a>(&'a self, thread: &'a Thread<Fabric>, scope: Scope) -> Result<LockGuard<'a, Self, Fabric>> {
        did("TasLock::lock");
        self.lock(thread, scope)
    }

    fn lock_until<'a>(
        &'a self,
        thread: &'a Thread<Fabric>,
        scope: Scope,
        deadline: Time,
    ) -> Result<LockGuard<'a, Self, Fabric>> {
        did("TasLock::lock_until");
        self.lock_until(thread, scope, deadline)
    }

    fn try_lock<'a>(
        &'a self,
        thread: &'a Thread<Fabric>,
        scope: Scope,
    ) -> Result<Option<LockGuard<'a, Self, Fabric>>> {
        did("TasLock::try_lock");
        self.try_lock(thread, scope)
    }
}

pub(super) struct Objects<L> {
    pub(super) lock: L,
    /// The data is shared, so that sections that run on other threads can own a handle.
    pub(super) data: Arc<SharedRegion<Fabric>>,
    pub(super) flag: SharedVar<u64, Fabric>,
}

pub(super) fn make<L: Lock>(
    home: u16,
    config: LockConfig,
) -> impl Fn(&Manager<Fabric>) -> Result<Objects<L>> + Clone + Send {
    move |manager| {
        Ok(Objects {
            lock: L::new(manager, NodeId(home), config)?,
            data: Arc::new(SharedRegion::new(manager, "data", 64)?),
            flag: SharedVar::new(manager, "flag")?,
        })
    }
}

/// Checks that the numbers that holders found are all those from 0, each once: no holder overwrote another's number,
/// or missed it.
pub(crate) fn distinct(lines: &[String], what: &str, count: Option<u64>) {
    let mut found: Vec<u64> = lines
        .iter()
        .filter_map(|line| line.strip_prefix(what)?.trim().parse().ok())
        .collect();
    found.sort_unstable();
    let expected: Vec<u64> = (0..found.len() as u64).collect();
    assert_eq!(
        found, expected,
        "each holder sees what the one before it did ({what})"
    );
    if let Some(count) = count {
        assert_eq!(found.len() as u64, count, "every thread got the lock");
    }
}
