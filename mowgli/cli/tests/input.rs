//! The command with input that it cannot use, searches that it cannot finish, and output that nobody reads.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

mod support;

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use support::{ENDLESS, exits, folder_with, mowgli, stderr, stdout, write};

/// The statement is wrong, and the reports of many conditions fill the pipe before the verdict is known.
#[test]
fn a_reader_that_goes_away_does_not_change_the_exit_status() {
    let folder = folder_with("exists (z=1)\nforbidden [rdma-tso;]");
    let path = folder.path().to_str().unwrap();
    let arguments: Vec<&str> = ["check"]
        .into_iter()
        .chain(std::iter::repeat_n(path, 400))
        .collect();
    let mut child = Command::new(env!("CARGO_BIN_EXE_mowgli"))
        .args(&arguments)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdout.take().unwrap();
    pipe.read_exact(&mut [0; 1]).unwrap();
    drop(pipe);
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

/// No execution satisfies the assumption, so the test asks nothing.
#[test]
fn a_test_without_executions_is_vacuous() {
    for statement in [
        "~exists (z=1)\nforbidden [rdma-tso;]",
        "forall (z=1)\nrequired [rdma-tso;]",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("RDMA v\n{{ x@1=0; z@2=0; }}\nP0@1 ;\nz^2 := x ;\nassume(0) ;\n{statement}\n");
        write(folder.path(), "v", &text);
        let path = folder.path().to_str().unwrap();
        let output = mowgli(&["check", path, "-m", "rdma-tso", "--engine", "both"]);
        exits(&output, 1);
        let text = stdout(&output);
        assert!(
            text.contains("\nVacuous (no execution reaches the end)\n"),
            "{text}"
        );
        assert!(!text.contains("\nOk\n"), "{text}");
        assert!(text.contains("vacuous !"), "{text}");
        assert!(text.contains("1 vacuous"), "{text}");
        let output = mowgli(&["check", path, "-m", "rdma-tso", "--json"]);
        exits(&output, 1);
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["rows"][0]["vacuous"], true, "{json:#}");
        assert_eq!(json["rows"][0]["as_expected"], false);
        assert_eq!(json["rows"][0]["verdict"], serde_json::Value::Null);
        assert_eq!(json["totals"]["vacuous"], 1);
    }
}

#[test]
fn json_names_refused_texts_and_their_errors() {
    let folder = folder_with("exists (z=1)\nallowed [rdma-tso;]");
    write(
        folder.path(),
        "bad",
        "RDMA bad\n{ x@1=0; }\nP0@1 ;\nnothing ;\nexists (x=1)\n",
    );
    fs::write(folder.path().join("binary.litmus"), b"RDMA b\n{ x@1=0; }\n\xff\n").unwrap();
    write(
        folder.path(),
        "odd",
        "RDMA odd\n{ x@1=0; y@1=0; }\nP0@1 ;\nx := 1 ;\nexists (x=1)\n",
    );
    let output = mowgli(&["check", "--json", folder.path().to_str().unwrap()]);
    exits(&output, 2);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["totals"]["refused"], 2);
    let refused = json["refused"].as_array().unwrap();
    let of = |name: &str| {
        let found = refused
            .iter()
            .find(|r| r["path"].as_str().unwrap().ends_with(name));
        found.unwrap_or_else(|| panic!("{json:#}"))
    };
    let error = &of("bad.litmus")["diagnostics"][0];
    assert_eq!(error["code"], "unknown-instruction");
    assert_eq!(error["severity"], "error");
    assert_eq!(
        (&error["line"], &error["column"]),
        (&4.into(), &1.into()),
        "{error:#}"
    );
    assert!(
        error["message"].as_str().unwrap().contains("nothing"),
        "{error:#}"
    );
    let error = &of("binary.litmus")["diagnostics"][0];
    assert_eq!(error["code"], "not-utf-8");
    assert_eq!(
        (&error["line"], &error["column"]),
        (&3.into(), &1.into()),
        "{error:#}"
    );
    let warnings = json["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1, "{json:#}");
    assert_eq!(warnings[0]["diagnostics"][0]["code"], "unused-location");
}

#[test]
fn texts_that_cannot_be_read_are_named_with_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("large.litmus"), vec![b' '; (1 << 20) + 1000]).unwrap();
    let output = mowgli(&["check", &path("large.litmus")]);
    exits(&output, 2);
    let text = stderr(&output);
    assert!(
        text.contains("large.litmus")
            && text.contains("longer than SOURCE_BYTES_MAX, which is 1048576 bytes"),
        "{text}"
    );
    let totals = stdout(&output);
    assert!(totals.ends_with(" 1 test refused; 0.00 s\n"), "{totals}");
    fs::write(path("latin.litmus"), b"RDMA l\n{ x@1=0; } (* caf\xe9 *)\n").unwrap();
    let output = mowgli(&["check", &path("latin.litmus")]);
    exits(&output, 2);
    let text = stderr(&output);
    assert!(text.contains("latin.litmus:2:18"), "{text}");
    assert!(text.contains("not UTF-8"), "{text}");
}

