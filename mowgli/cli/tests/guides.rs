//! What the guides claim about the command, tried.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::path::Path;

use support::{exits, mowgli, stderr, stdout, write};

/// The text of a guide.
fn guide(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    fs::read_to_string(folder.join(name)).unwrap()
}

/// The first listing of a guide that begins with this text.
fn listing(guide: &str, begin: &str) -> String {
    let fenced = guide.split("```\n").skip(1).step_by(2);
    let mut found = fenced.filter(|text| text.starts_with(begin));
    found
        .next()
        .unwrap_or_else(|| panic!("no listing begins with {begin}"))
        .to_owned()
}

/// docs/models.md: the first file is sequential consistency, for programs without remote read-modify-writes. Without its `requires`
/// two of these could both succeed.
#[test]
fn the_first_model_file_is_what_its_page_says() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let text = listing(&guide("models.md"), "\"Sequential consistency");
    let first = file("first.cat", &text);
    for test in ["SB3", "MP1", "LB3bis", "ST3", "GFP1", "IRIW2"] {
        let output = mowgli(&["compare", test, "--models", &format!("sc,{first}")]);
        exits(&output, 0);
        let said = stdout(&output);
        assert!(said.contains("Only sc: 0\n"), "{test}: {said}");
        assert!(said.contains(&format!("Only {first}: 0\n")), "{test}: {said}");
    }
    let both = "RDMA both\n{ x@3=0; a@1=1; b@2=1; }\nP0@1 | P1@2 ;\na := rcas(x^3, 0, 1) | b := rcas(x^3, 0, 2) ;\n\
                exists (a=0 /\\ b=0)\n";
    write(folder.path(), "both", both);
    let test = folder.path().join("both.litmus");
    let verdict = |model: &str| stdout(&mowgli(&["check", test.to_str().unwrap(), "--model", model]));
    assert!(
        verdict("sc").contains("Observation both Never"),
        "{}",
        verdict("sc")
    );
    let refused = mowgli(&["check", test.to_str().unwrap(), "--model", &first]);
    let said = stdout(&refused) + &stderr(&refused);
    assert!(said.contains("no-rmw"), "{said}");
    let lines: Vec<_> = text
        .lines()
        .filter(|line| !line.starts_with("requires"))
        .collect();
    let without = verdict(&file("without.cat", &lines.join("\n")));
    assert!(without.contains("Observation both Sometimes"), "{without}");
}

/// docs/litmus.md: the first syntax error of each cell is reported, up to 20 in a test.
#[test]
fn each_cell_reports_its_first_error() {
    assert!(
        guide("litmus.md").contains("the first syntax error of each cell is reported, up to 20 in a test")
    );
    let folder = tempfile::tempdir().unwrap();
    let errors = |cells: usize| {
        // Each cell has two errors.
        let rows = "x := := 1 ; \n".repeat(cells);
        let text = format!("RDMA t\n{{ x@1=0; }}\nP0@1 ;\n{rows}exists (x=1)\n");
        write(folder.path(), "t", &text);
        let output = mowgli(&["check", folder.path().join("t.litmus").to_str().unwrap()]);
        exits(&output, 2);
        let said = stderr(&output);
        let lines = said.lines().filter(|line| line.contains("x := := 1")).count();
        assert!(lines > 0, "{said}");
        lines
    };
    assert_eq!(errors(1), 1);
    assert_eq!(errors(7), 7);
    assert_eq!(errors(30), 20);
}

/// docs/c.md has no sizes of libraries, because they change with every version.
#[test]
fn sizes_of_libraries_are_not_written_down() {
    assert!(!guide("c.md").contains(" MB"));
}

/// docs/clients.md: the implementation that stands there is refuted, and the line that it lacks mends it.
#[test]
fn the_implementation_of_the_guide_is_refuted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.impl");
    let path = path.to_str().unwrap();
    let text = listing(&guide("clients.md"), "IMPLEMENTATION");
    fs::write(path, &text).unwrap();
    let output = mowgli(&["refine", path, "--of", "barrier"]);
    exits(&output, 1);
    let fence = "    gf_sv(nodes_of(participants(x)));\n";
    assert!(stdout(&mowgli(&["show", "I_BAL.impl"])).contains(fence));
    fs::write(path, text.replacen("    v := ", &format!("{fence}    v := "), 1)).unwrap();
    exits(&mowgli(&["refine", path, "--of", "barrier", "--calls", "3"]), 0);
}
