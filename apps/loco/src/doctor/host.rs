//! The checks of a job on one machine: shared memory, and what has kept people from using it.

use std::fs;
use std::net::{IpAddr, ToSocketAddrs as _};

use loco::fabric::verbs::{Check, Verdict};
use loco::fabric::{Rendezvous, ShmConfig, ShmFabric};
use rustix::process::{Resource, getrlimit};

use super::networks::read_through;

/// Files that a node opens besides those of the program, for a few peers.
const FILES: u64 = 256;
/// The bytes that a file may have, which bounds memory that is shared, too.
const FILE_BYTES: u64 = 1 << 30;
/// The bytes of address space that a node asks for.
const ADDRESSES: u64 = 4 << 30;

/// Returns the checks of this machine.
pub(super) fn checks() -> Vec<Check> {
    let shared = read_through(|mesh| ShmFabric::new(mesh, ShmConfig::default()));
    let works = shared.is_ok();
    vec![
        match shared {
            Ok(_) => ok("shared memory", "done, a read between two nodes"),
            Err(error) => check(
                "shared memory",
                Verdict::Failed,
                error.to_string(),
                "the lines below say what may be the reason",
            ),
        },
        match Rendezvous::on_loopback() {
            Ok(at) => ok("loopback", format!("nodes can meet at {}", at.address().ip())),
            Err(error) => check(
                "loopback",
                Verdict::Failed,
                error.to_string(),
                "`ip link set lo up`: the nodes of a job meet there",
            ),
        },
        localhost(),
        own_name(),
        user_namespace(&read("/proc/self/uid_map")),
        seccomp(&read("/proc/self/status"), works),
        limit("open files", Resource::Nofile, FILES, "ulimit -n 4096"),
        limit(
            "size of files",
            Resource::Fsize,
            FILE_BYTES,
            "ulimit -f unlimited",
        ),
        limit("address space", Resource::As, ADDRESSES, "ulimit -v unlimited"),
        posix_memory(),
    ]
}

fn ok(name: &str, found: impl Into<String>) -> Check {
    Check {
        name: name.to_owned(),
        verdict: Verdict::Ok,
        found: found.into(),
        remedy: None,
    }
}

fn check(name: &str, verdict: Verdict, found: impl Into<String>, remedy: impl Into<String>) -> Check {
    Check {
        name: name.to_owned(),
        verdict,
        found: found.into(),
        remedy: Some(remedy.into()),
    }
}

/// Returns the text of a file of the kernel; nothing where there is none.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Returns the addresses of a name, each once.
fn addresses(name: &str) -> Result<Vec<IpAddr>, String> {
    let found = (name, 0).to_socket_addrs().map_err(|error| error.to_string())?;
    let mut addresses: Vec<_> = found.map(|at| at.ip()).collect();
    addresses.dedup();
    Ok(addresses)
}

fn list(addresses: &[IpAddr]) -> String {
    let texts: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

fn localhost() -> Check {
    let remedy = "write `127.0.0.1 localhost` into /etc/hosts: nodes under mpirun and srun meet there";
    match addresses("localhost") {
        Ok(found) if found.iter().all(IpAddr::is_loopback) => ok("localhost", format!("is {}", list(&found))),
        Ok(found) => check(
            "localhost",
            Verdict::Warning,
            format!("is {}", list(&found)),
            remedy,
        ),
        Err(error) => check("localhost", Verdict::Warning, error, remedy),
    }
}

/// Other hosts find this one by its name.
fn own_name() -> Check {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    match addresses(&host) {
        Ok(found) => ok("name of this host", format!("{host} is {}", list(&found))),
        Err(error) => check(
            "name of this host",
            Verdict::Warning,
            format!("{host}: {error}"),
            format!(
                "for jobs on several hosts: a line for {host} in /etc/hosts or in DNS, or addresses in the hosts file"
            ),
        ),
    }
}

/// Processes of another user namespace may not open the memory of those in this one.
fn user_namespace(map: &str) -> Check {
    let whole = ["0", "0", "4294967295"];
    if map.split_whitespace().eq(whole) {
        return ok("user namespace", "the one of the host");
    }
    check(
        "user namespace",
        Verdict::Warning,
        "not the one of the host",
        "start all nodes of a job in it (in the same container): nodes in different ones cannot share memory; \
         `--fabric tcp` connects them",
    )
}

fn seccomp(status: &str, works: bool) -> Check {
    let mode = status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp:"))
        .map(str::trim);
    match (mode, works) {
        (None | Some("0"), _) => ok("system calls", "no filter (seccomp)"),
        (_, true) => ok(
            "system calls",
            "a filter is on (seccomp), and lets pass what shared memory needs",
        ),
        (_, false) => check(
            "system calls",
            Verdict::Warning,
            "a filter is on (seccomp)",
            "allow memfd_create, ftruncate, mmap, membarrier and futex; in Docker: --security-opt seccomp=unconfined",
        ),
    }
}

/// Checks a limit of this process, which nodes inherit.
fn limit(name: &str, resource: Resource, enough: u64, remedy: &str) -> Check {
    match getrlimit(resource).current {
        None => ok(name, "no limit"),
        Some(limit) if limit >= enough => ok(name, format!("at most {limit}")),
        Some(limit) => check(
            name,
            Verdict::Warning,
            format!("at most {limit}"),
            format!("`{remedy}` before the job; a node may need {enough}"),
        ),
    }
}

/// The memory of loco has no name, and so needs no room here. Providers of libfabric and MPI do.
fn posix_memory() -> Check {
    let name = "/dev/shm";
    match rustix::fs::statvfs(name) {
        Ok(found) => ok(
            name,
            format!(
                "{} MiB free; MPI and libfabric need it, and loco does not",
                (found.f_bavail * found.f_frsize) >> 20
            ),
        ),
        Err(error) => check(
            name,
            Verdict::Warning,
            error.to_string(),
            "`mount -t tmpfs tmpfs /dev/shm`: MPI and libfabric need it, and loco does not",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_and_filters_are_told_apart() {
        assert_eq!(
            user_namespace("         0          0 4294967295\n").verdict,
            Verdict::Ok
        );
        for other in ["0 1000 1\n", "0 100000 65536", ""] {
            let found = user_namespace(other);
            assert_eq!(found.verdict, Verdict::Warning, "{other}");
            assert!(
                found
                    .remedy
                    .is_some_and(|remedy| remedy.contains("same container"))
            );
        }
        let filtered = "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        assert_eq!(seccomp(filtered, true).verdict, Verdict::Ok);
        assert_eq!(seccomp(filtered, false).verdict, Verdict::Warning);
        assert!(seccomp("Seccomp:\t0\n", false).found.contains("no filter"));
    }

    #[test]
    fn a_limit_that_is_too_low_has_a_remedy() {
        let low = limit("open files", Resource::Nofile, u64::MAX, "ulimit -n 4096");
        // Without any limit there is nothing to say.
        if getrlimit(Resource::Nofile).current.is_some() {
            assert_eq!(low.verdict, Verdict::Warning);
            assert!(low.remedy.is_some_and(|remedy| remedy.contains("ulimit -n")));
        }
        assert_eq!(limit("open files", Resource::Nofile, 1, "").verdict, Verdict::Ok);
    }
}
