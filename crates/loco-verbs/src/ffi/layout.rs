//! Compares every structure and constant of [`types`](super::types) with the real headers, by a C program
//! that is generated from them.
//!
//! Needs `cc` and the headers (libibverbs-dev, librdmacm-dev). Without them the test says *skipped*, or fails where
//! `LOCO_REQUIRE_RDMA_HEADERS` is set, as CI does.

use std::fmt::Write as _;
use std::process::Command;

use super::types::{constants, layouts};
use skip::skipped;

#[path = "../../../loco-cli/tests/support/skip.rs"]
mod skip;

/// Facts that the declarations need besides sizes and offsets: some union members must coincide.
const SAME_OFFSET: [(&str, &str, &str); 2] = [
    (
        "struct ibv_send_wr",
        "wr.rdma.remote_addr",
        "wr.atomic.remote_addr",
    ),
    ("struct ibv_send_wr", "wr.rdma.rkey", "wr.atomic.compare_add"),
];

fn program() -> String {
    let mut c = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n\
         int main(void) {\n",
    );
    for (name, kind, _, fields) in layouts() {
        if kind == "whole" {
            writeln!(c, "printf(\"{name} size %zu\\n\", sizeof({name}));").unwrap();
        }
        let from_end = if kind == "ends" {
            format!("sizeof({name}) - ")
        } else {
            String::new()
        };
        for (field, _) in fields {
            writeln!(
                c,
                "printf(\"{name} {field} %zu\\n\", {from_end}offsetof({name}, {field}));"
            )
            .unwrap();
        }
    }
    for (name, _) in constants() {
        writeln!(c, "printf(\"{name} %llu\\n\", (unsigned long long){name});").unwrap();
    }
    for (name, a, b) in SAME_OFFSET {
        writeln!(
            c,
            "printf(\"{a} {b} %d\\n\", offsetof({name}, {a}) == offsetof({name}, {b}));"
        )
        .unwrap();
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
            let at = if kind == "ends" { size - offset } else { offset };
            lines.push(format!("{name} {field} {at}"));
        }
    }
    lines.extend(constants().iter().map(|(name, value)| format!("{name} {value}")));
    lines.extend(SAME_OFFSET.iter().map(|(_, a, b)| format!("{a} {b} 1")));
    lines
}

#[test]
fn structures_are_those_of_the_headers() {
    let skip = |why: &str| skipped("RDMA_HEADERS", format!("{why}: run ci/install-vm-packages"));
    let dir = tempfile::tempdir().unwrap();
    let (source, probe) = (dir.path().join("probe.c"), dir.path().join("probe"));

    std::fs::write(
        &source,
        "#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n",
    )
    .unwrap();
    match Command::new("cc").arg("-fsyntax-only").arg(&source).output() {
        Err(e) => return skip(&format!("no C compiler ({e})")),
        Ok(o) if !o.status.success() => return skip("no RDMA headers"),
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
