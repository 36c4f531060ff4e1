//! Tests of what a node does with peers that misbehave after or during the handshake. They need the
//! protocol's own parts to play the peer. The real node is node 1, which connects; the test plays node 0.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use loco_fabric::{Platform, Std};

use super::handshake::{self, Claim, Credentials, Nodes, PROTOCOL_VERSION, Purpose};
use super::introduction::Introduction;
use super::noise::Handshake;
use super::*;
use crate::{Address, Hosts, Secret, Timeouts};

/// Only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) fn secret() -> Secret {
    Secret::new(*b"a shared secret").unwrap()
}

pub(super) fn credentials() -> Credentials {
    Credentials {
        job: "loco".to_owned(),
        secret: secret(),
    }
}

pub(super) fn soon() -> Time {
    Std.now().after(PATIENCE)
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

/// Returns a job of node 1, which is real, and node 0, which the test plays at `listener`.
fn job(timeouts: Timeouts, listener: &TcpListener) -> Job {
    let free = self::listener();
    let hosts = [(NodeId(0), listener), (NodeId(1), &free)];
    let hosts = hosts.map(|(node, listener)| (node, Address::from(listener.local_addr().unwrap())));
    let job = Job::builder(NodeId(1)).secret(secret()).timeouts(timeouts);
    job.hosts(Hosts::from_pairs(hosts).unwrap()).unwrap()
}

/// Plays node 0 up to the point where the mesh is complete.
fn join(listener: &TcpListener) -> Session {
    let (stream, _) = listener.accept().unwrap();
    // Without this, what is written just before closing may never be sent.
    stream.set_nodelay(true).unwrap();
    let (claim, mut session) = handshake::accept(stream, &credentials(), soon(), |_| Ok(())).unwrap();
    assert_eq!((claim.node, claim.nodes.count), (1, 2));
    let introduction = Introduction::of_process(&Timeouts::default()).to_bytes().unwrap();
    let contribution = Parcel::Gather {
        view: 2,
        label: "mesh",
        round: 0,
        bytes: &introduction,
    };
    send(&mut session, &Frame::Parcel(contribution).encode());
    session
}

/// Sends `bytes` as the peer.
fn send(peer: &mut Session, bytes: &[u8]) {
    let sealed = peer.sealer.seal(bytes).unwrap();
    peer.stream.write_all(&sealed).unwrap();
}

fn connected(timeouts: Timeouts) -> (Mesh, Session) {
    let listener = listener();
    let job = job(timeouts, &listener);
    thread::scope(|scope| {
        let peer = scope.spawn(|| join(&listener));
        let mesh = Mesh::connect(&job).unwrap();
        (mesh, peer.join().unwrap())
    })
}

/// Waits for node 0 to be gone.
fn assert_goes(mesh: &Mesh, how: PeerState) {
    assert_eq!(mesh.wait_for_departures(0, soon()), 1);
    assert_eq!(mesh.peer_state(NodeId(0)), how);
}

/// Returns timeouts with a silence that nobody waits for: only what the peer does can end the connection.
fn patient() -> Timeouts {
    Timeouts::default().silence_same_host(Duration::from_secs(3600))
}

fn message() -> Frame<'static> {
    Frame::Parcel(Parcel::Message {
        view: 2,
        payload: b"fine",
    })
}

#[test]
fn a_malformed_frame_cuts_the_peer_off() {
    let (mesh, mut peer) = connected(patient());
    send(&mut peer, &message().encode());
    send(&mut peer, &[3, 0, 0, 0, 99, 1, 2, 3]);
    assert_goes(&mesh, PeerState::Lost);
    // Whole frames arrived.
    let message = mesh.receive(Some(soon())).unwrap();
    assert_eq!(message, Some((NodeId(0), b"fine".to_vec())));
    assert_eq!(mesh.send(NodeId(0), b"x"), Err(FabricError::PeerLost(NodeId(0))));
}

#[test]
fn an_overlong_frame_cuts_the_peer_off_before_its_bytes_come() {
    let (mesh, mut peer) = connected(patient());
    send(&mut peer, &[255, 255, 255, 255, 0]);
    assert_goes(&mesh, PeerState::Lost);
}

