//! Types commands as a reader does: in a shell, in some folder, with the commands of this build in the path.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Returns the root of the repository.
pub fn repository() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap()
}

/// Returns the folder where projects outside the clone are built. The next run of a test finds what this one has built.
pub fn projects_target() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("projects");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs commands as one who has typed them in a shell in `place`. The first that fails ends the shell.
pub fn typed(place: &Path, commands: &str) -> Output {
    let loco = Path::new(env!("CARGO_BIN_EXE_loco")).parent().unwrap().display();
    // Programs of other packages are built here if the tests have a folder of their own.
    let built = repository().join("target/debug");
    let path = format!("{loco}:{}:{}", built.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell
        .args(["-ec", commands])
        .current_dir(place)
        .env("PWD", place)
        .env("PATH", path);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        // Cargo tells tests of itself, which a reader's shell does not. What tells Cargo how to build stays: with other settings,
        // what is here would be built again.
        let settings = ["CARGO_HOME", "CARGO_INCREMENTAL", "CARGO_PROFILE_"];
        let of_cargo = text.starts_with("CARGO_") && !settings.iter().any(|of| text.starts_with(of));
        if of_cargo || text.starts_with("LOCO_") {
            shell.env_remove(name);
        }
    }
    shell
        .env("CARGO_NET_OFFLINE", "true")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Runs commands, which must succeed, and returns what they print.
pub fn type_in(place: &Path, commands: &str) -> String {
    let output = typed(place, commands);
    assert!(
        output.status.success(),
        "{commands}\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}
