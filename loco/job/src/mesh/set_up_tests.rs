//! Tests of what a node does when another one ends while the mesh is brought up, with the other one, or the rendezvous,
//! played up to the step at which it ends. Nobody waits for a time: the deadlines are an hour away.

use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use loco_fabric::{Platform, Std};

use super::handshake::{self, Claim, Credentials, Nodes, Purpose};
use super::rendezvous::Notice;
use super::*;
use crate::{Address, Hosts, Secret, Timeouts};

fn secret() -> Secret {
    Secret::new(*b"a shared secret").unwrap()
}

fn credentials() -> Credentials {
    Credentials {
        job: "loco".to_owned(),
        secret: secret(),
    }
}

/// A time that no test lives to see.
fn far() -> Time {
    Std.now().after(Duration::from_secs(3600))
}

fn builder(node: u16) -> crate::JobBuilder {
    let hour = Duration::from_secs(3600);
    Job::builder(NodeId(node)).secret(secret()).timeouts(Timeouts {
        connect: hour,
        silence: hour,
        silence_same_host: hour,
        ..Timeouts::default()
    })
}

fn listener() -> (TcpListener, Address) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::from(listener.local_addr().unwrap());
    (listener, address)
}

/// An address at which nobody listens.
fn unused() -> Address {
    listener().1
}

fn claim(node: u16, nodes: &[NodeId], purpose: Purpose) -> Claim {
    Claim {
        node,
        nodes: Nodes::of(nodes).unwrap(),
        purpose,
    }
}

/// Registers as `node` at a rendezvous, as a process does whose peers' port is `port`.
fn register(at: &Address, node: u16, nodes: &[NodeId], port: u16) -> Session {
    let stream = TcpStream::connect(&*at.resolve().unwrap()).unwrap();
    let claim = claim(node, nodes, Purpose::Register { port });
    handshake::connect(stream, &credentials(), &claim, far()).unwrap()
}

fn notice(session: &mut Session) -> Notice {
    session.read(1 << 20, far()).unwrap()
}

fn ids(count: u16) -> Vec<NodeId> {
    (0..count).map(NodeId).collect()
}

/// Node 1 of three is connected to node 0, which ends. Node 2 never comes.
#[test]
fn a_peer_that_ends_before_all_are_connected_is_lost() {
    let (zero, address) = listener();
    let hosts = [address, unused(), unused()];
    let hosts = Hosts::from_pairs(ids(3).into_iter().zip(hosts)).unwrap();
    let job = builder(1).hosts(hosts).unwrap();
    thread::scope(|scope| {
        let connecting = scope.spawn(|| Mesh::connect(&job).unwrap_err());
        let (stream, _) = zero.accept().unwrap();
        let (claim, session) = handshake::accept(stream, &credentials(), far(), |_| Ok(())).unwrap();
        assert_eq!(claim.node, 1);
        drop(session);
        assert_eq!(connecting.join().unwrap(), FabricError::PeerLost(NodeId(0)));
    });
}

/// Node 1 of three is connected to node 0, which says that node 2 is lost and leaves because of that.
#[test]
fn a_loss_that_a_peer_tells_of_is_named_and_not_the_peer() {
    let (zero, address) = listener();
    let hosts = [address, unused(), unused()];
    let hosts = Hosts::from_pairs(ids(3).into_iter().zip(hosts)).unwrap();
    let job = builder(1).hosts(hosts).unwrap();
    thread::scope(|scope| {
        let connecting = scope.spawn(|| Mesh::connect(&job).unwrap_err());
        let (stream, _) = zero.accept().unwrap();
        let (_, mut session) = handshake::accept(stream, &credentials(), far(), |_| Ok(())).unwrap();
        let frames = [Frame::Lost(NodeId(2)).encode(), Frame::Goodbye.encode()].concat();
        let sealed = session.sealer.seal(&frames).unwrap();
        std::io::Write::write_all(&mut session.stream, &sealed).unwrap();
        assert_eq!(connecting.join().unwrap(), FabricError::PeerLost(NodeId(2)));
    });
}

