//! Tests of dispatchers.

use std::sync::mpsc;

use super::*;
use crate::places::Place;

fn hosts(own: usize) -> HostTable {
    let at = ["127.0.0.2:7700", "127.0.0.3:7701"].map(|at| at.parse().unwrap());
    HostTable::new(at.to_vec(), own, 4096).unwrap()
}

#[test]
fn numbers_are_of_one_host_each() {
    let [one, two] = [0, 1].map(hosts);
    assert_eq!((one.number(5), two.number(5)), (5, 2053));
    assert_eq!(
        (one.place(5), one.place(2053), two.place(2053)),
        (Some(5), None, Some(5))
    );
    assert_eq!(
        (one.host_of(2047), one.host_of(2048), one.host_of(4096)),
        (Some(0), Some(1), None)
    );
    assert_eq!(one.host_at("::ffff:127.0.0.3".parse().unwrap()), Some(1));
    assert_eq!(HostTable::parse(&one.text(), 0, 4096), Ok(one));
    assert!(HostTable::parse("127.0.0.2:1 127.0.0.2:2", 0, 4096).is_err());
    assert!(HostTable::parse("127.0.0.2:1 alpha", 0, 4096).is_err());
    assert!(HostTable::parse("127.0.0.2:1", 1, 4096).is_err());
}

#[test]
fn a_request_is_read_as_it_was_written() {
    let ports = ["10.0.0.1:65535", "[fd00::7]:1"].map(|address| Destination::Port {
        space: 0x106,
        address: address.parse().unwrap(),
    });
    for destination in [Destination::Process(u32::MAX), ports[0], ports[1]] {
        let request = ConnectRequest {
            hosts: 3,
            from: 2,
            to: 1,
            destination,
        };
        assert_eq!(ConnectRequest::read(&request.bytes()), Ok(request));
    }
    assert!(ConnectRequest::read(&[0; REQUEST_BYTES]).is_err());
    assert!(ConnectRequest::read(&[0xff; REQUEST_BYTES]).is_err());
}

/// A host with one process, which accepts connections, and somebody who asks for one.
#[test]
fn connections_reach_their_destinations_and_others_are_closed() {
    let folder = tempfile::tempdir().unwrap();
    let (place, ()) = Place::take(folder.path(), "it", 100, |_| Ok(Some(()))).unwrap();
    let opened = File::open(folder.path()).unwrap();
    let inside = UnixListener::bind(socket_path(&opened, "it", place.number(), SOCKET)).unwrap();
    std::fs::write(place.file(&port_file(0x106, 9)), "127.0.0.2").unwrap();
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    let at = vec![listener.local_addr().unwrap(), "127.0.0.3:1".parse().unwrap()];
    let [hosts, sender] = [0, 1].map(|own| HostTable::new(at.clone(), own, 200).unwrap());
    let dispatcher = Arc::new(Dispatcher {
        hosts: hosts.clone(),
        folder: folder.path().to_owned(),
        prefix: "it",
    });
    let (says, said) = mpsc::channel();
    thread::spawn(move || dispatcher.serve(&listener, move |line| drop(says.send(line))));

    let port = |port| Destination::Port {
        space: 0x106,
        address: SocketAddr::new("127.0.0.2".parse().unwrap(), port),
    };
    for destination in [Destination::Process(hosts.number(place.number())), port(9)] {
        let (mut outside, request) = sender.connect(0, destination, REQUEST_PATIENCE).unwrap();
        let (came, announced) = accept(&inside).unwrap();
        assert_eq!((announced, announced.destination), (request, destination));
        outside.write_all(b"hello").unwrap();
        let mut heard = [0; 5];
        read_all(&came, &mut heard, Instant::now() + REQUEST_PATIENCE).unwrap();
        assert_eq!(&heard, b"hello");
    }
    for destination in [
        Destination::Process(place.number() + 1),
        Destination::Process(150),
        port(10),
    ] {
        let nobody = sender.connect(0, destination, REQUEST_PATIENCE).unwrap_err();
        assert_eq!(nobody.kind(), io::ErrorKind::NotFound);
    }
    let three = HostTable::new([&at[..], &["127.0.0.4:1".parse().unwrap()]].concat(), 2, 200).unwrap();
    let other = three.connect(0, port(9), REQUEST_PATIENCE).unwrap_err();
    assert_eq!(other.kind(), io::ErrorKind::InvalidData);
    assert!(said.recv().unwrap().contains("the lists of hosts differ"));

    for garbage in [
        &b"GET / HTTP/1.1\r\nHost: alpha.example.org\r\n\r\n"[..],
        &[0xff; 4096],
    ] {
        let mut stranger = TcpStream::connect(at[0]).unwrap();
        let _ = stranger.write_all(garbage);
        assert!(said.recv().unwrap().contains("does not speak as a NIC"));
        let mut end = Vec::new();
        let _ = stranger.read_to_end(&mut end);
        assert!(end.is_empty());
    }
    drop(TcpStream::connect(at[0]).unwrap());
    assert!(said.recv().unwrap().contains("it sent no request"));
}

#[test]
fn a_crowd_at_the_door_is_not_waited_for() {
    let pending = Arc::new(PendingConnections::default());
    let mut all: Vec<_> = (0..PENDING_MAX).map(|_| pending.one_more()).collect();
    assert!(all.iter().all(Option::is_some));
    assert!(pending.one_more().is_none());
    all.pop();
    assert!(pending.one_more().is_some());
}
