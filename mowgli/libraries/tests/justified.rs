//! The search leaves out choices of runs in which somebody reads what nobody provides. On random clients of every library it
//! finds the outcomes that a search of all choices finds.

use std::collections::BTreeSet;

use mowgli::generate::Random;
use mowgli::outcome::Budget;
use mowgli_libraries::client::{Library, Setting};
use mowgli_libraries::enumerate::{Bounds, RandomClients};
use mowgli_libraries::execution::Flow;
use mowgli_libraries::implementation::Rules;
use mowgli_libraries::judge::rules;
use mowgli_libraries::outcome::Outcome;
use mowgli_libraries::outcomes::{consistent, each_combination, outcomes};
use mowgli_libraries::plain::runs;

/// Clients of each pair of a library and a setting.
const CLIENTS: usize = 40;

/// The libraries, by specification, and those with implementations, by those.
fn cases() -> Vec<(Library, Setting)> {
    let specified = Library::ALL.map(|library| (library, Setting::Spec));
    let implemented = [
        (Library::RdmaWait, Setting::ImplWait),
        (Library::SharedVariable, Setting::ImplSv),
        (Library::Barrier, Setting::ImplBarrier),
        (Library::RingBuffer, Setting::ImplRing),
        (Library::MixedSize, Setting::ImplMixedSize),
    ];
    specified.into_iter().chain(implemented).collect()
}

/// The outcomes of all choices of runs.
fn of_all_choices(client: &mowgli_libraries::client::Client, rules: &Rules<'_>) -> BTreeSet<Outcome> {
    let plain = runs(client, rules, Budget::default());
    assert_eq!(plain.limit, None, "{}", client.print());
    let mut out = BTreeSet::new();
    each_combination(&plain, &mut |chosen| {
        let events = chosen.iter().flat_map(|run| run.events.clone()).collect();
        let found = consistent(
            client,
            &rules.libraries,
            events,
            Budget::default(),
            &mut |_, state| {
                out.insert(Outcome {
                    registers: chosen.iter().map(|run| run.registers.clone()).collect(),
                    words: state.words.clone(),
                });
                Flow::Continue
            },
        );
        found.expect("there is no limit");
        Flow::Continue
    });
    out
}

#[test]
fn leaving_out_what_nobody_provides_loses_no_outcome() {
    let mut random = Random::new(5);
    let mut several = 0;
    for (library, setting) in cases() {
        // Shared variables show what barriers and fences do, which return nothing.
        let bounds = Bounds {
            objects_max: 2,
            ..Bounds::of(&[library, Library::SharedVariable], 4)
        };
        let rules = rules(setting, 3).expect("it is judged here");
        let clients = RandomClients::new(&bounds);
        for _ in 0..CLIENTS {
            let client = clients.draw(&mut |n| random.below(n));
            let found = outcomes(&client, &rules, Budget::default());
            assert!(found.is_complete(), "{}", client.print());
            several += usize::from(found.outcomes.len() > 1);
            assert_eq!(
                found.outcomes,
                of_all_choices(&client, &rules),
                "{setting}\n{}",
                client.print()
            );
        }
    }
    assert!(several > 50, "{several} clients with several outcomes say little");
}
