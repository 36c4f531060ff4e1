//! The header against this crate: every function with its types, every number, every structure.
//!
//! The compiler compares: a C file includes the header and declares each function once more, with the types of the Rust
//! function, so that a difference is an error of conflicting types; numbers and layouts are static assertions. Needs `cc`
//! and the headers of the C library. Without them the test says *skipped*, or fails where `LOCO_REQUIRE_C` is set.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::node::Options;
use crate::store::StoreOptions;
use crate::{collective, fence, lock, node, region, status, thread};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the header without comments.
fn header() -> String {
    let text = std::fs::read_to_string(root().join("include/loco.h")).expect("the header");
    let mut code = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("/*") {
        code.push_str(before);
        rest = after.split_once("*/").expect("comments end").1;
    }
    code + rest
}

/// Returns the words of `text` that begin with `prefix`.
fn words<'a>(text: &'a str, prefix: &str) -> BTreeSet<&'a str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| word.starts_with(prefix))
        .collect()
}

/// An exported function, with its C prototype.
struct Function {
    name: String,
    prototype: String,
}

/// Returns all functions that the sources of this crate export.
fn functions() -> Vec<Function> {
    let mut sources: Vec<PathBuf> = std::fs::read_dir(root().join("src"))
        .expect("the sources")
        .map(|entry| entry.expect("a source").path())
        // `border.rs` has the macro that defines functions, and none of them.
        .filter(|path| !path.ends_with("agreement.rs") && !path.ends_with("border.rs"))
        .collect();
    sources.sort();
    let mut found = Vec::new();
    for source in sources {
        let text = std::fs::read_to_string(&source).expect("sources are UTF-8");
        for item in text.split("#[unsafe(no_mangle)]\n").skip(1) {
            let (signature, _) = item.split_once(" {").expect("a function");
            let (_, signature) = signature.split_once("extern \"C\" fn ").expect("a C function");
            let (name, rest) = signature.split_once('(').expect("arguments");
            let (arguments, result) = rest.rsplit_once(") -> ").expect("a result");
            let arguments: Vec<_> = split(arguments).into_iter().map(c_type).collect();
            let arguments = match arguments.is_empty() {
                true => "void".to_owned(),
                false => arguments.join(", "),
            };
            found.push(Function {
                name: name.to_owned(),
                prototype: format!("{} {name}({arguments});", c_type(result)),
            });
        }
        for block in text.split("handle! {\n").skip(1) {
            let (block, _) = block.split_once("\n}\n").expect("an end");
            found.extend(of_handle(block));
        }
    }
    found
}

/// Returns the functions that a `handle!` defines.
fn of_handle(block: &str) -> Vec<Function> {
    let (news, free) = block.split_once("    free ").unwrap_or((block, ""));
    let mut found = Vec::new();
    let mut handle = String::new();
    for new in news.split("    new ").skip(1) {
        let (name, rest) = new.split_once('(').expect("arguments");
        let (arguments, rest) = rest.split_once(") -> ").expect("a handle");
        let (_, rest) = rest.split_once(": ").expect("a type of handle");
        handle = c_type(rest.split([' ', '\n']).next().expect("a type of handle"));
        let own: Vec<_> = split(arguments).into_iter().map(c_type).collect();
        let mut all = vec!["loco_node *".to_owned(), "const char *".to_owned()];
        all.extend(own);
        all.push(format!("{handle} **"));
        found.push(Function {
            name: name.to_owned(),
            prototype: format!("loco_status {name}({});", all.join(", ")),
        });
    }
    if let Some((name, _)) = free.split_once(';') {
        found.push(Function {
            name: name.to_owned(),
            prototype: format!("loco_status {name}({handle} *);"),
        });
    }
    found
}

