//! What a node does with peers that misbehave after or during the handshake: needs the protocol's own parts to play
//! the peer.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use loco_fabric::{Platform, Std};

use super::handshake::{self, Claim, Credentials, PROTOCOL_VERSION, Purpose};
use super::sockets::count;
use super::*;
use crate::{Address, Hosts, Secret, Timeouts};

const PATIENCE: Duration = Duration::from_secs(20);

fn secret() -> Secret {
    Secret::new(*b"a shared secret").unwrap()
}

fn soon() -> Time {
    Std.now().after(PATIENCE)
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// A job of node 0, which is real, and node 1, which the test plays.
fn job(timeouts: Timeouts) -> (Job, SocketAddr) {
    let own = free_address();
    let hosts = [(NodeId(0), own), (NodeId(1), free_address())];
    let hosts = Hosts::from_pairs(hosts.map(|(node, at)| (node, Address::from(at)))).unwrap();
    let job = Job::builder(NodeId(0)).secret(secret()).timeouts(timeouts);
    (job.hosts(hosts).unwrap(), own)
}

fn knock(at: SocketAddr) -> TcpStream {
    loop {
        match TcpStream::connect(at) {
            Ok(stream) => {
                // Else what is written just before closing may never be sent.
                stream.set_nodelay(true).unwrap();
                return stream;
            }
            Err(_) => thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// Node 1 up to the point where the mesh is complete.
fn join(job: &Job, at: SocketAddr) -> TcpStream {
    let stream = knock(at);
    let credentials = Credentials {
        job: job.id().to_owned(),
        secret: secret(),
    };
    let claim = Claim {
        job: job.id().to_owned(),
        node: 1,
        nodes: count(job.nodes()),
        purpose: Purpose::Peer { to: 0 },
    };
    handshake::connect(&stream, &credentials, &claim, soon()).unwrap();
    let contribution = Parcel::Gather {
        label: "mesh",
        round: 0,
        bytes: &[],
    };
    (&stream)
        .write_all(&Frame::Parcel(contribution).encode())
        .unwrap();
    stream
}

fn wait_until(mesh: &Mesh, state: PeerState) -> Duration {
    let start = Std.now();
    while mesh.peer_state(NodeId(1)) != state {
        assert!(Std.now().since(start) < PATIENCE, "{mesh:?}");
        thread::sleep(Duration::from_millis(1));
    }
    Std.now().since(start)
}

fn connected(timeouts: Timeouts) -> (Mesh, TcpStream) {
    let (job, at) = job(timeouts);
    thread::scope(|scope| {
        let peer = scope.spawn(|| join(&job, at));
        let mesh = Mesh::connect(&job).unwrap();
        (mesh, peer.join().unwrap())
    })
}

#[test]
fn a_malformed_frame_cuts_the_peer_off() {
    let (mesh, mut peer) = connected(Timeouts::default());
    peer.write_all(&Frame::Parcel(Parcel::Message(b"fine")).encode())
        .unwrap();
    peer.write_all(&[3, 0, 0, 0, 99, 1, 2, 3]).unwrap();
    wait_until(&mesh, PeerState::Lost);
    // What was whole arrived.
    let message = mesh.receive(Some(soon())).unwrap();
    assert_eq!(message, Some((NodeId(1), b"fine".to_vec())));
    assert_eq!(mesh.send(NodeId(1), b"x"), Err(FabricError::PeerLost(NodeId(1))));
}

#[test]
fn an_overlong_frame_cuts_the_peer_off_before_its_bytes_come() {
    let (mesh, mut peer) = connected(Timeouts::default());
    peer.write_all(&[255, 255, 255, 255, 0]).unwrap();
    wait_until(&mesh, PeerState::Lost);
}

#[test]
fn a_closed_connection_is_a_loss_at_once_and_a_goodbye_is_not() {
    let (mesh, peer) = connected(Timeouts::default());
    drop(peer);
    let took = wait_until(&mesh, PeerState::Lost);
    assert!(took < Duration::from_secs(1), "{took:?}");
    let (mesh, mut peer) = connected(Timeouts::default());
    peer.write_all(&Frame::Goodbye.encode()).unwrap();
    drop(peer);
    wait_until(&mesh, PeerState::Left);
}

#[test]
fn a_silent_peer_is_lost_and_one_with_heartbeats_is_not() {
    let timeouts = Timeouts {
        heartbeat_interval: Duration::from_millis(20),
        silence_same_host: Duration::from_millis(300),
        ..Timeouts::default()
    };
    let (mesh, mut peer) = connected(timeouts);
    for _ in 0..40 {
        thread::sleep(Duration::from_millis(20));
        peer.write_all(&Frame::Heartbeat.encode()).unwrap();
        assert_eq!(mesh.peer_state(NodeId(1)), PeerState::Alive);
    }
    let took = wait_until(&mesh, PeerState::Lost);
    assert!(took >= Duration::from_millis(200), "{took:?}");
}

#[test]
fn strangers_do_not_keep_a_job_from_coming_up() {
    let (job, at) = job(Timeouts::default());
    thread::scope(|scope| {
        let meshed = scope.spawn(|| Mesh::connect(&job));
        // Says nothing; is still there when the job is up.
        let silent = knock(at);
        let mut browser = knock(at);
        browser.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut newer = knock(at);
        let mut greeting = b"LOCO".to_vec();
        greeting.extend_from_slice(&(PROTOCOL_VERSION + 1).to_le_bytes());
        greeting.extend_from_slice(&[7; 32]);
        newer.write_all(&greeting).unwrap();
        let mut long = knock(at);
        greeting[4..6].copy_from_slice(&PROTOCOL_VERSION.to_le_bytes());
        greeting.extend_from_slice(&u32::MAX.to_le_bytes());
        long.write_all(&greeting).unwrap();
        let peer = join(&job, at);
        let mesh = meshed.join().unwrap().unwrap();
        assert_eq!(mesh.peer_state(NodeId(1)), PeerState::Alive);
        drop((silent, browser, newer, long, peer));
    });
}

#[test]
fn another_version_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let hosts = [(NodeId(0), at), (NodeId(1), free_address())];
    let hosts = Hosts::from_pairs(hosts.map(|(node, at)| (node, Address::from(at)))).unwrap();
    let job = Job::builder(NodeId(1)).secret(secret()).hosts(hosts).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut greeting = b"LOCO".to_vec();
            greeting.extend_from_slice(&9u16.to_le_bytes());
            greeting.extend_from_slice(&[7; 32]);
            stream.write_all(&greeting).unwrap();
            // Until the other side has read it.
            let _ = io::copy(&mut stream, &mut io::sink());
        });
        let error = Mesh::connect(&job).unwrap_err().to_string();
        let expected = format!(
            "refused: node 0 at {at}: it speaks protocol version 9, this program version {PROTOCOL_VERSION}"
        );
        assert_eq!(error, expected);
    });
}

#[test]
fn who_accepts_without_knowing_the_secret_is_found_out() {
    // An answer sent back from a recorded handshake is of no use: the nonces differ. Nor is one under another secret.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let credentials = |secret: &[u8]| Credentials {
        job: "j".to_owned(),
        secret: Secret::new(secret).unwrap(),
    };
    let claim = Claim {
        job: "j".to_owned(),
        node: 1,
        nodes: 2,
        purpose: Purpose::Peer { to: 0 },
    };
    thread::scope(|scope| {
        let accepting = scope.spawn(|| {
            let (stream, _) = listener.accept().unwrap();
            handshake::accept(&stream, &credentials(b"secret of them"), soon(), |_| {
                panic!("a claim that does not know the secret is not judged")
            })
        });
        let stream = TcpStream::connect(at).unwrap();
        let refused = handshake::connect(&stream, &credentials(b"secret of ours"), &claim, soon());
        assert!(refused.unwrap_err().to_string().contains("the secrets differ"));
        assert!(accepting.join().unwrap().is_err());
    });
}
