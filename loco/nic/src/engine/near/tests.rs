//! Tests of connections within a host: greetings, bells, and neighbours that keep no rules.

use std::io::{PipeReader, Read as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

use super::*;

const ASKING: u32 = 3;
const SERVING: u32 = 4;

fn bell() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap()
}

fn greeting(from: u32, bell: &OwnedFd) -> Greeting<'_> {
    Greeting {
        hello: Header::new(kind::HELLO, from, 0, 0),
        bell: bell.as_fd(),
    }
}

/// Returns both ends of a connection on which nothing was heard, and their bells.
fn ends() -> [(Near, OwnedFd); 2] {
    let (one, two) = UnixStream::pair().unwrap();
    let bells = [bell(), bell()];
    let asking = Near::connected(one, SERVING, &greeting(ASKING, &bells[0])).unwrap();
    let serving = Near::accepted(two, &greeting(SERVING, &bells[1])).unwrap();
    let [first, second] = bells;
    [(asking, first), (serving, second)]
}

fn request(seq: u64, len: usize) -> (Header, Vec<u8>) {
    let mut header = Header::new(kind::SEND, 1, 2, seq);
    header.len = len as u64;
    (header, vec![seq as u8; len])
}

fn has_rung(bell: &OwnedFd) -> bool {
    rustix::io::read(bell, &mut [0; 8]).is_ok()
}

#[test]
fn what_was_sent_before_an_end_comes_also_if_nobody_had_answered() {
    let [(mut asking, _), (mut serving, _)] = ends();
    for (header, data) in [request(1, 10), request(2, 70_000)] {
        assert!(asking.send([header.as_bytes(), &data], true).unwrap());
    }
    drop(asking);
    let (mut input, mut messages) = (Vec::new(), Vec::new());
    assert!(!serving.hear(&mut messages).unwrap());
    serving.receive(&mut input, &mut messages).unwrap();
    let lens: Vec<_> = messages.iter().map(|message| message.data.len()).collect();
    assert_eq!(
        (messages[0].header.kind, lens),
        (kind::HELLO, vec![0, 10, 70_000])
    );
}

#[test]
fn a_bell_rings_for_who_sleeps_before_and_after_it_is_known() {
    let [(mut asking, asks), (mut serving, serves)] = ends();
    let mut messages = Vec::new();
    assert!(serving.hear(&mut messages).unwrap());
    let (header, data) = request(1, 3);
    let message = [header.as_bytes(), &data];
    // Nobody sleeps.
    assert!(asking.send(message, true).unwrap() && serving.send(message, true).unwrap());
    assert!(!has_rung(&asks) && !has_rung(&serves));
    // The one that has connected has not heard of the other's bell: a byte makes the socket readable.
    serving.wake_for(Wake::Always);
    assert!(asking.send(message, true).unwrap());
    let mut byte = [0];
    let peeked = rustix::net::recv(&serving.stream, &mut byte, RecvFlags::DONTWAIT | RecvFlags::PEEK);
    assert!(!has_rung(&serves) && peeked.is_ok() && byte == [RING_THE_BELL]);
    assert!(serving.hear(&mut messages).unwrap() && asking.hear(&mut messages).unwrap());
    assert_eq!(messages.len(), 1);
    serving.wake_for(Wake::Always);
    asking.wake_for(Wake::Urgent);
    assert!(asking.send(message, true).unwrap() && serving.send(message, false).unwrap());
    assert!(!has_rung(&asks) && has_rung(&serves));
    assert!(serving.send(message, true).unwrap());
    assert!(has_rung(&asks) && asking.rang_on().is_some() && asking.rang_on().is_none());
}

/// Answers that wake nobody fill the ring to its last byte: what waits behind them wakes the reader, which makes room.
#[test]
fn a_ring_that_is_full_of_what_wakes_nobody_does_not_keep_its_reader_asleep() {
    let [(mut asking, asks), (mut serving, serves)] = ends();
    let mut messages = Vec::new();
    assert!(serving.hear(&mut messages).unwrap() && asking.hear(&mut messages).unwrap());
    asking.wake_for(Wake::Urgent);
    let room = serving.ring.as_ref().unwrap().room().unwrap();
    let (header, data) = request(1, room - HEADER);
    assert!(serving.send([header.as_bytes(), &data], false).unwrap());
    assert_eq!(serving.ring.as_ref().unwrap().room().unwrap(), 0);
    assert!(!has_rung(&asks));
    let (more, data) = request(2, 5);
    let behind = [more.as_bytes(), &data].concat();
    assert_eq!(serving.send_some(&behind).unwrap(), 0);
    assert!(has_rung(&asks));
    messages.clear();
    asking.receive(&mut Vec::new(), &mut messages).unwrap();
    assert!(has_rung(&serves), "there is room");
    assert_eq!(serving.send_some(&behind).unwrap(), behind.len());
    asking.receive(&mut Vec::new(), &mut messages).unwrap();
    let seqs: Vec<u64> = messages.iter().map(|message| message.header.seq).collect();
    assert_eq!(seqs, [1, 2]);
}

