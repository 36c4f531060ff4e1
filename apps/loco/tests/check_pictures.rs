//! `loco check --html` and `--open`: films of executions of worlds and of clients, and what is said when none can be made.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loco"));
    command.arg("check").args(arguments);
    command
}

fn check(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the film that a document has.
fn film(path: &Path) -> Value {
    let html = fs::read_to_string(path).unwrap();
    let line = html.lines().find_map(|line| line.strip_prefix("const data = "));
    serde_json::from_str(line.unwrap().trim_end_matches(';')).unwrap()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a Vec<Value> {
    value[name].as_array().unwrap()
}

/// Checks what holds of every film.
fn is_whole(film: &Value) {
    let (frames, words, threads) = (list(film, "frames"), list(film, "words"), list(film, "threads"));
    assert!(frames.len() > 10, "{}", frames.len());
    assert!(!words.is_empty());
    assert!(frames[0]["step"].is_null());
    for (at, frame) in frames.iter().enumerate() {
        assert_eq!(list(frame, "memory").len(), words.len(), "frame {at}");
        assert!(list(frame, "threads").len() <= threads.len(), "frame {at}");
        assert_eq!(at > 0, frame["step"]["what"].is_string(), "frame {at}");
    }
    let calls = list(film, "calls");
    assert!(!calls.is_empty());
    for call in calls {
        let thread = &threads[usize::try_from(call["thread"].as_u64().unwrap()).unwrap()]["name"];
        let step = |at: &str| {
            let number = usize::try_from(call[at].as_u64().unwrap()).unwrap();
            frames[number]["step"]["what"].as_str().unwrap()
        };
        let thread = thread.as_str().unwrap();
        // The step that leads to the first frame of a call begins it, the one to its last frame ends it.
        let (what, result) = (call["what"].as_str().unwrap(), call["result"].as_str().unwrap());
        assert_eq!(step("from"), format!("{thread}: calls {what}"));
        assert_eq!(step("to"), format!("{thread}: returns {result}"));
    }
}

#[test]
fn an_execution_of_a_world_can_be_watched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.html");
    let output = check(&["ring-buffer", "--replay", "", "--html", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let film = film(&path);
    is_whole(&film);
    // Puts go through a queue pair and are outstanding until they are placed; at the end nothing is.
    let frames = list(&film, "frames");
    let somewhere = |what: &str| frames.iter().any(|f| f["machine"].to_string().contains(what));
    assert!(somewhere("acknowledged") && somewhere("not placed"));
    assert!(frames.iter().any(|f| !list(f, "outstanding").is_empty()));
    assert!(list(&frames[frames.len() - 1], "outstanding").is_empty());
    let html = fs::read_to_string(&path).unwrap();
    assert!(
        html.contains("This execution breaks no promise.") && html.contains("<title>ring-buffer"),
        "{}",
        &html[..200]
    );
}

/// A client that takes a lock twice waits for ever.
const STUCK: &str = "RDMA stuck\n{ }\nobjects { lock l@1; }\n P0@1 | P1@2 ;\n lock(l) | lock(l) ;\n lock(l) | unlock(l) ;\n\nexists (true)\n";

#[test]
fn a_client_that_fails_can_be_watched() {
    let folder = tempfile::tempdir().unwrap();
    let (client, path) = (
        folder.path().join("stuck.client"),
        folder.path().join("film.html"),
    );
    fs::write(&client, STUCK).unwrap();
    let output = check(&[
        "--client",
        client.to_str().unwrap(),
        "--html",
        path.to_str().unwrap(),
    ]);
    assert_eq!(
        output.status.code(),
        Some(1),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    let html = fs::read_to_string(&path).unwrap();
    assert!(html.contains("deadlock: no thread can go on"));
    let film = film(&path);
    // A client records its calls when they are over.
    let notes = list(&film, "notes");
    assert!(notes.iter().any(|note| note["text"] == "lock(l)"), "{notes:?}");
    let last = list(&film, "frames").last().unwrap();
    let waits = list(last, "threads")
        .iter()
        .any(|thread| thread["waits_for"].is_string());
    assert!(waits, "{last}");
}

#[test]
fn without_a_failure_there_is_no_film_and_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.html");
    for arguments in [&["sst", "--nodes", "2"][..], &["sst"], &["--client", "LOCO-23"]] {
        let output = check(&[arguments, &["--time", "2", "--html", path.to_str().unwrap()]].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
        assert!(
            said.contains("no execution failed") && said.contains("no file was written"),
            "{said}"
        );
        assert!(!path.exists(), "{arguments:?}");
    }
    let output = check(&["--html", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("say which OBJECT"), "{output:?}");
}

#[test]
fn a_film_that_cannot_be_written_is_an_error_that_names_the_file() {
    for (path, why) in [
        ("/dev/full", "No space left on device"),
        ("/no/such/folder/film.html", "No such file or directory"),
    ] {
        let output = check(&["sst", "--replay", "", "--html", path]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(why) && said.contains(path), "{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[test]
fn a_film_is_opened_in_the_browser() {
    let folder = tempfile::tempdir().unwrap();
    let (opener, opened) = (folder.path().join("xdg-open"), folder.path().join("opened"));
    fs::write(
        &opener,
        format!(
            "#!/bin/sh\necho \"$1\" > {0}.new && mv {0}.new {0}\n",
            opened.display()
        ),
    )
    .unwrap();
    fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::join_paths(
        std::iter::once(folder.path().to_owned())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let output = command(&["sst", "--replay", "", "--open"])
        .env("PATH", path.unwrap())
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    // The command does not wait for the browser, so the test does.
    while !opened.exists() {
        std::thread::yield_now();
    }
    let file = fs::read_to_string(&opened).unwrap();
    assert!(
        said.contains(&format!("the film is in {}", file.trim())),
        "{said}"
    );
    is_whole(&film(Path::new(file.trim())));
    // Without a browser, the file is there all the same.
    let output = command(&["sst", "--replay", "", "--open"])
        .env("PATH", "")
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        text(&output.stderr).contains("cannot start xdg-open"),
        "{output:?}"
    );
}
