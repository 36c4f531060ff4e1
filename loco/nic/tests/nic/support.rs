//! Runs programs on the library: a world of their own in a temporary folder, and the names under which programs look for it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use loco_testing::skipped;
use tempfile::TempDir;

/// A world, which goes with its folder; or the part of one that is on one host.
pub struct World {
    folder: TempDir,
    tier: &'static str,
    stress: &'static str,
    seed: u64,
    host: Option<Host>,
    set: Vec<(&'static str, &'static str)>,
}

/// Which host of a world this is.
#[derive(Clone)]
pub struct Host {
    /// The addresses of all hosts, as the library has them.
    pub hosts: String,
    pub own: usize,
    pub secret: &'static str,
    /// The network namespace of the host, if it has one.
    pub network: Option<String>,
}

/// Returns the library, which cargo puts beside the tests or above them.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap();
    let places = [folder.join("libloco_nic.so"), folder.join("../libloco_nic.so")];
    places.into_iter().find(|path| path.exists()).unwrap()
}

impl World {
    /// Makes a world.
    pub fn new(tier: &'static str, stress: &'static str, seed: u64) -> World {
        let folder = tempfile::tempdir().unwrap();
        let names = folder.path().join("lib");
        fs::create_dir(&names).unwrap();
        for name in ["libibverbs.so.1", "librdmacm.so.1"] {
            symlink(library(), names.join(name)).unwrap();
        }
        World {
            folder,
            tier,
            stress,
            seed,
            host: None,
            set: Vec::new(),
        }
    }

    /// Makes it the part of a world that is on a host.
    pub fn on(self, host: Host) -> World {
        fs::create_dir_all(self.meeting()).unwrap();
        World {
            host: Some(host),
            ..self
        }
    }

    /// Sets a variable of the library's for all programs.
    pub fn with(mut self, variable: &'static str, value: &'static str) -> World {
        self.set.push((variable, value));
        self
    }

    /// Returns the folder where processes meet.
    pub fn meeting(&self) -> PathBuf {
        self.folder.path().join("world")
    }

    /// Returns a command that runs a program in this world.
    pub fn command(&self, program: impl AsRef<Path>, args: &[&str]) -> Command {
        let network = self.host.as_ref().and_then(|host| host.network.as_ref());
        let mut command = match network {
            None => Command::new(program.as_ref()),
            Some(network) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", network]).arg(program.as_ref());
                command
            }
        };
        if let Some(host) = &self.host {
            command
                .env("LOCO_NIC_HOSTS", &host.hosts)
                .env("LOCO_NIC_HOST", host.own.to_string())
                .env("LOCO_SECRET", host.secret);
        }
        command
            .args(args)
            .env("LD_LIBRARY_PATH", self.folder.path().join("lib"))
            .env("LOCO_NIC_WORLD", self.meeting())
            .env("LOCO_NIC_TIER", self.tier)
            .env("LOCO_NIC_STRESS", self.stress)
            .env("LOCO_NIC_SEED", self.seed.to_string())
            .envs(self.set.iter().copied())
            .stdin(Stdio::null());
        command
    }

    /// Starts a program whose output is collected.
    pub fn start(&self, program: impl AsRef<Path>, args: &[&str]) -> Child {
        self.command(program, args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Runs a program to its end.
    pub fn run(&self, program: impl AsRef<Path>, args: &[&str]) -> Output {
        self.command(program, args).output().unwrap()
    }

    /// Runs a server and a client, which tries until the server listens. Checks that both succeed, and returns the client's output.
    pub fn pair(&self, program: &str, server: &[&str], client: &[&str]) -> String {
        let port = loco_testing::free_addresses(&["127.0.0.1"])[0].port();
        let port = port.to_string();
        let with_port = |args: &[&str]| -> Vec<String> {
            let mut all = vec!["-p".to_owned(), port.clone()];
            all.extend(args.iter().map(|arg| (*arg).to_owned()));
            all
        };
        let server = with_port(server);
        let server: Vec<&str> = server.iter().map(String::as_str).collect();
        let mut server = Ended(Some(self.start(program, &server)));
        wait_for_listener(&port);
        let client = with_port(client);
        let client: Vec<&str> = client.iter().map(String::as_str).collect();
        let client = self.run(program, &client);
        let server = server.0.take().unwrap().wait_with_output().unwrap();
        assert!(client.status.success(), "client: {client:?}\nserver: {server:?}");
        assert!(server.status.success(), "server: {server:?}");
        String::from_utf8_lossy(&client.stdout).into_owned()
    }
}

/// A process that is ended if a test fails before its end.
pub struct Ended(pub Option<Child>);

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until a child says that it writes.
pub fn wait_until_it_writes(child: &mut Child) -> BufReader<ChildStdout> {
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "writing\n");
    said
}

