//! The framework's memory over networks that order less, against the axioms of the same tier, and the tiers against one another.

use std::collections::BTreeSet;

use mowgli::model::{Model, Tier};
use mowgli_libraries::client::{Client, Setting};
use mowgli_libraries::judge::Under;

use crate::translate::{Waits, program};
use crate::{Ends, draw, ends_of_model, of_model, of_words, seeds};

/// Returns a model over the network of a tier.
pub fn model(base: Model, tier: Tier) -> Model {
    base.on(tier).expect("its network is a parameter")
}

/// Each tier, and the one whose outcomes it has too.
const WEAKER: [(Tier, Tier); 4] = [
    (Tier::OooRw, Tier::Ibta),
    (Tier::OooAll, Tier::OooRw),
    (Tier::Unordered, Tier::OooAll),
    (Tier::PcieRelaxed, Tier::Ibta),
];

/// How many clients were compared, and how many tell a tier from the one before it.
#[derive(Debug, Default)]
struct Tally {
    clients: u64,
    outcomes: usize,
    left_out: u64,
    separated: [u64; 4],
}

impl Tally {
    /// Compares the outcomes of a client by the framework and by the axioms on every tier.
    fn compare(&mut self, client: &Client, seed: u64) {
        let mut found: Vec<(Tier, Ends)> = Vec::new();
        for tier in Tier::ALL {
            let under = Under {
                setting: Setting::Spec.into(),
                tier,
            };
            let Some(of_library) = of_words(client, under) else {
                self.left_out += 1;
                return;
            };
            let program = program(client, Waits::Named, tier.has_relaxed_regions());
            let of_axioms = ends_of_model(&of_model(&program, model(Model::RdmaWait, tier)));
            let difference: BTreeSet<_> = of_library.symmetric_difference(&of_axioms).collect();
            assert!(
                difference.is_empty(),
                "seed {seed} on {tier}: {difference:?}\n{}",
                client.print()
            );
            self.outcomes += of_library.len();
            found.push((tier, of_library));
        }
        self.clients += 1;
        let on = |tier| found.iter().find(|(t, _)| *t == tier).map(|(_, ends)| ends);
        for (count, (weaker, stronger)) in self.separated.iter_mut().zip(WEAKER) {
            if let (Some(more), Some(fewer)) = (on(weaker), on(stronger)) {
                assert!(fewer.is_subset(more), "seed {seed}: {weaker}\n{}", client.print());
                *count += u64::from(more.len() > fewer.len());
            }
        }
    }

    /// Prints the counts, and checks that the clients said something.
    fn end(&self, what: &str, count: u64) {
        println!("{what}: {self:?}");
        assert!(
            self.left_out * 50 < count,
            "{} of {count} left out",
            self.left_out
        );
        assert!(
            self.outcomes as u64 > 5 * count,
            "{} outcomes say little",
            self.outcomes
        );
    }
}

/// Clients that show the order of operations of one thread, some of which ask for it.
#[test]
fn posting_clients_and_the_axioms_agree_on_every_tier() {
    let (mut tally, seeds) = (Tally::default(), seeds(250));
    for seed in seeds.clone() {
        tally.compare(&draw::posting(seed), seed);
    }
    let count = seeds.end - seeds.start;
    tally.end("posting", count);
    for (separated, (weaker, _)) in tally.separated.into_iter().zip(WEAKER) {
        assert!(
            separated * 100 > count,
            "{weaker} separates {separated} of {count}"
        );
    }
}

/// The clients of the comparison over the papers' network, some of which ask for strong order.
#[test]
fn other_clients_and_the_axioms_agree_on_every_tier() {
    let (mut tally, seeds) = (Tally::default(), seeds(400));
    for seed in seeds.clone() {
        let mut client = draw::client(seed, true);
        draw::ask(&mut client, seed);
        tally.compare(&client, seed);
    }
    tally.end("others", seeds.end - seeds.start);
}

/// I_W makes polls of waits on every tier, as completions come in the order of the operations on each.
#[test]
fn the_wait_over_polls_and_the_axioms_agree_on_every_tier() {
    let (mut compared, mut left_out) = (0, 0);
    let seeds = seeds(250);
    for seed in seeds.clone() {
        let client = match seed % 2 {
            0 => draw::posting(seed),
            _ => draw::client(seed, false),
        };
        let tier = Tier::ALL[(seed / 2) as usize % Tier::ALL.len()];
        let under = Under {
            setting: Setting::ImplWait.into(),
            tier,
        };
        let Some(of_library) = of_words(&client, under) else {
            left_out += 1;
            continue;
        };
        let program = program(&client, Waits::Polls, tier.has_relaxed_regions());
        let of_axioms = ends_of_model(&of_model(&program, model(Model::RdmaTso, tier)));
        let difference: BTreeSet<_> = of_library.symmetric_difference(&of_axioms).collect();
        assert!(
            difference.is_empty(),
            "seed {seed} on {tier}: {difference:?}\n{}",
            client.print()
        );
        compared += 1;
    }
    println!("I_W, seeds {seeds:?}: {compared} compared, {left_out} left out");
    assert!(left_out * 50 < seeds.end - seeds.start, "{left_out} left out");
}
