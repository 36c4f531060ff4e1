//! The page `docs/papers.md` answers for every part of the papers, and what it names exists.
//!
//! Between backticks are files, tests (`FILE::FUNCTION`), examples of `litmus/` by their names, and public items of the objects
//! (`loco::Barrier`). Commands and other words are left alone.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tidy::{files, has_extension, root};

/// The endings of the files that the page may name.
const ENDINGS: [&str; 5] = [".rs", ".cat", ".md", ".litmus", ".client"];

fn page() -> String {
    fs::read_to_string(root().join("docs/papers.md")).expect("the page can be read")
}

/// Returns the names of all tests and clients of the catalogue.
fn examples() -> BTreeSet<String> {
    let paths = files(&root().join("litmus")).expect("the catalogue can be read");
    let named = paths
        .iter()
        .filter(|p| has_extension(p, "litmus") || has_extension(p, "client"));
    named
        .filter_map(|p| Some(p.file_stem()?.to_str()?.to_owned()))
        .collect()
}

/// Returns the words of a line that stand between backticks.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Returns whether a word looks like the name of an example: an upper-case letter or digit at the start, a digit somewhere, and neither
/// a blank nor a colon.
fn is_example(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit())
        && word.contains(|c: char| c.is_ascii_digit())
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-_.'".contains(c))
}

/// Says what is wrong with a word of the page, if anything is.
fn missing(word: &str, tree: &Path, examples: &BTreeSet<String>, objects: &str) -> Option<String> {
    let (file, function) = word.split_once("::").unwrap_or((word, ""));
    if file.contains('/') && !file.contains(' ') && ENDINGS.iter().any(|e| file.ends_with(e)) {
        let Ok(text) = fs::read_to_string(tree.join(file)) else {
            return Some(format!("{file} does not exist"));
        };
        let found = function.is_empty() || text.contains(&format!("fn {function}("));
        return (!found).then(|| format!("{file} has no test {function}"));
    }
    if let Some(item) = word.strip_prefix("loco::") {
        let found = ["struct", "enum", "trait"].iter().any(|kind| {
            let start = format!("pub {kind} {item}");
            let mut after = objects
                .match_indices(&start)
                .map(|(at, _)| objects[at + start.len()..].chars().next());
            after.any(|next| !next.is_some_and(|c| c.is_alphanumeric() || c == '_'))
        });
        return (!found).then(|| format!("loco has no {item}"));
    }
    (is_example(word) && !examples.contains(word)).then(|| format!("no test or client is called {word}"))
}

#[test]
fn what_the_page_names_exists() {
    let examples = examples();
    let sources = files(&root().join("loco/objects/src")).expect("the objects can be read");
    let objects: String = sources
        .iter()
        .map(|path| fs::read_to_string(path).expect("sources are UTF-8"))
        .collect();
    let mut broken = Vec::new();
    for (number, line) in page().lines().enumerate() {
        let of_line = words(line).filter_map(|word| missing(word, &root(), &examples, &objects));
        broken.extend(of_line.map(|problem| format!("docs/papers.md:{}: {problem}", number + 1)));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_row_has_an_answer() {
    let text = page();
    let rows: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("| ") || line.starts_with("||"))
        .collect();
    for row in &rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(
            cells.len(),
            2,
            "a row has a part of the paper and an answer: {row}"
        );
        assert!(cells.iter().all(|cell| !cell.is_empty()), "{row}");
        let answer = cells[1];
        let answers = ["`", "](", "not here", "as ", "[the "];
        assert!(
            row.starts_with("| in the paper") || answers.iter().any(|a| answer.contains(a)),
            "an answer names something, refers to another row, or says why not: {row}"
        );
    }
    assert!(rows.len() > 100, "{} rows", rows.len());
}

#[test]
fn words_are_told_apart() {
    let examples = BTreeSet::from(["SB3".to_owned()]);
    let objects = "pub struct Barrier<F> {\npub struct KvStore;";
    let missing = |word| missing(word, &root(), &examples, objects);
    for fine in [
        "SB3",
        "loco::Barrier",
        "loco::KvStore",
        "Cargo.toml",
        "mowgli check SB9",
        "docs/papers.md",
        "--time",
    ] {
        assert_eq!(missing(fine), None, "{fine}");
    }
    for wrong in [
        "SB4",
        "loco::Bar",
        "docs/nothing.md",
        "tools/tidy/src/lib.rs::nothing",
    ] {
        assert!(missing(wrong).is_some(), "{wrong}");
    }
}
