//! The halls of the repository: arrows between them go one way, the page of each names its rooms and what each room is built from, and
//! the picture in ARCHITECTURE.md is that of the tree.

use std::collections::BTreeSet;
use std::fs;

use tidy::halls::{HALLS, Package, forbidden, packages, picture};
use tidy::root;

const BEGIN: &str =
    "<!-- the picture: `TIDY_WRITE=1 cargo test -p tidy --test halls` draws it anew -->\n```text\n";
const END: &str = "```\n<!-- end of the picture -->";

fn read() -> Vec<Package> {
    packages().expect("the manifests can be read")
}

#[test]
fn arrows_between_halls_go_one_way() {
    let found = forbidden(&read());
    assert!(
        found.is_empty(),
        "arrows against the rules of `HALLS`:\n  {}",
        found.join("\n  ")
    );
}

#[test]
fn arrows_against_the_rules_are_found() {
    let package = |folder: &str, uses: &[&str], tests_use: &[&str]| Package {
        folder: folder.to_owned(),
        name: String::new(),
        uses: uses.iter().map(|to| (*to).to_owned()).collect(),
        tests_use: tests_use.iter().map(|to| (*to).to_owned()).collect(),
    };
    let wrong = [
        package("loco/shm", &["loco/host", "mowgli/core"], &["checkers/history"]),
        package("mowgli/core", &[], &["checkers/check"]),
    ];
    assert_eq!(
        forbidden(&wrong),
        [
            "loco/shm uses mowgli/core",
            "the tests of mowgli/core use checkers/check"
        ]
    );
}

#[test]
fn the_page_of_each_hall_names_its_rooms() {
    let packages = read();
    for (hall, _) in HALLS {
        let page = root().join(hall).join("README.md");
        let page = fs::read_to_string(&page).unwrap_or_else(|error| panic!("{hall}/README.md: {error}"));
        let rooms = packages.iter().filter(|package| package.hall() == hall);
        let missing: Vec<_> = rooms
            .map(|package| package.folder[hall.len() + 1..].to_owned())
            .filter(|room| !page.contains(&format!("`{room}/`")))
            .collect();
        assert!(
            missing.is_empty(),
            "{hall}/README.md does not name `{}/`",
            missing.join("/`, `")
        );
    }
}

/// Returns the row of a room in the page of its hall.
fn row<'a>(page: &'a str, room: &str) -> Option<&'a str> {
    let begin = format!("| `{room}/` |");
    page.lines().find(|line| line.starts_with(&begin))
}

/// Returns the packages that the last cell of a room's row names, by their folders from the root.
fn named(hall: &str, row: &str) -> BTreeSet<String> {
    let cell = row
        .trim_end_matches(" |")
        .rsplit(" | ")
        .next()
        .unwrap_or_default();
    let names = cell.split('`').skip(1).step_by(2);
    let folder = |name: &str| match name.contains('/') {
        true => name.to_owned(),
        false => format!("{hall}/{name}"),
    };
    names.map(folder).collect()
}

#[test]
fn the_page_of_each_hall_says_what_its_rooms_use() {
    let mut wrong = Vec::new();
    for package in read() {
        let hall = package.hall();
        let page = fs::read_to_string(root().join(hall).join("README.md")).expect("each hall has a page");
        let room = &package.folder[hall.len() + 1..];
        let said = row(&page, room).map(|row| named(hall, row)).unwrap_or_default();
        if said != package.uses {
            wrong.push(format!(
                "{hall}/README.md says that `{room}/` uses {said:?}, and it uses {:?}",
                package.uses
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rows_are_read() {
    let page = "| `a/` | `pa` | what it is | nothing |\n| `b/` | `pb` | like `a` | `a`, `other/c`; by a feature `d` |\n";
    let uses = |room| row(page, room).map(|row| named("hall", row));
    assert_eq!(uses("a"), Some(BTreeSet::new()));
    assert_eq!(
        uses("b"),
        Some(["hall/a", "hall/d", "other/c"].map(str::to_owned).into())
    );
    assert_eq!(uses("c"), None);
}

#[test]
fn the_picture_is_that_of_the_tree() {
    let path = root().join("ARCHITECTURE.md");
    let map = fs::read_to_string(&path).expect("the map is UTF-8");
    let (before, rest) = map
        .split_once(BEGIN)
        .expect("ARCHITECTURE.md has the picture's first mark");
    let (drawn, after) = rest
        .split_once(END)
        .expect("ARCHITECTURE.md has the picture's last mark");
    let picture = picture(&read());
    if std::env::var_os("TIDY_WRITE").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{picture}{END}{after}")).expect("the map can be written");
    } else {
        assert_eq!(
            drawn, picture,
            "run `TIDY_WRITE=1 cargo test -p tidy --test halls`"
        );
    }
}
