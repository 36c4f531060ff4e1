//! Implementations as texts against the same ones in Rust, and mistakes in texts.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicU64;

use mowgli_libraries::client::{Client, Setting};
use mowgli_libraries::enumerate::{Bounds, for_each_client};
use mowgli_libraries::implementation::{Implementation, Rules};
use mowgli_libraries::implementations::list::{self, Named};
use mowgli_libraries::judge::ITERATIONS_MAX;
use mowgli_libraries::local::{Found, LocalSoundness};
use mowgli_libraries::outcome::Budget;
use mowgli_libraries::outcomes::outcomes;
use mowgli_libraries::over_clients::{Summary, over_clients};
use mowgli_libraries::refine::Refinement;
use mowgli_libraries::text::{self, Text};

fn read(text: &str) -> Text {
    text::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Returns an implementation in the place of a built-in one.
fn in_place<'a>(of: &Named<'a>, implementation: &'a dyn Implementation) -> Named<'a> {
    Named {
        implementation,
        ..of.clone()
    }
}

/// Calls `visit` with every client within the bounds.
fn clients(bounds: &Bounds, visit: &mut dyn FnMut(&Client)) {
    let flow = for_each_client(bounds, &mut |client| {
        visit(&client);
        ControlFlow::Continue(())
    });
    assert!(flow.is_continue());
}

/// The texts have the outcomes of the code, on all clients of a size, and are locally sound where the code is.
#[test]
fn each_text_is_the_code_beside_it() {
    for (file, source) in text::FILES {
        let text = read(source);
        assert_eq!(format!("{}.impl", text.name()), file);
        let named = list::by_name(text.name()).unwrap();
        let written = in_place(named, &text);
        let (code, words) = (
            named.implemented(ITERATIONS_MAX),
            written.implemented(ITERATIONS_MAX),
        );
        let mut count = 0;
        clients(&named.bounds(3), &mut |client| {
            let found = outcomes(client, &words, Budget::default());
            assert_eq!(
                found.outcomes,
                outcomes(client, &code, Budget::default()).outcomes,
                "{file}\n{}",
                client.print()
            );
            count += 1;
        });
        assert!(count > 20, "{file}: {count} clients");
        let specified = named.specified(ITERATIONS_MAX);
        let specification = specified.libraries.get(text.library()).unwrap();
        clients(&named.local_bounds(2), &mut |client| {
            let locally = |implementation: &dyn Implementation, rules: &Rules<'_>| {
                let local = LocalSoundness {
                    implementation,
                    specification,
                    rules,
                    executions_max: 100_000,
                };
                local.check(client, Budget::default())
            };
            assert_eq!(
                locally(named.implementation, &code),
                Found::Sound,
                "{file}\n{}",
                client.print()
            );
            assert_eq!(locally(&text, &words), Found::Sound, "{file}\n{}", client.print());
        });
    }
}

fn refine(named: &Named<'_>, calls: usize) -> Summary {
    let refinement = Refinement {
        implementation: &named.implemented(ITERATIONS_MAX),
        specification: &named.specified(ITERATIONS_MAX),
    };
    over_clients(
        &refinement,
        &named.bounds(calls),
        Budget::default(),
        &AtomicU64::new(0),
    )
}

/// A mistake in a text is refuted as the same mistake in code is, by a client of the same size.
#[test]
fn mistakes_in_texts_are_refuted() {
    let mistakes = [
        (
            "I_SV/fence-without-wait",
            "I_SV.impl",
            "    wait(id(mine));\n",
            "",
        ),
        (
            "I_BAL/no-fence",
            "I_BAL.impl",
            "    gf_sv(nodes_of(participants(x)));\n",
            "",
        ),
        ("I_BAL/at-least", "I_BAL.impl", "seen > v", "seen >= v"),
        (
            "I_RBL/no-room-check",
            "I_RBL.impl",
            "    if (h - least + len(message) + 1 > size(x)) { return false; }\n",
            "",
        ),
        ("I_MSW/hash-is-sum", "I_MSW.impl", "h * 1009 + word", "h + word"),
        (
            "I_W/no-poll",
            "I_W.impl",
            "while (pending(n, d)) { poll(n); }",
            "",
        ),
    ];
    for (name, file, right, wrong) in mistakes {
        let source = text::find(file).unwrap();
        assert!(source.contains(right), "{file} has no longer {right}");
        let text = read(&source.replace(right, wrong));
        let named = list::by_name(name).unwrap();
        let calls = named.refuted_with.unwrap();
        let written = in_place(named, &text);
        let found = refine(&written, calls);
        let failure = found
            .failure
            .unwrap_or_else(|| panic!("{name} as text is not refuted with {calls} calls"));
        assert_eq!(failure.client.calls(), calls, "{name}");
    }
}

