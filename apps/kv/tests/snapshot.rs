//! Tests snapshots by the `kv` command: both ways, on several nodes, and when the process is killed at any moment of writing.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Output, Stdio};

use loco_testing::launched::alone;

use support::{job, shell};

/// The bytes of the end of a snapshot.
const END_BYTES: usize = 32;

/// Gives a shell on so many nodes these commands, and returns its answers.
fn answers_of(nodes: usize, commands: &str) -> Vec<String> {
    let output = shell(nodes, commands);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn the_shell_writes_a_snapshot_and_restores_it_on_more_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a snapshot");
    let path = file.display();
    let puts: String = (0..50).map(|i| format!("put key{i} value {i}\n")).collect();
    let answers = answers_of(2, &format!("{puts}snapshot {path}\nput key1 later\n"));
    assert!(answers[50].starts_with("50 keys in "), "{answers:?}");
    for nodes in [1, 3] {
        let answers = answers_of(
            nodes,
            &format!(
                "put key1 before\nput another one\nrestore {path}\nget key1\nget key49\nget another\nstats\n"
            ),
        );
        assert_eq!(
            answers[2..6],
            [
                "50 keys restored: 49 inserted, 1 updated",
                "value 1",
                "value 49",
                "one"
            ]
        );
        assert!(answers[6].starts_with("51 keys; "), "{answers:?}");
        let free: u32 = answers[6]
            .split(' ')
            .find_map(|word| word.parse::<u32>().ok().filter(|&n| n > 51))
            .unwrap();
        assert!(
            free >= 4096 - 2 - 50_u32.div_ceil(nodes as u32),
            "spread over the nodes: {answers:?}"
        );
    }
    // A file that is cut is refused, and the shell goes on.
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    let answers = answers_of(
        2,
        &format!("put key1 mine\nrestore {path}\nget key1\nget key2\nsnapshot /dev/null\n"),
    );
    let refused = format!("is refused at byte {}", whole.len() - END_BYTES);
    assert!(
        answers[1].starts_with("error: ") && answers[1].contains(&refused),
        "{answers:?}"
    );
    assert_eq!(answers[2..4], ["mine", "no key `key2`"]);
    assert!(answers[4].contains("no plain file"), "{answers:?}");
}

fn load(nodes: usize, keys: &str, more: &[&str]) -> Output {
    let args = [
        "load",
        "--json",
        "--keys",
        keys,
        "--ops",
        "2000",
        "--threads",
        "2",
        "--duration",
        "20",
    ];
    job(nodes, &[&args[..], more].concat()).output().unwrap()
}

#[test]
fn a_load_takes_a_snapshot_and_another_one_begins_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kv");
    let path = file.to_str().unwrap();
    let output = load(3, "3000", &["--snapshot", path]);
    assert!(output.status.success(), "{output:?}");
    let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(outcome["snapshot"]["keys"], 3000);
    assert_eq!(outcome["snapshot"]["bytes"], fs::metadata(&file).unwrap().len());
    // Every value that the load finds is checked.
    let output = load(2, "3000", &["--restore", path]);
    assert!(output.status.success(), "{output:?}");
    let output = load(2, "2999", &["--restore", path]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("give --keys 3000"), "{said}");
}

/// A shell of one node, without a launcher that would have to be killed too.
struct Shell {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Shell {
    fn start() -> Shell {
        let mut child = alone(env!("CARGO_BIN_EXE_kv"))
            .arg("shell")
            .envs([("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1")])
            .envs([("LOCO_SECRET", "of one node"), ("LOCO_FABRIC", "shm")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut shell = Shell { child, answers };
        shell.answer();
        shell
    }

    fn say(&mut self, command: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{command}").unwrap();
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ask(&mut self, command: &str) -> String {
        self.say(command);
        self.answer()
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// In each round a process is killed when its new file has some length, or has been renamed. The file is always whole: the one of
/// this round, or that of the round before.
#[test]
fn a_killed_process_leaves_the_old_file_or_the_new_one() {
    const ROUNDS: u64 = 24;
    // Where this test gets little time of the processor, it goes on until it has hit the middle.
    const ROUNDS_MAX: u64 = 1000;
    const KEYS: usize = 700;
    let folder = tempfile::tempdir().unwrap();
    let (file, part) = (folder.path().join("kv"), folder.path().join("kv.part"));
    let len = |path: &Path| fs::metadata(path).map_or(0, |there| there.len());
    let mut shell = Shell::start();
    for i in 0..KEYS {
        assert_eq!(shell.ask(&format!("put key{i} {}", "x".repeat(4000))), "inserted");
    }
    assert_eq!(shell.ask("put round 0"), "inserted");
    assert!(
        shell
            .ask(&format!("snapshot {}", file.display()))
            .starts_with("701 keys")
    );
    let whole = len(&file);
    shell.kill();
    let (mut last, mut olds, mut parts) = (0, 0, 0);
    for round in 1..=ROUNDS_MAX {
        if round > ROUNDS && olds > 0 && parts > 0 {
            break;
        }
        let mut shell = Shell::start();
        let restored = shell.ask(&format!("restore {}", file.display()));
        assert_eq!(restored, "701 keys restored: 701 inserted, 0 updated");
        let found: u64 = shell.ask("get round").parse().unwrap();
        assert!(
            [last, round - 1].contains(&found),
            "{found} of {last} and {}",
            round - 1
        );
        olds += u64::from(found != round - 1);
        last = found;
        assert_eq!(shell.ask(&format!("put round {round}")), "updated");
        // A partial file of an earlier round says nothing of this one.
        let _ = fs::remove_file(&part);
        let before = fs::metadata(&file).unwrap();
        let renamed = || {
            use std::os::unix::fs::MetadataExt;
            fs::metadata(&file).unwrap().ino() != before.ino()
        };
        shell.say(&format!("snapshot {}", file.display()));
        let until = whole * ((round - 1) % ROUNDS) / (ROUNDS - 2);
        while len(&part) < until.max(1) && !renamed() {
            std::hint::spin_loop();
        }
        shell.kill();
        parts += u64::from(part.exists());
    }
    assert!(
        olds > 0 && parts > 0,
        "some processes were killed in the middle: {olds}, {parts}"
    );
}
