//! The halls of the repository: arrows between them go one way, each has a page that names its rooms, and the picture in ARCHITECTURE.md is
//! that of the tree.

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
