//! The parser of model files on random input: bytes, random tokens, and damaged files of `models/`.
//!
//! No input may make the parser, the search or an explanation panic; diagnostics must mark places inside their texts; and a model that is
//! accepted must have the outcomes that plain enumeration finds. The test takes about a second.
//! `MOWGLI_FUZZ_S=600 cargo test -p mowgli --test it fuzz_models:: -- --nocapture` runs for ten minutes and prints the number of inputs;
//! `MOWGLI_FUZZ_SEED` sets the seed.

use std::time::{Duration, Instant};

use mowgli::cat::{self, Embedded, ModelFile, RELATIONS, SETS};
use mowgli::catalogue;
use mowgli::model::RmwAtomicity;
use mowgli::outcome::Budget;
use mowgli::program::Program;
use mowgli::syntax::Located;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

const TOKENS: [&str; 59] = [
    "let ",
    "let rec ",
    " and ",
    " as ",
    "include ",
    "show ",
    "requires ",
    "acyclic ",
    "irreflexive ",
    "empty ",
    "flag ",
    "\nlet a = ",
    "\nlet f(x) = ",
    "\nacyclic ",
    "\nempty ",
    "\nlet rec a = ",
    "\nrequires empty ",
    "\nirreflexive ",
    "a",
    "b",
    "f",
    "x",
    "f(",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "{}",
    "_",
    "0",
    "|",
    "&",
    ";",
    "\\",
    "*",
    "+",
    "?",
    "~",
    "^-1",
    "^+",
    "^*",
    ",",
    "=",
    "++",
    "(*",
    "*)",
    "\"",
    "\"rdma-tables.cat\"",
    "\"t.cat\"",
    " ",
    "\n",
    "\u{221a}",
    "domain(",
    "range(",
    "fencerel(",
    "po | rf | mo | rb",
    "WW(po)",
];

fn token(rng: &mut StdRng) -> &'static str {
    match rng.random_range(0..TOKENS.len() + SETS.len() + RELATIONS.len()) {
        at if at < TOKENS.len() => TOKENS[at],
        at if at < TOKENS.len() + SETS.len() => SETS[at - TOKENS.len()].0,
        at => RELATIONS[at - TOKENS.len() - SETS.len()].0,
    }
}

