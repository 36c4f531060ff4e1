//! The dialect: what its texts mean, its diagnostics, and that printing and parsing undo one another, on random input too.
//!
//! `MOWGLI_FUZZ_S=600 cargo test -p mowgli-corerma --test it language:: -- --nocapture` fuzzes for ten minutes; `MOWGLI_FUZZ_SEED` sets
//! the seed.

use std::time::{Duration, Instant};

use mowgli::litmus::{Kind, Severity};
use mowgli::program::{Expr, Loc, Node, Reg};
use mowgli_corerma::catalogue;
use mowgli_corerma::litmus::{Formula, WORDS, is_dialect, parse};
use mowgli_corerma::program::{Access, Statement};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

const HEAD: &str = "coreRMA t\n{ x@1=0; y@2=1; }\n P0@1 | P1@2 ;\n";

fn access(loc: u16, atomic: bool) -> Access {
    Access {
        loc: Loc(loc),
        atomic,
    }
}

#[test]
fn every_statement_is_read() {
    let text = format!(
        "{HEAD} a := x | b := y.n ;\n x.n := a + 2 | y.a := -1 ;\n x.n := get(y^2) | put(x^1.n, y) ;\n \
         x := rga(y^2.n, x) | y := cas(x^1, y.n, y) ;\n flush(2) | flush(1) ;\n exists (0:a=T /\\ [x]!=1)\n"
    );
    let litmus = parse(&text).unwrap().litmus;
    let [p0, p1] = litmus.program.processes.as_slice() else {
        panic!("two processes");
    };
    assert_eq!(
        p0.code[0],
        Statement::Read {
            reg: Reg(0),
            from: access(0, true)
        }
    );
    assert_eq!(
        p0.code[2],
        Statement::Get {
            to: access(0, false),
            from: access(1, true)
        }
    );
    assert_eq!(
        p0.code[3],
        Statement::Rga {
            to: access(0, true),
            target: access(1, false),
            addend: access(0, true)
        }
    );
    assert_eq!(p0.code[4], Statement::Flush { node: Node(1) });
    assert_eq!(
        p1.code[1],
        Statement::Write {
            to: access(1, true),
            value: Expr::Const(-1)
        }
    );
    assert_eq!(
        p1.code[2],
        Statement::Put {
            to: access(0, false),
            from: access(1, true)
        }
    );
    assert_eq!(
        p1.code[3],
        Statement::Cas {
            to: access(1, true),
            target: access(0, true),
            expected: access(1, false),
            new: access(1, true)
        }
    );
    assert!(matches!(litmus.queries[0].condition.formula, Formula::And(_)));
    assert_eq!(parse(&litmus.print()).unwrap().litmus, litmus);
}

#[test]
fn the_first_word_tells_the_language() {
    assert!(is_dialect("(* c *)\ncoreRMA t\n"));
    assert!(!is_dialect("RDMA t\n"));
    let error = parse("RDMA t\n{ }\nP0@1 ;\nexists (true)\n").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the test is for `RDMA`, not for `coreRMA`"),
        "{error}"
    );
}

/// Each mistake with its kind, the text that is marked, and words of the message or remedy.
#[test]
fn mistakes_are_named_with_place_and_remedy() {
    let cases = [
        (
            "gte(y^2) | ;",
            Kind::UnknownInstruction,
            "gte",
            "did you mean `get`",
        ),
        (
            "x := gett(y^2) | ;",
            Kind::UnknownInstruction,
            "gett",
            "did you mean `get`",
        ),
        ("get(y^2) | ;", Kind::WrongOperand, "get", "x := get(..)"),
        (
            "x := put(y^2, x) | ;",
            Kind::WrongOperand,
            "put",
            "returns nothing",
        ),
        ("x := get(y) | ;", Kind::WrongOperand, "y", "write `y^2`"),
        ("x := get(y^1) | ;", Kind::WrongNode, "1", "lives on node 2"),
        ("a := y | ;", Kind::WrongNode, "y", "get(y^2)"),
        ("put(y^2, x^1) | ;", Kind::WrongOperand, "x^1", "takes no node"),
        (
            "x := y | ;",
            Kind::WrongOperand,
            "y",
            "read into a register first",
        ),
        ("a := 1 | ;", Kind::UnknownLocation, "a", "by a local read only"),
        ("x := q + 1 | ;", Kind::UnknownRegister, "q", "declare it"),
        (
            "x := x + 1 | ;",
            Kind::UnknownRegister,
            "x",
            "read it into a register",
        ),
        ("x.m := 1 | ;", Kind::Syntax, "m", "not atomic"),
        ("T := x | ;", Kind::Syntax, "T", "another name"),
        ("a.n := x | ;", Kind::WrongOperand, "a.n", "a register"),
        ("put(zebra^2, x) | ;", Kind::UnknownLocation, "zebra", "place it"),
        ("flush(0) | ;", Kind::OutOfRange, "0", "numbered from 1"),
        ("flush(2) ;", Kind::RowLength, "flush(2)", "empty cell"),
    ];
    for (row, kind, marked, words) in cases {
        let text = format!("{HEAD} {row}\n a := x | b := y ;\n exists (0:a=0)\n");
        let error = parse(&text).unwrap_err();
        let first = error
            .diagnostics
            .iter()
            .find(|d| d.severity() == Severity::Error)
            .unwrap();
        assert_eq!(first.kind, kind, "{row}: {first}");
        assert_eq!(&text[first.span.clone()], marked, "{row}: {first}");
        assert!(first.to_string().contains(words), "{row}: {first}");
    }
}

