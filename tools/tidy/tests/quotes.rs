//! A document that quotes a text of a program quotes it as the program prints it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tidy::halls::HALLS;
use tidy::quotes::{Texts, quoted};
use tidy::{files, has_extension, root, shown};

/// Returns true for sources of programs, not of tests, which may say what no program says.
fn is_source(path: &Path) -> bool {
    let name = shown(path);
    !name
        .split('/')
        .any(|folder| ["tests", "mistakes", "vendor"].contains(&folder))
}

fn read(path: &PathBuf) -> String {
    fs::read_to_string(path).expect("sources are UTF-8")
}

fn texts() -> Texts {
    let mut texts = Texts::default();
    let folders = HALLS.iter().map(|(hall, _)| root().join(hall));
    for folder in folders.chain(["benches", "ci"].map(|folder| root().join(folder))) {
        for path in files(&folder).expect("the repository can be read") {
            let is = |extension| has_extension(&path, extension);
            if is("rs") && is_source(&path) {
                let text = read(&path);
                texts.add_rust(text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default());
            } else if ["c", "h", "js", "py", "sh"].into_iter().any(is) && is_source(&path) {
                texts.add_lines(&read(&path));
            }
        }
    }
    for path in documents() {
        texts.add_blocks(&read(&path));
    }
    texts
}

fn documents() -> Vec<PathBuf> {
    let all = files(&root()).expect("the repository can be read");
    all.into_iter().filter(|path| has_extension(path, "md")).collect()
}

/// Reads the quotes of what nothing here prints: texts of other programs, and former ones that a report of what was found has.
fn others() -> BTreeSet<String> {
    let list = fs::read_to_string(root().join("ci/quotes.txt")).expect("the list of quotes");
    let lines = list
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

#[test]
fn documents_quote_what_programs_print() {
    let (texts, others) = (texts(), others());
    let mut wrong = Vec::new();
    let mut unused = others.clone();
    let mut count = 0;
    for path in documents() {
        for quote in quoted(&read(&path)) {
            count += 1;
            let is_ours = texts.have(&quote.text);
            if is_ours || others.contains(&quote.text) {
                if !is_ours {
                    unused.remove(&quote.text);
                }
                continue;
            }
            wrong.push(format!("{}:{}: `{}`", shown(&path), quote.line, quote.text));
        }
    }
    assert!(count >= 10, "{count} quotes");
    assert!(
        wrong.is_empty(),
        "nothing prints what these documents quote; mend them, or add the texts of other programs to `ci/quotes.txt`:\n  {}",
        wrong.join("\n  ")
    );
    assert!(
        unused.is_empty(),
        "`ci/quotes.txt` has what no document quotes, or what is ours: {unused:?}"
    );
}