#[test]
fn bytes_that_are_no_record_cut_the_peer_off() {
    let (mesh, mut peer) = connected(patient());
    send(&mut peer, &message().encode());
    peer.stream.write_all(&[4, 0, 1, 2, 3, 4]).unwrap();
    assert_goes(&mesh, PeerState::Lost);
    let message = mesh.receive(Some(soon())).unwrap();
    assert_eq!(message, Some((NodeId(0), b"fine".to_vec())));
}

#[test]
fn a_closed_connection_is_a_loss_without_waiting_for_silence_and_a_goodbye_is_not() {
    let (mesh, peer) = connected(patient());
    drop(peer);
    assert_goes(&mesh, PeerState::Lost);
    let (mesh, mut peer) = connected(patient());
    send(&mut peer, &Frame::Goodbye.encode());
    drop(peer);
    assert_goes(&mesh, PeerState::Left);
}

/// Returns true if what the mesh says next is a heartbeat; false also once it has cut us off.
fn hear_heartbeat(peer: &mut Session) -> bool {
    let mut plain = Vec::new();
    // Short frames are a record each.
    peer.read_record(&mut plain, soon()).is_ok() && plain == Frame::Heartbeat.encode()
}

/// The mesh's own heartbeats are the clock: while each is answered, the peer lives, however long that is.
#[test]
fn a_silent_peer_is_lost_and_one_with_heartbeats_is_not() {
    const BEATS: u64 = 250;
    // The silence is longer than this test is starved on a busy machine, and less than the beats take.
    let timeouts = Timeouts::default()
        .heartbeat_interval(Duration::from_millis(10))
        .silence_same_host(Duration::from_secs(2));
    assert!(timeouts.heartbeat_interval * u32::try_from(BEATS).unwrap() > timeouts.silence_same_host);
    let (mesh, mut peer) = connected(timeouts);
    // Up to the mesh's contribution to its coming up.
    while hear_heartbeat(&mut peer) {}
    for _ in 0..BEATS {
        assert!(hear_heartbeat(&mut peer));
        send(&mut peer, &Frame::Heartbeat.encode());
    }
    assert_eq!(mesh.peer_state(NodeId(0)), PeerState::Alive);
    // Bytes that do not make a record are no sign of life: somebody else may have sent them.
    let mut unanswered = 0;
    peer.stream.write_all(&[255]).unwrap();
    while hear_heartbeat(&mut peer) {
        unanswered += 1;
    }
    assert!(
        unanswered > 2,
        "lost after {unanswered} heartbeats without an answer"
    );
    assert_goes(&mesh, PeerState::Lost);
}

/// A peer that hears our goodbye closes the connection, maybe before our own I/O thread knows that we leave.
#[test]
fn nodes_that_leave_together_do_not_lose_each_other() {
    for _ in 0..100 {
        let rendezvous = Rendezvous::on_loopback().unwrap();
        let at = Address::from(rendezvous.address());
        let nodes: Vec<_> = (0..3).map(NodeId).collect();
        let ends: Vec<_> = thread::scope(|scope| {
            scope.spawn(|| rendezvous.serve("loco", &secret(), &nodes, soon()).unwrap());
            let ends: Vec<_> = nodes
                .iter()
                .map(|&node| {
                    Job::builder(node)
                        .secret(secret())
                        .launcher(3, at.clone())
                        .unwrap()
                })
                .map(|job| scope.spawn(move || Mesh::connect(&job).unwrap()))
                .collect();
            ends.into_iter().map(|end| end.join().unwrap()).collect()
        });
        let states: Vec<_> = ends.iter().map(|end| Arc::clone(&end.end().state)).collect();
        // Dropping an end waits for its I/O thread.
        thread::scope(|scope| ends.into_iter().for_each(|end| drop(scope.spawn(|| drop(end)))));
        for state in &states {
            for &peer in state.nodes() {
                assert_ne!(
                    state.peer_state(peer),
                    PeerState::Lost,
                    "{peer} of {}",
                    state.node()
                );
            }
        }
    }
}

/// A revoker that returns when it is told to, or when nobody can tell it any more.
struct Slow(Mutex<mpsc::Receiver<()>>);

