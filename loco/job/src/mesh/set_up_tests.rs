//! Tests of a node whose peer ends while the mesh is brought up. The test plays the peer, or the rendezvous, up to the step
//! at which it ends. The deadlines are an hour away.

use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use loco_fabric::{Platform, Std};

use super::handshake::{self, Claim, Nodes, Purpose};
use super::rendezvous::{Notice, Word};
use super::tests::{credentials, secret};
use super::*;
use crate::{Address, Hosts, Timeouts};

/// A time that no test lives to see.
fn far() -> Time {
    Std.now().after(Duration::from_secs(3600))
}

fn builder(node: u16) -> crate::JobBuilder {
    let hour = Duration::from_secs(3600);
    let timeouts = Timeouts::default()
        .connect(hour)
        .silence(hour)
        .silence_same_host(hour);
    Job::builder(NodeId(node)).secret(secret()).timeouts(timeouts)
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
        nodes: Nodes::of(nodes, nodes.len()).unwrap(),
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

/// Connects node 1 of three, which have a hosts file, to node 0, which `play` plays. Node 2 never comes. Returns the error
/// of node 1.
fn connect_to_zero_only(play: impl FnOnce(Session)) -> FabricError {
    let (zero, address) = listener();
    let hosts = [address, unused(), unused()];
    let hosts = Hosts::from_pairs(ids(3).into_iter().zip(hosts)).unwrap();
    let job = builder(1).hosts(hosts).unwrap();
    thread::scope(|scope| {
        let connecting = scope.spawn(|| Mesh::connect(&job).unwrap_err());
        let (stream, _) = zero.accept().unwrap();
        let (claim, session) = handshake::accept(stream, &credentials(), far(), |_| Ok(())).unwrap();
        assert_eq!(claim.node, 1);
        play(session);
        connecting.join().unwrap()
    })
}

/// Node 1 is connected to node 0, which ends.
#[test]
fn a_peer_that_ends_before_all_are_connected_is_lost() {
    assert_eq!(connect_to_zero_only(drop), FabricError::PeerLost(NodeId(0)));
}

/// Node 1 is connected to node 0, which says that node 2 is lost and leaves because of that.
#[test]
fn a_loss_that_a_peer_tells_of_is_named_and_not_the_peer() {
    // The connection stays: only the words tell.
    let mut zero = None;
    let lost = connect_to_zero_only(|mut session| {
        let frames = [Frame::Lost(NodeId(2)).encode(), Frame::Goodbye.encode()].concat();
        let sealed = session.sealer.seal(&frames).unwrap();
        std::io::Write::write_all(&mut session.stream, &sealed).unwrap();
        zero = Some(session);
    });
    assert_eq!(lost, FabricError::PeerLost(NodeId(2)));
}

/// Node 0 listened, and its process has ended: nobody is at its address when node 1 comes.
///
/// The rendezvous has nothing to say about it, so node 1 waits some seconds for its word first.
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

/// A mesh without connections, of node `node` of so many, and its wire.
fn unconnected(node: u16, nodes: u16) -> (Mesh, Arc<Wire>) {
    // All listen at the same time: else two could get one port.
    let listeners: Vec<_> = (0..nodes).map(|_| listener()).collect();
    let addresses = listeners.iter().map(|(_, address)| address.clone());
    let hosts = Hosts::from_pairs(ids(nodes).into_iter().zip(addresses)).unwrap();
    drop(listeners);
    Mesh::unconnected(&builder(node).hosts(hosts).unwrap(), None).unwrap()
}

/// Both sides of a connection of node 1 of three with node 0: that of node 1 first.
fn session_with_zero() -> (Session, Session) {
    let (zero, address) = listener();
    thread::scope(|scope| {
        let one = scope.spawn(|| {
            let stream = TcpStream::connect(&*address.resolve().unwrap()).unwrap();
            let claim = claim(1, &ids(3), Purpose::Peer { to: 0 });
            handshake::connect(stream, &credentials(), &claim, far()).unwrap()
        });
        let (stream, _) = zero.accept().unwrap();
        let (_, session) = handshake::accept(stream, &credentials(), far(), |_| Ok(())).unwrap();
        (one.join().unwrap(), session)
    })
}

/// Node 1 knows that node 2 is lost and leaves; its connection with node 0 is made only then.
#[test]
fn a_connection_that_comes_late_hears_why_the_node_leaves() {
    let (mesh, wire) = unconnected(1, 3);
    let (ours, mut theirs) = session_with_zero();
    wire.suspect_node(NodeId(2), "a test");
    mesh.close();
    wire.attach(NodeId(0), ours);
    let frames = [Frame::Lost(NodeId(2)), Frame::Revoked(NodeId(2)), Frame::Goodbye];
    let frames = frames.map(|frame| frame.encode()).concat();
    let mut heard = Vec::new();
    while heard.len() < frames.len() {
        theirs.read_record(&mut heard, far()).unwrap();
    }
    assert_eq!(heard, frames);
}

/// Node 2 was lost and node 1 has left because of that, before node 0 begins a gather.
#[test]
fn a_gather_names_the_loss_and_not_those_who_left_because_of_it() {
    for had_contributed in [false, true] {
        let [zero, one, two] = <[Mesh; 3]>::try_from(Mesh::in_process(3).unwrap()).unwrap();
        if had_contributed {
            let (label, round, bytes) = ("any", 0, &b""[..]);
            let contribution = Parcel::Gather {
                view: 3,
                label,
                round,
                bytes,
            };
            two.send_parcel(NodeId(0), contribution, None).unwrap();
        }
        two.fail();
        drop(one);
        let lost = zero.allgather("any", b"", far());
        assert_eq!(lost, Err(FabricError::PeerLost(NodeId(2))), "{had_contributed}");
    }
}

/// Node 1 leaves because node 2 is lost, while the fabric of node 0 still agrees with it about that loss.
#[test]
fn a_gather_waits_for_the_agreement_on_a_loss() {
    struct Held(Mutex<std::sync::mpsc::Receiver<()>>);
    impl Revoke for Held {
        fn revoke(&self, _: NodeId) -> Revoked {
            let _released = self.0.lock().unwrap().recv();
            Revoked::Done
        }
    }
    let [zero, one, two] = <[Mesh; 3]>::try_from(Mesh::in_process(3).unwrap()).unwrap();
    let (release, held) = std::sync::mpsc::channel();
    zero.add_revoker(Arc::new(Held(Mutex::new(held))));
    thread::scope(|scope| {
        let failing = scope.spawn(|| two.fail());
        while !zero.end().state.is_suspect(2) {
            thread::yield_now();
        }
        drop(one);
        let gather = scope.spawn(|| zero.allgather("any", b"", far()));
        // It looks before the agreement, or after it; the outcome is the same.
        while zero.gathers_begun("any") == 0 {
            thread::yield_now();
        }
        release.send(()).unwrap();
        failing.join().unwrap();
        assert_eq!(gather.join().unwrap(), Err(FabricError::PeerLost(NodeId(2))));
    });
}

/// Node 0 has ended because of the loss of node 2. Node 1, which is connected to neither, finds nobody at its address, and
/// asks the rendezvous before it names anybody.
#[test]
fn a_node_asks_the_rendezvous_who_ended_first() {
    let (server, at) = listener();
    let job = builder(1).launcher(3, at).unwrap();
    thread::scope(|scope| {
        let connecting = scope.spawn(|| Mesh::connect(&job).unwrap_err());
        let (stream, _) = server.accept().unwrap();
        let (_, mut session) = handshake::accept(stream, &credentials(), far(), |_| Ok(())).unwrap();
        let port = |node: &NodeId| (node.0, None, unused().resolve().unwrap()[0].port());
        let table = ids(3).iter().map(port).collect();
        session.write(&Notice::Complete(table), far()).unwrap();
        assert!(matches!(session.read(16, far()).unwrap(), Word::Sees(0)));
        session.write(&Notice::Departed(2), far()).unwrap();
        assert!(matches!(session.read(16, far()).unwrap(), Word::Lost(2)));
        assert_eq!(connecting.join().unwrap(), FabricError::PeerLost(NodeId(2)));
    });
}

/// Node 2 was connected to all when it ended, so the rendezvous does not see its end. A node that does asks, and all hear.
#[test]
fn the_rendezvous_answers_about_a_node_that_was_connected() {
    let rendezvous = Rendezvous::on_loopback().unwrap();
    let at = Address::from(rendezvous.address());
    thread::scope(|scope| {
        let server = scope.spawn(|| rendezvous.serve("loco", &secret(), &ids(3), far()));
        let mut nodes = [0, 1, 2].map(|node| register(&at, node, &ids(3), unused().port()));
        for node in &mut nodes {
            while !matches!(notice(node), Notice::Complete(_)) {}
        }
        let [mut zero, mut one, mut two] = nodes;
        two.write(&Word::Connected, far()).unwrap();
        // Closed by the server once it has read that.
        assert!(two.read::<Notice>(16, far()).is_err());
        one.write(&Word::Sees(2), far()).unwrap();
        for node in [&mut zero, &mut one] {
            assert!(matches!(notice(node), Notice::Departed(2)));
        }
        assert_eq!(server.join().unwrap(), Err(FabricError::PeerLost(NodeId(2))));
    });
}

/// Node 1 registers with node 0, which serves the rendezvous, and ends. Node 2 comes only after node 0 has been told.
#[test]
fn the_node_that_serves_the_rendezvous_tells_those_that_come_later() {
    let at = unused();
    let job = |node| builder(node).rendezvous(3, at.clone()).unwrap();
    thread::scope(|scope| {
        let zero = scope.spawn(|| Mesh::connect(&job(0)).unwrap_err());
        while TcpStream::connect(&*at.resolve().unwrap()).is_err() {
            thread::yield_now();
        }
        let mut one = register(&at, 1, &ids(3), unused().port());
        while !matches!(notice(&mut one), Notice::Missing(missing) if missing == [2]) {}
        drop(one);
        // A node that comes in the place of node 2 is told as soon as node 0 is, and would not find the rendezvous later.
        let two = scope.spawn(|| Mesh::connect(&job(2)).unwrap_err());
        assert_eq!(two.join().unwrap(), FabricError::PeerLost(NodeId(1)));
        assert_eq!(zero.join().unwrap(), FabricError::PeerLost(NodeId(1)));
    });
}