/// A text of one's own: a shared variable whose writes are sent to everybody at once.
#[test]
fn an_idea_is_checked_as_text() {
    let text = read(
        "IMPLEMENTATION eager\n\"sends every write at once\"\n\
         write_sv(x, v) { write(x@here(), v); for n in without(nodes(), here()) { put(x@n, x@here(), _); } }\n\
         read_sv(x) { r := read(x@here()); return r; }\n",
    );
    assert_eq!(text.description(), Some("sends every write at once"));
    let of = Named {
        name: "eager",
        about: "",
        implementation: &text,
        below: &[],
        setting: Setting::Spec,
        refuted_with: None,
    };
    let failure = refine(&of, 2)
        .failure
        .expect("another node sees the value without a broadcast");
    assert_eq!(failure.client.calls(), 2);
}

#[test]
fn mistakes_of_writing_have_a_place_and_a_remedy() {
    let text = |body: &str| format!("IMPLEMENTATION t\n{body}\n");
    for (body, message, help) in [
        ("", "expected a method", "write_sv(x, v)"),
        ("write_sv(x) { }", "has 2 parameters, not 1", "write_sv(x, v)"),
        (
            "write_sv(x, v) { writ(x, v); }",
            "no method, procedure or function `writ`",
            "`write`",
        ),
        (
            "write_sv(x, v) { write(x); }",
            "takes 2 arguments, not 1",
            "write(x, v)",
        ),
        (
            "write_sv(x, v) { write(v, v); }",
            "this is a value, and a location is due",
            "x.head",
        ),
        (
            "write_sv(x, v) { write(x, x); }",
            "this is a location, and a value is due",
            "numbers",
        ),
        ("wait_sv(d) { wait(1); }", "and a work identifier is due", "id(x)"),
        (
            "read_sv(object) { return r; }",
            "`r` holds nothing here",
            "assign it first",
        ),
        (
            "read_sv(x) { r := read(x); return rr; }",
            "`rr` holds nothing",
            "did you mean `r`",
        ),
        (
            "read_sv(x) { r := 1 + read(x); }",
            "stands inside an expression",
            "register first",
        ),
        (
            "read_sv(x) { r := write(x, 1); }",
            "returns nothing",
            "leave the register out",
        ),
        (
            "read_sv(x) { r := 1; r := x; }",
            "`r` holds a value",
            "another register",
        ),
        ("read_sv(x) { } read_sv(x) { }", "stands twice", "rename"),
        ("read_sv(x) { } barrier(b) { }", "is of barrier", "one library"),
        (
            "read_sv(x) { } stamp read_sv aXX = last read;",
            "no stamp `aXX`",
            "aCR",
        ),
        (
            "read_sv(x) { } stamp read_sv aCR = middle read;",
            "`first` or `last`",
            "",
        ),
        ("gf_sv(s) { for n of s { } }", "expected `in`", "for n in"),
        (
            "gf_sv(s) { f(1); } f(n) { }",
            "no method, procedure or function `f`",
            "",
        ),
        ("read_sv(x) { r := x.a[x]; }", "a value is due", ""),
        ("read_sv(x) { await x; }", "a condition stands in parentheses", ""),
    ] {
        let source = text(body);
        let error = text::parse(&source).expect_err(body);
        let first = &error.diagnostics[0];
        let said = format!("{} {}", first.message, first.help.as_deref().unwrap_or_default());
        assert!(said.contains(message) && said.contains(help), "{body}: {said}");
        assert!(first.span.end <= source.len(), "{body}");
    }
}
