//! The installation: its files, and that programs find them.

use std::collections::BTreeSet;
use std::process::Command;

use crate::support::{Installation, Language, here, install, installation, job, run};
use loco_testing::skipped;

/// The functions that the header declares.
fn declared() -> BTreeSet<String> {
    let header = std::fs::read_to_string(here().join("include/loco.h")).expect("the header");
    let names = header.lines().filter_map(|line| {
        // Each declaration begins its line, which comments do with a star.
        let (before, _) = line.split_once('(')?;
        let name = before.rsplit([' ', '*']).next()?;
        let begins = line.starts_with(|c: char| c.is_ascii_lowercase());
        (begins && name.starts_with("loco_")).then(|| name.to_owned())
    });
    names.collect()
}

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    let Some(Installation { prefix }) = installation(Language::C) else {
        return;
    };
    let library = prefix.join("lib/libloco.so.0");
    let symbols = run(Command::new("nm").args(["-D", "--defined-only"]).arg(&library));
    let exported: BTreeSet<String> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().last().map(str::to_owned))
        .collect();
    let declared = declared();
    assert!(declared.len() > 60, "{declared:?}");
    assert_eq!(exported, declared);
    let dynamic = run(Command::new("readelf").arg("-d").arg(&library));
    assert!(dynamic.contains("Library soname: [libloco.so.0]"), "{dynamic}");
}

#[test]
fn the_version_is_the_packages() {
    let version = env!("CARGO_PKG_VERSION");
    let header = std::fs::read_to_string(here().join("include/loco.h")).expect("the header");
    assert!(header.contains(&format!("#define LOCO_VERSION \"{version}\"\n")));
}

#[test]
fn the_shared_library_is_found_by_the_flags_of_pkg_config() {
    let Some(installation) = installation(Language::C) else {
        return;
    };
    let folder = installation.prefix.join("lib/pkgconfig");
    let pkg_config = |options: &[&str]| {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_PATH", &folder).args(options).arg("loco");
        command
    };
    if let Err(error) = pkg_config(&["--exists"]).status() {
        return skipped("PKG_CONFIG", format!("there is no pkg-config: {error}"));
    }
    assert_eq!(
        run(&mut pkg_config(&["--modversion"])).trim(),
        env!("CARGO_PKG_VERSION")
    );
    let flags = run(&mut pkg_config(&["--cflags", "--libs"]));
    let mut flags: Vec<String> = flags.split_whitespace().map(str::to_owned).collect();
    flags.push(format!("-Wl,-rpath,{}/lib", installation.prefix.display()));
    let program = installation.compile(Language::C, "examples/hello.c", &flags);
    assert_eq!(job("pkg-config", 1, &program), ["node 0: 1 nodes are here\n"]);
}

/// The flags that the pkg-config file has for static linking, with the static library instead of the shared one.
#[test]
fn the_static_library_needs_what_the_pkg_config_file_says() {
    let Some(installation) = installation(Language::C) else {
        return;
    };
    let prefix = installation.prefix.display();
    let file = installation.prefix.join("lib/pkgconfig/loco.pc");
    let file = std::fs::read_to_string(file).expect("the pkg-config file");
    assert!(!file.contains('@'), "{file}");
    let libraries = file
        .lines()
        .find_map(|line| line.strip_prefix("Libs.private: "))
        .expect("libraries");
    let mut flags = vec![format!("-I{prefix}/include"), format!("{prefix}/lib/libloco.a")];
    flags.extend(libraries.split_whitespace().map(str::to_owned));
    let program = installation.compile(Language::C, "examples/hello.c", &flags);
    let needed = run(Command::new("readelf").arg("-d").arg(&program));
    assert!(!needed.contains("libloco"), "{needed}");
    let mut outputs = job("static", 2, &program);
    outputs.sort();
    assert_eq!(
        outputs,
        ["node 0: 2 nodes are here\n", "node 1: 2 nodes are here\n"]
    );
}

#[test]
fn packages_are_staged_below_destdir() {
    if installation(Language::C).is_none() {
        return;
    }
    let stage = tempfile::tempdir().expect("a folder");
    install("/opt/loco".as_ref(), |command| {
        command.env("DESTDIR", stage.path()).env("LIBDIR", "lib64")
    });
    let below = stage.path().join("opt/loco");
    for file in [
        "include/loco.h",
        "lib64/libloco.so",
        "lib64/libloco.so.0",
        "lib64/libloco.a",
    ] {
        assert!(below.join(file).exists(), "{file}");
    }
    let file = std::fs::read_to_string(below.join("lib64/pkgconfig/loco.pc")).expect("the pkg-config file");
    assert!(
        file.contains("prefix=/opt/loco\n") && file.contains("libdir=/opt/loco/lib64\n"),
        "{file}"
    );
}

#[test]
fn the_installer_says_how_it_is_used() {
    let output = Command::new(here().join("install.sh"))
        .output()
        .expect("a process");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("install.sh PREFIX"), "{text}");
}
