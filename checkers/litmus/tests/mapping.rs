//! The mapping of the contract to libfabric (`loco-ofi`), on providers that are as weak as their attributes allow, before `tcp`.
//!
//! Where they are honest, nothing forbidden is seen: the mapping buys what they do not keep. Where a provider says more
//! than it keeps, or a program does not ask, the test of each order that is missing shows its forbidden outcome, and the
//! other tests do not.
//!
//! `LOCO_LITMUS_RUNS` sets the runs of each test of the catalogue (default 50); with `--nocapture` the figures of
//! `docs/networks.md` are printed. Without libfabric each test says *skipped*; `LOCO_REQUIRE_OFI` makes that a failure,
//! as `test.sh` does.

#![allow(clippy::unwrap_used)]

mod support;

use loco_host::HugePages;
use loco_litmus::{Plan, Record, Strategy, Test, test};
use loco_ofi::OfiConfig;
use loco_test_networks::weak::{Order, Orders, WeakProvider};
use mowgli::litmus;
use support::{has_libfabric, job, ofi};

/// The tests of the mapping: one for each order of two operations that can be asked for by a strong operation, and some of fenced
/// operations.
const DEMANDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/demanded");

/// The most times that a test is run again until it shows what it must show.
const ROUNDS: u64 = 2000;

fn demanded() -> Vec<Test> {
    test::load(&[DEMANDED.to_owned()]).unwrap().tests
}

/// Returns the tests of the mapping with programs that ask for no order.
fn not_demanded() -> Vec<Test> {
    let stripped = demanded().into_iter().map(|test| {
        let asked = test.litmus.print().replace("strong ", "");
        let lines = asked.lines().filter(|line| !line.contains("rfence("));
        let text: Vec<&str> = lines.collect();
        Test::new(litmus::parse(&text.join("\n")).unwrap().litmus, "not demanded")
    });
    stripped.collect()
}

fn config(provider: &WeakProvider) -> OfiConfig {
    provider
        .config()
        .memory_limit_bytes(16 << 20)
        .huge_pages(HugePages::Never)
}

fn plan(runs: u64, seed: u64) -> Plan {
    Plan {
        runs,
        batch: 50,
        stress: Strategy::None,
        seed,
        ..Plan::default()
    }
}

/// The orders that `tcp;ofi_rxm` of libfabric 1.17 says it keeps.
fn of_rxm() -> Orders {
    let of_one_kind = Order {
        all: false,
        bytes_max: 0,
        ..Order::ALL
    };
    Orders {
        war: Order::NONE,
        ..Orders::of(of_one_kind)
    }
}

/// Each order among operations of one kind, and none between an atomic operation and a read or write.
fn of_one_kind() -> Orders {
    Orders::of(Order {
        all: false,
        ..Order::ALL
    })
}

fn named(name: &str, provider: WeakProvider) -> WeakProvider {
    WeakProvider {
        name: name.to_owned(),
        ..provider
    }
}

fn nothing_forbidden(records: &[Record], least: usize) {
    assert!(records.len() >= least, "{} tests", records.len());
    for record in records {
        assert!(!record.is_violated(), "{}", record.histogram().unwrap());
        assert_eq!(record.hung, None, "{}", record.test);
    }
}

#[test]
fn the_catalogue_on_a_provider_without_orders_shows_nothing_forbidden() {
    if !has_libfabric() {
        return;
    }
    let tests = test::load(&["rdma-tso24".to_owned(), "rmw".to_owned(), "loco26".to_owned()])
        .unwrap()
        .tests;
    let runs = std::env::var("LOCO_LITMUS_RUNS").map_or(50, |runs| runs.parse().unwrap());
    let weak = WeakProvider::honest(1, Orders::NONE);
    for (nodes, stress) in [(1, Strategy::None), (2, Strategy::Default)] {
        let plan = Plan {
            stress,
            ..plan(runs, 1)
        };
        let records = job(ofi(nodes, &config(&weak)), &tests, &plan).records;
        nothing_forbidden(&records, 60);
        let sum = |of: fn(&Record) -> u64| records.iter().map(of).sum::<u64>();
        let (seen, allowed) = (sum(|r| r.allowed().1 as u64), sum(|r| r.allowed().0 as u64));
        let (tests, runs) = (records.len(), sum(|r| r.runs));
        println!("{nodes} nodes: {tests} tests, {runs} runs, {seen} of {allowed} allowed states seen");
    }
}

