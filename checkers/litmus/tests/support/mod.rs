//! Jobs whose nodes are threads of the test's process.

#![allow(dead_code, clippy::unwrap_used)] // Each test file uses a part.

use std::collections::BTreeSet;

use loco_fabric::{Atomicity, Fabric, NodeId, Std, Tier};
use loco_host::HugePages;
use loco_job::Mesh;
use loco_litmus::oracle::Oracle;
use loco_litmus::{Error, Listener, Plan, Record, Result, Strategy, Test, run, test};
use loco_ofi::{OfiConfig, OfiFabric, usable};
use loco_shm::{ShmConfig, ShmFabric};
use loco_tcp::{TcpConfig, TcpFabric};
use loco_test_networks::altered::{AlteredDevice, Limits};
use loco_test_networks::deferred::{Deferred, Nic};
use loco_test_networks::weak::{Orders, WeakProvider};
use loco_verbs::{VerbsConfig, VerbsFabric};

/// Keeps what a job hands on.
#[derive(Default)]
pub struct Kept {
    pub records: Vec<Record>,
    pub refused: Vec<String>,
}

impl Listener for Kept {
    fn record(&mut self, record: Record) -> Result<()> {
        self.records.push(record);
        Ok(())
    }

    fn refused(&mut self, test: &Test, why: &str) -> Result<()> {
        self.refused.push(format!("{}: {why}", test.name));
        Ok(())
    }
}

/// Returns a deferred NIC with short delays: weak outcomes come from the choice among steps.
pub fn deferred(seed: u64) -> Nic {
    Nic {
        delay_max: std::time::Duration::ZERO,
        ..Nic::deferred(seed)
    }
}

fn up<F: Send>(nodes: usize, one: impl Fn(Mesh) -> F + Sync) -> Vec<F> {
    let one = &one;
    std::thread::scope(|scope| {
        let ups: Vec<_> = Mesh::in_process(nodes)
            .unwrap()
            .into_iter()
            .map(|mesh| scope.spawn(move || one(mesh)))
            .collect();
        ups.into_iter().map(|up| up.join().unwrap()).collect()
    })
}

/// Returns nodes on shared memory, with a deferred NIC or without.
pub fn shm(nodes: usize, nic: Option<Nic>) -> Vec<Deferred<ShmFabric>> {
    let config = ShmConfig::default()
        .arena_bytes(16 << 20)
        .memory_limit_bytes(64 << 20)
        .huge_pages(HugePages::Never);
    up(nodes, |mesh| {
        let inner = ShmFabric::new(mesh, config.clone()).unwrap();
        Deferred::new(inner, nic.as_ref()).unwrap()
    })
}

/// Returns nodes on TCP connections of this host.
pub fn tcp(nodes: usize) -> Vec<TcpFabric> {
    let config = TcpConfig::default().huge_pages(HugePages::Never);
    up(nodes, |mesh| TcpFabric::new(mesh, config.clone()).unwrap())
}

/// Returns nodes on the device of `loco nic` as it is without stress.
pub fn plain(nodes: usize) -> Vec<VerbsFabric> {
    on_device(nodes, AlteredDevice::new(Limits::default()), None)
}

/// Returns nodes on a device, whose order is known or as a setting says.
pub fn on_device(nodes: usize, device: AlteredDevice, order: Option<Tier>) -> Vec<VerbsFabric> {
    let config = VerbsConfig::default()
        .provider(device.provider())
        .order(order)
        .arena_bytes(16 << 20)
        .memory_limit_bytes(64 << 20)
        .huge_pages(HugePages::Never);
    up(nodes, |mesh| VerbsFabric::new(mesh, config.clone()).unwrap())
}

/// Returns nodes on the device that the libraries have, whose order is known or as a setting says.
pub fn verbs(nodes: usize, order: Option<Tier>) -> Vec<VerbsFabric> {
    let config = VerbsConfig::default()
        .order(order)
        .arena_bytes(16 << 20)
        .memory_limit_bytes(64 << 20)
        .huge_pages(HugePages::Never);
    up(nodes, |mesh| VerbsFabric::new(mesh, config.clone()).unwrap())
}

/// Returns true if this host can use libfabric. Reports otherwise that a test is skipped.
pub fn has_libfabric() -> bool {
    match usable(&WeakProvider::honest(0, Orders::NONE).config()) {
        Ok(_) => true,
        Err(error) => {
            loco_testing::skipped("OFI", error);
            false
        }
    }
}

