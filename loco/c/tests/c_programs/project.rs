//! `loco new --c`: the project builds against the installed library, runs, and passes its own test.

use std::path::Path;
use std::process::Command;

use loco_testing::launched::{alone, launcher};
use loco_testing::skipped;

use crate::support::{Language, installation, run};

#[test]
fn a_project_in_c_is_made_and_runs() {
    let Some(installation) = installation(Language::C) else {
        return;
    };
    for (need, program) in [("PKG_CONFIG", "pkg-config"), ("MAKE", "make")] {
        if Command::new(program).arg("--version").output().is_err() {
            return skipped(need, format!("there is no {program}"));
        }
    }
    let tests = std::env::current_exe().expect("this test");
    // The launcher is in the folder above that of the tests.
    let built = tests.ancestors().nth(2).expect("the folder of what is built");
    let loco = launcher(&built.join("any").display().to_string());
    let place = tempfile::tempdir().expect("a folder");
    run(alone(&loco)
        .args(["new", "--c", "my-ring"])
        .current_dir(place.path()));
    let project = place.path().join("my-ring");
    let path = format!(
        "{}:{}",
        loco.parent().unwrap_or(Path::new("")).display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let make = |arguments: &[&str], prefix: &Path| {
        let mut make = alone("make");
        make.args(arguments)
            .current_dir(&project)
            .env("PATH", &path)
            .env("CFLAGS", "-std=c99 -Wall -Wextra -Wpedantic -Werror")
            .env("LOCO_FABRIC", "shm")
            .env("LOCO_CONNECT_TIMEOUT_MS", "120000")
            .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
            .env("LD_LIBRARY_PATH", prefix.join("lib"));
        make
    };
    // Without the library the remedy is named.
    let output = make(&[], Path::new("/nowhere")).output().expect("make");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(
        said.contains("loco/c/install.sh PREFIX, then export PKG_CONFIG_PATH"),
        "{said}"
    );

    run(&mut make(&["test"], &installation.prefix));
    let output = run(alone("./run.sh")
        .current_dir(&project)
        .env("PATH", &path)
        .env("LD_LIBRARY_PATH", installation.prefix.join("lib"))
        .env("PKG_CONFIG_PATH", installation.prefix.join("lib/pkgconfig")));
    let mut lines: Vec<_> = output.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[1] node 1 reads 42", "[2] node 2 reads 42"]);
}
