//! Tests of doors.

use std::sync::mpsc;

use super::*;
use crate::places::Place;

fn doors(own: usize) -> Doors {
    let at = ["127.0.0.2:7700", "127.0.0.3:7701"].map(|at| at.parse().unwrap());
    Doors::new(at.to_vec(), own, 4096).unwrap()
}

#[test]
fn numbers_are_of_one_host_each() {
    let [one, two] = [0, 1].map(doors);
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
    assert_eq!(Doors::parse(&one.text(), 0, 4096), Ok(one));
    assert!(Doors::parse("127.0.0.2:1 127.0.0.2:2", 0, 4096).is_err());
    assert!(Doors::parse("127.0.0.2:1 alpha", 0, 4096).is_err());
    assert!(Doors::parse("127.0.0.2:1", 1, 4096).is_err());
}

#[test]
fn a_knock_is_read_as_it_was_written() {
    let ports = ["10.0.0.1:65535", "[fd00::7]:1"].map(|address| Room::Port {
        space: 0x106,
        address: address.parse().unwrap(),
    });
    for room in [Room::Process(u32::MAX), ports[0], ports[1]] {
        let knock = Knock {
            hosts: 3,
            from: 2,
            to: 1,
            room,
        };
        assert_eq!(Knock::read(&knock.bytes()), Ok(knock));
    }
    assert!(Knock::read(&[0; KNOCK_BYTES]).is_err());
    assert!(Knock::read(&[0xff; KNOCK_BYTES]).is_err());
}

/// A host with one process, which takes visitors in, and somebody who knocks.
#[test]
fn visitors_see_whom_they_want_and_others_are_sent_away() {
    let folder = tempfile::tempdir().unwrap();
    let (place, ()) = Place::take(folder.path(), "it", 100, |_| Ok(Some(()))).unwrap();
    let opened = File::open(folder.path()).unwrap();
    let inside = UnixListener::bind(socket_path(&opened, "it", place.number(), SOCKET)).unwrap();
    std::fs::write(place.file(&port_file(0x106, 9)), "127.0.0.2").unwrap();
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    let at = vec![listener.local_addr().unwrap(), "127.0.0.3:1".parse().unwrap()];
    let [doors, visitor] = [0, 1].map(|own| Doors::new(at.clone(), own, 200).unwrap());
    let keeper = Arc::new(Doorkeeper {
        doors: doors.clone(),
        folder: folder.path().to_owned(),
        prefix: "it",
    });
    let (says, said) = mpsc::channel();
    thread::spawn(move || keeper.keep(&listener, move |line| drop(says.send(line))));

    let port = |port| Room::Port {
        space: 0x106,
        address: SocketAddr::new("127.0.0.2".parse().unwrap(), port),
    };
    for room in [Room::Process(doors.number(place.number())), port(9)] {
        let (mut outside, knock) = visitor.knock(0, room, KNOCK_PATIENCE).unwrap();
        let (came, announced) = admit(&inside).unwrap();
        assert_eq!((announced, announced.room), (knock, room));
        outside.write_all(b"hello").unwrap();
        let mut heard = [0; 5];
        read_all(&came, &mut heard, Instant::now() + KNOCK_PATIENCE).unwrap();
        assert_eq!(&heard, b"hello");
    }
    for room in [Room::Process(place.number() + 1), Room::Process(150), port(10)] {
        let nobody = visitor.knock(0, room, KNOCK_PATIENCE).unwrap_err();
        assert_eq!(nobody.kind(), io::ErrorKind::NotFound);
    }
    let three = Doors::new([&at[..], &["127.0.0.4:1".parse().unwrap()]].concat(), 2, 200).unwrap();
    let other = three.knock(0, port(9), KNOCK_PATIENCE).unwrap_err();
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
    assert!(said.recv().unwrap().contains("did not say whom"));
}

#[test]
fn a_crowd_at_the_door_is_not_waited_for() {
    let visitors = Arc::new(Visitors::default());
    let mut all: Vec<_> = (0..VISITORS_MAX).map(|_| visitors.one_more()).collect();
    assert!(all.iter().all(Option::is_some));
    assert!(visitors.one_more().is_none());
    all.pop();
    assert!(visitors.one_more().is_some());
}
