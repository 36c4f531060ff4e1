//! ARCHITECTURE.md names what there is: no path of its map is gone, and every crate and layer is on it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tidy::halls::folders as packages;
use tidy::{root, shown};

/// A line of the map: the paths that it names.
struct Line {
    number: usize,
    /// A row of the table, in which every path must exist.
    is_row: bool,
    names: Vec<String>,
}

/// Returns the lines of a map that name paths. Paths stand in backticks; `{a,b}` in one stands for several.
fn lines(map: &str) -> Vec<Line> {
    let quoted = |line: &str| -> Vec<String> {
        let parts = line.split('`').skip(1).step_by(2);
        parts.flat_map(expanded).filter(|name| is_path(name)).collect()
    };
    map.lines()
        .enumerate()
        .map(|(at, line)| Line {
            number: at + 1,
            is_row: line.starts_with('|'),
            names: quoted(line),
        })
        .filter(|line| !line.names.is_empty())
        .collect()
}

/// Returns what `name` stands for: `src/{a,b}.rs` for two.
fn expanded(name: &str) -> Vec<String> {
    let braces = name.split_once('{').and_then(|(before, rest)| {
        let (inside, after) = rest.split_once('}')?;
        Some((before, inside, after))
    });
    match braces {
        None => vec![name.to_owned()],
        Some((before, inside, after)) => inside
            .split(',')
            .flat_map(|part| expanded(&format!("{before}{}{after}", part.trim())))
            .collect(),
    }
}

/// Returns true for paths, and not for names, commands or code.
fn is_path(name: &str) -> bool {
    let is_of_paths = |c: char| c.is_alphanumeric() || "/._-".contains(c);
    let is_source = name.ends_with(".rs") && !name.starts_with('.');
    (name.contains('/') || is_source) && !name.starts_with('/') && name.chars().all(is_of_paths)
}

/// Returns what a name on the line of `place` can mean in `tree`: a path from its root, or one from a folder around `place`, the
/// nearest. It is both where the line does not tell which (`models/`).
fn found(tree: &Path, place: Option<&Path>, name: &str) -> Vec<PathBuf> {
    let name = name.trim_end_matches('/');
    let around = place.into_iter().flat_map(Path::ancestors);
    let folders = around.flat_map(|folder| [folder.to_path_buf(), folder.join("src")]);
    let mut paths = folders.map(|folder| folder.join(name));
    let nearest = paths.find(|path| tree.join(path).exists());
    let from_root = Some(PathBuf::from(name)).filter(|path| tree.join(path).exists());
    nearest.into_iter().chain(from_root).collect()
}

/// Returns the paths that the map names and that exist, and the others with their lines.
fn compared(map: &str, tree: &Path) -> (BTreeSet<PathBuf>, Vec<String>) {
    let mut named = BTreeSet::new();
    let mut gone = Vec::new();
    for line in lines(map) {
        let place = found(tree, None, &line.names[0]).pop();
        for name in &line.names {
            let paths = found(tree, place.as_deref(), name);
            if paths.is_empty() && line.is_row {
                gone.push(format!("line {}: {name}", line.number));
            }
            named.extend(paths);
        }
    }
    (named, gone)
}

/// Returns the folders directly below `folder`.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let mut found: Vec<_> = paths.filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

fn map() -> String {
    fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map is UTF-8")
}

#[test]
fn what_the_map_names_exists() {
    let (_, gone) = compared(&map(), &root());
    assert!(
        gone.is_empty(),
        "ARCHITECTURE.md names what is not there:\n  {}",
        gone.join("\n  ")
    );
}

#[test]
fn the_map_names_every_layer() {
    let (named, _) = compared(&map(), &root());
    let mut layers = folders(&root().join("apps"));
    for path in packages().expect("the repository can be read") {
        layers.extend(folders(&path.join("src")));
        layers.push(path);
    }
    layers.sort();
    layers.dedup();
    let layers = layers.iter().map(|path| shown(path));
    let missing: Vec<_> = layers
        .filter(|layer| !named.iter().any(|path| path.starts_with(layer)))
        .collect();
    assert!(
        missing.is_empty(),
        "ARCHITECTURE.md does not name:\n  {}",
        missing.join("\n  ")
    );
}

#[test]
fn maps_are_read() {
    let tree = tempfile::tempdir().expect("temporary folders can be made");
    for folder in ["hall/a/src/b/c", "hall/a/src/d", "hall/a/page", "docs"] {
        fs::create_dir_all(tree.path().join(folder)).expect("the folder can be made");
    }
    for file in ["hall/a/src/e.rs", "hall/a/src/f.rs"] {
        fs::write(tree.path().join(file), "").expect("the file can be written");
    }
    let map = "`a -> b`, not `there/yet`\n| `hall/a/src/{e,f}.rs`, `d/` | with `docs/` |\n\
        | `hall/a/` | `b/c/`, `page/`, `gone/`, `.expected`, `a::b` |\n";
    let (named, gone) = compared(map, tree.path());
    let named: Vec<_> = named.iter().map(|path| path.display().to_string()).collect();
    assert_eq!(
        named,
        [
            "docs",
            "hall/a",
            "hall/a/page",
            "hall/a/src/b/c",
            "hall/a/src/d",
            "hall/a/src/e.rs",
            "hall/a/src/f.rs"
        ]
    );
    assert_eq!(gone, ["line 3: gone/"]);
}
