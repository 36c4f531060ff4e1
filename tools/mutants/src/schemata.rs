//! Weaves all mutations into the sources; a number selects one at run time, so that all are built at once (mutant
//! schemata, Untch, Offutt and Harrold 1993).
//!
//! A function with mutations gets one body for each and the shipped one. It chooses among them by
//! `crate::mutant::active()`, which reads [`VARIABLE`]. A mutation outside functions cannot be chosen at run time and
//! stays apart, and so does one that the compiler refuses.
//!
//! Relies on `syn` to find the bodies of functions. Used by [`crate::Tree`].

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};
use std::path::Path;

use syn::visit::Visit;

use crate::{Misfit, Mutation};

/// The environment variable with the number of the active mutation: its place in the list. Unset means none.
pub const VARIABLE: &str = "LOCO_MUTANT";

/// The module that each crate with mutated sources gets.
const SELECTOR: &str = r#"
mod mutant {
    pub(crate) fn active() -> u32 {
        static ACTIVE: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
        *ACTIVE.get_or_init(|| {
            let number = std::env::var("LOCO_MUTANT").ok();
            number.and_then(|number| number.parse().ok()).unwrap_or(u32::MAX)
        })
    }
}
"#;

/// Sources with mutations to choose from.
#[derive(Debug, Default)]
pub(crate) struct Schemata {
    /// The changed files, from the root of the workspace.
    pub(crate) files: BTreeMap<String, Woven>,
    /// Numbers of the mutations that are not in them.
    pub(crate) apart: BTreeSet<usize>,
}

/// One source file with mutations to choose from.
#[derive(Debug, Default)]
pub(crate) struct Woven {
    pub(crate) text: String,
    /// The lines of each mutated function, with the mutations in it.
    functions: Vec<(RangeInclusive<usize>, Vec<usize>)>,
    /// The lines of each mutation.
    arms: Vec<(RangeInclusive<usize>, usize)>,
}

impl Schemata {
    /// Weaves all `mutations` except `apart` into the sources of the workspace at `root`. Their numbers are their
    /// places.
    pub(crate) fn weave(
        root: &Path,
        mutations: &[Mutation],
        mut apart: BTreeSet<usize>,
    ) -> Result<Schemata, Misfit> {
        let mut by_file: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (number, mutation) in mutations.iter().enumerate() {
            by_file.entry(&mutation.file).or_default().push(number);
        }
        let mut files = BTreeMap::new();
        for (file, numbers) in by_file {
            let shipped = mutations[numbers[0]].shipped(root)?;
            let bodies = bodies(&shipped);
            let mut within: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
            for number in numbers {
                let (change, _) = mutations[number].change(&shipped)?;
                let body = bodies
                    .iter()
                    .position(|body| body.start <= change.start && change.end <= body.end);
                match body {
                    Some(body) if !apart.contains(&number) => within.entry(body).or_default().push(number),
                    _ => drop(apart.insert(number)),
                }
            }
            let bodies = within
                .into_iter()
                .map(|(body, numbers)| (bodies[body].clone(), numbers));
            files.insert(file.to_owned(), weave(&shipped, bodies, mutations)?);
        }
        let roots: BTreeSet<String> = files.keys().filter_map(|file| root_of(file)).collect();
        for file in roots {
            let Some(any) = mutations.first() else { break };
            let of_root = Mutation {
                file: file.clone(),
                ..any.clone()
            };
            let woven = match files.entry(file) {
                Entry::Occupied(woven) => woven.into_mut(),
                Entry::Vacant(place) => place.insert(Woven {
                    text: of_root.shipped(root)?,
                    ..Woven::default()
                }),
            };
            woven.text.push_str(SELECTOR);
        }
        Ok(Schemata { files, apart })
    }

    /// Returns the mutations that an error in these lines of a file may come from: those written there. If the lines
    /// are the shipped body of a function, it returns all mutations of that function, since the bodies may not fit
    /// together.
    pub(crate) fn blamed(&self, file: &str, lines: RangeInclusive<usize>) -> Vec<usize> {
        let Some(woven) = self.files.get(file) else {
            return Vec::new();
        };
        let meets =
            |other: &RangeInclusive<usize>| lines.start() <= other.end() && other.start() <= lines.end();
        let arms: Vec<usize> = woven
            .arms
            .iter()
            .filter(|(arm, _)| meets(arm))
            .map(|&(_, number)| number)
            .collect();
        if !arms.is_empty() {
            return arms;
        }
        let functions = woven.functions.iter().filter(|(function, _)| meets(function));
        functions
            .flat_map(|(_, numbers)| numbers.iter().copied())
            .collect()
    }
}

