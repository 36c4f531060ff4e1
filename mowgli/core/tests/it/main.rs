//! The tests of the engines, their languages and the catalogue. They are one program, because compiling and linking the library
//! into one for each file takes longer than running them. `cargo test -p mowgli --test it robust::` runs those of a file.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

mod catalogue;
mod declarative;
mod declarative_explain;
mod declarative_faults;
mod declarative_laws;
mod diagnostics;
mod differential;
mod explore;
mod field;
mod front_end;
mod fuzz_models;
mod fuzz_parser;
mod golden;
mod inlined;
mod litmus_language;
mod loops;
mod loops_by_file;
mod loops_random;
mod machine;
mod mend;
mod mend_brute;
mod messages;
mod model_diagnostics;
mod model_files;
mod model_herd;
mod model_language;
mod pairs;
mod proof;
mod robust;
mod robust_catalogue;
mod robust_faults;
mod robust_model_files;
mod robust_naive;
mod shapes;
mod star;
mod support;
mod swaps;
mod tiers;
mod unsignaled;
mod x86;
mod x86_forms;
mod x86_refusals;
