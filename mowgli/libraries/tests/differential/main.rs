//! The framework's memory against the models of `mowgli`: searches that were written apart, on the same random programs.
//!
//! A client of words is a litmus program ([`translate`]), under the specification of RDMA^WAIT and under I_W, which stands on
//! RDMA^TSO. A client of other libraries is one, too, when implementations bring it down to words ([`runs`]). All registers and
//! all last values of words are compared, over the network of every tier. `MOWGLI_PROGRAMS=COUNT,FIRST` in the environment chooses the seeds.

mod draw;
mod runs;
mod tiers;
mod translate;

use std::collections::BTreeSet;
use std::ops::Range;

use mowgli::model::{Model, RmwAtomicity, Tier};
use mowgli::outcome::{Budget, Search};
use mowgli::program::Program;
use mowgli::{declarative, explore};
use mowgli_libraries::client::{Client, Library, Method, Setting, parse};
use mowgli_libraries::enumerate::{Bounds, RandomClients};
use mowgli_libraries::implementation::{Implementation, Rules};
use mowgli_libraries::implementations::{IBal, IMsw, IRbl, ISv};
use mowgli_libraries::judge::{Under, outcomes_under};
use mowgli_libraries::libraries::{Reach, libraries};
use mowgli_libraries::outcomes::outcomes;
use mowgli_libraries::plain;
use translate::{Waits, numbers, program};

/// An outcome as the two engines have it in common: registers, and the last values of words.
type Ends = BTreeSet<(Vec<Vec<i64>>, Vec<i64>)>;

/// Returns the seeds to try: these, or those of the environment.
fn seeds(count: u64) -> Range<u64> {
    let plan = std::env::var("MOWGLI_PROGRAMS").unwrap_or_default();
    let mut numbers = plan.split(',').filter_map(|n| n.parse::<u64>().ok());
    let (count, first) = (numbers.next().unwrap_or(count), numbers.next().unwrap_or(0));
    first..first + count
}

fn of_model(program: &Program, model: Model) -> Search {
    let found = declarative::outcomes(program, model, RmwAtomicity::Hca, &Budget::default());
    assert!(found.is_complete(), "{:?}", found.completeness);
    found
}

fn ends_of_model(found: &Search) -> Ends {
    let outcomes = found.outcomes.iter();
    outcomes
        .map(|o| (o.registers.clone(), o.memory.clone()))
        .collect()
}

/// Returns how a client of words may end by the framework, unless the guesses of a thread are too many, as for sums that feed
/// themselves.
fn of_words(client: &Client, under: impl Into<Under>) -> Option<Ends> {
    let found = outcomes_under(client, under, Budget::default()).expect("it is judged here");
    let outcomes = found.outcomes.iter();
    let ends = outcomes.map(|o| {
        (
            o.registers.iter().map(|r| numbers(r)).collect(),
            numbers(&o.words),
        )
    });
    found.is_complete().then(|| ends.collect())
}

/// Settings that leave words alone.
const WORDS: [Setting; 8] = [
    Setting::Spec,
    Setting::ImplSv,
    Setting::ImplBarrier,
    Setting::ImplRing,
    Setting::ImplMixedSize,
    Setting::TransitiveBarrier,
    Setting::WeakRing,
    Setting::PaperRing,
];

/// RDMA^WAIT as a library and as a model. Every eighth program is also run on the machine.
#[test]
fn the_library_of_words_and_the_model_agree() {
    let (mut found, mut forwards, mut matters, mut left_out) = (0, 0, 0, 0);
    let seeds = seeds(4000);
    for seed in seeds.clone() {
        let client = draw::client(seed, true);
        let setting = WORDS[seed as usize % WORDS.len()];
        let program = program(&client, Waits::Named, false);
        let Some(of_library) = of_words(&client, setting) else {
            left_out += 1;
            continue;
        };
        let of_model = of_model(&program, Model::RdmaWait);
        found += of_model.outcomes.len();
        let ends = ends_of_model(&of_model);
        assert_eq!(
            of_library,
            ends,
            "seed {seed} under {setting}\n{}",
            client.print()
        );
        if seed.is_multiple_of(8) {
            let machine = explore::outcomes(&program, Model::RdmaWait, RmwAtomicity::Hca, &Budget::default());
            assert!(machine.is_complete(), "seed {seed}: {:?}", machine.completeness);
            assert_eq!(
                machine.outcomes,
                of_model.outcomes,
                "seed {seed}\n{}",
                client.print()
            );
        }
        if let Some(fenced) = draw::fenced(&client) {
            forwards += 1;
            // A fence before the read has the effect of `rf` of a thread in `so`.
            let fenced = translate::program(&fenced, Waits::Named, false);
            matters += usize::from(ends_of_model(&self::of_model(&fenced, Model::RdmaWait)) != ends);
        }
    }
    let count = seeds.end - seeds.start;
    println!(
        "seeds {seeds:?}: {found} outcomes; {forwards} programs read their own buffered stores, {matters} have outcomes that need it; \
         {left_out} left out"
    );
    assert!(
        left_out * 50 < count,
        "{left_out} of {count} programs were left out"
    );
    assert!(found as u64 > count, "{found} outcomes say little");
    assert!(forwards * 10 > count, "{forwards} of {count} programs forward");
    assert!(
        matters as u64 * 20 > count,
        "{matters} of {count} programs show it"
    );
}

