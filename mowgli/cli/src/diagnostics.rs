//! Draws the parser's diagnostics under the source text, in the form that rustc made familiar, and writes them as JSON.

use std::collections::{BTreeMap, BTreeSet};

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use mowgli::syntax::{self, Diagnostic, Located, Severity, Span};
use serde::Serialize;

use crate::output::{complain, is_coloured};

/// The diagnostics of one text, as JSON reports have them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// The path of the text.
    path: String,
    /// The diagnostics, in the order of the text.
    diagnostics: Vec<Entry>,
}

/// One diagnostic.
#[derive(Clone, Debug, Serialize)]
struct Entry {
    severity: &'static str,
    code: &'static str,
    message: String,
    /// Line of the start, from 1.
    line: usize,
    /// Column of the start, from 1, in characters.
    column: usize,
    help: Option<String>,
}

/// Prints diagnostics of a model and of the files that it includes to standard error.
pub(crate) fn print_model(found: &[Located]) {
    let renderer = renderer();
    for Located { source, diagnostic } in found {
        let drawn = draw(&renderer, &source.name, &source.text, diagnostic);
        complain(format_args!("{drawn}\n"));
    }
}

fn renderer() -> Renderer {
    if is_coloured(&std::io::stderr()) {
        Renderer::styled()
    } else {
        Renderer::plain()
    }
}

/// Prints diagnostics to standard error.
pub(crate) fn print(path: &str, source: &str, diagnostics: &[Diagnostic]) -> Report {
    let renderer = renderer();
    for diagnostic in diagnostics {
        complain(format_args!("{}\n", draw(&renderer, path, source, diagnostic)));
    }
    report(path, source, diagnostics)
}

/// The most tests whose warnings of one kind are drawn one by one.
const DRAWN_MAX: usize = 3;

/// Prints the warnings of several tests, each with its path and text. Warnings of one kind in more than [`DRAWN_MAX`] tests are one line
/// with their number.
pub(crate) fn print_warnings(found: &[(String, String, Vec<Diagnostic>)]) -> Vec<Report> {
    let mut tests_of: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (_, _, warnings) in found {
        let codes: BTreeSet<&str> = warnings.iter().map(|w| w.kind.code()).collect();
        codes
            .iter()
            .for_each(|code| tests_of.entry(code).or_default().0 += 1);
        warnings
            .iter()
            .for_each(|w| tests_of.entry(w.kind.code()).or_default().1 += 1);
    }
    let many = |d: &Diagnostic| tests_of[d.kind.code()].0 > DRAWN_MAX;
    let renderer = renderer();
    for (path, source, warnings) in found {
        for warning in warnings.iter().filter(|w| !many(w)) {
            complain(format_args!("{}\n", draw(&renderer, path, source, warning)));
        }
    }
    for (code, (tests, warnings)) in &tests_of {
        let of = |ds: &[Diagnostic]| ds.iter().position(|d| d.kind.code() == *code);
        let first = found
            .iter()
            .find_map(|(path, source, ds)| Some((path, source, &ds[of(ds)?])));
        if let (true, Some((path, source, first))) = (*tests > DRAWN_MAX, first) {
            let (line, column) = first.position(source);
            complain(format_args!(
                "warning[{code}]: {warnings} warnings in {tests} tests, the first at {path}:{line}:{column}: {}\n",
                first.message
            ));
        }
    }
    found
        .iter()
        .map(|(path, source, ds)| report(path, source, ds))
        .collect()
}

fn report(path: &str, source: &str, diagnostics: &[Diagnostic]) -> Report {
    let entry = |d: &Diagnostic| {
        let (line, column) = d.position(source);
        Entry {
            severity: d.severity().word(),
            code: d.kind.code(),
            message: d.message.clone(),
            line,
            column,
            help: d.help.clone(),
        }
    };
    Report {
        path: path.to_owned(),
        diagnostics: diagnostics.iter().map(entry).collect(),
    }
}

/// Prints that a text is not UTF-8; `valid` is the text before the first wrong byte.
pub(crate) fn print_not_utf8(path: &str, valid: &str) -> Report {
    let (line, column) = syntax::position(valid, valid.len());
    let message = "the text is not UTF-8".to_owned();
    let help = "save the file as UTF-8".to_owned();
    complain(format_args!(
        "error[not-utf-8]: {message}\n --> {path}:{line}:{column}\n  = help: {help}\n"
    ));
    let entry = Entry {
        severity: "error",
        code: "not-utf-8",
        message,
        line,
        column,
        help: Some(help),
    };
    Report {
        path: path.to_owned(),
        diagnostics: vec![entry],
    }
}

fn draw(renderer: &Renderer, path: &str, source: &str, diagnostic: &Diagnostic) -> String {
    let level = match diagnostic.severity() {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level
        .primary_title(&diagnostic.message)
        .id(diagnostic.kind.code());
    // A text beyond the size limit is not drawn: only its name and the message are of use.
    if source.len() > mowgli::litmus::limits::SOURCE_BYTES_MAX {
        let mut group = title.element(Origin::path(path));
        if let Some(help) = &diagnostic.help {
            group = group.element(Level::HELP.message(help));
        }
        return renderer.render(&[group]);
    }
    let primary = AnnotationKind::Primary
        .span(inside(source, &diagnostic.span))
        .label(&diagnostic.label);
    let mut snippet = Snippet::source(source).path(path).annotation(primary);
    for (span, words) in &diagnostic.related {
        snippet = snippet.annotation(AnnotationKind::Context.span(inside(source, span)).label(words));
    }
    let mut group: Group<'_> = title.element(snippet);
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(help));
    }
    renderer.render(&[group])
}

/// Returns the span cut to the text, on character boundaries.
fn inside(source: &str, span: &Span) -> Span {
    syntax::char_boundary(source, span.start)..syntax::char_boundary(source, span.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnostic_shows_file_line_column_and_remedy() {
        let source = "RDMA t\n{ x@1=0; }\nP0@1 ;\n  mfnece ;\nexists (x=0)\n";
        let error = mowgli::litmus::parse(source).unwrap_err();
        let text = draw(&Renderer::plain(), "t.litmus", source, &error.diagnostics[0]);
        assert!(
            text.contains("error[unknown-instruction]: unknown instruction `mfnece`"),
            "{text}"
        );
        assert!(text.contains("t.litmus:4:3"), "{text}");
        assert!(text.contains("^^^^^^"), "{text}");
        assert!(text.contains("help: did you mean `mfence`?"), "{text}");
    }

    #[test]
    fn a_mark_at_the_very_end_is_drawn() {
        let source = "RDMA t\n{ x@1=0; }\nP0@1 ;\n";
        let error = mowgli::litmus::parse(source).unwrap_err();
        let text = draw(&Renderer::plain(), "t.litmus", source, &error.diagnostics[0]);
        assert!(text.contains("expected a final condition"), "{text}");
    }
}
