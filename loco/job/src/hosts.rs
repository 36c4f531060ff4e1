//! Addresses of nodes, and the hosts file that lists them.
//!
//! ```text
//! # id  host[:port]
//! 0     alpha
//! 1     beta:7000      # another port than the default
//! 2     [fd00::7]:7000
//! ```
//!
//! Without a port a node listens at [`PORT_BASE`] plus its id, so that a file with several nodes of one host needs
//! no ports.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::Path;

use loco_fabric::{Cause, FabricError, NodeId, Result};

use crate::files::read_text;

/// A node without a port in the hosts file listens at this port plus its id.
pub const PORT_BASE: u16 = 7700;

/// The longest hosts file, in bytes: more than the most nodes need.
const HOSTS_BYTES_MAX: u64 = 64 << 20;

/// The name of this host's loopback interface.
const LOCALHOST: &str = "localhost";

/// A host, by name or number, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    host: String,
    port: u16,
}

/// The nodes of a job and where each listens. Never empty; no two nodes share an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts(BTreeMap<NodeId, Address>);

impl Address {
    /// Parses `host:port`, `host` (which takes `default_port`), `[v6]:port`, `[v6]` or a bare IPv6 address.
    ///
    /// # Errors
    /// Returns [`FabricError::Config`] saying what is wrong with `text`. A missing port is wrong if there is no
    /// default.
    pub fn parse(text: &str, default_port: Option<u16>) -> Result<Address> {
        let wrong = |why: &str| FabricError::Config(format!("`{text}` is not an address: {why}"));
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, rest) = rest.split_once(']').ok_or_else(|| wrong("`]` is missing"))?;
            host.parse::<Ipv6Addr>()
                .map_err(|_| wrong("no IPv6 address between the brackets"))?;
            let port = match rest {
                "" => None,
                rest => Some(
                    rest.strip_prefix(':')
                        .ok_or_else(|| wrong("`:port` must follow `]`"))?,
                ),
            };
            (host, port)
        } else if text.parse::<Ipv6Addr>().is_ok() {
            (text, None)
        } else {
            match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        let is_name_char = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
        if host.is_empty() {
            return Err(wrong("the host is missing"));
        }
        if let Some(bad) = host.chars().find(|&c| !is_name_char(c)) {
            return Err(wrong(&format!("`{bad}` cannot be part of a host's name")));
        }
        let port = match port {
            Some(port) => port
                .parse::<u16>()
                .ok()
                .filter(|&port| port > 0)
                .ok_or_else(|| wrong("the port must be a number from 1 to 65535"))?,
            None => default_port.ok_or_else(|| wrong("the port is missing (host:port)"))?,
        };
        Ok(Address {
            host: host.to_ascii_lowercase(),
            port,
        })
    }

    /// Returns the host as it was written, in lower case.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns true if this names the host itself only (`localhost`, `127.*`, `::1`), judged by the text
    /// alone.
    pub fn is_loopback(&self) -> bool {
        self.host == LOCALHOST || self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// Returns the socket addresses behind the name, at least one. `localhost` has the loopback addresses of both families,
    /// whatever the system says: a host may have only one of them.
    ///
    /// # Errors
    /// Returns [`FabricError::Os`] when the name does not resolve.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>> {
        if self.host == LOCALHOST {
            let ips: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
            return Ok(ips.map(|ip| SocketAddr::new(ip, self.port)).into());
        }
        let failed = |source: Cause| FabricError::Os {
            what: format!(
                "resolving host `{0}` (check the spelling; `getent hosts {0}` shows what this machine knows of it)",
                self.host
            ),
            source,
        };
        let found: Vec<_> = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|e| failed(e.into()))?
            .collect();
        if found.is_empty() {
            return Err(failed("the name has no address".into()));
        }
        Ok(found)
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        Address {
            host: address.ip().to_string(),
            port: address.port(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl Hosts {
    /// Reads a hosts file.
    ///
    /// # Errors
    /// Returns [`FabricError::Os`] when it cannot be read, otherwise as [`parse`](Hosts::parse).
    pub fn read(path: &Path) -> Result<Hosts> {
        let text = read_text(path, HOSTS_BYTES_MAX)
            .map_err(|e| FabricError::os(format!("reading hosts file {}", path.display()), &e))?;
        Hosts::parse(&path.display().to_string(), &text)
    }

    /// Parses a hosts file; `name` stands for it in errors.
    ///
    /// # Errors
    /// Returns [`FabricError::Config`] naming the file and the line (both lines for duplicates), or the file when it
    /// lists no node.
    pub fn parse(name: &str, text: &str) -> Result<Hosts> {
        let mut hosts = Hosts(BTreeMap::new());
        let mut lines = BTreeMap::new();
        for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
            let at = |why: String| FabricError::Config(format!("{name}:{number}: {why}"));
            let line = line.split('#').next().unwrap_or_default();
            let mut fields = line.split_whitespace();
            let Some(id) = fields.next() else {
                continue;
            };
            let node = id
                .parse::<u16>()
                .map(NodeId)
                .map_err(|_| at(format!("`{id}` is not a node id (a number up to {})", u16::MAX)))?;
            let Some(address) = fields.next() else {
                return Err(at(format!("{node} has no host; a line is `id host[:port]`")));
            };
            if let Some(more) = fields.next() {
                return Err(at(format!("`{more}` is too much; a line is `id host[:port]`")));
            }
            let address =
                Address::parse(address, PORT_BASE.checked_add(node.0)).map_err(|e| at(e.to_string()))?;
            let seen_at = |other: &NodeId| lines.get(other).copied().unwrap_or(number);
            hosts.insert(node, address).map_err(|clash| {
                at(match clash {
                    Clash::Node => format!("{node} is already on line {}", seen_at(&node)),
                    Clash::Address(other, address) => {
                        format!(
                            "{node} has the address {address} of {other} on line {}",
                            seen_at(&other)
                        )
                    }
                })
            })?;
            lines.insert(node, number);
        }
        if hosts.0.is_empty() {
            return Err(FabricError::Config(format!(
                "{name}: no node is listed; a line is `id host[:port]`"
            )));
        }
        Ok(hosts)
    }

    /// Makes the list from pairs.
    ///
    /// # Errors
    /// Returns [`FabricError::Config`] for a duplicate id or address, or no node at all.
    pub fn from_pairs(pairs: impl IntoIterator<Item = (NodeId, Address)>) -> Result<Hosts> {
        let mut hosts = Hosts(BTreeMap::new());
        for (node, address) in pairs {
            hosts.insert(node, address).map_err(|clash| {
                FabricError::Config(match clash {
                    Clash::Node => format!("{node} is listed twice"),
                    Clash::Address(other, address) => {
                        format!("{node} and {other} have the same address {address}")
                    }
                })
            })?;
        }
        if hosts.0.is_empty() {
            return Err(FabricError::Config(
                "a job needs at least one node; none is listed".to_owned(),
            ));
        }
        Ok(hosts)
    }

    /// Returns nodes and addresses, by ascending id.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Address)> {
        self.0.iter().map(|(&node, address)| (node, address))
    }

    /// Returns the address at which `node` listens.
    pub fn address(&self, node: NodeId) -> Option<&Address> {
        self.0.get(&node)
    }

    fn insert(&mut self, node: NodeId, address: Address) -> Result<(), Clash> {
        if self.0.contains_key(&node) {
            return Err(Clash::Node);
        }
        if let Some((&other, _)) = self.0.iter().find(|(_, known)| **known == address) {
            return Err(Clash::Address(other, address));
        }
        self.0.insert(node, address);
        Ok(())
    }
}

