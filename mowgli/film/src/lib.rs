//! HTML documents that need no other file: a *film* shows an execution of the machine step by step, with the calls of objects as a
//! timeline above it; a *history* is such a timeline alone.
//!
//! Both are one template, one timeline (`page/timeline.js`) and one style. The boxes of the machine (`page/boxes.js`) are also those of
//! the page of `mowgli serve`, which takes them from here. Relies on nothing of ours. Used by `loco check --html`, by `loco-history` for
//! the reports of `loco stress`, and by `mowgli-web`.
#![forbid(unsafe_code)]

mod null;
mod open;

pub use null::null_device;
pub use open::open;

use serde::Serialize;

/// The script that draws the nodes of a machine as boxes: a module without imports.
pub const BOXES_SCRIPT: &str = include_str!("../page/boxes.js");
/// The style of the boxes, with the colours of all pages, light and dark.
pub const BOXES_STYLE: &str = include_str!("../page/boxes.css");

const TIMELINE_SCRIPT: &str = include_str!("../page/timeline.js");
const DOCUMENT_STYLE: &str = include_str!("../page/document.css");

/// How a document judges what it shows. Decides the colour of its note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wrong with it.
    Ok,
    /// A promise is broken.
    Violation,
    /// Nobody knows.
    Unknown,
}

/// The head of a document.
#[derive(Clone, Copy, Debug)]
pub struct Heading<'a> {
    /// The subject, in a few words.
    pub title: &'a str,
    /// The verdict in words, such as the assertion that failed. May have several lines.
    pub note: &'a str,
    /// The verdict.
    pub verdict: Verdict,
}

/// Makes a document of an execution. `film` is data as `loco_sim::Film` has it.
///
/// # Errors
/// Fails if the film cannot be written as JSON.
pub fn of_execution(heading: Heading<'_>, film: &impl Serialize) -> serde_json::Result<String> {
    document(heading, film, include_str!("../page/execution.js"))
}

/// Makes a document of a history. `history` is data as `loco_history::Report::html` makes it.
///
/// # Errors
/// Fails if the history cannot be written as JSON.
pub fn of_history(heading: Heading<'_>, history: &impl Serialize) -> serde_json::Result<String> {
    document(heading, history, include_str!("../page/history.js"))
}

fn document(heading: Heading<'_>, data: &impl Serialize, script: &str) -> serde_json::Result<String> {
    // Objects may say anything. Inside a script element only `<` can end the element.
    let data = serde_json::to_string(data)?.replace('<', "\\u003c");
    let verdict = match heading.verdict {
        Verdict::Ok => "allowed",
        Verdict::Violation => "forbidden",
        Verdict::Unknown => "unknown",
    };
    Ok(fill(
        include_str!("../page/document.html"),
        &[
            ("title", &escape(heading.title)),
            ("note", &escape(heading.note.trim_end())),
            ("verdict", verdict),
            ("style", &format!("{BOXES_STYLE}{DOCUMENT_STYLE}")),
            ("script", &format!("{BOXES_SCRIPT}{TIMELINE_SCRIPT}")),
            ("data", &data),
            ("show", script),
        ],
    ))
}

/// Puts the values in place of `{{name}}`. Looks at the template only, so that values may contain anything.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut parts = template.split("{{");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once("}}").unwrap_or((part, ""));
        let value = values.iter().find(|(known, _)| *known == name);
        filled.push_str(value.map_or("", |(_, value)| value));
        filled.push_str(rest);
    }
    filled
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADING: Heading<'_> = Heading {
        title: "<b> {{data}}",
        note: "a & b\n",
        verdict: Verdict::Violation,
    };

    fn documents() -> [String; 2] {
        let data = serde_json::json!({ "calls": [{ "what": "</script><script>alert(1) {{title}}" }] });
        [
            of_execution(HEADING, &data).unwrap(),
            of_history(HEADING, &data).unwrap(),
        ]
    }

    #[test]
    fn words_stay_words() {
        for document in documents() {
            assert!(document.contains("<title>&lt;b&gt; {{data}}</title>"));
            assert!(document.contains(">a &amp; b</pre>"));
            assert!(document.contains("alert(1) {{title}}"));
            assert_eq!(document.matches("</script>").count(), 1);
        }
    }

    #[test]
    fn every_place_of_the_template_is_filled() {
        for document in documents() {
            let places: Vec<&str> = document.split("{{").skip(1).collect();
            // Only those of the values above: twice in the title, once in the data.
            assert_eq!(places.len(), 3, "{places:?}");
            assert!(document.starts_with("<!doctype html>") && document.trim_end().ends_with("</html>"));
        }
    }

    #[test]
    fn nothing_is_loaded() {
        for document in documents() {
            // The name of the SVG namespace is the one address, and nothing loads it.
            let document = document.replace("http://www.w3.org/2000/svg", "");
            for outside in ["http:", "https:", "src=", "href=", "@import", "import ", "url("] {
                assert!(!document.contains(outside), "{outside}");
            }
        }
    }
}