#[test]
fn what_is_no_greeting_is_refused() {
    let bells = [bell(), bell()];
    let hello = Header::new(kind::HELLO, 7, 0, 0);
    let other = Header::new(kind::SEND, 7, 0, 0);
    let (_, ring) = Ring::make().unwrap();
    let file: OwnedFd = tempfile::tempfile().unwrap().into();
    let wrong: [(&Header, &[BorrowedFd<'_>]); 5] = [
        (&other, &[ring.as_fd(), bells[0].as_fd()]),
        (&hello, &[]),
        (&hello, &[bells[0].as_fd()]),
        (&hello, &[file.as_fd(), bells[0].as_fd()]),
        (&hello, &[ring.as_fd(), file.as_fd()]),
    ];
    for (header, with) in wrong {
        let (one, two) = UnixStream::pair().unwrap();
        let mut serving = Near::accepted(two, &greeting(SERVING, &bells[1])).unwrap();
        match with {
            [] => (&one).write_all(header.as_bytes()).unwrap(),
            _ => greet(&one, header, with).unwrap(),
        }
        assert!(serving.hear(&mut Vec::new()).is_err(), "{header:?}");
    }
    // An answer in another's name, and a bell that is none.
    let (one, two) = UnixStream::pair().unwrap();
    let mut asking = Near::connected(one, SERVING, &greeting(ASKING, &bells[0])).unwrap();
    greet(&two, &hello, &[bells[1].as_fd()]).unwrap();
    assert!(asking.hear(&mut Vec::new()).is_err());
    let [(asking, _), (mut serving, _)] = ends();
    (&asking.stream).write_all(&[RING_THE_BELL + 1]).unwrap();
    assert!(serving.hear(&mut Vec::new()).is_err());
}

/// Sends bytes with descriptors, which may be a part of a hello.
fn send_with(stream: &UnixStream, bytes: &[u8], with: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut descriptors = SendAncillaryBuffer::new(&mut space);
    if !with.is_empty() {
        assert!(descriptors.push(SendAncillaryMessage::ScmRights(with)));
    }
    let sent = rustix::net::sendmsg(
        stream,
        &[IoSlice::new(bytes)],
        &mut descriptors,
        SendFlags::NOSIGNAL,
    );
    assert_eq!(sent.unwrap(), bytes.len());
}

/// Returns a descriptor to send, and a reader that ends when nobody has the descriptor any more.
fn watched() -> (OwnedFd, PipeReader) {
    let (reader, writer) = io::pipe().unwrap();
    (writer.into(), reader)
}

#[test]
fn a_hello_in_pieces_is_one() {
    let (one, two) = UnixStream::pair().unwrap();
    let bells = [bell(), bell()];
    let mut serving = Near::accepted(two, &greeting(SERVING, &bells[1])).unwrap();
    let (_ring, memory) = Ring::make().unwrap();
    let hello = Header::new(kind::HELLO, ASKING, 0, 0);
    let mut messages = Vec::new();
    // The ring comes with the first byte, the bell with the last, and nothing between.
    let (last, bytes) = hello.as_bytes().split_last().unwrap();
    send_with(&one, &bytes[..1], &[memory.as_fd()]);
    for byte in &bytes[1..] {
        assert!(serving.hear(&mut messages).unwrap() && messages.is_empty());
        send_with(&one, &[*byte], &[]);
    }
    send_with(&one, &[*last], &[bells[0].as_fd()]);
    // Each call takes some of the pieces that wait.
    while messages.is_empty() {
        assert!(serving.hear(&mut messages).unwrap());
    }
    assert_eq!((messages.len(), messages[0].header.from), (1, ASKING));
}

#[test]
fn descriptors_beyond_those_of_a_hello_are_refused_and_closed() {
    let own = bell();
    let hello = Header::new(kind::HELLO, ASKING, 0, 0);
    let bytes = hello.as_bytes();
    let (_ring, memory) = Ring::make().unwrap();
    // All at once behind those of a hello, one with each byte, and one too many in a later piece.
    for pieces in [&[(HEADER, 8)][..], &[(1, 1), (1, 1), (1, 1)], &[(10, 2), (10, 1)]] {
        let (one, two) = UnixStream::pair().unwrap();
        let mut serving = Near::accepted(two, &greeting(SERVING, &own)).unwrap();
        let (writer, mut reader) = watched();
        let mut at = 0;
        for &(len, count) in pieces {
            let mut with = vec![writer.as_fd(); count];
            if len == HEADER {
                (with[0], with[1]) = (memory.as_fd(), own.as_fd());
            }
            send_with(&one, &bytes[at..at + len], &with);
            at += len;
        }
        drop(writer);
        assert!(serving.hear(&mut Vec::new()).is_err(), "{pieces:?}");
        drop(serving);
        assert_eq!(reader.read(&mut [0]).unwrap(), 0, "nobody has it");
    }
}

#[test]
fn descriptors_that_come_after_a_hello_are_closed_at_once() {
    let [(asking, _), (mut serving, _)] = ends();
    let mut messages = Vec::new();
    assert!(serving.hear(&mut messages).unwrap() && messages.len() == 1);
    let (writer, mut reader) = watched();
    send_with(&asking.stream, &[RING_THE_BELL], &[writer.as_fd()]);
    drop(writer);
    assert!(serving.hear(&mut messages).unwrap());
    assert_eq!(reader.read(&mut [0]).unwrap(), 0, "nobody has it");
}

#[test]
fn what_a_hello_brought_is_closed_with_a_connection_that_said_no_more() {
    let (one, two) = UnixStream::pair().unwrap();
    let own = bell();
    let mut serving = Near::accepted(two, &greeting(SERVING, &own)).unwrap();
    let (writer, mut reader) = watched();
    send_with(
        &one,
        &Header::new(kind::HELLO, ASKING, 0, 0).as_bytes()[..5],
        &[writer.as_fd()],
    );
    drop((writer, one));
    assert!(!serving.hear(&mut Vec::new()).unwrap());
    drop(serving);
    assert_eq!(reader.read(&mut [0]).unwrap(), 0, "nobody has it");
}

/// A write to a bell that waits while it is full would keep the lock of who rings it.
#[test]
fn a_bell_that_can_make_who_rings_it_wait_is_refused() {
    let (one, two) = UnixStream::pair().unwrap();
    let own = bell();
    let mut serving = Near::accepted(two, &greeting(SERVING, &own)).unwrap();
    let (_ring, memory) = Ring::make().unwrap();
    let waits = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let hello = Header::new(kind::HELLO, ASKING, 0, 0);
    greet(&one, &hello, &[memory.as_fd(), waits.as_fd()]).unwrap();
    assert!(serving.hear(&mut Vec::new()).is_err());
}

/// A neighbour that writes as fast as the other reads keeps it in no call: one takes no more than the ring has room for.
#[test]
fn a_call_takes_what_had_come_and_no_more() {
    const BYTES: usize = 64 << 20;
    let [(mut asking, _bell), (mut serving, _other)] = ends();
    assert!(serving.hear(&mut Vec::new()).unwrap());
    /// Says that it is over, also when a side fails: the other would go on without end.
    struct Over<'o>(&'o AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = Over(&over);
        scope.spawn(|| {
            let _over = Over(&over);
            let (header, data) = request(1, 4000);
            while !over.load(Ordering::Relaxed) {
                asking.send([header.as_bytes(), &data], true).unwrap();
            }
        });
        let mut input = Vec::new();
        let (mut most, mut all) = (0, 0);
        while all < BYTES {
            assert!(!over.load(Ordering::Relaxed), "who sends has failed");
            let mut messages = Vec::new();
            serving.receive(&mut input, &mut messages).unwrap();
            let took: usize = messages.iter().map(|message| HEADER + message.data.len()).sum();
            most = most.max(took);
            all += took;
        }
        assert!(
            most > 0 && most <= super::super::ring::SIZE,
            "{most} bytes in one call"
        );
    });
}

/// A peer that is stopped takes nothing, and nothing is kept for it here but what the ring has room for.
#[test]
fn a_full_ring_takes_no_more_and_says_when_there_is_room() {
    let [(mut asking, asks), (mut serving, serves)] = ends();
    let mut messages = Vec::new();
    assert!(serving.hear(&mut messages).unwrap() && asking.hear(&mut messages).unwrap());
    let bytes = vec![7; 2 * super::super::ring::SIZE];
    let sent = asking.send_some(&bytes).unwrap();
    assert_eq!(sent, super::super::ring::SIZE);
    assert_eq!(asking.send_some(&bytes).unwrap(), 0);
    let (header, data) = request(1, 0);
    assert!(!asking.send([header.as_bytes(), &data], true).unwrap());
    assert!(!has_rung(&asks) && !has_rung(&serves));
    // The other takes a part of a message that is none: it is gone, and room is wanted.
    assert!(serving.receive(&mut Vec::new(), &mut messages).is_err());
}
