//! Crates and modules form no circles, and every dependency of a crate is used in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use tidy::{files, has_extension, root};

/// The users of each module or crate, with a place that shows the use.
type Uses = BTreeMap<String, BTreeMap<String, String>>;

/// Returns the folders of all crates.
fn crates() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for kind in ["crates", "apps"] {
        let entries = fs::read_dir(root().join(kind)).expect("the repository can be read");
        found.extend(
            entries
                .filter_map(|entry| entry.ok().map(|entry| entry.path()))
                .filter(|path| path.join("Cargo.toml").is_file()),
        );
    }
    found.sort();
    found
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the words of `text`.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_word(c)).filter(|word| !word.is_empty())
}

/// Returns source text without comments, and without the tests at its end.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("sources are UTF-8");
    let mut code = String::new();
    for line in text.lines() {
        let line = line.split_once("//").map_or(line, |(before, _)| before);
        let is_tests = line.starts_with("#[cfg(") && line.contains("test") && !line.contains("not(test");
        if is_tests && text.contains("mod tests {") {
            break;
        }
        code.push_str(line);
        code.push('\n');
    }
    code
}

/// Returns the names that `path` (`crate::a::b`, `super::a`, with braces) mentions first, after `start` in
/// `code`.
fn named_after(code: &str, start: usize) -> Vec<&str> {
    let rest = &code[start..];
    let Some(inside) = rest.strip_prefix('{') else {
        return words(rest).next().into_iter().collect();
    };
    let mut depth = 1_usize;
    let mut names = Vec::new();
    let mut begins = true;
    let mut at = 0;
    while depth > 0 && at < inside.len() {
        let c = inside.as_bytes()[at] as char;
        if is_word(c) {
            let word = words(&inside[at..]).next().unwrap_or_default();
            if depth == 1 && begins {
                names.push(word);
            }
            begins = false;
            at += word.len().max(1);
            continue;
        }
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' => begins = true,
            _ => {}
        }
        at += 1;
    }
    names
}

/// Returns the top-level modules that the sources of `src` use, other than their own.
fn modules(src: &Path) -> Uses {
    let mut exported = BTreeMap::new();
    let root_file = ["lib.rs", "main.rs"].map(|name| src.join(name));
    let root_file = root_file.iter().find(|path| path.is_file());
    let root_code = root_file.map(|path| code(path)).unwrap_or_default();
    for part in root_code.split("pub use ").skip(1) {
        let part = part.split(';').next().unwrap_or_default();
        let mut words = words(part).skip_while(|&word| word == "crate");
        if let Some(module) = words.next() {
            exported.extend(words.map(|word| (word.to_owned(), module.to_owned())));
        }
    }
    let mut uses = Uses::new();
    for path in files(src).expect("the repository can be read") {
        let inside = path.strip_prefix(src).unwrap_or(&path).with_extension("");
        let mut parts: Vec<_> = inside.iter().filter_map(|part| part.to_str()).collect();
        if parts.last() == Some(&"mod") {
            parts.pop();
        }
        let Some(&own) = parts.first() else { continue };
        if !has_extension(&path, "rs") || ["lib", "main"].contains(&own) || parts.last() == Some(&"tests") {
            continue;
        }
        let code = code(&path);
        for prefix in ["crate::".to_owned(), "super::".repeat(parts.len())] {
            for (at, _) in code.match_indices(&prefix) {
                let before = code[..at].chars().next_back();
                if before.is_some_and(|c| is_word(c) || c == ':' || c == '$') {
                    continue;
                }
                for name in named_after(&code, at + prefix.len()) {
                    let to = exported.get(name).map_or(name, String::as_str);
                    let exists = src.join(to).is_dir() || src.join(format!("{to}.rs")).is_file();
                    if exists && to != own {
                        let places = uses.entry(own.to_owned()).or_default();
                        places.entry(to.to_owned()).or_insert_with(|| shown(&path));
                    }
                }
            }
        }
    }
    uses
}

