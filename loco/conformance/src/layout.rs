//! Compares declared C structures and constants with the real headers, by a C program that is generated from them. Used by the tests
//! of fabrics with bindings.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use loco_host::bindings::{Extent, Layout};
use loco_testing::skipped;

/// The declarations of one binding.
pub struct Bindings<'a> {
    /// The C headers: `rdma/fabric.h`.
    pub headers: &'a [&'a str],
    /// The name that `LOCO_REQUIRE_` is put before, to make the absence of the headers a failure.
    pub need: &'a str,
    /// The declared structures.
    pub structures: Vec<Layout>,
    /// The declared constants, by the names that C has for them.
    pub constants: Vec<(&'static str, u64)>,
    /// Pairs of fields, with the structure's name first, that must be at one offset: members of unions.
    pub same_offset: &'a [(&'a str, &'a str, &'a str)],
}

impl Bindings<'static> {
    /// Returns the declarations of a binding to libibverbs and librdmacm that has no constants.
    pub fn of_verbs(structures: Vec<Layout>) -> Bindings<'static> {
        Bindings {
            headers: &["infiniband/verbs.h", "rdma/rdma_cma.h"],
            need: "RDMA_HEADERS",
            structures,
            constants: Vec::new(),
            same_offset: &[],
        }
    }
}

impl Bindings<'_> {
    fn includes(&self) -> String {
        let headers = ["stddef.h", "stdio.h"].iter().chain(self.headers);
        headers.map(|header| format!("#include <{header}>\n")).collect()
    }

    /// Returns a program that prints what [`declared`](Bindings::declared) lists, as the headers have it.
    fn program(&self) -> String {
        let mut c = format!("{}int main(void) {{\n", self.includes());
        for Layout {
            name, extent, fields, ..
        } in &self.structures
        {
            if *extent == Extent::Whole {
                writeln!(c, "printf(\"{name} size %zu\\n\", sizeof({name}));").unwrap();
            }
            let from_end = match extent {
                Extent::Ends => format!("sizeof({name}) - "),
                Extent::Whole | Extent::Fields => String::new(),
            };
            for (field, _) in fields {
                let at = format!("{from_end}offsetof({name}, {field})");
                writeln!(c, "printf(\"{name} {field} %zu\\n\", {at});").unwrap();
            }
        }
        for (name, _) in &self.constants {
            writeln!(c, "printf(\"{name} %llu\\n\", (unsigned long long){name});").unwrap();
        }
        for (name, a, b) in self.same_offset {
            let same = format!("offsetof({name}, {a}) == offsetof({name}, {b})");
            writeln!(c, "printf(\"{a} {b} %d\\n\", {same});").unwrap();
        }
        c.push_str("return 0; }\n");
        c
    }

    fn declared(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for Layout {
            name,
            extent,
            size,
            fields,
        } in &self.structures
        {
            if *extent == Extent::Whole {
                lines.push(format!("{name} size {size}"));
            }
            for (field, offset) in fields {
                let at = match extent {
                    Extent::Ends => size - offset,
                    Extent::Whole | Extent::Fields => *offset,
                };
                lines.push(format!("{name} {field} {at}"));
            }
        }
        lines.extend(
            self.constants
                .iter()
                .map(|(name, value)| format!("{name} {value}")),
        );
        lines.extend(self.same_offset.iter().map(|(_, a, b)| format!("{a} {b} 1")));
        lines
    }

    /// Checks that the headers declare all of it so, by programs in `dir`. Without `cc` or the headers, the calling test is
    /// skipped.
    pub fn check(&self, dir: &Path) {
        let skip = |why: &str| skipped(self.need, format!("{why}: run ci/install-vm-packages"));
        let (source, probe) = (dir.join("probe.c"), dir.join("probe"));

        std::fs::write(&source, self.includes()).unwrap();
        match Command::new("cc").arg("-fsyntax-only").arg(&source).output() {
            Err(e) => return skip(&format!("no C compiler ({e})")),
            Ok(o) if !o.status.success() => return skip("no headers"),
            Ok(_) => {}
        }

        std::fs::write(&source, self.program()).unwrap();
        let mut compile = Command::new("cc");
        let built = compile.arg(&source).arg("-o").arg(&probe).output().unwrap();
        let errors = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{errors}");
        let output = Command::new(&probe).output().unwrap();
        let real = String::from_utf8(output.stdout).unwrap();
        let real: Vec<&str> = real.lines().collect();
        let declared = self.declared();
        assert_eq!(real.len(), declared.len());
        let wrong: Vec<_> = real
            .iter()
            .zip(&declared)
            .filter(|(real, ours)| real != ours)
            .collect();
        assert!(wrong.is_empty(), "(header, declared): {wrong:#?}");
    }
}
