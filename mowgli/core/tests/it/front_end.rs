//! The conventions that every language shares: comments, numbers, names, conditions, and how a text is refused.

use mowgli::cat::{Embedded, ModelFile};
use mowgli::litmus;
use mowgli::star::x86;
use mowgli::syntax::{Diagnostic, Kind};

/// A language, with an accepted text in which `@` marks where white space may stand.
struct Language {
    name: &'static str,
    text: &'static str,
    parse: fn(&str) -> Result<(), Vec<Diagnostic>>,
}

const LANGUAGES: [Language; 4] = [
    Language {
        name: "RDMA",
        text: "RDMA t\n@{ x@1=0;@ }\nP0@1 @;\nx := 1@ ;\nexists @(x=1@)@\n",
        parse: |text| {
            let parsed = litmus::parse(text);
            parsed.map(drop).map_err(|e| e.diagnostics)
        },
    },
    Language {
        name: "X86",
        text: "X86 t\n@{ x=0;@ }\nP0 @;\nMOV [x]@,$1@ ;\nexists @(x=1@)@\n",
        parse: |text| x86::parse(text).map(drop).map_err(|e| e.diagnostics),
    },
    Language {
        name: "X86_64",
        text: "X86_64 t\n@{ x=0;@ }\nP0 @;\nmovl $1@,(x)@ ;\nexists @(x=1@)@\n",
        parse: |text| x86::parse(text).map(drop).map_err(|e| e.diagnostics),
    },
    Language {
        name: "model file",
        text: "@model\n@acyclic @(po | rf@)@ as a@\n",
        parse: |text| {
            let parsed = ModelFile::parse("t.cat", text, &Embedded);
            let found = parsed.map(drop);
            found.map_err(|errors| errors.into_iter().map(|e| e.diagnostic).collect())
        },
    },
];

/// Returns the text with `what` at mark `at`, and the place of `what`; nothing after the last mark. Nodes have an `@`, too, which a digit
/// follows.
fn with(text: &str, at: usize, what: &str) -> Option<(String, usize)> {
    let is_mark = |&(i, _): &(usize, &str)| !text[i + 1..].starts_with(|c: char| c.is_ascii_digit());
    let marks: Vec<usize> = text.match_indices('@').filter(is_mark).map(|(i, _)| i).collect();
    let place = *marks.get(at)?;
    let mut out = String::new();
    let mut start = 0;
    let mut found = 0;
    for mark in marks {
        out.push_str(&text[start..mark]);
        if mark == place {
            found = out.len();
            out.push_str(what);
        }
        start = mark + 1;
    }
    out.push_str(&text[start..]);
    Some((out, found))
}

/// Calls `check` with every text that has `what` at a mark.
fn each(what: &str, check: impl Fn(&str, Result<(), Vec<Diagnostic>>, usize)) {
    for language in LANGUAGES {
        let mut at = 0;
        while let Some((text, place)) = with(language.text, at, what) {
            let words = format!("{}:\n{text}", language.name);
            check(&words, (language.parse)(&text), place);
            at += 1;
        }
        assert!(at > 4, "{} has {at} marks", language.name);
    }
}

#[test]
fn comments_nest_everywhere() {
    for comment in ["", " (* a (* b *) ; \" } *) ", "(* a *)(* b *)", "(* é\n *)"] {
        each(comment, |words, found, _| assert_eq!(found, Ok(()), "{words}"));
    }
}

#[test]
fn a_comment_without_end_is_marked_where_it_starts() {
    each("(* a (* b *)", |words, found, place| {
        let first = &found.unwrap_err()[0];
        assert_eq!(
            (first.kind, &first.span),
            (Kind::BadToken, &(place..place + 2)),
            "{words}"
        );
        assert_eq!(first.message, "this comment is never closed");
        assert!(first.help.as_ref().is_some_and(|help| help.contains("*)")));
    });
}

#[test]
fn comments_too_deep_are_refused_with_the_bound() {
    let deep = "(*".repeat(1000) + &"*)".repeat(1000);
    each(&deep, |words, found, place| {
        let first = &found.unwrap_err()[0];
        assert_eq!(
            (first.kind, first.span.start),
            (Kind::LimitExceeded, place),
            "{words}"
        );
        assert!(first.message.contains("NESTING_MAX"), "{words}");
    });
}

#[test]
fn a_strange_character_is_marked_and_nothing_else() {
    each("§", |words, found, place| match found {
        Err(errors) => assert_eq!(
            (errors[0].kind, &errors[0].span),
            (Kind::BadToken, &(place..place + 2)),
            "{words}: {errors:?}"
        ),
        // Between header and init block herd7's tests have notes in any language.
        Ok(()) => assert!(words.starts_with("X86") && words.contains("§{"), "{words}"),
    });
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_text() {
    for language in LANGUAGES {
        let (text, _) = with(language.text, 0, "").unwrap();
        assert_eq!(
            (language.parse)(&format!("\u{feff}{text}")),
            Ok(()),
            "{}",
            language.name
        );
    }
}

/// What a condition may be is the same in every language that has conditions.
#[test]
fn conditions_have_one_grammar() {
    let conditions = [
        ("exists (x=1)", true),
        ("~exists x=1 /\\ (x!=0 \\/ ~(x=2))", true),
        ("not exists (not x=1)", true),
        ("forall (x<>0x1f)", true),
        ("exists (true \\/ false)", true),
        ("locations [x;] exists ([x]=1)", true),
        ("exists (x=1", false),
        ("exists x", false),
        ("~ forall (x=1)", false),
        ("exists (x=1 /\\)", false),
        ("exists (y == 1)", false),
        ("allowed [rdma-tso;]", false),
        ("", false),
    ];
    for (condition, accepted) in conditions {
        for language in &LANGUAGES[..3] {
            let (text, _) = with(language.text, 0, "").unwrap();
            let body = text.split("exists").next().unwrap();
            let found = (language.parse)(&format!("{body}{condition}\n"));
            assert_eq!(
                found.is_ok(),
                accepted,
                "{} {condition}: {found:?}",
                language.name
            );
        }
    }
}
