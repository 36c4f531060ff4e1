//! The parser on random input: bytes, random tokens, and damaged files of the catalogue.
//!
//! The parser must not panic on any input, its diagnostics must mark places inside the text, and a text that it accepts must print
//! back to itself. The test takes about a second. `MOWGLI_FUZZ_S=600 cargo test -p mowgli --test it fuzz_parser:: -- --nocapture` runs for ten
//! minutes and prints the number of inputs; `MOWGLI_FUZZ_SEED` sets the seed.

use std::time::{Duration, Instant};

use mowgli::catalogue;
use mowgli::litmus::{Diagnostic, KEYWORDS, parse};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// The tokens beside the keywords.
const TOKENS: [&str; 55] = [
    "RDMA",
    "t",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ";",
    "|",
    ",",
    ":=",
    ":",
    "=",
    "==",
    "!=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "/\\",
    "\\/",
    "~",
    "!",
    "&&",
    "||",
    "@",
    "^",
    "(*",
    "*)",
    "\"",
    "\\",
    "\n",
    " ",
    "P0",
    "P1",
    "P2",
    "x",
    "y",
    "z",
    "r0",
    "a",
    "0",
    "1",
    "2",
    "3",
    "-1",
    "9223372036854775807",
    "9223372036854775808",
    "allowed [rdma-tso/glob;]",
];

fn token(rng: &mut StdRng) -> &'static str {
    match rng.random_range(0..TOKENS.len() + KEYWORDS.len()) {
        at if at < TOKENS.len() => TOKENS[at],
        at => KEYWORDS[at - TOKENS.len()],
    }
}

fn bytes(rng: &mut StdRng) -> String {
    let bytes: Vec<u8> = (0..rng.random_range(0..200)).map(|_| rng.random()).collect();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if rng.random() {
        format!("RDMA t\n{text}")
    } else {
        text
    }
}

fn soup(rng: &mut StdRng) -> String {
    let start = ["", "RDMA t\n", "RDMA t\n{ x@1=0; y@2=0; }\nP0@1 | P1@2 ;\n"]
        .choose(rng)
        .unwrap();
    let words: Vec<&str> = (0..rng.random_range(0..80)).map(|_| token(rng)).collect();
    format!("{start}{}", words.join(if rng.random() { " " } else { "" }))
}

/// Damages a file of the catalogue by a few cuts, copies, splices and insertions.
fn damaged(rng: &mut StdRng) -> String {
    let mut text: Vec<char> = catalogue::entries().choose(rng).unwrap().source.chars().collect();
    for _ in 0..rng.random_range(1..6) {
        let from = rng.random_range(0..=text.len());
        let to = (from + rng.random_range(0..20)).min(text.len());
        match rng.random_range(0..6) {
            0 => drop(text.drain(from..to)),
            1 => {
                let copy: Vec<char> = text[from..to].to_vec();
                let at = rng.random_range(0..=text.len());
                text.splice(at..at, copy);
            }
            2 => drop(text.splice(from..to, token(rng).chars())),
            3 => drop(text.splice(from..from, token(rng).chars())),
            4 => text.truncate(from),
            _ => {
                let other: Vec<char> = catalogue::entries().choose(rng).unwrap().source.chars().collect();
                let cut = rng.random_range(0..=other.len());
                text.truncate(from);
                text.extend(&other[cut..]);
            }
        }
    }
    text.into_iter().collect()
}

/// Deep or long, near the limits.
fn large(rng: &mut StdRng) -> String {
    let word = token(rng);
    let count = rng.random_range(0..5000);
    let (before, after) = match rng.random_range(0..4) {
        0 => ("RDMA t\n{ x@1=0; }\nP0@1 ;\n", ""),
        1 => ("RDMA t\n{ x@1=0; }\nP0@1 ;\nx := ", ";\nexists (true)"),
        2 => ("RDMA t\n{ x@1=0; }\nP0@1 ;\nexists (", ")"),
        _ => ("RDMA t\n{ ", "}"),
    };
    format!("{before}{}{after}", format!("{word} ").repeat(count))
}

/// Panics if the parser misbehaves. Returns whether it accepted the text.
fn check(source: &str) -> bool {
    let inside = |d: &Diagnostic| {
        assert!(d.span.start <= d.span.end && d.span.end <= source.len(), "{d:?}");
        assert!(
            source.is_char_boundary(d.span.start) && source.is_char_boundary(d.span.end),
            "{d:?}"
        );
        assert!(d.position(source).0 >= 1 && !d.to_string().is_empty());
    };
    match parse(source) {
        Ok(parsed) => {
            parsed.warnings.iter().for_each(inside);
            let text = parsed.litmus.print();
            let again = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert_eq!(again.litmus, parsed.litmus, "{text}");
            true
        }
        Err(error) => {
            assert!(!error.diagnostics.is_empty());
            error.diagnostics.iter().for_each(inside);
            false
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
    let (mut inputs, mut accepted) = (0u64, 0u64);
    while inputs < 1000 || Instant::now() < end {
        let source = match rng.random_range(0..20) {
            0..3 => bytes(&mut rng),
            3..9 => soup(&mut rng),
            9 if inputs % 8 == 0 => large(&mut rng),
            _ => damaged(&mut rng),
        };
        if std::panic::catch_unwind(|| check(&source))
            .map(|ok| accepted += u64::from(ok))
            .is_err()
        {
            panic!("seed {seed}, input {inputs}:\n{source}");
        }
        inputs += 1;
    }
    println!("{inputs} inputs, {accepted} accepted, seed {seed}");
    assert!(accepted > inputs / 1000, "the generators still make valid tests");
}
