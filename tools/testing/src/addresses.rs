//! Free addresses, for tests whose nodes listen.

use std::net::{SocketAddr, TcpListener};

/// Returns a free address of each host. All are taken before the first is free again, so that no two are the same.
pub fn free_addresses(hosts: &[&str]) -> Vec<SocketAddr> {
    let listeners: Vec<_> = hosts
        .iter()
        .map(|host| TcpListener::bind((*host, 0)).unwrap())
        .collect();
    listeners.iter().map(|at| at.local_addr().unwrap()).collect()
}
