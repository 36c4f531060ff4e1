//! `mowgli robust --fix`: the cheapest fences and polls that make a test robust.

use std::fmt::Write;

use mowgli::counted::counted;
use mowgli::litmus::{Litmus, Setting};
use mowgli::outcome::Budget;
use mowgli::robust::fix::{self, Change, Costs, Mended, Minimal};
use mowgli::robust::{Exact, Question, Theorem};
use serde::Serialize;

use crate::source::Test;

/// The mended form of a test, in JSON reports.
#[derive(Debug, Serialize)]
pub(super) struct Fix {
    /// Whether a mended form was found.
    mended: bool,
    /// Why there is none.
    reason: Option<String>,
    /// The sum of the costs.
    cost: Option<u64>,
    /// Whether the cost was proved minimal.
    minimal: Option<Minimal>,
    /// The changes.
    changes: Vec<Change>,
    /// The theorem that says that the mended program is robust.
    theorem: Option<Theorem>,
    /// Whether the exact search says that the mended program is robust; null if a limit ended it.
    exactly_robust: Option<bool>,
    /// The mended test.
    text: Option<String>,
}

/// Mends a test. Returns the JSON and the text of the report.
pub(super) fn fix(
    test: &Test,
    setting: Setting,
    question: &Question,
    costs: &Costs,
    exactly: bool,
    budget: &Budget<'_>,
) -> (Fix, String) {
    let program = &test.litmus.program;
    let mended = match exactly {
        true => fix::mend_exactly(program, question, costs, budget),
        false => fix::mend(program, question, costs, budget),
    };
    match mended {
        Ok(mended) => shown(test, setting, question, costs, exactly, &mended, budget),
        Err(error) => unmended(&error),
    }
}

/// Mends a test for a network that orders less. Returns the JSON and the text of the report.
pub(super) fn fix_on_tier(
    test: &Test,
    setting: Setting,
    costs: &Costs,
    budget: &Budget<'_>,
) -> (Fix, String) {
    let question = Question {
        rmw: setting.rmw,
        ..Question::of(setting.model)
    };
    let found = fix::mend_on_tier(&test.litmus.program, &question, costs, budget);
    let requested = match found {
        Ok(requested) => requested,
        Err(error) => return unmended(&error),
    };
    let base = &requested.base;
    let mut text = String::new();
    let listing = Litmus {
        program: requested.program.clone(),
        ..fix::litmus(&test.litmus, base, &question)
    };
    let listing = listing.print();
    if base.changes.is_empty() && requested.requests.is_empty() {
        let _ = writeln!(text, "Nothing to mend: robust under {setting}");
    } else {
        let _ = writeln!(
            text,
            "Mended at cost {} ({costs}) as on the papers' network, and then by {} for strong order, the fewest that do after that; whether less would do in all was left open; robust exhaustively:\n",
            base.cost,
            counted(requested.requests.len(), "request")
        );
        text.push_str(&listing);
    }
    let fix = Fix {
        mended: true,
        reason: None,
        cost: Some(base.cost),
        // Only the changes for the papers' network may be proved to be the least, and there.
        minimal: Some(Minimal::NotProved),
        changes: base.changes.clone(),
        theorem: None,
        exactly_robust: Some(true),
        text: Some(listing),
    };
    (fix, text)
}

fn unmended(error: &fix::Unmended) -> (Fix, String) {
    let text = format!("Not mended: {error}\n");
    let fix = Fix {
        mended: false,
        reason: Some(error.to_string()),
        cost: None,
        minimal: None,
        changes: Vec::new(),
        theorem: None,
        exactly_robust: None,
        text: None,
    };
    (fix, text)
}

fn shown(
    test: &Test,
    setting: Setting,
    question: &Question,
    costs: &Costs,
    exactly: bool,
    mended: &Mended,
    budget: &Budget<'_>,
) -> (Fix, String) {
    // The question is asked again about the program that is shown, however it was found.
    let verified = mended.verify(question, budget);
    let robust = verified.is_robust();
    let theorem = verified.conditions.theorem();
    let exactly_robust = match &verified.exact {
        Exact::Robust => Some(true),
        Exact::NotRobust(_) => Some(false),
        Exact::Unknown(_) => None,
    };
    let listing = robust.then(|| fix::print(&test.litmus, mended, question));
    let mut text = String::new();
    if mended.changes.is_empty() && robust {
        let _ = writeln!(text, "Nothing to mend: robust under {setting}");
    } else if let Some(listing) = &listing {
        let how = match (exactly, mended.minimal) {
            (false, Minimal::Proved) => "the least by which the conditions hold",
            (true, Minimal::Proved) => "no less makes it robust, if polls follow each added get",
            (_, Minimal::NotProved) => "whether less would do was left open",
        };
        let by = match (theorem, exactly_robust) {
            (Some(theorem), Some(true)) => format!("by {} and exhaustively", name(theorem)),
            (Some(theorem), _) => format!("by {}; the exact search did not finish", name(theorem)),
            (None, _) => "exhaustively; the conditions do not show it".to_owned(),
        };
        let _ = writeln!(
            text,
            "Mended at cost {} ({costs}), {how}; robust {by}:\n",
            mended.cost
        );
        text.push_str(listing);
    }
    let reason = (!robust).then(|| match &verified.exact {
        Exact::Unknown(limit) => format!("the result could not be checked: {}", limit.advice()),
        _ => "the result is not robust, which is a mistake of this program; please report it".to_owned(),
    });
    if let Some(reason) = &reason {
        let _ = writeln!(text, "Not mended: {reason}");
    }
    let fix = Fix {
        mended: robust,
        reason,
        cost: Some(mended.cost),
        minimal: Some(mended.minimal),
        changes: mended.changes.clone(),
        theorem,
        exactly_robust,
        text: listing,
    };
    (fix, text)
}

fn name(theorem: Theorem) -> &'static str {
    match theorem {
        Theorem::Corollary1 => "Corollary 1",
        Theorem::Theorem5 => "Theorem 5",
    }
}