/// Editors on some systems put a byte-order mark first.
#[test]
fn a_byte_order_mark_is_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let text = stdout(&mowgli(&["show", "SB3"]));
    write(folder.path(), "bom", &format!("\u{feff}{text}"));
    let output = mowgli(&["check", folder.path().to_str().unwrap()]);
    exits(&output, 0);
    assert!(stderr(&output).is_empty(), "{}", stderr(&output));
}

#[test]
fn a_list_without_tests_is_an_error_as_an_empty_folder_is() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("empty.list");
    fs::write(&list, "# nothing yet\n\n").unwrap();
    let output = mowgli(&["check", &format!("@{}", list.display())]);
    exits(&output, 2);
    assert!(stderr(&output).contains("empty.list"), "{}", stderr(&output));
}

#[test]
fn a_list_may_begin_with_a_byte_order_mark_and_end_its_lines_with_returns() {
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        "one",
        "RDMA one\n{ x@1=0; }\nP0@1 ;\nx := 1 ;\nexists (x=1)\n",
    );
    let list = folder.path().join("all.list");
    fs::write(&list, "\u{feff}one.litmus\r\n").unwrap();
    let output = mowgli(&["check", &format!("@{}", list.display())]);
    exits(&output, 0);
    assert!(stderr(&output).is_empty(), "{}", stderr(&output));
}

#[test]
fn poll_and_wait_in_one_test_get_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let text = "RDMA both\n{ x@1=0; z@2=0; }\nP0@1 ;\nz^2 :=[d] x ;\npoll(2) ;\nwait(d) ;\nexists (z=0)\n";
    write(folder.path(), "both", text);
    let output = mowgli(&["check", folder.path().to_str().unwrap()]);
    exits(&output, 0);
    let text = stderr(&output);
    assert!(text.contains("warning[poll-and-wait]"), "{text}");
    assert!(text.contains("only `sc`"), "{text}");
    assert!(text.contains("both.litmus:5:1"), "{text}");
}

#[test]
fn a_total_limit_ends_the_whole_run() {
    let output = mowgli(&["check", "-q", "--limit", "total=0s"]);
    exits(&output, 3);
    let text = stdout(&output);
    assert!(text.contains("The total limit ended the run"), "{text}");
    let output = mowgli(&["check", "--json", "--limit", "total=0s"]);
    exits(&output, 3);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["totals"]["stopped"], "total time limit reached", "{json:#}");
}

#[test]
fn a_memory_limit_stops_a_search() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "endless", ENDLESS);
    let path = folder.path().to_str().unwrap();
    for engine in ["declarative", "operational"] {
        let output = mowgli(&["check", path, "-m", "rdma-tso", "-e", engine, "-l", "memory=1K"]);
        exits(&output, 3);
        let text = stdout(&output);
        assert!(text.contains("Unknown (memory limit of 1 KiB reached)"), "{text}");
    }
}

