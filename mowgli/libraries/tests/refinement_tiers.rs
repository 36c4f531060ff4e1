//! Implementations over networks that order less: which refine their specification on which tier.
//!
//! The table is that of `docs/mowgli.md`. `MOWGLI_BLESS=1` writes it there.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use mowgli::model::Tier;
use mowgli::outcome::Budget;
use mowgli_libraries::client::{Library, Method};
use mowgli_libraries::enumerate::Bounds;
use mowgli_libraries::implementations::list::{self, Named};
use mowgli_libraries::judge::ITERATIONS_MAX;
use mowgli_libraries::over_clients::{Summary, over_clients, size};
use mowgli_libraries::refine::Refinement;

/// Calls of a client at most. With four, every tier that breaks an implementation of the papers is found.
const CALLS: usize = 4;

fn refine(named: &Named<'_>, bounds: &Bounds, tier: Tier) -> Summary {
    let implementation = named.implemented(ITERATIONS_MAX).on(tier);
    let specification = named.specified(ITERATIONS_MAX).on(tier);
    let refinement = Refinement {
        implementation: &implementation,
        specification: &specification,
    };
    over_clients(&refinement, bounds, Budget::default(), &AtomicU64::new(0))
}

/// Says what was found, and checks that it is known of every client.
fn verdict(named: &Named<'_>, tier: Tier) -> String {
    let begun = Instant::now();
    // What a tier breaks is seen on two nodes.
    let bounds = Bounds {
        nodes_max: 2,
        ..named.bounds(CALLS)
    };
    let summary = refine(named, &bounds, tier);
    let taken = begun.elapsed();
    println!("{} on {tier}: {} clients, {taken:?}", named.name, summary.clients);
    match summary.failure {
        Some(failure) => format!("{} calls", size(&failure.client)),
        None => {
            let (name, limit) = (named.name, summary.limit);
            assert!(
                summary.clients > 100,
                "{name} on {tier}: {} clients",
                summary.clients
            );
            assert_eq!(summary.complete, summary.clients, "{name} on {tier}: {limit:?}");
            "holds".to_owned()
        }
    }
}

/// The lines of the table in the guide.
fn guide() -> (PathBuf, String) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/mowgli.md");
    let text = std::fs::read_to_string(&path).expect("the guide is there");
    (path, text)
}

#[test]
fn the_guide_says_what_holds_on_which_tier() {
    let names = Tier::ALL.map(|tier| format!("`{tier}`")).join(" | ");
    let head = format!("| implementation | {names} |\n|---|---|---|---|---|---|\n");
    let mut table = String::new();
    for named in list::ALL.iter().filter(|n| n.is_sound()) {
        let found = Tier::ALL.map(|tier| verdict(named, tier));
        assert_eq!(
            found[0], "holds",
            "{} is sound over the papers' network",
            named.name
        );
        table += &format!("| `{}` | {} |\n", named.name, found.join(" | "));
    }
    let (path, text) = guide();
    let (before, rest) = text.split_once(&head).expect("the guide has the table");
    let end = rest.find("\n\n").map_or(rest.len(), |end| end + 1);
    if std::env::var_os("MOWGLI_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{head}{table}{}", &rest[end..])).expect("it can be written");
    } else {
        assert_eq!(table, &rest[..end], "the table of docs/mowgli.md");
    }
}

/// What mends an implementation holds on every tier, and is needed where it is.
#[test]
fn strong_order_mends_what_a_tier_breaks() {
    for name in ["I_SV", "I_RBL"] {
        let named = |name: &str| list::by_name(name).expect("it is listed");
        let (papers, mended) = (named(name), named(&format!("{name}/strong")));
        for tier in Tier::ALL {
            assert_eq!(verdict(mended, tier), "holds", "{name} on {tier}");
            assert_eq!(
                verdict(papers, tier) == "holds",
                tier == Tier::Ibta,
                "{name} on {tier}"
            );
        }
    }
}

/// Shared variables beside words and beside clients that ask for strong order.
#[test]
fn the_mended_fence_is_one_beside_other_operations() {
    let begun = Instant::now();
    let named = list::by_name("I_SV/strong").expect("it is listed");
    let beside = |library, methods: &[Method], calls| Bounds {
        libraries: vec![Library::SharedVariable, library],
        methods: methods.to_vec(),
        ..named.bounds(calls)
    };
    let words = beside(
        Library::RdmaWait,
        &[
            Method::BcastSv,
            Method::GfSv,
            Method::Write,
            Method::Read,
            Method::Get,
        ],
        CALLS,
    );
    let asking = beside(
        Library::SharedVariable,
        &[
            Method::WriteSv,
            Method::ReadSv,
            Method::BcastSv,
            Method::StrongBcastSv,
            Method::GfSv,
        ],
        CALLS - 1,
    );
    for tier in Tier::ALL {
        for bounds in [&words, &asking] {
            let summary = refine(named, bounds, tier);
            let refuted = summary.failure.map(|f| f.client.print());
            assert_eq!(refuted, None, "{tier}");
            assert_eq!(summary.complete, summary.clients, "{tier}: {:?}", summary.limit);
            assert!(summary.clients > 1_000, "{} clients", summary.clients);
            println!("{tier}: {} clients, {:?}", summary.clients, begun.elapsed());
        }
    }
}
