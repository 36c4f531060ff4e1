//! What documents claim, as far as it can be seen without running anything: figures that the sources have, too, and links.
//! `ci/claims` also runs the commands whose output documents show.

use std::fs;
use std::path::{Path, PathBuf};

use tidy::claims::parse;
use tidy::{files, has_extension, root, shown};

#[test]
fn figures_are_those_of_the_sources() {
    let list = fs::read_to_string(root().join("ci/claims.txt")).expect("the list of claims");
    let claims = parse(&list).expect("a list");
    assert!(claims.len() >= 20, "{} claims", claims.len());
    let faults: Vec<_> = claims.iter().filter_map(|claim| claim.fault()).collect();
    assert!(
        faults.is_empty(),
        "mend the document, or the list `ci/claims.txt`:\n  {}",
        faults.join("\n  ")
    );
}

/// Returns a document without its blocks of code.
fn prose(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("documents are UTF-8");
    let mut is_code = false;
    let lines = text.lines().filter(|line| {
        let is_mark = line.trim_start().starts_with("```");
        is_code ^= is_mark;
        !is_mark && !is_code
    });
    lines.fold(String::new(), |prose, line| prose + line + "\n")
}

/// Returns the name by which links lead to a heading.
fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Returns the places to which the links of a document lead.
fn links(prose: &str) -> Vec<String> {
    let after = prose.split("](").skip(1);
    let targets = after.filter_map(|rest| rest.split_once(')').map(|(target, _)| target.to_owned()));
    targets.filter(|target| !target.contains([' ', '\n'])).collect()
}

#[test]
fn links_lead_somewhere() {
    let pages: Vec<PathBuf> = files(&root())
        .expect("the repository can be read")
        .into_iter()
        .filter(|path| has_extension(path, "md"))
        .collect();
    let mut broken = Vec::new();
    let mut count = 0;
    for page in &pages {
        for link in links(&prose(page)).iter().filter(|link| !link.contains("://")) {
            count += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let to = match file {
                "" => page.clone(),
                file => page.parent().expect("a folder").join(file),
            };
            let is_there = match (to.exists(), heading) {
                (exists, "") => exists,
                (false, _) => false,
                (true, heading) => {
                    let text = prose(&to);
                    let headings = text.lines().filter(|line| line.starts_with('#'));
                    let mut anchors = headings.map(|line| anchor(line.trim_start_matches('#').trim()));
                    anchors.any(|anchor| anchor == heading)
                }
            };
            if !is_there {
                broken.push(format!("{}: {link}", shown(page)));
            }
        }
    }
    assert!(count > 100, "{count} links");
    assert!(
        broken.is_empty(),
        "links lead to files and headings:\n  {}",
        broken.join("\n  ")
    );
}