/// Writes a file whose functions choose among their bodies.
fn weave(
    shipped: &str,
    bodies: impl Iterator<Item = (Range<usize>, Vec<usize>)>,
    mutations: &[Mutation],
) -> Result<Woven, Misfit> {
    let mut woven = Woven::default();
    let mut done = 0;
    for (body, numbers) in bodies {
        woven.text.push_str(&shipped[done..body.start]);
        let first = line(&woven.text);
        woven.text.push_str(" match crate::mutant::active() {\n");
        for &number in &numbers {
            let (change, replace) = mutations[number].change(shipped)?;
            woven.text.push_str(&format!("{number}u32 => {{\n"));
            let from = line(&woven.text);
            woven.text.push_str(&shipped[body.start..change.start]);
            woven.text.push_str(replace);
            woven.text.push_str(&shipped[change.end..body.end]);
            woven.arms.push((from..=line(&woven.text), number));
            woven.text.push_str("\n}\n");
        }
        woven.text.push_str("_ => {\n");
        woven.text.push_str(&shipped[body.clone()]);
        woven.text.push_str("\n}\n}\n");
        woven.functions.push((first..=line(&woven.text), numbers));
        done = body.end;
    }
    woven.text.push_str(&shipped[done..]);
    Ok(woven)
}

/// Returns the root of the crate that a file belongs to: `loco/ofi/src/lib.rs` of `loco/ofi/src/queue.rs`.
fn root_of(file: &str) -> Option<String> {
    let (folder, _) = file.split_once("/src/")?;
    Some(format!("{folder}/src/lib.rs"))
}

/// Returns the number of the last line of a text.
fn line(text: &str) -> usize {
    1 + text.matches('\n').count()
}

/// Returns the bytes between the braces of each outermost function of a file, in order. The result is empty if the
/// file does not parse. Constant functions are left out, because they cannot read the environment.
fn bodies(text: &str) -> Vec<Range<usize>> {
    let mut bodies = Bodies::default();
    if let Ok(file) = syn::parse_file(text) {
        bodies.visit_file(&file);
    }
    bodies.found.sort_by_key(|body| body.start);
    bodies.found
}

#[derive(Default)]
struct Bodies {
    found: Vec<Range<usize>>,
}

impl Bodies {
    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        if signature.constness.is_none() {
            let braces = block.brace_token.span;
            // Spans of this crate have places, which those of the compiler's own do not.
            let bytes = |span: proc_macro2::Span| span.byte_range();
            self.found
                .push(bytes(braces.open()).end..bytes(braces.close()).start);
        }
    }
}

impl<'ast> Visit<'ast> for Bodies {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const ROOT: &str = "loco/objects/src/lib.rs";
    const SHIPPED: &str = "use std::fmt;

const LIMIT: u32 = 3;

impl Counter {
    const fn limit() -> u32 {
        LIMIT
    }

    fn add(&mut self, by: u32) -> u32 {
        self.sum += by;
        self.sum
    }
}
";

    fn mutation(find: &str, replace: &str) -> Mutation {
        Mutation {
            name: find.into(),
            object: "atomic".into(),
            file: "loco/objects/src/counter.rs".into(),
            find: find.into(),
            replace: replace.into(),
            wrong: String::new(),
            after_failure: false,
            request: false,
            livelock: None,
            network: None,
            program: None,
            tests: None,
            harmless: None,
            planted: false,
            lock_free: false,
        }
    }

    fn woven(apart: &[usize]) -> Schemata {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(root.path().join("loco/objects/src")).expect("a folder");
        fs::write(root.path().join(ROOT), "mod counter;\n").expect("a file");
        fs::write(root.path().join("loco/objects/src/counter.rs"), SHIPPED).expect("a file");
        let mutations = [
            mutation("+= by", "-= by"),
            mutation("u32 = 3", "u32 = 4"),
            mutation("        LIMIT\n", "        LIMIT + 1\n"),
            mutation("self.sum\n    }", "by\n    }"),
        ];
        Schemata::weave(root.path(), &mutations, apart.iter().copied().collect()).expect("they fit")
    }

    #[test]
    fn a_function_chooses_among_its_bodies() {
        let woven = woven(&[]);
        assert_eq!(woven.apart, [1, 2].into(), "a constant, and a constant function");
        let text = &woven.files["loco/objects/src/counter.rs"].text;
        assert!(syn::parse_file(text).is_ok(), "{text}");
        let one_line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            one_line.contains(
                "-> u32 { match crate::mutant::active() { \
                 0u32 => { self.sum -= by; self.sum } \
                 3u32 => { self.sum += by; by } \
                 _ => { self.sum += by; self.sum } } }"
            ),
            "{text}"
        );
        assert!(woven.files[ROOT].text.contains(&format!("{VARIABLE:?}")));
    }

    #[test]
    fn an_error_is_that_of_the_mutations_in_its_lines() {
        let woven = woven(&[]);
        let file = "loco/objects/src/counter.rs";
        let text = &woven.files[file].text;
        let at = |part: &str| {
            1 + text
                .lines()
                .position(|line| line.contains(part))
                .expect("it is there")
        };
        let of = |line: usize| woven.blamed(file, line..=line);
        assert_eq!(of(at("self.sum -= by")), [0]);
        assert_eq!(of(at("by;") + 1), [0]);
        assert_eq!(of(at("3u32") + 2), [3]);
        assert_eq!(of(at("_ =>") + 1), [0, 3], "the shipped body");
        assert!(of(at("LIMIT:")).is_empty());
        assert!(woven.blamed("loco/objects/src/other.rs", 1..=9).is_empty());
    }

    #[test]
    fn what_is_kept_apart_is_not_woven() {
        let woven = woven(&[0]);
        assert_eq!(woven.apart, [0, 1, 2].into());
        assert!(!woven.files["loco/objects/src/counter.rs"].text.contains("-= by"));
    }
}