/// A device without an end, given as anything that a command reads, is refused with its name, the limit and what to do.
#[test]
fn files_without_an_end_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for name in ["zero.cat", "zero.client", "zero.litmus", "out/manifest.jsonl"] {
        fs::create_dir_all(folder.path().join("out")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.path().join(name)).unwrap();
    }
    fs::write(path("one.list"), "/dev/zero\n").unwrap();
    let list = format!("@{}", path("one.list"));
    for (arguments, named) in [
        (vec!["check", "/dev/zero"], "/dev/zero"),
        (vec!["check", "@/dev/zero"], "/dev/zero"),
        (vec!["check", &list], "/dev/zero"),
        (vec!["check", &path("")], "zero.litmus"),
        (vec!["check", "SB3", "--model", &path("zero.cat")], "zero.cat"),
        (vec!["explain", "/dev/zero"], "/dev/zero"),
        (vec!["explain", &path("zero.client")], "zero.client"),
        (vec!["outcomes", &path("zero.client")], "zero.client"),
        (vec!["robust", "/dev/zero"], "/dev/zero"),
        (vec!["star", "/dev/zero"], "/dev/zero"),
        (vec!["merge", "/dev/zero"], "/dev/zero"),
        (
            vec!["generate", "--model", "tso", "--size", "2", "--out", &path("out")],
            "manifest.jsonl",
        ),
    ] {
        let output = mowgli(&arguments);
        exits(&output, 2);
        let text = stderr(&output);
        assert!(text.contains(named), "{arguments:?}: {text}");
        assert!(text.contains("name the right file"), "{arguments:?}: {text}");
        assert!(text.len() < 4096, "{arguments:?}: {} bytes", text.len());
    }
}

/// Tests of herd7 for x86 are read by every command that reads tests.
#[test]
fn tests_of_herd7_for_x86_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        (
            "sb",
            "X86 SB\n\"Fre PodWR Fre PodWR\"\n{ x=0; y=0; }\n P0 | P1 ;\n MOV [x],$1 | MOV [y],$1 ;\n \
                MOV EAX,[y] | MOV EAX,[x] ;\nexists (0:EAX=0 /\\ 1:EAX=0)\n",
        ),
        (
            "not",
            "X86_64 n\n{ x=0; }\n P0 | P1 ;\n movq $1,(x) | movq (x),%rax ;\n | movq $2,(x) ;\n\
                 exists (not (1:rax=0 /\\ (x=1 \\/ x=2) \\/ 1:rax=1 /\\ x=2))\n",
        ),
        (
            "hex",
            "X86_64 h\n{ x=0x10; 0:rax=0x5; }\n P0 ;\n movl $0x1,(x) ;\nexists ([x]=0x1)\n",
        ),
        (
            "ebp",
            "X86 e\n{ x=0; P0:ESP=3; }\n P0 ;\n MOV EBP,[x] ;\nexists (P0:EBP=0 /\\ 0:ESP=3)\n",
        ),
        (
            "filter",
            "X86_64 f\n{ x=0; y=0; }\n P0 | P1 ;\n movl $1,(x) | movl (x),%eax ;\nfilter (1:rax=1)\n\
                    forall (1:rax=1)\n",
        ),
    ] {
        write(folder.path(), name, text);
    }
    let path = |name: &str| {
        folder
            .path()
            .join(format!("{name}.litmus"))
            .to_str()
            .unwrap()
            .to_owned()
    };
    for (name, observation) in [
        ("sb", "Observation SB Sometimes 1 3"),
        ("not", "Observation n Never"),
        ("hex", "Observation h Always"),
        ("ebp", "Observation e Always"),
        ("filter", "Observation f Always"),
    ] {
        let output = mowgli(&["check", &path(name), "--model", "tso"]);
        let text = stdout(&output);
        exits(&output, 0);
        assert!(text.contains(observation), "{name}: {text}");
        exits(&mowgli(&["star", &path(name)]), 0);
    }
    exits(&mowgli(&["explain", &path("sb"), "--model", "tso"]), 0);
}

/// An unknown verdict names the limit and what to do.
#[test]
fn an_unknown_verdict_names_the_limit_and_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    // The loop counts, so its states have no end.
    let spin = "RDMA spin\n{ x@1=0; }\nP0@1 | P1@1 ;\nr := 0 | x := 1 ;\nn := 0 | ;\n\
                while (r == 0) bound 2 { r := x; n := n + 1 } | ;\nexists (0:r=7)\n";
    write(folder.path(), "spin", spin);
    let spin = folder.path().join("spin.litmus").to_str().unwrap().to_owned();
    for (arguments, words) in [
        (
            vec!["check", "MP1", "-m", "rdma-tso", "-l", "states=1"],
            "--limit states=",
        ),
        (vec!["check", &spin, "-m", "tso"], "raise the loop's `bound`"),
        (vec!["explain", &spin, "-m", "tso"], "raise the loop's `bound`"),
        (
            vec!["compare", &spin, "--models", "sc,tso"],
            "raise the loop's `bound`",
        ),
        (vec!["robust", &spin, "--exact"], "raise the loop's `bound`"),
    ] {
        let output = mowgli(&arguments);
        exits(&output, 3);
        let text = stdout(&output).replace('\n', " ");
        assert!(text.contains(words), "{arguments:?}: {text}");
        let output = mowgli(&[arguments.as_slice(), &["--json"]].concat());
        exits(&output, 3);
        let json = stdout(&output);
        assert!(json.contains(words), "{arguments:?}: {json}");
    }
}