#[test]
fn mistakes_outside_the_rows_are_named() {
    let whole = |init: &str, columns: &str, end: &str| {
        format!("coreRMA t\n{{ {init} }}\n {columns} ;\n a := x ;\n {end}\n")
    };
    let cases = [
        (
            whole("x@1=0; x@1=1;", "P0@1", "exists (0:a=0)"),
            Kind::Duplicate,
            "declared twice",
        ),
        (
            whole("x@1=0; put@1=0;", "P0@1", "exists (0:a=0)"),
            Kind::WrongOperand,
            "word of the language",
        ),
        (
            whole("x@1=0;", "P0@1", "exists (0:a=0) allowed [corema;]"),
            Kind::UnknownModel,
            "did you mean `corerma`",
        ),
        (
            whole(
                "x@1=0;",
                "P0@1",
                "exists (0:a=0) allowed [corerma;] forbidden [corerma;]",
            ),
            Kind::BadExpectation,
            "two different verdicts",
        ),
        (
            whole("x@1=0;", "P0@1", "exists (0:b=0)"),
            Kind::UnknownRegister,
            "no register `b`",
        ),
        (
            whole("x@1=0;", "P0@1", "exists (1:a=0)"),
            Kind::OutOfRange,
            "no process 1",
        ),
        (
            whole("x@1=0;", "P0@1", "exists (z=0)"),
            Kind::UnknownLocation,
            "unknown location `z`",
        ),
        (
            whole("x@1=0;", "P0@1", "exists (0:a=bot)"),
            Kind::Syntax,
            "`T` for undefined",
        ),
        (
            "coreRMA t\n{ x@1=0; }\n P0@1 | P1@1 ;\n a := x | ;\nexists (0:a=0)\n".to_owned(),
            Kind::Duplicate,
            "one process a node",
        ),
        (
            whole("x@1=0; 0:a; 0:a;", "P0@1", "exists (0:a=0)"),
            Kind::Duplicate,
            "remove one declaration",
        ),
    ];
    for (text, kind, words) in cases {
        let error = parse(&text).unwrap_err();
        let found = error
            .diagnostics
            .iter()
            .any(|d| d.kind == kind && d.to_string().contains(words));
        assert!(found, "{text}{error}: {:?}", error.diagnostics);
    }
    let warned = parse(&whole("x@1; z@1=0;", "P0@1", "exists (0:a=0)"))
        .unwrap()
        .warnings;
    let kinds: Vec<Kind> = warned.iter().map(|w| w.kind).collect();
    assert_eq!(kinds, [Kind::UninitialisedLocation, Kind::UnusedLocation]);
}

fn damaged(rng: &mut StdRng) -> String {
    let words = [
        "get",
        "put",
        "rga",
        "cas",
        "flush",
        "T",
        "(",
        ")",
        "^",
        ".",
        "n",
        "a",
        ":=",
        "|",
        ";",
        "x",
        "X",
        "Y",
        "0",
        "1",
        "-",
        "exists",
        "/\\",
        "{",
        "}",
        "coreRMA",
        "\"",
        "(*",
        "9223372036854775808",
    ];
    let pick = |rng: &mut StdRng| catalogue::entries().choose(rng).unwrap().source;
    let mut text: Vec<char> = pick(rng).chars().collect();
    for _ in 0..rng.random_range(1..5) {
        let from = rng.random_range(0..=text.len());
        let to = (from + rng.random_range(0..12)).min(text.len());
        match rng.random_range(0..5) {
            0 => drop(text.drain(from..to)),
            1 => drop(text.splice(from..to, words.choose(rng).unwrap().chars())),
            2 => drop(text.splice(from..from, words.choose(rng).unwrap().chars())),
            3 => text.truncate(from),
            _ => {
                let other: Vec<char> = pick(rng).chars().collect();
                let cut = rng.random_range(0..=other.len());
                text.truncate(from);
                text.extend(&other[cut..]);
            }
        }
    }
    // The words are in the parser's list too.
    assert!(WORDS.iter().all(|w| words.contains(w)));
    text.into_iter().collect()
}

#[test]
fn no_input_makes_the_parser_panic_and_accepted_texts_print_back() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let seed = number("MOWGLI_FUZZ_SEED", 1);
    let end = Instant::now() + Duration::from_secs(number("MOWGLI_FUZZ_S", 1));
    let mut rng = StdRng::seed_from_u64(seed);
    let (mut inputs, mut accepted) = (0u64, 0u64);
    while inputs < 1000 || Instant::now() < end {
        let text = damaged(&mut rng);
        match parse(&text) {
            Ok(parsed) => {
                let printed = parsed.litmus.print();
                let again = parse(&printed).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{printed}"));
                assert_eq!(again.litmus, parsed.litmus, "seed {seed}:\n{printed}");
                accepted += 1;
            }
            Err(error) => {
                assert!(!error.diagnostics.is_empty());
                for d in &error.diagnostics {
                    assert!(
                        text.get(d.span.clone()).is_some(),
                        "seed {seed}: {d:?} marks a place outside\n{text}"
                    );
                }
            }
        }
        inputs += 1;
    }
    println!("{inputs} inputs, {accepted} accepted, seed {seed}");
    assert!(accepted > inputs / 100);
}
