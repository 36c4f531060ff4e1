//! Draws the parser's diagnostics under the source text, in the form that rustc made familiar.

use std::io::IsTerminal;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use mowgli::litmus::{Diagnostic, Severity, Span};

/// Prints diagnostics to standard error.
pub(crate) fn print(path: &str, source: &str, diagnostics: &[Diagnostic]) {
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let renderer = if colour {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    for diagnostic in diagnostics {
        eprintln!("{}\n", render(&renderer, path, source, diagnostic));
    }
}

fn render(renderer: &Renderer, path: &str, source: &str, diagnostic: &Diagnostic) -> String {
    let level = match diagnostic.severity() {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    // A text beyond the size limit is not drawn: only the message is of use.
    if source.len() > mowgli::litmus::limits::SOURCE_BYTES_MAX {
        let title = level
            .primary_title(&diagnostic.message)
            .id(diagnostic.kind.code());
        return renderer.render(&[Group::with_title(title)]);
    }
    let primary = AnnotationKind::Primary
        .span(inside(source, &diagnostic.span))
        .label(&diagnostic.label);
    let mut snippet = Snippet::source(source).path(path).annotation(primary);
    for (span, words) in &diagnostic.related {
        snippet = snippet.annotation(AnnotationKind::Context.span(inside(source, span)).label(words));
    }
    let mut group = level
        .primary_title(&diagnostic.message)
        .id(diagnostic.kind.code())
        .element(snippet);
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(help));
    }
    renderer.render(&[group])
}

/// The span cut to the text, on character boundaries.
fn inside(source: &str, span: &Span) -> Span {
    let boundary = |mut at: usize| {
        at = at.min(source.len());
        while !source.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    boundary(span.start)..boundary(span.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnostic_shows_file_line_column_and_remedy() {
        let source = "RDMA t\n{ x@1=0; }\nP0@1 ;\n  mfnece ;\nexists (x=0)\n";
        let error = mowgli::litmus::parse(source).unwrap_err();
        let text = render(&Renderer::plain(), "t.litmus", source, &error.diagnostics[0]);
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
        let text = render(&Renderer::plain(), "t.litmus", source, &error.diagnostics[0]);
        assert!(text.contains("expected a final condition"), "{text}");
    }
}
