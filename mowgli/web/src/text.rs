//! Texts as the page sees them: places count UTF-16 code units, as in JavaScript.

use mowgli::litmus;
use mowgli::star::x86;
use mowgli::syntax::{self, Span};
use mowgli_corerma::litmus as corerma;
use mowgli_libraries::client;
use serde::Serialize;

use crate::jobs::Refusal;

/// A range of a text, in UTF-16 code units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Range {
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// Places of a text: for each byte, how many code units come before it.
pub(crate) struct Places {
    units: Vec<u32>,
}

impl Places {
    pub(crate) fn of(text: &str) -> Places {
        let mut units = Vec::with_capacity(text.len() + 1);
        let mut before = 0;
        for c in text.chars() {
            units.extend(std::iter::repeat_n(before, c.len_utf8()));
            before += c.len_utf16() as u32;
        }
        units.push(before);
        Places { units }
    }

    pub(crate) fn range(&self, span: &Span) -> Range {
        Range {
            from: self.units(span.start),
            to: self.units(span.end.max(span.start)),
        }
    }

    fn units(&self, byte: usize) -> usize {
        self.units[byte.min(self.units.len() - 1)] as usize
    }
}

/// A diagnostic as the page shows it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Diagnostic {
    pub(crate) severity: &'static str,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) label: String,
    pub(crate) help: Option<String>,
    #[serde(flatten)]
    pub(crate) at: Range,
}

/// Turns diagnostics of a test or a client into those of the page.
pub(crate) fn diagnostics(text: &str, found: &[syntax::Diagnostic]) -> Vec<Diagnostic> {
    let places = Places::of(text);
    found.iter().map(|d| diagnostic(&places, d)).collect()
}

/// Turns a diagnostic into one of the page.
pub(crate) fn diagnostic(places: &Places, found: &syntax::Diagnostic) -> Diagnostic {
    Diagnostic {
        severity: found.severity().word(),
        code: found.kind.code(),
        message: found.message.clone(),
        label: found.label.clone(),
        help: found.help.clone(),
        at: places.range(&found.span),
    }
}

/// A text that was read.
pub(crate) enum Source {
    /// A litmus test.
    Litmus(Box<litmus::Parsed>),
    /// A test of coreRMA.
    CoreRma(Box<corerma::Parsed>),
    /// A client of libraries.
    Client(Box<client::Parsed>),
}

/// Reads a text as a test of coreRMA or for x86 if its first word says so, else as a litmus test or as a client. An error comes with the kind of text that it was taken for.
pub(crate) fn read(text: &str) -> Result<Source, (&'static str, litmus::ParseError)> {
    if corerma::is_dialect(text) {
        let parsed = corerma::parse(text).map_err(|error| ("corerma", error))?;
        return Ok(Source::CoreRma(Box::new(parsed)));
    }
    if x86::is_x86(text) {
        let litmus = x86::parse(text).map_err(|error| ("litmus", error))?;
        let threads = litmus.program.threads.iter();
        return Ok(Source::Litmus(Box::new(litmus::Parsed {
            // The reader of these tests keeps no places.
            instructions: threads.map(|_| Vec::new()).collect(),
            warnings: Vec::new(),
            litmus,
        })));
    }
    let as_test = match litmus::parse(text) {
        Ok(parsed) => return Ok(Source::Litmus(Box::new(parsed))),
        Err(error) => error,
    };
    match client::parse(text) {
        Ok(parsed) => Ok(Source::Client(Box::new(parsed))),
        Err(error) => {
            let has_objects = text.lines().any(|line| line.trim_start().starts_with("objects"));
            match has_objects || error.diagnostics.len() < as_test.diagnostics.len() {
                true => Err(("client", error)),
                false => Err(("litmus", as_test)),
            }
        }
    }
}

/// Reads a text that must be a litmus test.
pub(crate) fn litmus(text: &str) -> Result<litmus::Parsed, Refusal> {
    match read(text) {
        Ok(Source::Litmus(parsed)) => Ok(*parsed),
        Ok(Source::CoreRma(_) | Source::Client(_)) => Err(Refusal::Wrong(
            "this is for tests of RDMA: clients of libraries and tests of coreRMA have no machine here"
                .to_owned(),
        )),
        Err((_, error)) => Err(Refusal::Wrong(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_for_x86_are_litmus_tests() {
        let text = "X86_64 SB\n{ }\n P0 | P1 ;\n movl $1,(x) | movl $1,(y) ;\n movl (y),%eax | movl (x),%eax ;\n\
                    exists (0:rax=0 /\\ 1:rax=0)\n";
        let parsed = litmus(text).unwrap();
        assert_eq!(parsed.litmus.program.threads.len(), 2);
        assert_eq!(parsed.instructions.len(), 2);
        assert_eq!(
            read("X86_64 SB\n{ }\n P0 ;\n nonsense ;\nexists (x=0)\n")
                .err()
                .unwrap()
                .0,
            "litmus"
        );
    }

    #[test]
    fn places_count_as_javascript_does() {
        let text = "a\u{1F600}b\u{e9}c";
        let places = Places::of(text);
        let at = |s: &str| text.find(s).unwrap();
        assert_eq!(places.range(&(at("b")..at("b") + 1)), Range { from: 3, to: 4 });
        assert_eq!(places.range(&(at("c")..text.len())), Range { from: 5, to: 6 });
        assert_eq!(places.range(&(99..100)), Range { from: 6, to: 6 });
    }

    #[test]
    fn every_text_of_the_catalogue_is_read_as_what_it_is() {
        for entry in mowgli::catalogue::entries() {
            assert!(
                matches!(read(entry.source), Ok(Source::Litmus(_))),
                "{}",
                entry.name
            );
        }
        for entry in mowgli_corerma::catalogue::entries() {
            assert!(
                matches!(read(entry.source), Ok(Source::CoreRma(_))),
                "{}",
                entry.name
            );
        }
        for (name, text) in mowgli_libraries::catalogue::CLIENTS {
            // A client of words alone that reads as a test too is a test.
            assert!(read(text).is_ok(), "{name}");
        }
    }
}