/// I_W makes polls of waits. What it makes is a program of RDMA^TSO.
#[test]
fn the_wait_over_polls_and_the_model_agree() {
    let (mut found, mut left_out) = (0, 0);
    let seeds = seeds(1500);
    for seed in seeds.clone() {
        let client = draw::client(seed, false);
        let Some(of_library) = of_words(&client, Setting::ImplWait) else {
            left_out += 1;
            continue;
        };
        let of_model = of_model(&program(&client, Waits::Polls, false), Model::RdmaTso);
        found += of_model.outcomes.len();
        assert_eq!(
            of_library,
            ends_of_model(&of_model),
            "seed {seed}\n{}",
            client.print()
        );
    }
    let count = seeds.end - seeds.start;
    println!("I_W, seeds {seeds:?}: {found} outcomes; {left_out} left out");
    assert!(found as u64 > count, "{found} outcomes say little");
    assert!(
        left_out * 50 < count,
        "{left_out} of {count} programs were left out"
    );
}

/// RDMA^TSO as a library: a client may poll itself. It is a program of RDMA^TSO, and I_W adds nothing to it.
#[test]
fn clients_that_poll_and_the_model_agree() {
    let (mut found, mut polls, mut left_out) = (0u64, 0u64, 0u64);
    let seeds = seeds(1500);
    for seed in seeds.clone() {
        let client = draw::polling(&draw::client(seed, false), seed);
        polls += u64::from(client.polls());
        let setting = [Setting::Spec, Setting::ImplWait][seed as usize % 2];
        let Some(of_library) = of_words(&client, setting) else {
            left_out += 1;
            continue;
        };
        let of_model = of_model(&program(&client, Waits::Polls, false), Model::RdmaTso);
        found += of_model.outcomes.len() as u64;
        let read = parse(&client.print());
        assert!(
            read.is_ok_and(|read| read.client.print() == client.print()),
            "seed {seed}\n{}",
            client.print()
        );
        assert_eq!(
            of_library,
            ends_of_model(&of_model),
            "seed {seed} under {setting}\n{}",
            client.print()
        );
    }
    let count = seeds.end - seeds.start;
    println!("polling clients, seeds {seeds:?}: {found} outcomes; {polls} poll; {left_out} left out");
    assert!(
        polls * 4 > count && found > count,
        "{polls} of {count} clients poll"
    );
    assert!(
        left_out * 50 < count,
        "{left_out} of {count} programs were left out"
    );
}

/// The card reads a word that only its own thread stores, before or after the later store.
#[test]
fn a_card_reads_what_its_thread_stores_later() {
    let text = "RDMA later\n{ x@1=0; y@1=0; }\nP0@1 ;\nrfaa(x, y, 1, d) ;\nwrite(y, 2) ;\nwait(d) ;\na := read(x) ;\nlocations [y;]\n";
    let client = parse(text).expect("it is a client").client;
    let ends = ends_of_model(&of_model(&program(&client, Waits::Named, false), Model::RdmaWait));
    let (registers, memory): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
    let last = memory.iter().map(|all| vec![all[1]]);
    let of_model: Ends = registers.into_iter().zip(last).collect();
    assert!(
        of_model.iter().any(|(registers, _)| registers == &[[2]]),
        "{of_model:?}"
    );
    for setting in [Setting::Spec, Setting::ImplWait] {
        assert_eq!(of_words(&client, setting), Some(of_model.clone()), "{setting}");
    }
}