/// Splits the types of arguments at the commas that are in no brackets.
fn split(arguments: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut found) = (0, 0, Vec::new());
    for (at, c) in arguments.char_indices().chain([(arguments.len(), ',')]) {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            ',' if depth == 0 => {
                if let Some((_, argument)) = arguments[begin..at].split_once(": ") {
                    found.push(argument.trim());
                }
                begin = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// Returns the C form of a type of a signature.
fn c_type(rust: &str) -> String {
    let inside = |open: &str, close: &str| rust.strip_prefix(open)?.strip_suffix(close);
    if let Some(pointee) = rust.strip_prefix("*const ") {
        return format!("const {} *", c_type(pointee));
    }
    if let Some(pointee) = rust.strip_prefix("*mut ").or_else(|| inside("Out<'_, ", ">")) {
        return format!("{} *", c_type(pointee));
    }
    if let Some(handle) = inside("New<'_, ", ">") {
        return format!("{} **", c_type(handle));
    }
    if let Some(handle) = inside("Option<&", ">").or_else(|| inside("Option<Box<", ">>")) {
        // Settings are only read; handles are opaque.
        let constant = if handle.ends_with("Options") { "const " } else { "" };
        return format!("{constant}{} *", c_type(handle));
    }
    match rust {
        "Status" => "loco_status",
        "c_int" => "int",
        "c_char" => "char",
        "c_void" => "void",
        "u16" => "loco_node_id",
        "u64" => "uint64_t",
        "usize" => "size_t",
        "StoreOptions" => "loco_store_options",
        "StorePending" => "loco_store_pending",
        "RingWriter" => "loco_ring_writer",
        "RingReader" => "loco_ring_reader",
        name if name.chars().all(char::is_alphabetic) => return format!("loco_{}", name.to_lowercase()),
        other => panic!("what is {other} in C?"),
    }
    .to_owned()
}

/// Returns the numbers that have names in the header.
fn numbers() -> Vec<(String, String)> {
    let mut numbers: Vec<_> = status::STATUSES
        .iter()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string()))
        .collect();
    for (name, value) in [
        ("LOCO_FENCE_NOTHING", fence::NOTHING),
        ("LOCO_FENCE_THREAD", fence::THREAD),
        ("LOCO_FENCE_ALL_THREADS", fence::ALL_THREADS),
        ("LOCO_EQUAL", region::EQUAL),
        ("LOCO_NOT_EQUAL", region::NOT_EQUAL),
        ("LOCO_LESS", region::LESS),
        ("LOCO_LESS_EQUAL", region::LESS_EQUAL),
        ("LOCO_GREATER", region::GREATER),
        ("LOCO_GREATER_EQUAL", region::GREATER_EQUAL),
        ("LOCO_SUM", collective::SUM),
        ("LOCO_MIN", collective::MIN),
        ("LOCO_MAX", collective::MAX),
        ("LOCO_AND", collective::AND),
        ("LOCO_OR", collective::OR),
        ("LOCO_XOR", collective::XOR),
        ("LOCO_LOCK_TICKET", lock::TICKET),
        ("LOCO_LOCK_TAS", lock::TAS),
        ("LOCO_ON_LOSS_POISON", lock::POISON),
        ("LOCO_ON_LOSS_RECOVER", lock::RECOVER),
        ("LOCO_NO_NODE", i32::from(node::NO_NODE)),
    ] {
        numbers.push((name.to_owned(), value.to_string()));
    }
    for (name, value) in [
        ("LOCO_FOREVER", thread::FOREVER),
        ("LOCO_DEFAULT_TIMEOUT", thread::DEFAULT_TIMEOUT),
    ] {
        numbers.push((name.to_owned(), format!("UINT64_C({value})")));
    }
    numbers
}

