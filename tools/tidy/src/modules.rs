//! The modules of a crate, and which of them name which in code: read from the text of its sources, without tests.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::text::{blanked, is_word, without_tests};
use crate::{files, has_extension, shown};

/// The path of a module from its crate's root, which is empty.
pub type ModulePath = Vec<String>;

/// The modules that each module names, or the crates, and the places that show it (`file:line`).
pub type Uses = BTreeMap<String, BTreeMap<String, Vec<String>>>;

/// The modules below one `src`.
#[derive(Default)]
pub struct Modules {
    sources: Vec<Source>,
    paths: BTreeSet<ModulePath>,
    /// The names that the `use` declarations of a module bring into it, with their paths relative to the module.
    imported: BTreeMap<(ModulePath, String), Vec<String>>,
    /// The paths from which a module brings in everything (`*`).
    globs: BTreeMap<ModulePath, Vec<Vec<String>>>,
}

/// A file, and the modules that are written in it.
struct Source {
    module: ModulePath,
    place: String,
    code: String,
    /// Modules in braces, outer ones first.
    inline: Vec<(Range<usize>, String)>,
}

impl Source {
    /// Returns the module that the code at `at` is in.
    fn module_at(&self, at: usize) -> ModulePath {
        let inside = self.inline.iter().filter(|(range, _)| range.contains(&at));
        let inside = inside.map(|(_, name)| name.clone());
        self.module.iter().cloned().chain(inside).collect()
    }
}

impl Modules {
    /// Reads the sources below `src`.
    ///
    /// # Errors
    /// Fails when one cannot be read.
    pub fn read(src: &Path) -> io::Result<Self> {
        let mut texts = Vec::new();
        for path in files(src)? {
            if has_extension(&path, "rs") {
                let inside = path.strip_prefix(src).unwrap_or(&path).to_path_buf();
                texts.push((inside, shown(&path), fs::read_to_string(&path)?));
            }
        }
        Ok(Self::of(&texts))
    }

    /// Returns the modules of these files: path below `src`, place to show, text.
    pub fn of(texts: &[(PathBuf, String, String)]) -> Self {
        let mut found = Self::default();
        let mut tests = BTreeSet::new();
        for (path, place, text) in texts {
            let module = module_of(path);
            let (code, test_modules) = without_tests(blanked(text));
            tests.extend(test_modules.into_iter().map(|name| child(&module, &name)));
            let source = Source {
                inline: inline_modules(&code),
                place: place.clone(),
                module,
                code,
            };
            found.sources.push(source);
        }
        let is_test = |module: &ModulePath| (1..=module.len()).any(|n| tests.contains(&module[..n]));
        found.sources.retain(|source| !is_test(&source.module));
        for source in &found.sources {
            found.paths.insert(source.module.clone());
            for (range, _) in &source.inline {
                found.paths.insert(source.module_at(range.start));
            }
        }
        for source in &found.sources {
            for (at, _) in source.code.match_indices("use ") {
                if is_inside(&source.code, at) {
                    continue;
                }
                let module = source.module_at(at);
                for Named { mut path, alias } in paths_at(&source.code, at + "use ".len()) {
                    if path.last().is_some_and(|last| last == "*") {
                        path.pop();
                        found.globs.entry(module.clone()).or_default().push(path);
                    } else if let Some(name) = alias.or_else(|| path.last().cloned()) {
                        found.imported.insert((module.clone(), name), path);
                    }
                }
            }
        }
        found
    }

    /// Returns which siblings name which in each folder of modules; the crate's root is the folder "".
    ///
    /// A module that names its own folder, or one of its own children, is not a circle of siblings.
    pub fn uses(&self) -> BTreeMap<String, Uses> {
        let mut folders = BTreeMap::<String, Uses>::new();
        for source in &self.sources {
            for (at, start) in starts(&source.code) {
                let from = source.module_at(at);
                for Named { path, .. } in paths_at(&source.code, start) {
                    let Some(to) = self.resolved(&from, &path, 0) else {
                        continue;
                    };
                    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
                    let (Some(user), Some(used)) = (from.get(common), to.get(common)) else {
                        continue;
                    };
                    let line = source.code[..at].matches('\n').count() + 1;
                    let place = format!("{}:{line}", source.place);
                    let uses = folders.entry(from[..common].join("/")).or_default();
                    let places = uses.entry(user.clone()).or_default();
                    let places = places.entry(used.clone()).or_default();
                    if places.last() != Some(&place) {
                        places.push(place);
                    }
                }
            }
        }
        folders
    }