/// Returns nodes on libfabric.
pub fn ofi(nodes: usize, config: &OfiConfig) -> Vec<OfiFabric> {
    up(nodes, |mesh| OfiFabric::new(mesh, config.clone()).unwrap())
}

/// Returns the plan of so many runs of each test, with delays between operations for odd seeds.
pub fn plan(runs: u64, seed: u64) -> Plan {
    Plan {
        runs,
        batch: 50,
        stress: match seed % 2 {
            0 => Strategy::None,
            _ => Strategy::Fixed("delay=between:4".parse().unwrap()),
        },
        seed,
        ..Plan::default()
    }
}

/// Runs the tests on these nodes and returns what the leader handed on.
pub fn job<F: Fabric<Control = Mesh, Platform = Std>>(fabrics: Vec<F>, tests: &[Test], plan: &Plan) -> Kept {
    let mut kept = Kept::default();
    job_for(fabrics, tests, plan, &mut kept);
    kept
}

/// Runs the tests on these nodes for a listener.
pub fn job_for<F: Fabric<Control = Mesh, Platform = Std>>(
    fabrics: Vec<F>,
    tests: &[Test],
    plan: &Plan,
    listener: &mut dyn Listener,
) {
    std::thread::scope(|scope| {
        let mut fabrics = fabrics.into_iter();
        let leader = fabrics.next().unwrap();
        for fabric in fabrics {
            scope.spawn(move || run(fabric, tests, plan, &mut Kept::default()).unwrap());
        }
        run(leader, tests, plan, listener).unwrap();
    });
}

/// Runs a job of two nodes, of which the second is cut off in the middle, and returns the leader's error.
pub fn job_with_a_loss(fabrics: Vec<Deferred<ShmFabric>>, tests: &[Test], plan: &Plan) -> Error {
    /// Cuts the second node off when the leader has made some batches.
    struct Cut(Mesh, std::cell::Cell<u32>);
    impl Listener for Cut {
        fn record(&mut self, _: Record) -> Result<()> {
            Ok(())
        }

        fn is_stopped(&self) -> bool {
            self.1.set(self.1.get() + 1);
            if self.1.get() == 10 {
                self.0.fail();
            }
            false
        }
    }
    let [leader, other] = <[Deferred<ShmFabric>; 2]>::try_from(fabrics).unwrap();
    assert_eq!(other.node(), NodeId(1));
    std::thread::scope(|scope| {
        let mesh = other.mesh().clone();
        scope.spawn(move || run(other, tests, plan, &mut Kept::default()).unwrap_err());
        run(leader, tests, plan, &mut Cut(mesh, 0.into())).unwrap_err()
    })
}

/// Starts two nodes with different tests and returns the leader's error.
pub fn job_with_other_tests(fabrics: Vec<Deferred<ShmFabric>>, plan: &Plan) -> Error {
    let [leader, other] = <[Deferred<ShmFabric>; 2]>::try_from(fabrics).unwrap();
    let load = |name: &str| test::load(&[name.to_owned()]).unwrap().tests;
    std::thread::scope(|scope| {
        scope.spawn(move || run(other, &load("SB2"), plan, &mut Kept::default()).unwrap_err());
        run(leader, &load("SB1"), plan, &mut Kept::default()).unwrap_err()
    })
}

/// The tests of `litmus/ordering`.
pub fn ordering() -> Vec<Test> {
    test::load(&["ordering".to_owned()]).unwrap().tests
}

/// Returns whether the outcome that a test asks for was seen.
pub fn is_seen(record: &Record) -> bool {
    record.witnesses(&record.litmus().unwrap())[0].0 > 0
}

/// Returns the names of the tests whose outcome a tier allows, on a fabric that treats all memory alike.
pub fn allowed(tests: &[Test], tier: Tier) -> BTreeSet<String> {
    let oracle = oracle(tier, Atomicity::Glob);
    let is_allowed = |test: &&Test| {
        let wanted = &test.litmus.queries[0].condition.formula;
        let allowed = oracle.ask(&test.litmus.program);
        assert!(allowed.complete, "{}", test.name);
        allowed.outcomes.iter().any(|outcome| wanted.holds(outcome))
    };
    tests
        .iter()
        .filter(is_allowed)
        .map(|test| test.name.clone())
        .collect()
}

