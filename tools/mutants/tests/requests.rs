//! Checks that the list is complete for requests for order: each place in the objects that asks for an order has a mutation that
//! drops the request.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use loco_mutants::all;

/// The sources of the objects, from the root of the repository.
const SOURCES: &str = "loco/objects/src";
/// The texts by which code asks for an order.
const REQUESTS: [&str; 8] = [
    "Flags::STRONG",
    "_strong(",
    ".strong()",
    "strong: true",
    ".fenced()",
    "fenced: true",
    "::<STRONG>",
    "::<true>",
];
/// The file that defines the options of an operation.
const OPTIONS: &str = "loco/objects/src/operations/operation.rs";

/// A place that asks for an order.
#[derive(Debug)]
struct Place {
    file: String,
    line: usize,
    text: String,
    bytes: Range<usize>,
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.unwrap_or_else(|error| panic!("{error}")).path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Returns the names of a file's constants that hold a request.
fn constants(text: &str) -> Vec<&str> {
    let mut constants = Vec::new();
    let mut open = None;
    for line in text.lines() {
        if let Some((name, "Flags = Flags {")) = line
            .split_once("const ")
            .and_then(|(_, constant)| constant.split_once(": "))
        {
            open = Some(name);
        } else if line.starts_with('}') {
            open = None;
        } else if ["strong: true,", "fenced: true,"].contains(&line.trim()) {
            constants.extend(open);
        }
    }
    constants
}

/// Returns the places of a file that ask for an order on somebody's behalf. The ways to ask, which pass a request on, do not:
/// functions with `strong` in their name or with the request as a parameter, and constants. Neither do the tests of a module.
fn places(file: &str, text: &str) -> Vec<Place> {
    let mut places = Vec::new();
    let constants = constants(text);
    let asks = |code: &str| {
        REQUESTS
            .iter()
            .chain(&constants)
            .any(|request| code.contains(request))
    };
    let mut start = 0;
    let mut passes_on = file == OPTIONS;
    for (line, text) in text.split_inclusive('\n').enumerate() {
        let bytes = start..start + text.len();
        start = bytes.end;
        let code = text.trim();
        if code.starts_with("mod tests {") {
            break;
        }
        if code.starts_with("//") {
            continue;
        }
        if text.starts_with('}') {
            passes_on = file == OPTIONS; // The item ends.
        }
        if code.contains("const ") && code.contains(": Flags") {
            passes_on = true;
        } else if let Some((_, function)) = code.split_once("fn ") {
            let name = function.split(['(', '<']).next().unwrap_or_default();
            passes_on = file == OPTIONS || name.ends_with("strong") || function.contains("<const ");
        } else if !passes_on && asks(code) {
            places.push(Place {
                file: file.to_owned(),
                line: line + 1,
                text: code.to_owned(),
                bytes,
            });
        }
    }
    places
}

#[test]
fn every_request_of_an_object_has_a_mutation_that_drops_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    sources(&root.join(SOURCES), &mut files);
    let mutations = all().unwrap_or_else(|error| panic!("{error}"));
    let (mut known, mut missing) = (0, Vec::new());
    for path in files {
        let file = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        let changed: Vec<Range<usize>> = mutations
            .iter()
            .filter(|mutation| mutation.request && mutation.file == file)
            .filter_map(|mutation| mutation.change(&text).ok())
            .map(|(bytes, _)| bytes)
            .collect();
        for place in places(&file, &text) {
            let is_changed =
                |bytes: &Range<usize>| bytes.start < place.bytes.end && place.bytes.start < bytes.end;
            match changed.iter().any(is_changed) {
                true => known += 1,
                false => missing.push(format!("{}:{}: {}", place.file, place.line, place.text)),
            }
        }
    }
    assert!(
        missing.is_empty(),
        "no mutation drops these requests:\n{}",
        missing.join("\n")
    );
    assert!(
        known >= 10,
        "the objects ask for orders, and only {known} places were found"
    );
}

#[test]
fn a_request_is_seen_where_it_is_made_and_not_where_it_is_passed_on() {
    let text = "fn a() {\n    post(Flags::STRONG);\n}\nfn b_strong() {\n    post(Flags::STRONG);\n}\n\
                fn c<const AFTER: bool>() {\n    x.get_strong();\n}\nfn d() {\n    // .strong()\n    c::<true>();\n}\n\
                #[cfg(test)]\nmod tests {\n    fn e() {\n        p.strong();\n    }\n}\n";
    let text = &format!(
        "const HEADER: Flags = Flags {{\n    strong: true,\n}};\nfn z() {{\n    post(HEADER);\n}}\n{text}"
    );
    let lines: Vec<usize> = places("x.rs", text).iter().map(|place| place.line).collect();
    assert_eq!(lines, [5, 8, 18]);
}