impl Revoke for Slow {
    fn revoke(&self, _: NodeId) -> Revoked {
        let _ = self.0.lock().unwrap().recv();
        Revoked::Done
    }
}

/// Else the suspect, if it lives, may take the node for lost and say so first.
#[test]
fn a_suspect_has_heartbeats_until_it_is_told() {
    const BEATS: u32 = 50;
    let (mesh, mut peer) = connected(patient().heartbeat_interval(Duration::from_millis(1)));
    // Up to the mesh's contribution to its coming up.
    while hear_heartbeat(&mut peer) {}
    let (go_on, told) = mpsc::channel();
    mesh.add_revoker(Arc::new(Slow(Mutex::new(told))));
    let Way::Tcp(wire, _) = &mesh.end().link else {
        panic!("the mesh is in one process");
    };
    wire.suspect_node(NodeId(0), "the test says so");
    for _ in 0..BEATS {
        assert!(hear_heartbeat(&mut peer));
    }
    assert_eq!(mesh.peer_state(NodeId(0)), PeerState::Alive);
    go_on.send(()).unwrap();
    // Heartbeats may be on their way before the word.
    let mut said = Vec::new();
    while said.is_empty() || said == Frame::Heartbeat.encode() {
        said.clear();
        peer.read_record(&mut said, soon()).unwrap();
    }
    assert_eq!(said, Frame::Lost(NodeId(0)).encode());
    assert_goes(&mesh, PeerState::Lost);
}

/// Returns the hello, which a process sends first in a handshake.
fn hello(version: u16, credentials: &Credentials) -> Vec<u8> {
    let job = noise::digest(b"loco control job", credentials.job.as_bytes()).unwrap();
    [b"LOCO", &version.to_le_bytes()[..], &job[..16]].concat()
}

#[test]
fn strangers_do_not_keep_a_job_from_coming_up() {
    let rendezvous = Rendezvous::on_loopback().unwrap();
    let at = rendezvous.address();
    let knock = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    // All are still there when the job is up: one says nothing, one stops in the middle of its message.
    let hello_now = hello(PROTOCOL_VERSION, &credentials());
    let strangers = [
        knock(b""),
        knock(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        knock(&hello(PROTOCOL_VERSION + 1, &credentials())),
        knock(&[&hello_now[..], &[255, 255]].concat()),
        knock(&[&hello_now[..], &[48, 0, 1, 2, 3]].concat()),
        knock(&[&hello_now[..], &[0, 0]].concat()),
    ];
    let nodes = [NodeId(0), NodeId(1)];
    thread::scope(|scope| {
        scope.spawn(|| rendezvous.serve("loco", &secret(), &nodes, soon()).unwrap());
        let ends = nodes.map(|node| {
            let job = Job::builder(node).secret(secret());
            let job = job.launcher(2, Address::from(at)).unwrap();
            scope.spawn(move || Mesh::connect(&job).unwrap())
        });
        let ends = ends.map(|end| end.join().unwrap());
        assert_eq!(ends[0].peer_state(NodeId(1)), PeerState::Alive);
    });
    drop(strangers);
}

#[test]
fn another_version_is_named() {
    let listener = listener();
    let at = listener.local_addr().unwrap();
    let job = job(Timeouts::default(), &listener);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(&hello(9, &credentials())).unwrap();
            // Until the other side has read it.
            let _ = io::copy(&mut stream, &mut io::sink());
        });
        let error = Mesh::connect(&job).unwrap_err().to_string();
        let expected = format!(
            "refused: node 0 at {at}: it speaks protocol version 9, this program version {PROTOCOL_VERSION}; build all \
             nodes from the same sources"
        );
        assert_eq!(error, expected);
    });
}

/// Both ends of a new connection.
fn streams() -> (TcpStream, TcpStream) {
    let listener = listener();
    let connecting = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (connecting, listener.accept().unwrap().0)
}

fn claim() -> Claim {
    Claim {
        node: 1,
        nodes: Nodes::of(&[NodeId(0), NodeId(1)], 2).unwrap(),
        purpose: Purpose::Peer { to: 0 },
    }
}

