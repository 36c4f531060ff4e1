//! Counts the round trips of each call of each object on each kind of network, and holds `docs/round-trips.md` to them.
//!
//! [`trips`](crate::trips) says what is counted. The nodes run in step: a thread that waits hears of everything that it has under
//! way at once, so the counts are those of a network on which each batch takes the same time, and are the same in each run.

use std::fmt::Write as _;
use std::sync::atomic::Ordering::SeqCst;

use crate::calls::{CALLS, Objects, calls, counted};
use crate::common::{ALL, Cluster, on_device};
use crate::trips::Trips;
use loco::fabric::{Caps, Cost, Fabric as _};
use loco::{Log, LogConfig, Result, fence};

/// The document. It is part of the program, which may run in a virtual machine that has no sources.
const PAGE: &str = include_str!("../../../../docs/round-trips.md");
/// The first column of the table's head.
const HEAD: &str = "| call |";

/// The calls that make atomics on a node's own words, and what they take on [`Cluster::Verbs`], where the NIC makes these, too: a round
/// trip each. The table is of networks that make them without the NIC, as [`Cluster::VerbsGlob`] does.
const OWN_ATOMICS: [(&str, &str); 5] = [
    ("queue: push", "6"),
    ("kv: insert_many, 8 keys", "28 + 1"),
    ("kv: update", "7"),
    ("kv: 8 update_start, and their waits", "18"),
    ("kv: update_many, 8 keys", "18"),
];

/// The kinds of networks, in the order of the table's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Operations are done when they are posted.
    AtOnce,
    /// Order costs nothing.
    InOrder,
    /// The card obeys a flag that asks for order.
    ByFlag,
    /// The fabric waits for earlier operations where order is asked for.
    ByWait,
}

impl Kind {
    fn of(caps: &Caps) -> Kind {
        match caps.order.strong {
            _ if caps.synchronous => Kind::AtOnce,
            Cost::Free => Kind::InOrder,
            Cost::Flag => Kind::ByFlag,
            Cost::Wait | Cost::Read | Cost::WaitAndRead => Kind::ByWait,
        }
    }
}

/// Shows round trips as the table does.
fn cell(trips: Trips) -> String {
    let own = trips.own + trips.bought;
    match trips.others {
        0 => own.to_string(),
        others => format!("{own} + {others}"),
    }
}

/// Returns whether a call may take so many round trips on a device, where the table says `says`. It may have to make atomics on a
/// node's own words itself (see [`OWN_ATOMICS`]).
fn may_be_of_device(says: &str, trips: Trips) -> bool {
    let (own, others) = says.split_once(" + ").unwrap_or((says, "0"));
    let least = own.parse().unwrap_or(u64::MAX);
    trips.own + trips.bought >= least && trips.others.to_string() == others
}

/// Returns the most that each call takes on these nodes.
fn measured(cluster: Cluster) -> (Kind, Vec<(&'static str, Trips)>) {
    let mut of_nodes = cluster.run_fabric(2, |inner| {
        let kind = Kind::of(inner.caps());
        let (manager, counts) = counted(inner)?;
        let objects = Objects::new(&manager)?;
        // A leader without a thread that serves others does all by itself, and nothing is left to chance.
        let alone = Log::new(&manager, "alone", LogConfig::new(64, 8).service(false))?;
        let served = Log::new(&manager, "served", LogConfig::new(64, 8))?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        counts.in_step.store(true, SeqCst);
        let mut table = Vec::new();
        let mut row = |name, call: &dyn Fn(u64) -> Result<()>| {
            call(0)?;
            let mut most = Trips::default();
            for n in 1..=CALLS {
                // Nothing is under way when the call begins.
                fence::thread(&thread)?;
                let before = Trips::begin();
                call(n)?;
                most = most.max(Trips::so_far().since(before));
            }
            table.push((name, most));
            Ok(())
        };
        calls(&manager, &thread, &objects, &mut row)?;
        for (log, name, leads) in [
            (&alone, "log: append, on the leader", true),
            (&served, "log: append, elsewhere", false),
        ] {
            if (manager.node() == log.leader()) == leads {
                row(name, &|n| log.append(&thread, &n.to_ne_bytes()).map(drop))?;
            }
            objects.meet(&thread)?;
        }
        row("log: read", &|_| alone.read(&thread).map(drop))?;
        objects.meet(&thread)?;
        // The table of a node has the calls that it made.
        Ok((kind, table))
    });
    let (kind, mut table) = of_nodes.swap_remove(0);
    let (_, others) = of_nodes.swap_remove(0);
    let there: Vec<_> = table.iter().map(|&(name, _)| name).collect();
    table.extend(others.into_iter().filter(|(name, _)| !there.contains(name)));
    (kind, table)
}

/// Returns the rows of the document's table: the call, and the cells.
fn documented() -> Vec<(String, Vec<String>)> {
    let rows = PAGE.lines().skip_while(|line| !line.starts_with(HEAD)).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|line| {
        let mut cells = line
            .trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().to_owned());
        (cells.next().unwrap_or_default(), cells.collect())
    })
    .collect()
}

