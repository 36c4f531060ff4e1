//! Gives the shared library the name and the symbol versions of rdma-core's.
//!
//! The linker is the `lld` that comes with Rust: Rust passes a list of symbols of its own, and other linkers refuse that list
//! beside one with versions.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=versions.map");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return;
    }
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let mut arguments = vec![
        "-Wl,-soname,libibverbs.so.1".to_owned(),
        format!("-Wl,--version-script={folder}/versions.map"),
        "-fuse-ld=lld".to_owned(),
    ];
    if let Some(lld) = rust_lld() {
        arguments.push(format!("-B{lld}"));
    }
    for argument in arguments {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}

/// Returns the folder with the `ld.lld` of the toolchain, where it has one.
fn rust_lld() -> Option<String> {
    let rustc = std::env::var("RUSTC").ok()?;
    let host = std::env::var("HOST").ok()?;
    let said = Command::new(rustc).args(["--print", "sysroot"]).output().ok()?;
    let sysroot = String::from_utf8(said.stdout).ok()?;
    let folder = Path::new(sysroot.trim()).join(format!("lib/rustlib/{host}/bin/gcc-ld"));
    folder
        .join("ld.lld")
        .exists()
        .then(|| folder.display().to_string())
}