/// Whatever a provider promises, the mapping buys the rest, with words by atomics and by reads and writes.
#[test]
fn what_an_honest_provider_does_not_keep_is_bought() {
    if !has_libfabric() {
        return;
    }
    let tests = demanded();
    for bits in 0..16 {
        let order = |bit: u32| match bits >> bit & 1 {
            0 => Order::NONE,
            _ => Order::ALL,
        };
        let keeps = Orders {
            raw: order(0),
            war: order(1),
            waw: order(2),
            rar: order(3),
        };
        let weak = WeakProvider::honest(bits, keeps);
        let weak = named(if bits % 2 == 0 { "weak" } else { "verbs" }, weak);
        let kept = job(ofi(1, &config(&weak)), &tests, &plan(50, 1));
        nothing_forbidden(&kept.records, tests.len());
    }
    // This provider keeps all orders among atomics and does not say so. The mapping relies on it because of the provider's name.
    let whole_in_order = WeakProvider {
        says: of_rxm(),
        ..WeakProvider::honest(16, of_one_kind())
    };
    for (name, provider) in [
        ("verbs", WeakProvider::honest(16, of_one_kind())),
        ("verbs", WeakProvider::honest(16, Orders::NONE)),
        ("weak", WeakProvider::honest(16, of_rxm())),
        ("tcp;ofi_rxm", whole_in_order),
    ] {
        let weak = named(name, provider);
        // On its own memory a node of the last would ask nobody.
        let kept = job(ofi(2, &config(&weak)), &tests, &plan(50, 1));
        nothing_forbidden(&kept.records, tests.len());
    }
}

/// A provider that lies, and the tests that must find it.
struct Fault {
    what: &'static str,
    provider: WeakProvider,
    found_by: &'static [&'static str],
}

/// The tests of strong operations.
const STRONG: &[&str] = &["put-put", "put-get", "put-rmw", "rmw-put", "rmw-get", "rmw-rmw"];
/// The tests that see the loss of an order: those of the operations that it orders.
const WITHOUT_RAW: &[&str] = &["put-get", "put-rmw", "rmw-get", "rmw-rmw"];
const WITHOUT_WAR: &[&str] = &["rmw-put", "rmw-rmw"];
const WITHOUT_WAW: &[&str] = &["put-put", "put-rmw", "rmw-put", "rmw-rmw"];
const WITHOUT_RAR: &[&str] = &["rmw-get", "rmw-rmw"];

/// Returns a provider that says it keeps every order and keeps these.
fn liar(keeps: Orders) -> WeakProvider {
    WeakProvider {
        says: Orders::ALL,
        ..WeakProvider::honest(5, keeps)
    }
}

/// Returns a provider whose words travel by reads and writes. It says that it keeps each order among operations of one
/// kind, and keeps these without some.
fn among_rma(drop: fn(&mut Orders)) -> WeakProvider {
    let mut keeps = of_one_kind();
    drop(&mut keeps);
    let liar = WeakProvider {
        says: of_one_kind(),
        ..WeakProvider::honest(5, keeps)
    };
    named("verbs", liar)
}

fn faults() -> Vec<Fault> {
    let short = Order {
        bytes_max: 7,
        ..Order::ALL
    };
    let fault = |what, provider, found_by| Fault {
        what,
        provider,
        found_by,
    };
    let (all, raw) = (Orders::ALL, Order::NONE);
    let (war, waw, rar) = (raw, raw, raw);
    let drops_delivery = WeakProvider {
        drops_delivery: true,
        ..WeakProvider::honest(6, Orders::NONE)
    };
    vec![
        fault(
            "read after write is said",
            liar(Orders { raw, ..all }),
            WITHOUT_RAW,
        ),
        fault(
            "write after read is said",
            liar(Orders { war, ..all }),
            WITHOUT_WAR,
        ),
        fault(
            "write after write is said",
            liar(Orders { waw, ..all }),
            WITHOUT_WAW,
        ),
        fault(
            "read after read is said",
            liar(Orders { rar, ..all }),
            WITHOUT_RAR,
        ),
        fault(
            "the size of read after write is said",
            liar(Orders { raw: short, ..all }),
            WITHOUT_RAW,
        ),
        fault(
            "the size of write after read is said",
            liar(Orders { war: short, ..all }),
            WITHOUT_WAR,
        ),
        fault(
            "the size of write after write is said",
            liar(Orders { waw: short, ..all }),
            WITHOUT_WAW,
        ),
        fault(
            "orders between atomics and others are said",
            named("verbs", liar(of_one_kind())),
            &["put-rmw", "rmw-put", "rmw-get"],
        ),
        fault(
            "read after write is said among reads and writes",
            among_rma(|said| said.raw.rma = false),
            &["put-get"],
        ),
        fault(
            "write after write is said among reads and writes",
            among_rma(|said| said.waw.rma = false),
            &["put-put"],
        ),
        // The contract demands no order after a get, so nothing rests on these.
        fault(
            "orders after reads are said among reads and writes",
            among_rma(|said| (said.war.rma, said.rar.rma) = (false, false)),
            &[],
        ),
        fault(
            "more is taken for known of a provider called `ofi_rxm`, which does not do what that one does",
            named("tcp;ofi_rxm", WeakProvider::honest(5, of_rxm())),
            STRONG,
        ),
        fault(
            "FI_DELIVERY_COMPLETE is dropped",
            drops_delivery,
            &["put-put", "put-get", "put-rmw"],
        ),
        fault("every order is said", liar(Orders::NONE), STRONG),
    ]
}