#[test]
fn each_call_takes_as_many_round_trips_as_the_document_says() {
    let kinds = hold_to_document(ALL);
    // On a device there is one kind of network, whichever it is.
    let all = [Kind::AtOnce, Kind::InOrder, Kind::ByFlag, Kind::ByWait];
    let missing: Vec<_> = all.iter().filter(|kind| !kinds.contains(kind)).collect();
    assert!(
        on_device() || missing.is_empty(),
        "no network was of the kind {missing:?}"
    );
}

/// The column of waits, whole: that of a device on which nodes change their own words without the NIC.
#[test]
fn waits_take_as_many_round_trips_as_the_document_says_where_atomics_are_of_the_cpu_too() {
    // This host's device says itself what its atomics are.
    if on_device() {
        return loco_testing::skipped("DEVICE", "the device is not altered");
    }
    let this =
        "round_trips::waits_take_as_many_round_trips_as_the_document_says_where_atomics_are_of_the_cpu_too";
    if let Some(said) = loco_testing::own_process(this) {
        return print!("{said}");
    }
    assert_eq!(hold_to_document([Cluster::VerbsGlob]), [Kind::ByWait]);
}

/// Fails if a call on one of these networks takes other round trips than the document says. Returns the kinds of the networks.
fn hold_to_document(clusters: impl IntoIterator<Item = Cluster>) -> Vec<Kind> {
    let documented = documented();
    let mut kinds = Vec::new();
    let mut wrong = String::new();
    for cluster in clusters {
        let (kind, table) = measured(cluster);
        kinds.push(kind);
        let names: Vec<_> = table.iter().map(|&(name, _)| name).collect();
        for (name, trips) in &table {
            println!("{cluster:?} {kind:?} {name}: {} {trips:?}", cell(*trips));
            let says = documented.iter().find(|(call, _)| call == name);
            let says = says.and_then(|(_, cells)| cells.get(kind as usize).map(String::as_str));
            let by_nic = matches!(cluster, Cluster::Verbs) && !on_device();
            let own = OWN_ATOMICS.iter().find(|(call, _)| by_nic && call == name);
            let says = own.map(|&(_, says)| says).or(says);
            let fits = says.is_some_and(|says| match on_device() {
                false => says == cell(*trips),
                true => may_be_of_device(says, *trips),
            });
            if !fits {
                let _ = writeln!(
                    wrong,
                    "{name} on {cluster:?} ({kind:?}): {}, documented: {says:?}",
                    cell(*trips)
                );
            }
        }
        let unknown = documented
            .iter()
            .filter(|(call, _)| !names.contains(&call.as_str()));
        for (call, _) in unknown {
            let _ = writeln!(wrong, "{call}: documented, and never called");
        }
    }
    assert!(wrong.is_empty(), "docs/round-trips.md:\n{wrong}");
    kinds
}