/// Returns a C file that compiles if header and crate agree.
fn comparison() -> String {
    let mut c = String::from("#include <loco.h>\n");
    for function in functions() {
        writeln!(c, "{}", function.prototype).expect("a string");
    }
    let mut claims: Vec<String> = numbers()
        .iter()
        .map(|(name, value)| format!("{name} == {value}"))
        .collect();
    macro_rules! layout {
        ($rust:ty, $c:literal, $($field:ident),*) => {
            claims.push(format!("sizeof({}) == {}", $c, size_of::<$rust>()));
            $(claims.push(format!(
                "offsetof({}, {}) == {}", $c, stringify!($field), offset_of!($rust, $field)
            ));)*
        };
    }
    layout!(Options, "loco_options", size, timeout_ns, fabric, polling_thread);
    layout!(
        StoreOptions,
        "loco_store_options",
        size,
        value_bytes_max,
        key_bytes_max,
        tracker_bytes,
        copies,
        spare_homes,
        slots_per_node,
        locks,
        copies_per_second
    );
    for claim in claims {
        writeln!(c, "_Static_assert({claim}, \"{claim}\");").expect("a string");
    }
    c
}

/// Compiles `c`. Returns the compiler's messages if it refuses.
fn compile(c: &str) -> std::io::Result<Result<(), String>> {
    let dir = tempfile::tempdir()?;
    let source = dir.path().join("comparison.c");
    std::fs::write(&source, c)?;
    let output = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"])
        .arg(root().join("include"))
        .arg(&source)
        .output()?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok(if output.status.success() {
        Ok(())
    } else {
        Err(words)
    })
}

#[test]
fn header_and_crate_agree() {
    match compile("#include <stddef.h>\n#include <stdint.h>\n") {
        Err(error) => return loco_testing::skipped("C", format!("there is no C compiler `cc`: {error}")),
        Ok(Err(words)) => {
            return loco_testing::skipped("C", format!("the C library's headers are missing: {words}"));
        }
        Ok(Ok(())) => {}
    }
    let c = comparison();
    if let Err(words) = compile(&c).expect("a compiler") {
        panic!("include/loco.h does not say what the crate does:\n{words}");
    }
    // The comparison notices what differs.
    for (right, wrong) in [
        (
            "loco_barrier_wait(loco_barrier *, loco_thread *)",
            "loco_barrier_wait(loco_barrier *)",
        ),
        ("LOCO_TIMEOUT == -2", "LOCO_TIMEOUT == -1"),
        (
            "offsetof(loco_options, fabric) == 16",
            "offsetof(loco_options, fabric) == 8",
        ),
    ] {
        assert!(c.contains(right), "{c}");
        assert!(
            compile(&c.replace(right, wrong)).expect("a compiler").is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn every_name_is_on_both_sides() {
    let header = header();
    let declared: BTreeSet<_> = header
        .split('(')
        .filter_map(|before| before.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next())
        .filter(|name| name.starts_with("loco_") && *name != "loco_options" && *name != "loco_store_options")
        .collect();
    let functions = functions();
    let exported: BTreeSet<_> = functions.iter().map(|function| function.name.as_str()).collect();
    assert_eq!(declared, exported);

    let numbers = numbers();
    let mut named: BTreeSet<_> = numbers.iter().map(|(name, _)| name.as_str()).collect();
    named.extend([
        "LOCO_H",
        "LOCO_VERSION",
        "LOCO_OPTIONS_INIT",
        "LOCO_STORE_OPTIONS_INIT",
    ]);
    assert_eq!(words(&header, "LOCO_"), named);
}

#[test]
fn every_function_is_documented() {
    let text = std::fs::read_to_string(root().join("include/loco.h")).expect("the header");
    let paragraphs: Vec<&str> = text.split("\n\n").collect();
    for function in functions() {
        let name = format!("{}(", function.name);
        let paragraph = paragraphs.iter().find(|paragraph| {
            let code = paragraph.rsplit_once("*/\n").map(|(_, code)| code);
            code.is_some_and(|code| code.contains(&name))
        });
        let paragraph = paragraph.unwrap_or_else(|| panic!("{} has no comment of its own", function.name));
        assert!(paragraph.starts_with("/* "), "{paragraph}");
    }
}
