//! Compares every structure and constant of [`types`](super::types) with the real headers, by a C program that is
//! generated from them.
//!
//! Needs `cc` and the headers (libfabric-dev). Without them the test says *skipped*, or fails where
//! `LOCO_REQUIRE_OFI_HEADERS` is set, as CI does.

use std::fmt::Write as _;
use std::process::Command;

use super::types::{constants, layouts};
use skip::skipped;

#[path = "../../../loco-cli/tests/support/skip.rs"]
mod skip;

const HEADERS: &str = "#include <stddef.h>\n#include <stdio.h>\n#include <rdma/fabric.h>\n#include <rdma/fi_domain.h>\n\
                       #include <rdma/fi_endpoint.h>\n#include <rdma/fi_cm.h>\n#include <rdma/fi_rma.h>\n\
                       #include <rdma/fi_atomic.h>\n#include <rdma/fi_errno.h>\n";

fn program() -> String {
    let mut c = format!("{HEADERS}int main(void) {{\n");
    for (name, kind, _, fields) in layouts() {
        if kind == "whole" {
            writeln!(c, "printf(\"{name} size %zu\\n\", sizeof({name}));").unwrap();
        }
        for (field, _) in fields {
            writeln!(c, "printf(\"{name} {field} %zu\\n\", offsetof({name}, {field}));").unwrap();
        }
    }
    for (name, _) in constants() {
        writeln!(c, "printf(\"{name} %llu\\n\", (unsigned long long){name});").unwrap();
    }
    c.push_str("return 0; }\n");
    c
}

fn declared() -> Vec<String> {
    let mut lines = Vec::new();
    for (name, kind, size, fields) in layouts() {
        if kind == "whole" {
            lines.push(format!("{name} size {size}"));
        }
        for (field, offset) in fields {
            lines.push(format!("{name} {field} {offset}"));
        }
    }
    lines.extend(constants().iter().map(|(name, value)| format!("{name} {value}")));
    lines
}

#[test]
fn structures_are_those_of_the_headers() {
    let skip = |why: &str| skipped("OFI_HEADERS", format!("{why}: run ci/install-vm-packages"));
    let dir = tempfile::tempdir().unwrap();
    let (source, probe) = (dir.path().join("probe.c"), dir.path().join("probe"));

    std::fs::write(&source, HEADERS).unwrap();
    match Command::new("cc").arg("-fsyntax-only").arg(&source).output() {
        Err(e) => return skip(&format!("no C compiler ({e})")),
        Ok(o) if !o.status.success() => return skip("no libfabric headers"),
        Ok(_) => {}
    }

    std::fs::write(&source, program()).unwrap();
    let built = Command::new("cc")
        .arg(&source)
        .arg("-o")
        .arg(&probe)
        .output()
        .unwrap();
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    let output = Command::new(&probe).output().unwrap();
    let real: Vec<String> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    let ours = declared();
    assert_eq!(real.len(), ours.len());
    let wrong: Vec<_> = real
        .iter()
        .zip(&ours)
        .filter(|(real, ours)| real != ours)
        .collect();
    assert!(wrong.is_empty(), "(header, declared): {wrong:#?}");
}