/// Returns whether the forbidden outcome that a test asks for was seen.
fn is_seen(record: &Record) -> bool {
    assert_eq!(record.hung, None, "{}", record.test);
    record.witnesses(&record.litmus().unwrap())[0].0 > 0
}

/// Runs a test until it has shown the outcome that it asks for, `rounds` times at most. Returns the number of rounds before.
fn rounds_until_seen(provider: &WeakProvider, test: &Test, rounds: u64) -> Option<u64> {
    // A node carries out its operations on its own memory by itself where this provider does so in its calls.
    let nodes = if provider.name.contains("ofi_rxm") { 2 } else { 1 };
    let config = config(provider);
    let sees = |seed: &u64| {
        // Where a flush overtakes puts, they would be placed in words of a later batch, or of the next test.
        let plan = Plan {
            batch: 100,
            ..plan(100, *seed)
        };
        let kept = job(ofi(nodes, &config), std::slice::from_ref(test), &plan);
        is_seen(&kept.records[0])
    };
    (0..rounds).find(sees)
}

#[test]
fn what_no_program_asks_for_is_not_bought() {
    if !has_libfabric() {
        return;
    }
    let weak = WeakProvider::honest(7, Orders::NONE);
    let unseen: Vec<_> = not_demanded()
        .into_iter()
        .filter(|test| rounds_until_seen(&weak, test, ROUNDS).is_none())
        .map(|test| test.name)
        .collect();
    assert!(unseen.is_empty(), "without the request: {}", unseen.join(", "));
}

#[test]
fn each_order_that_is_not_kept_is_missed_by_its_tests() {
    if !has_libfabric() {
        return;
    }
    let mut wrong = Vec::new();
    for fault in faults() {
        for test in demanded() {
            let finds = |name: &str| fault.found_by.contains(&name);
            let must_see = finds(&test.name);
            // It looks at what is left at the peer after a flush, which is a get: where gets overtake puts, it says nothing.
            if test.name == "put-put" && !must_see && finds("put-get") {
                continue;
            }
            let rounds = if must_see { ROUNDS } else { 1 };
            let seen = rounds_until_seen(&fault.provider, &test, rounds);
            if let Some(before) = seen {
                println!("{}: {} in {} runs", fault.what, test.name, 100 * (before + 1));
            }
            if seen.is_some() != must_see {
                let verb = if must_see { "not found by" } else { "found by" };
                wrong.push(format!("{}: {verb} {}", fault.what, test.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Nodes on a provider that keeps nothing of what it says go through their batches together all the same: commands and reports
/// prove themselves.
#[test]
fn nodes_go_on_together_on_a_provider_that_keeps_nothing() {
    if !has_libfabric() {
        return;
    }
    let tests = demanded();
    for seed in 0..10 {
        let liar = WeakProvider {
            says: Orders::ALL,
            ..WeakProvider::honest(seed, Orders::NONE)
        };
        let plan = Plan {
            batch: 1,
            ..plan(10, seed)
        };
        let kept = job(ofi(2, &config(&liar)), &tests, &plan);
        assert_eq!(kept.records.len(), tests.len());
        for record in &kept.records {
            assert_eq!(record.hung, None, "{}", record.test);
            assert_eq!(record.runs, 10, "{}", record.test);
        }
    }
}
