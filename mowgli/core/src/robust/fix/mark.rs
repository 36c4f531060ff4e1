//! Prints a mended program as a litmus test, with its changes marked by comments.

use std::collections::BTreeMap;

use super::Mended;
use super::edit::ChangeKind;
use crate::litmus::{Expected, Litmus, Property, Query, Setting, Statement};
use crate::model::Model;
use crate::robust::Question;

/// Returns the mended form of a test: its name with `+mended`, its conditions, the verdicts that it states for `sc`, which now hold
/// under the model too, and that it is robust.
pub fn litmus(litmus: &Litmus, mended: &Mended, question: &Question) -> Litmus {
    let own = |model| Setting {
        model,
        rmw: question.rmw,
    };
    let sc = Setting {
        model: Model::Sc,
        rmw: Default::default(),
    };
    let verdicts = |query: &Query| {
        let stated = query
            .expected
            .get(&sc)
            .or_else(|| query.expected.get(&own(Model::Sc)));
        let mut expected = Expected::new();
        if let Some(&verdict) = stated {
            expected.insert(sc, verdict);
            expected.insert(own(question.model), verdict);
        }
        Query {
            condition: query.condition.clone(),
            expected,
        }
    };
    Litmus {
        name: format!("{}+mended", litmus.name),
        description: litmus.description.clone(),
        program: mended.program.clone(),
        observed: litmus.observed.clone(),
        queries: litmus.queries.iter().map(verdicts).collect(),
        stated: vec![Statement {
            property: Property::Robust,
            setting: own(question.model),
            holds: true,
        }],
    }
}

/// Prints the mended form of a test. Every line that has changed says how in a comment.
pub fn print(test: &Litmus, mended: &Mended, question: &Question) -> String {
    let mut notes: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
    for thread in 0..mended.program.threads.len() {
        let applied = mended.bench.thread(thread, &mended.edits, &mended.costs);
        for (index, mark) in applied.marks.iter().enumerate() {
            let text = match mark {
                Some(ChangeKind::MovedHere) => "moved up",
                Some(_) => "added",
                None => continue,
            };
            notes.entry((thread, index)).or_default().push(text.to_owned());
        }
        let last = applied.code.len().saturating_sub(1);
        for (place, now) in &applied.gone {
            let code = &mended.bench.base.threads[thread];
            let poll = crate::program::at(&code.code, place);
            let poll = poll.map_or_else(String::new, |i| {
                crate::litmus::instruction(&mended.bench.base, code, i)
            });
            let at = usize::from(now[0]);
            let (at, text) = match (now.len() > 1, at > last) {
                (true, _) => (at, format!("{poll} stood inside")),
                (false, true) => (last, format!("{poll} stood after this")),
                (false, false) => (at, format!("{poll} stood here")),
            };
            notes.entry((thread, at)).or_default().push(text);
        }
        for now in &applied.named {
            let text = if now.len() == 1 { "named" } else { "named inside" };
            let notes = notes.entry((thread, usize::from(now[0]))).or_default();
            if !notes.iter().any(|note| note == text) {
                notes.push(text.to_owned());
            }
        }
        let mut inner: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (place, instr) in &applied.inner {
            let text =
                crate::litmus::instruction(&mended.bench.base, &mended.bench.base.threads[thread], instr);
            inner.entry(usize::from(place[0])).or_default().push(text);
        }
        for (index, instrs) in inner {
            let text = format!("added inside: {}", instrs.join(", "));
            notes.entry((thread, index)).or_default().push(text);
        }
    }
    let note = |thread: usize, index: usize| notes.get(&(thread, index)).map(|all| all.join("; "));
    litmus(test, mended, question).print_with(&note)
}