enum Clash {
    Node,
    Address(NodeId, Address),
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn error(text: &str) -> String {
        Hosts::parse("h.txt", text).unwrap_err().to_string()
    }

    #[test]
    fn comments_blank_lines_and_every_form_of_address() {
        let text = "# job\n\n0 alpha\n 3\tBeta:7000 # other port\n4 [fd00::7]:81\n5 [fd00::8]\n6 fd00::9\n7 10.0.0.1\n";
        let hosts = Hosts::parse("h", text).unwrap();
        let shown: Vec<_> = hosts.iter().map(|(node, a)| format!("{} {a}", node.0)).collect();
        assert_eq!(
            shown,
            [
                "0 alpha:7700",
                "3 beta:7000",
                "4 [fd00::7]:81",
                "5 [fd00::8]:7705",
                "6 [fd00::9]:7706",
                "7 10.0.0.1:7707"
            ]
        );
    }

    #[test]
    fn a_malformed_line_is_named() {
        for (text, expected) in [
            ("0 a\nx b", "h.txt:2: `x` is not a node id"),
            ("0 a\n\n70000 b", "h.txt:3: `70000` is not a node id"),
            ("-1 a", "h.txt:1: `-1` is not a node id"),
            ("0", "h.txt:1: node 0 has no host"),
            ("0 a b", "h.txt:1: `b` is too much"),
            ("0 a:0", "h.txt:1: `a:0` is not an address: the port"),
            ("0 a:99999", "h.txt:1: `a:99999` is not an address: the port"),
            ("0 a:", "h.txt:1: `a:` is not an address: the port"),
            ("0 :7", "h.txt:1: `:7` is not an address: the host is missing"),
            ("0 [::1", "h.txt:1: `[::1` is not an address: `]` is missing"),
            ("0 [alpha]", "h.txt:1: `[alpha]` is not an address: no IPv6"),
            (
                "0 [::1]7",
                "h.txt:1: `[::1]7` is not an address: `:port` must follow",
            ),
            ("0 a/b", "h.txt:1: `a/b` is not an address: `/` cannot"),
            ("65000 a", "h.txt:1: `a` is not an address: the port is missing"),
        ] {
            let found = error(text);
            assert!(found.starts_with(expected), "{text:?}: {found}");
        }
    }