/// Node 0 listened, and its process has ended: nobody is at its address when node 1 comes.
#[test]
fn a_registered_peer_whose_address_refuses_has_ended() {
    let rendezvous = Rendezvous::on_loopback().unwrap();
    let at = Address::from(rendezvous.address());
    let job = builder(1).launcher(2, at.clone()).unwrap();
    thread::scope(|scope| {
        let server = scope.spawn(|| rendezvous.serve("loco", &secret(), &ids(2), far()));
        // Its connection with the rendezvous stays, so that only its own port tells.
        let zero = register(&at, 0, &ids(2), unused().port());
        assert_eq!(Mesh::connect(&job).unwrap_err(), FabricError::PeerLost(NodeId(0)));
        // Node 1 has said why it goes.
        assert_eq!(server.join().unwrap(), Err(FabricError::PeerLost(NodeId(0))));
        drop(zero);
    });
}

/// Node 1 has registered and ends before node 2 comes. Nodes 0 and 2 are told, one of them later than the other.
#[test]
fn the_rendezvous_tells_of_a_node_that_ends_before_all_have_come() {
    let rendezvous = Rendezvous::on_loopback().unwrap();
    let at = Address::from(rendezvous.address());
    let job = |node| builder(node).launcher(3, at.clone()).unwrap();
    thread::scope(|scope| {
        let server = scope.spawn(|| rendezvous.serve("loco", &secret(), &ids(3), far()));
        let mut one = register(&at, 1, &ids(3), unused().port());
        assert!(matches!(notice(&mut one), Notice::Missing(missing) if missing == [0, 2]));
        let zero = scope.spawn(|| Mesh::connect(&job(0)).unwrap_err());
        assert!(matches!(notice(&mut one), Notice::Missing(missing) if missing == [2]));
        drop(one);
        assert_eq!(zero.join().unwrap(), FabricError::PeerLost(NodeId(1)));
        assert_eq!(
            Mesh::connect(&job(2)).unwrap_err(),
            FabricError::PeerLost(NodeId(1))
        );
        assert_eq!(server.join().unwrap(), Err(FabricError::PeerLost(NodeId(1))));
    });
}

/// All have met; node 1 ends before it has connected to node 0, which waits for it. Only the rendezvous can tell.
#[test]
fn the_rendezvous_tells_of_a_node_that_ends_before_it_has_connected() {
    let rendezvous = Rendezvous::on_loopback().unwrap();
    let at = Address::from(rendezvous.address());
    let job = builder(0).launcher(2, at.clone()).unwrap();
    thread::scope(|scope| {
        let server = scope.spawn(|| rendezvous.serve("loco", &secret(), &ids(2), far()));
        let zero = scope.spawn(|| Mesh::connect(&job).unwrap_err());
        let mut one = register(&at, 1, &ids(2), unused().port());
        while !matches!(notice(&mut one), Notice::Complete(_)) {}
        drop(one);
        assert_eq!(zero.join().unwrap(), FabricError::PeerLost(NodeId(1)));
        assert_eq!(server.join().unwrap(), Err(FabricError::PeerLost(NodeId(1))));
    });
}

/// Node 0 serves the rendezvous and ends, once before all have come and once after that.
#[test]
fn the_end_of_the_node_that_serves_the_rendezvous_is_its_loss() {
    for is_complete in [false, true] {
        let (server, at) = listener();
        let (zero, port) = listener();
        let job = builder(1).rendezvous(3, at).unwrap();
        thread::scope(|scope| {
            let connecting = scope.spawn(|| Mesh::connect(&job).unwrap_err());
            let (stream, _) = server.accept().unwrap();
            let (claim, mut session) = handshake::accept(stream, &credentials(), far(), |_| Ok(())).unwrap();
            assert!(matches!(claim.purpose, Purpose::Register { .. }));
            session.write(&Notice::Missing(vec![2]), far()).unwrap();
            if is_complete {
                let table = ids(3).iter().map(|node| (node.0, None, port.port())).collect();
                session.write(&Notice::Complete(table), far()).unwrap();
                // It has come as far as to connect.
                let _connection = zero.accept().unwrap();
            }
            drop(session);
            assert_eq!(connecting.join().unwrap(), FabricError::PeerLost(NodeId(0)));
        });
    }
}