    /// Returns the module in which that lies what `path` means in `from`, also where another module re-exports it.
    fn resolved(&self, from: &ModulePath, path: &[String], depth: usize) -> Option<ModulePath> {
        const DEPTH_MAX: usize = 8;
        let (first, mut rest) = path.split_first()?;
        let mut at = from.clone();
        match first.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => _ = at.pop()?,
            // The path of a `use`: of a child, or of another crate.
            name if self.paths.contains(&child(from, name)) => rest = path,
            _ => return None,
        }
        for (n, name) in rest.iter().enumerate() {
            let inner = child(&at, name);
            if name == "super" {
                at.pop()?;
            } else if self.paths.contains(&inner) {
                at = inner;
            } else if depth < DEPTH_MAX
                && let Some(imported) = self.imported.get(&(at.clone(), name.clone()))
            {
                let whole: Vec<_> = imported.iter().chain(&rest[n + 1..]).cloned().collect();
                return self.resolved(&at, &whole, depth + 1);
            } else {
                let globs = self.globs.get(&at).into_iter().flatten();
                let mut globs = globs.filter_map(|glob| self.resolved(&at, glob, depth + 1));
                return globs.find(|module| self.defines(module, name)).or(Some(at));
            }
        }
        Some(at)
    }

    /// Returns true if an item of `module` has this name.
    fn defines(&self, module: &ModulePath, name: &str) -> bool {
        let kinds = [
            "fn", "struct", "enum", "trait", "type", "const", "static", "union",
        ];
        let mut sources = self.sources.iter().filter(|source| &source.module == module);
        sources.any(|source| {
            let mut words = source.code.split(|c| !is_word(c)).filter(|word| !word.is_empty());
            let mut before = "";
            words.any(|word| {
                let found = word == name && kinds.contains(&before);
                before = word;
                found
            })
        })
    }
}

/// Returns the module that the file at `path` below `src` is.
fn module_of(path: &Path) -> ModulePath {
    let path = path.with_extension("");
    let mut module: ModulePath = path
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    let is_root = module.len() == 1 && ["lib", "main"].contains(&module[0].as_str());
    if is_root || module.last().is_some_and(|last| last == "mod") {
        module.pop();
    }
    module
}

fn child(module: &[String], name: &str) -> ModulePath {
    let mut path = module.to_vec();
    path.push(name.to_owned());
    path
}

/// Returns true if the word at `at` continues one before it, or a path.
fn is_inside(code: &str, at: usize) -> bool {
    let before = code[..at].chars().next_back();
    before.is_some_and(|c| is_word(c) || c == ':' || c == '$')
}

/// Returns the modules that are written in braces.
fn inline_modules(code: &str) -> Vec<(Range<usize>, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("mod ") {
        let rest = &code[at + "mod ".len()..];
        let name: String = rest.chars().take_while(|&c| is_word(c)).collect();
        let after = &rest[name.len()..];
        if !is_inside(code, at) && !name.is_empty() && after.trim_start().starts_with('{') {
            let start = code.len() - after.trim_start().len();
            found.push((start..crate::text::end_of_item(code, start), name));
        }
    }
    found
}

/// Returns where paths from a module begin: the place of the word, and of the path.
fn starts(code: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            if !is_inside(code, at) {
                found.push((at, at));
            }
        }
    }
    found.sort_unstable();
    found
}

/// A path in code, and the name that a `use` gives it.
#[derive(Debug, PartialEq)]
struct Named {
    path: Vec<String>,
    alias: Option<String>,
}

/// Returns the paths that the code at `at` means: several where it has braces (`crate::{a, b::{c, d as e}}`).
fn paths_at(code: &str, at: usize) -> Vec<Named> {
    let mut found = Vec::new();
    tree(code[at..].trim_start(), &[], &mut found);
    found
}