    #[test]
    fn a_file_may_begin_with_a_byte_order_mark() {
        let hosts = Hosts::parse("h", "\u{feff}0 alpha\r\n1 beta\r\n").unwrap();
        assert_eq!(hosts.iter().count(), 2);
    }

    #[test]
    fn duplicates_are_named_with_both_lines() {
        assert_eq!(error("2 a\n\n2 b"), "h.txt:3: node 2 is already on line 1");
        assert_eq!(
            error("2 a:80\n7 A:80"),
            "h.txt:2: node 7 has the address a:80 of node 2 on line 1"
        );
    }

    #[test]
    fn a_file_without_nodes_is_refused() {
        assert_eq!(
            error("# nobody\n"),
            "h.txt: no node is listed; a line is `id host[:port]`"
        );
        assert!(Hosts::from_pairs([]).is_err());
    }

    #[test]
    fn a_missing_file_is_named() {
        let found = Hosts::read(Path::new("/nonexistent/hosts"))
            .unwrap_err()
            .to_string();
        assert!(
            found.starts_with("reading hosts file /nonexistent/hosts: "),
            "{found}"
        );
    }

    #[test]
    fn pairs_are_checked_like_lines() {
        let a = Address::parse("a:1", None).unwrap();
        let b = Address::parse("b:1", None).unwrap();
        let twice = Hosts::from_pairs([(NodeId(1), a.clone()), (NodeId(1), b)]);
        assert_eq!(twice.unwrap_err().to_string(), "node 1 is listed twice");
        let same = Hosts::from_pairs([(NodeId(1), a.clone()), (NodeId(2), a)]);
        assert_eq!(
            same.unwrap_err().to_string(),
            "node 2 and node 1 have the same address a:1"
        );
    }

    proptest! {
        /// Hosts that are written with any spacing and comments are read back.
        #[test]
        fn written_files_read_back(
            nodes in proptest::collection::btree_map(0u16..2000, ("[a-z][a-z0-9.-]{0,12}", proptest::option::of(1u16..7000)), 1..20),
            gap in "[ \t]{1,3}",
            comment in "(#[ -~]{0,10})?",
        ) {
            let mut text = String::new();
            for (id, (host, port)) in &nodes {
                let port = port.map(|p| format!(":{p}")).unwrap_or_default();
                text.push_str(&format!("{gap}{id}{gap}{host}{port}{gap}{comment}\n{comment}\n"));
            }
            let expected = Hosts::from_pairs(nodes.iter().map(|(&id, (host, port))| {
                (NodeId(id), Address { host: host.clone(), port: port.unwrap_or(PORT_BASE + id) })
            }));
            match (Hosts::parse("h", &text), expected) {
                (Ok(read), Ok(expected)) => prop_assert_eq!(read, expected),
                (Err(_), Err(_)) => {}
                (read, expected) => prop_assert!(false, "{:?} but {:?}", read, expected),
            }
        }

        /// No text makes the parser panic, and every error names the file.
        #[test]
        fn any_text_is_parsed_or_refused_by_name(text in "[0-9a-z:#\\[\\]. \n-]{0,60}") {
            if let Err(error) = Hosts::parse("h.txt", &text) {
                prop_assert!(error.to_string().starts_with("h.txt:"), "{}", error);
            }
        }

        /// Display and parse agree.
        #[test]
        fn addresses_read_back(host in "[a-z][a-z0-9.-]{0,12}|fd00::[1-9a-f]{1,4}", port in 1u16..) {
            let address = Address { host, port };
            prop_assert_eq!(Address::parse(&address.to_string(), None).unwrap(), address);
        }
    }
}
