//! Tests of a man in the middle who changes what two nodes say to each other: their connection ends, as a
//! loss that both hear of and that the log explains.

#![allow(clippy::unwrap_used)] // Helpers of tests, too.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use loco_fabric::{Control, NodeId, PeerState, Platform, Std, Time};
use loco_job::{Address, Hosts, Job, Mesh, Secret, Timeouts};
use loco_testing::free_addresses;

/// Only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(120);

fn soon() -> Time {
    Std.now().after(PATIENCE)
}

#[derive(Clone, Copy, Debug)]
enum Tampering {
    /// Changes one bit, of the length if that is where `at` is.
    Flip { at: usize },
    /// Sends a record twice.
    Repeat,
    /// Leaves a record out.
    LeaveOut,
    /// Sends a record after the next one.
    Swap,
    /// Puts in a record of its own.
    Insert,
    /// Lets no more through.
    Hold,
}

/// Sits between node 1, which connects to it, and node 0. Passes on what they say, by records.
struct Middle {
    address: Address,
    /// The change to the next record, and its direction.
    next: Arc<Mutex<Option<(Direction, Tampering)>>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Direction {
    ToNode0,
    ToNode1,
}

impl Middle {
    fn before(node_0: Address) -> Middle {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let middle = Middle {
            address: Address::from(listener.local_addr().unwrap()),
            next: Arc::default(),
        };
        let next = Arc::clone(&middle.next);
        thread::spawn(move || {
            for from in listener.incoming() {
                // Node 1 tries again until node 0 is there.
                let Ok(to) = TcpStream::connect(&*node_0.resolve().unwrap()) else {
                    continue;
                };
                let (from_back, to_back) = (from.as_ref().unwrap().try_clone(), to.try_clone());
                let (next, next_back) = (Arc::clone(&next), Arc::clone(&next));
                thread::spawn(move || relay(from.unwrap(), to, Direction::ToNode0, &next));
                thread::spawn(move || {
                    relay(
                        to_back.unwrap(),
                        from_back.unwrap(),
                        Direction::ToNode1,
                        &next_back,
                    )
                });
            }
        });
        middle
    }
}

fn relay(
    from: TcpStream,
    mut to: TcpStream,
    direction: Direction,
    next: &Mutex<Option<(Direction, Tampering)>>,
) {
    let mut pass = || -> io::Result<()> {
        let mut from = &from;
        // Magic, version and job.
        let mut hello = [0; 22];
        from.read_exact(&mut hello)?;
        to.write_all(&hello)?;
        let mut held: Option<Vec<u8>> = None;
        loop {
            let mut length = [0; 2];
            from.read_exact(&mut length)?;
            let mut record = vec![0; usize::from(u16::from_le_bytes(length))];
            from.read_exact(&mut record)?;
            record.splice(0..0, length);
            let tampering = next.lock().unwrap().take_if(|(which, _)| *which == direction);
            match tampering.map(|(_, tampering)| tampering) {
                None => to.write_all(&record)?,
                Some(Tampering::Flip { at }) => {
                    record[at] ^= 1;
                    to.write_all(&record)?;
                }
                Some(Tampering::Repeat) => to.write_all(&[&record[..], &record].concat())?,
                Some(Tampering::LeaveOut) => {}
                Some(Tampering::Swap) => {
                    held = Some(record);
                    continue;
                }
                Some(Tampering::Insert) => {
                    to.write_all(&[&[20, 0], &[7; 20][..], &record].concat())?;
                }
                Some(Tampering::Hold) => drop(io::copy(&mut from, &mut io::sink())),
            }
            if let Some(held) = held.take() {
                to.write_all(&held)?;
            }
        }
    };
    // Until one of the nodes has closed the connection.
    pass().unwrap_err();
    let _ = to.shutdown(Shutdown::Both);
}

/// A copy of what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Connects nodes 0 and 1 through a man in the middle. Returns him and both nodes.
fn connected_through(silence: Duration) -> (Middle, [Mesh; 2]) {
    let addresses: Vec<Address> = free_addresses(&["127.0.0.1"; 2])
        .into_iter()
        .map(Address::from)
        .collect();
    let middle = Middle::before(addresses[0].clone());
    let timeouts = Timeouts::default()
        .heartbeat_interval(Duration::from_millis(10))
        .silence_same_host(silence);
    let job = |node, node_0: &Address| {
        let hosts = [(NodeId(0), node_0.clone()), (NodeId(1), addresses[1].clone())];
        let job = Job::builder(NodeId(node)).secret(Secret::new(*b"a shared secret").unwrap());
        job.timeouts(timeouts)
            .hosts(Hosts::from_pairs(hosts).unwrap())
            .unwrap()
    };
    let jobs = [job(0, &addresses[0]), job(1, &middle.address)];
    let ends = thread::scope(|scope| {
        let ends = jobs
            .each_ref()
            .map(|job| scope.spawn(|| Mesh::connect(job).unwrap()));
        ends.map(|end| end.join().unwrap())
    });
    (middle, ends)
}

// One test: the log is one for the whole process.
#[test]
fn whatever_is_changed_on_the_way_ends_the_connection_as_a_loss_that_is_explained() {
    let log = Log::default();
    let written = log.clone();
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || written.clone())
        .init();
    let hour = Duration::from_secs(3600);
    for (tampering, silence, why) in [
        (
            Tampering::Flip { at: 2 },
            hour,
            "has changed, repeated or removed what was sent",
        ),
        (
            Tampering::Flip { at: 12 },
            hour,
            "has changed, repeated or removed what was sent",
        ),
        // A bit of a length: what follows is taken for the rest of the record.
        (
            Tampering::Flip { at: 0 },
            hour,
            "has changed, repeated or removed what was sent",
        ),
        (
            Tampering::Repeat,
            hour,
            "has changed, repeated or removed what was sent",
        ),
        (
            Tampering::LeaveOut,
            hour,
            "has changed, repeated or removed what was sent",
        ),
        (
            Tampering::Swap,
            hour,
            "has changed, repeated or removed what was sent",
        ),
        (
            Tampering::Insert,
            hour,
            "has changed, repeated or removed what was sent",
        ),
        (Tampering::Hold, Duration::from_millis(500), "silent for"),
    ] {
        for direction in [Direction::ToNode0, Direction::ToNode1] {
            let (middle, ends) = connected_through(silence);
            // Bytes of the user's, to be sure that none but the peer's come.
            ends[0].send(NodeId(1), b"before").unwrap();
            ends[1].send(NodeId(0), b"before").unwrap();
            for (end, peer) in [(&ends[0], NodeId(1)), (&ends[1], NodeId(0))] {
                let message = end.receive(Some(soon())).unwrap();
                assert_eq!(message, Some((peer, b"before".to_vec())));
            }
            *middle.next.lock().unwrap() = Some((direction, tampering));
            for (end, peer) in [(&ends[0], NodeId(1)), (&ends[1], NodeId(0))] {
                assert_eq!(
                    end.wait_for_departures(0, soon()),
                    1,
                    "{tampering:?} {direction:?}"
                );
                assert_eq!(
                    end.peer_state(peer),
                    PeerState::Lost,
                    "{tampering:?} {direction:?}"
                );
                // Nothing but what the peer sent has been delivered.
                assert_eq!(end.receive(Some(Std.now())).unwrap(), None);
            }
            drop(ends);
            let (node, peer) = match direction {
                Direction::ToNode0 => ("node 0", "node 1"),
                Direction::ToNode1 => ("node 1", "node 0"),
            };
            let log = log.take();
            let line = log.lines().find(|line| {
                line.contains(&format!("peer lost node={node} peer={peer}")) && line.contains(why)
            });
            assert!(line.is_some(), "{tampering:?} {direction:?}: {log}");
        }
    }
}
