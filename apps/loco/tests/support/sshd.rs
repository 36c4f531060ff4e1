//! A private `sshd` on addresses of the loopback interface, with keys of its own, that ends with the test.

use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;

use loco_testing::free_addresses;
use loco_testing::skipped;
use tempfile::TempDir;

/// The hosts on which the server listens.
pub const HOSTS: [&str; 2] = ["127.0.0.1", "127.0.0.2"];
/// A host on which it does not.
pub const NO_HOST: &str = "127.0.0.3";

/// The server.
pub struct Sshd {
    /// The keys, and whatever a test puts there.
    pub dir: TempDir,
    process: Child,
    port: u16,
}

impl Sshd {
    /// Starts a server. Returns `None` where there is none installed, and the calling test counts as skipped.
    pub fn start() -> Option<Sshd> {
        let program = "/usr/sbin/sshd";
        let there = |name: &str| Command::new(name).arg("-V").output().is_ok();
        if !Path::new(program).exists() || !there("ssh") {
            skipped("SSH", "there is no sshd here (Debian: openssh-server)");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        for name in ["host", "key"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", name]);
            assert!(keygen.current_dir(dir.path()).status().unwrap().success());
        }
        if rustix::process::getuid().is_root() {
            // Where the server confines the part of it that strangers talk to.
            std::fs::create_dir_all("/run/sshd").unwrap();
        }
        // Another process may take the port before the server does.
        (0..20)
            .find_map(|_| Sshd::listen(program, dir.path()))
            .map(|(process, port)| {
                let host_key = std::fs::read_to_string(dir.path().join("host.pub")).unwrap();
                let known: String = HOSTS
                    .iter()
                    .map(|host| format!("[{host}]:{port} {host_key}"))
                    .collect();
                std::fs::write(dir.path().join("known"), known).unwrap();
                Sshd { dir, process, port }
            })
    }

    fn listen(program: &str, dir: &Path) -> Option<(Child, u16)> {
        let port = free_addresses(&[HOSTS[0]])[0].port();
        let path = dir.display();
        let mut config = format!(
            "HostKey {path}/host\nAuthorizedKeysFile {path}/key.pub\nStrictModes no\nUsePAM no\nPidFile none\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nMaxStartups 8:100:8\n"
        );
        for host in HOSTS {
            config += &format!("ListenAddress {host}:{port}\n");
        }
        let config_path = dir.join("config");
        std::fs::write(&config_path, config).unwrap();
        // The end of the input, which is that of this process at the latest, ends the server.
        let script = "exec 3<&0; { read -r _ <&3; kill $$; } & exec \"$@\" 3<&- </dev/null";
        let mut process = Command::new("sh")
            .args(["-c", script, "sh", program, "-D", "-e", "-f"])
            .arg(config_path)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap());
        if listens(&mut log) {
            thread::spawn(move || log.read_to_end(&mut Vec::new()));
            return Some((process, port));
        }
        drop(process.stdin.take());
        process.wait().unwrap();
        None
    }

    /// Returns the command that reaches the hosts, and asks and stores nothing.
    pub fn ssh(&self) -> String {
        let dir = self.dir.path().display();
        format!(
            "ssh -F none -p {} -i {dir}/key -o IdentitiesOnly=yes -o UserKnownHostsFile='{dir}/known' -o LogLevel=ERROR",
            self.port
        )
    }

    /// Writes a hosts file with a node on each of these hosts, and returns its path.
    pub fn hosts(&self, hosts: &[&str]) -> String {
        let addresses = free_addresses(hosts);
        let lines = addresses
            .iter()
            .enumerate()
            .map(|(node, at)| format!("{node} {at}\n"));
        let text: String = lines.collect();
        let path = self.dir.path().join("hosts");
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// Waits until the server listens on all of its addresses; false if it cannot.
fn listens(log: &mut BufReader<ChildStderr>) -> bool {
    let lines = log.lines().map_while(Result::ok);
    let listening = lines.filter(|line| line.contains("Server listening on "));
    listening.take(HOSTS.len()).count() == HOSTS.len()
}
