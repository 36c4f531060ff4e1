//! The bytes of a connection, encrypted or not: what waits to be sent, and what has come and is not taken yet.
//!
//! Nothing here blocks. Relies on `loco_job` for encryption. Used by `link`.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

use loco_job::Link;

/// The bytes that one look takes from the socket.
const READ_BYTES: usize = 256 << 10;
/// The sent bytes before those that wait that are worth moving the latter for.
const MOVED_BYTES: usize = 256 << 10;

/// A connection, and the bytes in either direction.
pub(crate) struct Stream {
    connection: Link,
    encrypts: bool,
    /// What waits to be sent, in plain.
    out: Vec<u8>,
    /// The records that wait to be sent, of a connection that encrypts.
    sealed: Vec<u8>,
    /// The bytes of `out`, or of `sealed`, that have been sent.
    sent: usize,
    /// What has come, in plain, and is not taken yet: from `taken` to `filled`.
    incoming: Vec<u8>,
    taken: usize,
    filled: usize,
    /// What has come of a connection that encrypts.
    raw: Vec<u8>,
}

/// The reason why a look took no more bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// As many bytes as there was room for: there may be more.
    Full,
    /// All that was there.
    All,
    /// Nothing was there.
    Nothing,
}

impl Stream {
    /// Takes over `connection`, whose stream does not block.
    pub(crate) fn new(connection: Link, encrypts: bool) -> Stream {
        // Zeroed pages of the system are touched only when something comes.
        let room = |wanted: bool| if wanted { vec![0; READ_BYTES] } else { Vec::new() };
        Stream {
            connection,
            encrypts,
            out: Vec::new(),
            sealed: Vec::new(),
            sent: 0,
            incoming: room(!encrypts),
            taken: 0,
            filled: 0,
            raw: room(encrypts),
        }
    }

    /// Returns the socket.
    pub(crate) fn socket(&self) -> &TcpStream {
        self.connection.stream()
    }

    /// Returns the bytes to which whatever is to be sent is appended.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Returns the number of bytes that wait to be sent.
    pub(crate) fn unsent(&self) -> usize {
        match self.encrypts {
            true => self.out.len() + self.sealed.len() - self.sent,
            false => self.out.len() - self.sent,
        }
    }

    /// Sends as much as the socket takes. Returns true if all is sent.
    pub(crate) fn send(&mut self) -> io::Result<bool> {
        while self.unsent() > 0 {
            if self.encrypts && self.sealed.is_empty() {
                self.sealed = self.connection.seal(&self.out)?;
                self.out.clear();
            }
            let bytes = match self.encrypts {
                true => &mut self.sealed,
                false => &mut self.out,
            };
            match self.connection.stream().write(&bytes[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.sent += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.sent >= MOVED_BYTES {
                        bytes.drain(..self.sent);
                        self.sent = 0;
                    }
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
            if self.sent == bytes.len() {
                bytes.clear();
                self.sent = 0;
            }
        }
        Ok(true)
    }

    /// Takes in what has come, as far as there is room.
    ///
    /// # Errors
    /// Returns the errors of the socket, [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) when the peer has closed, and
    /// [`InvalidData`](io::ErrorKind::InvalidData) when something that it did not send has come.
    pub(crate) fn receive(&mut self) -> io::Result<Came> {
        self.make_room();
        let free = match self.encrypts {
            true => &mut self.raw[..],
            false => &mut self.incoming[self.filled..],
        };
        let room = free.len();
        let read = loop {
            match self.connection.stream().read(free) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => break n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Came::Nothing),
                Err(error) => return Err(error),
            }
        };
        if self.encrypts {
            self.connection.open(&self.raw[..read], &mut self.incoming)?;
            self.filled = self.incoming.len();
        } else {
            self.filled += read;
        }
        Ok(if read == room { Came::Full } else { Came::All })
    }

    /// Moves what is not taken to the beginning.
    fn make_room(&mut self) {
        if self.encrypts {
            self.incoming.drain(..self.taken);
        } else if self.taken > 0 {
            self.incoming.copy_within(self.taken..self.filled, 0);
        }
        self.filled -= self.taken;
        self.taken = 0;
    }

    /// Returns what has come and is not taken, and lets it be used beside the rest: [`give_back`](Stream::give_back) must
    /// follow.
    pub(crate) fn lend(&mut self) -> (Vec<u8>, std::ops::Range<usize>) {
        (std::mem::take(&mut self.incoming), self.taken..self.filled)
    }

    /// Takes back what was lent, of which the first bytes up to `taken` are taken.
    pub(crate) fn give_back(&mut self, incoming: Vec<u8>, taken: usize) {
        self.incoming = incoming;
        self.taken = taken;
    }

    /// Ends the connection in both directions. What waits to be sent is dropped.
    pub(crate) fn shut(&mut self) {
        // It fails only where the connection has ended already.
        let _ = self.socket().shutdown(Shutdown::Both);
        self.out = Vec::new();
        self.sealed = Vec::new();
        self.sent = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration;

    use loco_fabric::{Platform, Std};
    use loco_job::Secret;

    use super::*;

    fn pair(encrypts: bool) -> [Stream; 2] {
        let deadline = Std.now().after(Duration::from_secs(60));
        let secret = Secret::new(*b"a shared secret").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let its = secret.clone();
        let connecting = std::thread::spawn(move || {
            Link::connect(TcpStream::connect(at).unwrap(), &its, b"test", deadline).unwrap()
        });
        let accepted = Link::accept(listener.accept().unwrap().0, &secret, b"test", deadline).unwrap();
        [connecting.join().unwrap(), accepted].map(|link| {
            link.stream().set_nonblocking(true).unwrap();
            Stream::new(link, encrypts)
        })
    }

    #[test]
    fn what_is_sent_comes_in_its_order_however_it_is_taken() {
        for encrypts in [false, true] {
            let [mut one, mut two] = pair(encrypts);
            let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
            let mut seen = Vec::new();
            let mut left = &bytes[..];
            while seen.len() < bytes.len() {
                let some = left.len().min(400_000);
                one.out().extend_from_slice(&left[..some]);
                left = &left[some..];
                one.send().unwrap();
                two.receive().unwrap();
                let (incoming, range) = two.lend();
                // A part stays, as the beginning of a frame does.
                let taken = range.end - (range.len() / 3).min(1000);
                let taken = if left.is_empty() { range.end } else { taken };
                seen.extend_from_slice(&incoming[range.start..taken]);
                two.give_back(incoming, taken);
            }
            assert!(seen == bytes, "encrypted: {encrypts}");
        }
    }

    #[test]
    fn the_end_of_the_peer_is_seen() {
        let [mut one, mut two] = pair(false);
        assert_eq!(two.receive().unwrap(), Came::Nothing);
        one.shut();
        let ended = loop {
            match two.receive() {
                Ok(_) => std::thread::yield_now(),
                Err(error) => break error,
            }
        };
        assert_eq!(ended.kind(), io::ErrorKind::UnexpectedEof);
    }
}