/// Checks that a writer has ended because its peer did not answer.
pub fn is_lost(mut writer: Child, mut said: BufReader<ChildStdout>) {
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    let status = writer.wait().unwrap();
    println!("{rest}");
    assert!(
        status.success() && rest.contains("transport retry counter exceeded"),
        "{rest}"
    );
}

/// Waits for something, for a minute at most.
pub fn wait_until(is_so: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !is_so() {
        assert!(start.elapsed().as_secs() < 60, "it does not come about");
        std::thread::yield_now();
    }
}

/// Waits until a program of librdmacm listens in a world.
pub fn wait_for_port(world: &World) {
    wait_until(|| {
        let entries = fs::read_dir(world.meeting()).into_iter().flatten().flatten();
        let mut names = entries.map(|entry| entry.file_name());
        names.any(|name| name.to_string_lossy().contains(".port-"))
    });
}

/// Waits until somebody listens on a port, without connecting to it: some servers take one connection only.
pub fn wait_for_listener(port: &str) {
    wait_for_listener_of(std::process::id(), port);
}

/// Waits until somebody listens on a port in the network of a process.
pub fn wait_for_listener_of(process: u32, port: &str) {
    let port = format!(":{:04X} ", port.parse::<u16>().unwrap());
    let start = std::time::Instant::now();
    loop {
        let tables = ["tcp", "tcp6"].map(|table| format!("/proc/{process}/net/{table}"));
        let tables = tables.map(|table| fs::read_to_string(table).unwrap_or_default());
        let mut lines = tables.iter().flat_map(|table| table.lines());
        if lines.any(|line| line.contains(&port) && line.contains(" 0A ")) {
            return;
        }
        assert!(start.elapsed().as_secs() < 60, "nobody listens on {port}");
        std::thread::yield_now();
    }
}

/// Returns true, and reports the calling test as skipped, if a program is not there.
pub fn lacks(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|folder| folder.join(program).exists()) {
        return false;
    }
    let why = format!(
        "there is no {program}: `ci/install-vm-packages` installs the programs of others that tests run"
    );
    skipped("RDMA_PROGRAMS", why);
    true
}

/// Compiles a program of `tests/mistakes`, or reports the calling test as skipped.
pub fn compiled(name: &str, folder: &Path) -> Option<PathBuf> {
    compiled_of("mistakes", name, folder)
}

/// Compiles a program of a folder of `tests`, or reports the calling test as skipped.
pub fn compiled_of(kind: &str, name: &str, folder: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(kind);
    let headers = Path::new("/usr/include/infiniband/verbs.h").exists();
    if !headers {
        skipped(
            "RDMA_HEADERS",
            "there is no infiniband/verbs.h: install libibverbs-dev and librdmacm-dev",
        );
        return None;
    }
    let program = folder.join(name);
    let built = Command::new("cc")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(source.join(name).with_extension("c"))
        .args(["-libverbs", "-lrdmacm", "-lpthread"])
        .output();
    let Ok(built) = built else {
        skipped("C", "there is no cc");
        return None;
    };
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    Some(program)
}
