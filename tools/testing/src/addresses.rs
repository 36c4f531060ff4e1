//! Free addresses, for tests whose nodes listen.
//!
//! A port that the system chooses is free again until the test's program listens, and the system may give it to a connection of another
//! test meanwhile. So these ports lie below those that the system chooses.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::net::{SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::Mutex;

/// The ports that this process has given to its tests.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Returns a free address of each host. No two calls of a process return the same port.
///
/// # Panics
/// If a host is not an address of this machine, or no port is free.
pub fn free_addresses(hosts: &[&str]) -> Vec<SocketAddr> {
    hosts.iter().map(|host| free_address(host)).collect()
}

fn free_address(host: &str) -> SocketAddr {
    let ports = ports();
    for _ in 0..10_000 {
        // A hasher of the standard library is seeded at random.
        let chosen = RandomState::new().hash_one(0) % u64::from(ports.end - ports.start);
        let port = ports.start + chosen as u16;
        let mut given = GIVEN.lock().unwrap();
        if !given.contains(&port)
            && let Ok(listener) = TcpListener::bind((host, port))
        {
            given.insert(port);
            return listener.local_addr().unwrap();
        }
    }
    panic!("{host} has no free port in {ports:?}");
}

/// Returns the ports above the well-known ones that the system gives to no connection by itself, if it leaves some.
fn ports() -> Range<u16> {
    const USUAL: u16 = 32_768;
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
    let first: u16 = range.split_whitespace().next().unwrap().parse().unwrap();
    10_000..if first < 12_000 { USUAL } else { first }
}

#[cfg(test)]
mod tests {
    use super::free_addresses;

    #[test]
    fn a_port_is_given_once_and_not_to_a_connection() {
        let mut given: Vec<u16> = (0..200)
            .flat_map(|_| free_addresses(&["127.0.0.1", "127.0.0.2"]))
            .map(|address| address.port())
            .collect();
        let connection = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(!given.contains(&connection.local_addr().unwrap().port()));
        given.sort_unstable();
        given.dedup();
        assert_eq!(given.len(), 400);
    }
}