/// Reads a tree of paths below `prefix`, and returns what follows it.
fn tree<'a>(code: &'a str, prefix: &[String], found: &mut Vec<Named>) -> &'a str {
    let mut path = prefix.to_vec();
    let mut rest = code.trim_start();
    loop {
        if let Some(inside) = rest.strip_prefix('{') {
            rest = inside.trim_start();
            while !rest.is_empty() && !rest.starts_with('}') {
                let after = tree(rest, &path, found).trim_start();
                let after = after.strip_prefix(',').unwrap_or(after).trim_start();
                if after.len() == rest.len() {
                    // Not a tree of paths.
                    return rest;
                }
                rest = after;
            }
            return rest.strip_prefix('}').unwrap_or(rest);
        }
        if let Some(after) = rest.strip_prefix('*') {
            path.push("*".to_owned());
            rest = after;
            break;
        }
        let word: String = rest.chars().take_while(|&c| is_word(c)).collect();
        if word.is_empty() {
            break;
        }
        rest = &rest[word.len()..];
        // `{self, b}`: the path before the braces.
        if word != "self" || path.is_empty() {
            path.push(word);
        }
        match rest.trim_start().strip_prefix("::") {
            Some(after) => rest = after.trim_start(),
            None => break,
        }
    }
    let mut alias = None;
    if let Some(after) = rest.trim_start().strip_prefix("as ") {
        let name: String = after.trim_start().chars().take_while(|&c| is_word(c)).collect();
        rest = &after.trim_start()[name.len()..];
        alias = Some(name);
    }
    if !path.is_empty() {
        found.push(Named { path, alias });
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(texts: &[(&str, &str)]) -> Modules {
        let texts = texts
            .iter()
            .map(|(path, text)| (PathBuf::from(path), (*path).to_owned(), (*text).to_owned()));
        Modules::of(&texts.collect::<Vec<_>>())
    }

    /// Returns the edges, as `folder: a b place`.
    fn edges(texts: &[(&str, &str)]) -> Vec<String> {
        let mut found = Vec::new();
        for (folder, uses) in modules(texts).uses() {
            for (from, to) in uses {
                for (to, places) in to {
                    found.push(format!("{folder}: {from} {to} {}", places.join(" ")));
                }
            }
        }
        found
    }

    #[test]
    fn siblings_are_found_at_every_depth() {
        let found = edges(&[
            ("lib.rs", "mod a;\nmod b;"),
            ("a/mod.rs", "mod c;\nmod d;\nuse self::c::X;\nuse crate::b::Y;"),
            ("a/c.rs", "use super::d;\nuse super::Own;\nuse super::super::b;"),
            ("a/d.rs", "fn f() {\n    crate::a::c::f();\n    super::c::g();\n}"),
            ("b.rs", ""),
        ]);
        assert_eq!(
            found,
            [
                ": a b a/mod.rs:4 a/c.rs:3",
                "a: c d a/c.rs:1",
                "a: d c a/d.rs:2 a/d.rs:3"
            ]
        );
    }

    #[test]
    fn what_a_folder_exports_lies_where_it_is_defined() {
        let found = edges(&[
            ("lib.rs", "mod a;"),
            (
                "a/mod.rs",
                "mod c;\nmod d;\nmod e;\npub use d::{T as U, v};\nuse e::*;",
            ),
            ("a/c.rs", "use super::{U, W, v::X};"),
            ("a/d.rs", "pub struct T;"),
            ("a/e.rs", "pub struct W;"),
        ]);
        assert_eq!(found, ["a: c d a/c.rs:1", "a: c e a/c.rs:1"]);
    }

    #[test]
    fn tests_and_comments_and_text_are_not_code() {
        let found = edges(&[
            ("lib.rs", "mod a;\nmod b;\n#[cfg(test)]\nmod t;"),
            (
                "a.rs",
                "/// [`crate::b::X`]\nconst S: &str = \"crate::b\";\n#[cfg(test)]\nmod tests {\n    use crate::b;\n}",
            ),
            ("b.rs", "mod inner {\n    use super::super::a::X;\n}"),
            ("t.rs", "use crate::a;"),
        ]);
        assert_eq!(found, [": b a b.rs:2"]);
    }

    #[test]
    fn trees_of_paths_are_read() {
        let paths = |code| {
            let named = paths_at(code, 0);
            let path = |named: &Named| named.path.join("::");
            named.iter().map(path).collect::<Vec<_>>()
        };
        assert_eq!(paths("crate::a::b::<T>()"), ["crate::a::b"]);
        assert_eq!(
            paths("super::{a::{b, c}, d, e::{self as f, *}};"),
            [
                "super::a::b",
                "super::a::c",
                "super::d",
                "super::e",
                "super::e::*"
            ]
        );
    }
}
