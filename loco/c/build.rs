//! Gives the shared library the name that programs look for when they start: `libloco.so.0`. The number changes when
//! programs must be compiled again.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libloco.so.0");
    }
}
