//! The checks of a fabric for networks: its library, its device or provider, and a read through it.

use std::time::Duration;

use loco::fabric::ofi::{self, OfiConfig, OfiFabric};
use loco::fabric::verbs::{self, Check, VerbsConfig, Verdict, check_host, choose};
use loco::fabric::{
    Caps, Completion, CompletionStatus, Fabric, FabricError, Mesh, Order, Peers, Platform as _, Posted,
    QueuePair as _, TcpConfig, TcpFabric, Wait, Work, WorkRequestId,
};

/// Checks what verbs needs.
pub(super) fn check_verbs(config: &VerbsConfig) -> (Vec<Check>, Option<Order>) {
    let first = choose(config).ok().and_then(|choices| choices.into_iter().next());
    let order = first.map(|choice| verbs::order(config, &choice));
    (check_host(config), order)
}

/// Checks what libfabric needs, each time as far as the check before allows.
pub(super) fn check_ofi(config: OfiConfig) -> (Vec<Check>, Option<Order>) {
    let library = ofi::library_version().map(|version| format!("libfabric {version}"));
    let usable = library
        .as_ref()
        .map_err(Clone::clone)
        .and_then(|_| ofi::usable(&config));
    let order = usable.as_ref().ok().map(|provider| provider.mapping.order());
    let provider =
        usable.map(|provider| format!("{} on {}: {}", provider.name, provider.domain, provider.mapping));
    let ordered = match (&order, &provider) {
        (Some(order), _) => Ok(order.to_string()),
        (None, missing) => missing.clone(),
    };
    let read = provider.as_ref().map_err(Clone::clone).and_then(|provider| {
        read_through(|mesh| OfiFabric::new(mesh, config.clone()))?;
        let name = provider.split(" on ").next().unwrap_or(provider);
        Ok(format!("done, through {name}"))
    });
    let results = [
        ("library", library),
        ("provider", provider),
        ("order", ordered),
        ("read between two nodes", read),
    ];
    (checks(results), order)
}

/// Checks what TCP needs.
pub(super) fn check_tcp(config: TcpConfig) -> (Vec<Check>, Option<Order>) {
    let read = read_through(|mesh| TcpFabric::new(mesh, config.clone()));
    let order = read.as_ref().ok().map(|caps| caps.order);
    let ordered = read
        .as_ref()
        .map(|caps| caps.order.to_string())
        .map_err(Clone::clone);
    let done = read.map(|_| match config.encrypt {
        true => "done, through an encrypted connection".to_owned(),
        false => "done, through a connection".to_owned(),
    });
    (
        checks([("read between two nodes", done), ("order", ordered)]),
        order,
    )
}

/// Returns the checks with these results, each of which needs the ones before.
pub(super) fn checks<const N: usize>(results: [(&str, Result<String, FabricError>); N]) -> Vec<Check> {
    let mut failed = false;
    let check = |(name, result): (&str, Result<String, FabricError>)| {
        let (verdict, found) = match result {
            Ok(found) => (Verdict::Ok, found),
            Err(_) if failed => (Verdict::Skipped, "not tried".to_owned()),
            Err(error) => (Verdict::Failed, error.to_string()),
        };
        failed |= verdict == Verdict::Failed;
        Check {
            name: name.to_owned(),
            verdict,
            found,
            remedy: None,
        }
    };
    results.into_iter().map(check).collect()
}

/// Brings two nodes up in this process, and lets one read the other's memory: a node's operations on its own memory need no
/// network. Returns what the fabric can do.
pub(super) fn read_through<F: Fabric>(
    up: impl Fn(Mesh) -> Result<F, FabricError> + Sync,
) -> Result<Caps, FabricError> {
    let mut meshes = Mesh::in_process(2)?.into_iter();
    let mut open = || {
        let mesh = meshes
            .next()
            .ok_or_else(|| FabricError::Config("a job of too few nodes".to_owned()));
        let up = &up;
        move || up(mesh?)
    };
    let (first, second) = (open(), open());
    let (fabric, peer) = std::thread::scope(|scope| {
        let second = scope.spawn(second);
        let panicked = |_| Err(FabricError::Config("the second node panicked".to_owned()));
        (first(), second.join().unwrap_or_else(panicked))
    });
    let (fabric, peer) = (fabric?, peer?);
    let mut qp = fabric.queue_pair(peer.node())?;
    if qp.flush(Work::signaled(WorkRequestId(0)))? == Posted::Done {
        return Ok(fabric.caps().clone());
    }
    let mut completions: Vec<Completion> = Vec::new();
    let wait = Wait {
        what: "a read of another node's memory through the network",
        peers: Peers::None,
        deadline: Some(fabric.platform().now().after(Duration::from_secs(10))),
    };
    let polled = fabric.wait(wait, || match fabric.poll(&mut completions) {
        Err(error) => Some(Err(error)),
        Ok(_) => completions.pop().map(Ok),
    })?;
    match polled?.status {
        CompletionStatus::Success => Ok(fabric.caps().clone()),
        CompletionStatus::Failed(error) => Err(*error),
    }
}