/// Returns the tests that have a meaning on fabrics of a tier: regions of relaxed ordering are on one tier alone.
pub fn tests_of(tier: Tier) -> Vec<Test> {
    let mut tests = ordering();
    if tier != Tier::PcieRelaxed {
        tests.retain(|test| {
            test.litmus
                .program
                .locations
                .iter()
                .all(|location| !location.relaxed)
        });
    }
    tests
}

/// Returns the oracle of a network of a tier that treats all memory alike.
fn oracle(tier: Tier, atomicity: Atomicity) -> Oracle {
    Oracle {
        tier: tier.name().parse().unwrap(),
        ..Oracle::new(None, atomicity)
    }
}

/// Fails if a test hung or showed what a network of this tier forbids, whatever the fabric says of itself.
pub fn nothing_forbidden_on(tier: Tier, atomicity: Atomicity, records: &[Record]) {
    let oracle = oracle(tier, atomicity);
    for record in records {
        assert_eq!(record.hung, None, "{}", record.test);
        let litmus = record.litmus().unwrap();
        let allowed = oracle.ask(&litmus.program);
        for state in record.states.iter().filter(|state| state.count > 0) {
            assert_eq!(state.inlined, 0, "judged as it was run");
            let is_allowed = allowed
                .outcomes
                .contains(&Record::outcome(&litmus.program, state));
            assert!(
                is_allowed || !allowed.complete,
                "{tier} forbids {}:\n{}",
                state.state,
                record.histogram().unwrap()
            );
        }
    }
}

/// Fails if a test was not judged, hung, or showed what its model forbids.
pub fn nothing_forbidden(records: &[Record]) {
    for record in records {
        assert!(record.judged, "{}", record.test);
        assert!(!record.is_violated(), "{}", record.histogram().unwrap());
        assert_eq!(record.hung, None, "{}", record.test);
    }
}

/// Counts the weak outcomes that rounds of runs have shown.
pub struct Rounds {
    /// The number of tests whose outcome the tier allows and the fabric can show.
    weak: usize,
    /// Those of them that have not shown it.
    pub unseen: BTreeSet<String>,
    /// The number of runs, and of those that showed the outcome.
    made: u64,
    seen: u64,
}

impl Rounds {
    /// Returns the share of the weak outcomes that were seen, in percent.
    pub fn percent(&self) -> usize {
        100 * (self.weak - self.unseen.len()) / self.weak
    }
}

/// Runs tests on the nodes of each round until each test whose outcome the tier allows has shown it, for so many rounds at most.
/// All are run once; then those that have not shown their outcome. Prints what was seen. Fails if a test shows what is forbidden.
pub fn until_shown<F: Fabric<Control = Mesh, Platform = Std>>(
    nodes: impl Fn(u64) -> Vec<F>,
    tests: &[Test],
    tier: Tier,
    (rounds, runs): (u64, u64),
) -> Rounds {
    let mut unseen = allowed(tests, tier);
    unseen.retain(|name| shows(tier, name));
    let mut found = Rounds {
        weak: unseen.len(),
        unseen,
        made: 0,
        seen: 0,
    };
    for round in 0..rounds {
        let is_due = |test: &&Test| round == 0 || found.unseen.contains(&test.name);
        let these: Vec<Test> = tests.iter().filter(is_due).cloned().collect();
        if these.is_empty() {
            break;
        }
        let kept = job(nodes(round), &these, &plan(runs, round + 1));
        nothing_forbidden(&kept.records);
        for record in &kept.records {
            found.made += record.runs;
            found.seen += record.witnesses(&record.litmus().unwrap())[0].0;
            if is_seen(record) {
                found.unseen.remove(&record.test);
            }
        }
    }
    println!(
        "{tier}: {} tests, {} weak outcomes that the tier allows, {} seen, {} times in {} runs; not {:?}",
        tests.len(),
        found.weak,
        found.weak - found.unseen.len(),
        found.seen,
        found.made,
        found.unseen
    );
    found
}

/// Tests that wait for a get behind a put. Their models let the get complete first. Every fabric completes operations in order, so
/// the wait is one for the put as well, after which a bus that keeps its order is enough.
const BY_COMPLETION_IN_ORDER: [&str; 2] = ["MP+put-get-put+wait", "MP+put-get-put+strong-wait"];

/// Returns whether a fabric that completes operations in order can show the weak outcome of a test that its tier allows.
pub fn shows(tier: Tier, test: &str) -> bool {
    let bus_keeps_order = matches!(tier, Tier::OooRw | Tier::OooAll);
    !(bus_keeps_order && BY_COMPLETION_IN_ORDER.contains(&test))
}