fn bytes(rng: &mut StdRng) -> String {
    let bytes: Vec<u8> = (0..rng.random_range(0..200)).map(|_| rng.random()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn soup(rng: &mut StdRng) -> String {
    let space = if rng.random() { " " } else { "" };
    let words: Vec<&str> = (0..rng.random_range(0..60)).map(|_| token(rng)).collect();
    words.join(space)
}

/// A text of the grammar, with types that may be wrong.
fn model(rng: &mut StdRng) -> String {
    let mut text = String::new();
    let mut names: Vec<String> = Vec::new();
    for at in 0..rng.random_range(1..6) {
        let name = format!("n{at}");
        let recursive = rng.random_range(0..4) == 0;
        let let_ = if recursive { "let rec" } else { "let" };
        if recursive {
            names.push(name.clone());
        }
        text.push_str(&format!("{let_} {name} = {}\n", expression(rng, &names, 3)));
        names.push(name);
    }
    for _ in 0..rng.random_range(1..4) {
        let not = if rng.random_range(0..6) == 0 { "~" } else { "" };
        let test = ["acyclic", "irreflexive", "empty"].choose(rng).unwrap();
        text.push_str(&format!("{not}{test} {}\n", expression(rng, &names, 2)));
    }
    text
}

pub(crate) fn expression(rng: &mut StdRng, names: &[String], depth: usize) -> String {
    if depth == 0 || rng.random_range(0..5) == 0 {
        return match rng.random_range(0..6) {
            0 if !names.is_empty() => names.choose(rng).unwrap().clone(),
            1 => format!("[{}]", SETS.choose(rng).unwrap().0),
            2 => format!(
                "({} * {})",
                SETS.choose(rng).unwrap().0,
                SETS.choose(rng).unwrap().0
            ),
            _ => RELATIONS.choose(rng).unwrap().0.to_owned(),
        };
    }
    let inner = expression(rng, names, depth - 1);
    match rng.random_range(0..10) {
        0 => format!("({inner})+"),
        1 => format!("({inner})^-1"),
        2 => format!("({inner})?"),
        3 => format!("~({inner})"),
        at => {
            let op = ["|", "|", "&", ";", "\\", "|"][at - 4];
            format!("({inner} {op} {})", expression(rng, names, depth - 1))
        }
    }
}

/// Damages an embedded file by a few cuts, copies and insertions.
fn damaged(rng: &mut StdRng) -> String {
    let mut text: Vec<char> = cat::FILES.choose(rng).unwrap().1.chars().collect();
    for _ in 0..rng.random_range(1..5) {
        let from = rng.random_range(0..=text.len());
        let to = (from + rng.random_range(0..20)).min(text.len());
        match rng.random_range(0..4) {
            0 => drop(text.drain(from..to)),
            1 => {
                let copy: Vec<char> = text[from..to].to_vec();
                let at = rng.random_range(0..=text.len());
                text.splice(at..at, copy);
            }
            2 => drop(text.splice(from..to, token(rng).chars())),
            _ => drop(text.splice(from..from, token(rng).chars())),
        }
    }
    text.into_iter().collect()
}

/// Deep or long, near the limits.
fn large(rng: &mut StdRng) -> String {
    let word = token(rng);
    let start = ["", "let a = ", "acyclic ", "let f(x) = ", "acyclic po | ("]
        .choose(rng)
        .unwrap();
    format!("{start}{}", format!("{word} ").repeat(rng.random_range(0..5000)))
}

fn programs() -> Vec<Program> {
    ["SB3", "TSO-1c", "MP1", "GFP1"]
        .iter()
        .map(|name| catalogue::find(name).unwrap().parse().unwrap().program)
        .collect()
}

/// Panics if something misbehaves. Returns whether the text is a model.
fn check(text: &str, programs: &[Program]) -> bool {
    let inside = |d: &Located| {
        let source = &d.source.text;
        for span in d.related.iter().map(|r| &r.0).chain([&d.span]) {
            assert!(span.start <= span.end && span.end <= source.len(), "{d:?}");
            assert!(
                source.is_char_boundary(span.start) && source.is_char_boundary(span.end),
                "{d:?}"
            );
        }
        assert!(d.position().0 >= 1 && !d.to_string().is_empty());
    };
    match ModelFile::parse("t.cat", text, &Embedded) {
        Err(errors) => {
            assert!(!errors.is_empty());
            errors.iter().for_each(inside);
            false
        }
        Ok(model) => {
            model.warnings().iter().for_each(inside);
            let budget = Budget {
                states_max: Some(2000),
                ..Budget::default()
            };
            for program in programs {
                let Ok(found) = cat::decide(program, &model, RmwAtomicity::Hca, None, &budget) else {
                    continue;
                };
                let plain = cat::outcomes_by_enumeration(program, &model, RmwAtomicity::Hca, &budget);
                if found.is_complete() && plain.is_complete() {
                    assert_eq!(found.outcomes, plain.outcomes, "{text}");
                }
            }
            true
        }
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn no_input_makes_the_parser_panic() {
    let seed = setting("MOWGLI_FUZZ_SEED", 1);
    let end = Instant::now() + Duration::from_secs(setting("MOWGLI_FUZZ_S", 1));
    let mut rng = StdRng::seed_from_u64(seed);
    let programs = programs();
    let (mut inputs, mut accepted) = (0u64, 0u64);
    while inputs < 1000 || Instant::now() < end {
        let text = match rng.random_range(0..20) {
            0..2 => bytes(&mut rng),
            2..6 => soup(&mut rng),
            6..12 => model(&mut rng),
            12 if inputs % 8 == 0 => large(&mut rng),
            _ => damaged(&mut rng),
        };
        match std::panic::catch_unwind(|| check(&text, &programs)) {
            Ok(ok) => accepted += u64::from(ok),
            Err(_) => panic!("seed {seed}, input {inputs}:\n{text}"),
        }
        inputs += 1;
    }
    println!("{inputs} inputs, {accepted} accepted, seed {seed}");
    assert!(accepted > inputs / 20, "the generators still make valid models");
}