/// Tests with the same warning are one line with their number, and each warning is in the JSON.
#[test]
fn warnings_by_the_hundred_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    for n in 0..40 {
        let text = format!(
            "RDMA w{n}\n{{ x@1=0; }}\nP0@1 | P1@1 ;\nv := x | v := x ;\nw := x | w := x ;\nexists (0:v=0)\n"
        );
        write(folder.path(), &format!("w{n:02}"), &text);
    }
    let path = folder.path().to_str().unwrap();
    let output = mowgli(&["check", path, "-m", "sc", "-q"]);
    let said = stderr(&output);
    let lines: Vec<&str> = said.lines().filter(|l| !l.is_empty()).collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert!(
        lines[0].starts_with("warning[shared-register]: 80 warnings in 40 tests"),
        "{said}"
    );
    assert!(lines[0].contains("w00.litmus:4:10"), "{said}");
    let output = mowgli(&["check", path, "-m", "sc", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["warnings"].as_array().unwrap().len(), 40);
    // One test is drawn as ever.
    let one = folder.path().join("w00.litmus");
    let said = stderr(&mowgli(&["check", one.to_str().unwrap(), "-m", "sc", "-q"]));
    assert!(
        said.contains("^") && said.contains("help: registers are private"),
        "{said}"
    );
}

/// A model is looked up beside the file that includes it, then in the folders of `-I`, then among the built-in ones.
#[test]
fn models_are_looked_up_in_folders() {
    let (near, far) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let test = near.path().join("SB.litmus");
    fs::write(
        &test,
        "X86 SB\n{ }\nP0 | P1 ;\nMOV [x],$1 | MOV [y],$1 ;\nMOV EAX,[y] | MOV EAX,[x] ;\nexists (0:EAX=0 /\\ 1:EAX=0)\n",
    )
    .unwrap();
    let test = test.to_str().unwrap();
    fs::write(
        far.path().join("order.cat"),
        "Order\nlet order = po | rf | fr | co\n",
    )
    .unwrap();
    fs::write(
        far.path().join("far.cat"),
        "Far\ninclude \"order.cat\"\nacyclic order\n",
    )
    .unwrap();
    let mine = near.path().join("mine.cat");
    fs::write(&mine, "Mine\ninclude \"order.cat\"\nacyclic order\n").unwrap();
    let mine = mine.to_str().unwrap();
    let folder = far.path().to_str().unwrap();
    let verdict = |args: &[&str]| {
        let output = mowgli(args);
        exits(&output, 0);
        stdout(&output).lines().nth(1).unwrap_or_default().to_owned()
    };
    for model in [mine, "far.cat"] {
        assert!(
            verdict(&["check", test, "-q", "-m", model, "-I", folder]).contains("forbidden"),
            "{model}"
        );
        exits(&mowgli(&["check", test, "-q", "-m", model]), 2);
    }
    // A file beside the one that includes it is taken first.
    fs::write(near.path().join("order.cat"), "Near\nlet order = rf | fr | co\n").unwrap();
    assert!(verdict(&["check", test, "-q", "-m", mine, "-I", folder]).contains("allowed"));
    let output = mowgli(&["check", test, "-I", "no/such/folder"]);
    exits(&output, 2);
    assert!(stderr(&output).contains("there is no such folder"));
    // `compare` and `explain` read herd7's tests too.
    assert!(stdout(&mowgli(&["compare", test, "--models", "sc,tso"])).contains("0:EAX=0; 1:EAX=0;"));
    assert!(stdout(&mowgli(&["explain", test, "--model", "tso"])).contains("Allowed"));
}