/// The choices of runs of one client that are compared at most. Larger clients are left out.
const CHOICES_MAX: usize = 20_000;

/// Compares clients of these libraries, with the implementations down to words. Each client is over the network of one tier.
fn compare_implemented(drawn: &[Library], calls: usize, stack: &[&dyn Implementation], count: u64) {
    // A run with a remote read-modify-write assumes a result that no register of a program has.
    let remote = [Method::RemoteFaa, Method::RemoteCas];
    let methods = drawn.iter().flat_map(|library| library.methods());
    let bounds = Bounds {
        objects_max: 2,
        methods: methods.filter(|m| !remote.contains(&m.plain())).collect(),
        ..Bounds::of(drawn, calls)
    };
    let clients = RandomClients::new(&bounds);
    let rules = |tier| Rules {
        libraries: libraries(Setting::Spec).on(tier),
        implementations: stack.to_vec(),
        iterations_max: 1,
    };
    let rules = Tier::ALL.map(|tier| (tier, rules(tier)));
    let (mut compared, mut several) = (0, 0);
    let seeds = seeds(count);
    for seed in seeds.clone() {
        let mut random = mowgli::generate::Random::new(seed);
        let client = clients.draw(&mut |n| random.below(n));
        // Half of the clients are over the papers' network.
        let (tier, rules) = match seed % 8 {
            n @ 0..4 => &rules[1 + n as usize],
            _ => &rules[0],
        };
        let plain = plain::runs(&client, rules, Budget::default());
        assert_eq!(plain.limit, None, "seed {seed}");
        let choices: usize = plain.runs.iter().map(Vec::len).product();
        if choices > CHOICES_MAX || choices == 0 {
            continue;
        }
        let found = outcomes(&client, rules, Budget::default());
        assert!(
            found.is_complete(),
            "{:?}\n{}",
            found.completeness,
            client.print()
        );
        let translated = runs::translate(&client, &plain, tier.has_relaxed_regions());
        let of_framework: BTreeSet<Vec<Vec<i64>>> = found
            .outcomes
            .iter()
            .map(|o| o.registers.iter().map(|r| translated.registers(r)).collect())
            .collect();
        let of_model: BTreeSet<Vec<Vec<i64>>> =
            of_model(&translated.program, tiers::model(Model::RdmaWait, *tier))
                .outcomes
                .into_iter()
                .map(|o| {
                    let own = o.registers.into_iter().zip(&client.threads);
                    own.map(|(r, thread)| r[..thread.registers.len()].to_vec())
                        .collect()
                })
                .collect();
        assert_eq!(
            of_framework,
            of_model,
            "seed {seed} on {tier}\n{}",
            client.print()
        );
        compared += 1;
        several += u64::from(of_model.len() > 1);
    }
    let count = seeds.end - seeds.start;
    println!("{drawn:?}, seeds {seeds:?}: {compared} compared, {several} with several outcomes");
    assert!(
        compared * 2 > count,
        "{compared} of {count} clients are small enough"
    );
    assert!(
        several * 20 > count,
        "{several} clients with several outcomes say little"
    );
}

const SV: ISv = ISv {
    strong: false,
    mistake: None,
};

#[test]
fn shared_variables_over_words_and_the_model_agree() {
    compare_implemented(&[Library::SharedVariable, Library::RdmaWait], 5, &[&SV], 1000);
}

#[test]
fn barriers_over_words_and_the_model_agree() {
    for reach in [Reach::Participants, Reach::AllNodes] {
        let barrier = IBal { reach, mistake: None };
        compare_implemented(
            &[Library::Barrier, Library::SharedVariable],
            4,
            &[&barrier, &SV],
            200,
        );
    }
}

#[test]
fn ring_buffers_over_words_and_the_model_agree() {
    for fence_own in [false, true] {
        let ring = IRbl {
            strong: false,
            fence_own,
            mistake: None,
        };
        compare_implemented(&[Library::RingBuffer, Library::RdmaWait], 4, &[&ring, &SV], 200);
    }
}

#[test]
fn mixed_sizes_over_words_and_the_model_agree() {
    let mixed = IMsw { mistake: None };
    compare_implemented(&[Library::MixedSize, Library::RdmaWait], 4, &[&mixed], 400);
}