#[test]
fn each_side_of_a_handshake_ends_by_its_deadline_when_the_other_stops_in_the_middle() {
    let hello = hello(PROTOCOL_VERSION, &credentials());
    for len in [0, 3, 10, hello.len(), hello.len() + 1, hello.len() + 20] {
        // A message of 48 bytes that does not come to its end.
        let said = &[&hello[..], &[48, 0], &[1; 30]].concat()[..len];
        for accepts in [true, false] {
            let (one, mut other) = streams();
            other.write_all(said).unwrap();
            let deadline = Std.now().after(Duration::from_millis(50));
            let error = if accepts {
                let judge = |_: &Claim| panic!("nobody has claimed anything");
                handshake::accept(one, &credentials(), deadline, judge).err()
            } else {
                handshake::connect(one, &credentials(), &claim(), deadline).err()
            };
            assert_eq!(
                error.unwrap().to_string(),
                "it does not answer",
                "{len} {accepts}"
            );
        }
    }
}

#[test]
fn a_stranger_with_another_secret_is_told_so_and_not_heard() {
    let (connecting, accepting) = streams();
    let other = Credentials {
        secret: Secret::new(*b"another secret").unwrap(),
        ..credentials()
    };
    thread::scope(|scope| {
        let accepting = scope.spawn(|| {
            handshake::accept(accepting, &credentials(), soon(), |_| {
                panic!("a claim of one who does not know the secret is not judged")
            })
        });
        let refused = handshake::connect(connecting, &other, &claim(), soon())
            .err()
            .unwrap();
        assert!(refused.is_final());
        assert_eq!(
            refused.to_string(),
            "it refuses: the secrets differ; give all nodes the same one"
        );
        assert!(accepting.join().unwrap().is_err());
    });
}

#[test]
fn who_accepts_without_knowing_the_secret_is_found_out() {
    let (connecting, accepting) = streams();
    let hello = hello(PROTOCOL_VERSION, &credentials());
    thread::scope(|scope| {
        scope.spawn(|| {
            // Goes on with what it cannot read as if it had.
            let mut stream = &accepting;
            stream.write_all(&hello).unwrap();
            stream.read_exact(&mut vec![0; hello.len()]).unwrap();
            let mut impostor =
                Handshake::connecting(&Secret::new(*b"a guess at it").unwrap(), &hello).unwrap();
            let answer = impostor.say().unwrap();
            stream.write_all(&(answer.len() as u16).to_le_bytes()).unwrap();
            stream.write_all(&answer).unwrap();
        });
        let error = handshake::connect(connecting, &credentials(), &claim(), soon())
            .err()
            .unwrap();
        assert!(error.is_final());
        assert_eq!(
            error.to_string(),
            "it does not know the secret, although it answered as if it did"
        );
    });
}

/// A whole handshake, recorded, is of no use to somebody who plays it again.
#[test]
fn a_recorded_handshake_does_not_let_anybody_in() {
    let (ours, theirs) = streams();
    let (to, mut from) = streams();
    let (sender, recorded) = mpsc::channel();
    thread::scope(|scope| {
        let first = scope.spawn(|| handshake::accept(to, &credentials(), soon(), |_| Ok(())).is_ok());
        let connected = scope.spawn(|| handshake::connect(ours, &credentials(), &claim(), soon()).is_ok());
        // In between, each way.
        let (mut back_from, mut back_to) = (from.try_clone().unwrap(), theirs.try_clone().unwrap());
        scope.spawn(move || io::copy(&mut back_from, &mut back_to));
        scope.spawn(move || {
            let mut theirs = theirs;
            let (mut bytes, mut record) = ([0; 512], Vec::new());
            while let Ok(n) = theirs.read(&mut bytes) {
                record.extend_from_slice(&bytes[..n]);
                if n == 0 || from.write_all(&bytes[..n]).is_err() {
                    break;
                }
            }
            sender.send(record).unwrap();
        });
        assert!(connected.join().unwrap() && first.join().unwrap());
    });
    let record = recorded.recv().unwrap();
    let (mut again, accepting) = streams();
    again.write_all(&record).unwrap();
    let judge = |_: &Claim| panic!("the claim is not heard again");
    assert!(handshake::accept(accepting, &credentials(), soon(), judge).is_err());
}