/// Returns the edges that lie on a circle, as `a uses b (place)`.
fn circles(uses: &Uses) -> Vec<String> {
    let reached = |from: &str| {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            for to in uses.get(at).into_iter().flat_map(BTreeMap::keys) {
                if seen.insert(to.as_str()) {
                    open.push(to);
                }
            }
        }
        seen
    };
    let mut found = Vec::new();
    for (from, to) in uses {
        for (to, place) in to {
            if reached(to).contains(from.as_str()) {
                found.push(format!("{from} uses {to} ({place})"));
            }
        }
    }
    found
}

#[test]
fn modules_form_no_circle() {
    let mut broken = Vec::new();
    for path in crates() {
        let name = shown(&path);
        let found = circles(&modules(&path.join("src")));
        broken.extend(found.iter().map(|edge| format!("{name}: {edge}")));
    }
    assert!(
        broken.is_empty(),
        "layers are folders:\n  {}",
        broken.join("\n  ")
    );
}

/// Returns the dependencies that a manifest names, for building and for tests.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.ends_with("dependencies]");
        } else if inside {
            let name: String = line.chars().take_while(|&c| is_word(c) || c == '-').collect();
            if !name.is_empty() {
                found.push(name);
            }
        }
    }
    found
}

/// Returns the name by which sources know a package of this repository, or of the registry.
fn library(package: &str) -> String {
    let manifest = crates()
        .iter()
        .map(|path| fs::read_to_string(path.join("Cargo.toml")).unwrap_or_default())
        .find(|text| text.contains(&format!("[package]\nname = \"{package}\"")));
    let renamed = manifest.as_deref().and_then(|text| {
        let (_, lib) = text.split_once("[lib]\n")?;
        lib.strip_prefix("name = \"")?
            .split('"')
            .next()
            .map(str::to_owned)
    });
    renamed.unwrap_or_else(|| package.to_owned()).replace('-', "_")
}

#[test]
fn crates_form_no_circle() {
    // Cargo allows circles through the dependencies of tests, except those through a crate itself, which enable features.
    let mut uses = Uses::new();
    for path in crates() {
        let manifest = fs::read_to_string(path.join("Cargo.toml")).expect("manifests are UTF-8");
        let name = manifest
            .split_once("name = \"")
            .and_then(|(_, rest)| rest.split('"').next())
            .unwrap_or_default();
        // A package and the name of its dependents for it may differ; the library's name is one.
        let name = library(name);
        for to in dependencies(&manifest).iter().map(|to| library(to)) {
            if to != name {
                let places = uses.entry(name.clone()).or_default();
                places.insert(to, shown(&path.join("Cargo.toml")));
            }
        }
    }
    let found = circles(&uses);
    assert!(
        found.is_empty(),
        "crates form no circle:\n  {}",
        found.join("\n  ")
    );
}

#[test]
fn dependencies_are_used() {
    let mut unused = Vec::new();
    for path in crates() {
        let manifest = fs::read_to_string(path.join("Cargo.toml")).expect("manifests are UTF-8");
        let mut named = BTreeSet::new();
        for source in files(&path).expect("the repository can be read") {
            if has_extension(&source, "rs") {
                let text = fs::read_to_string(&source).expect("sources are UTF-8");
                named.extend(words(&text).map(str::to_owned));
            }
        }
        for package in dependencies(&manifest) {
            if !named.contains(&library(&package)) {
                unused.push(format!("{}: {package}", shown(&path)));
            }
        }
    }
    assert!(
        unused.is_empty(),
        "a dependency that nothing names:\n  {}",
        unused.join("\n  ")
    );
}

#[test]
fn circles_are_found() {
    let uses = |edges: &[(&str, &str)]| {
        let mut uses = Uses::new();
        for (from, to) in edges {
            let places = uses.entry((*from).to_owned()).or_default();
            places.insert((*to).to_owned(), "x.rs".to_owned());
        }
        uses
    };
    assert_eq!(circles(&uses(&[("a", "b"), ("b", "c"), ("a", "c")])), [""; 0]);
    let found = circles(&uses(&[("a", "b"), ("b", "c"), ("c", "b")]));
    assert_eq!(found, ["b uses c (x.rs)", "c uses b (x.rs)"]);
    assert_eq!(named_after("a::b;", 0), ["a"]);
    assert_eq!(named_after("{a::{b, c}, d, self as e};", 0), ["a", "d", "self"]);
}
