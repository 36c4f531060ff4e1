//! An encrypted and authenticated connection for the data of a fabric, whose nodes have agreed on a secret over the mesh.
//!
//! It has the handshake and the records of control connections ([`noise`](super::noise)), without their greeting: both sides
//! know already that they belong to one job.
//!
//! Relies on [`session`](super::session). Used by fabrics that move bytes over connections of their own.

use std::io;
use std::net::TcpStream;

use loco_fabric::Time;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::noise::Handshake;
use super::session::{Session, read_message, write_message};
use crate::secret::Secret;

/// The longest value that [`Link::read`] takes, in bytes.
const VALUE_BYTES_MAX: usize = 1024;

/// One side's end of an encrypted and authenticated connection. Only a process that knows the secret has the other end.
pub struct Link(Session);

impl Link {
    /// Shakes hands as the side that connected `stream`. Both sides must give the same `purpose`.
    ///
    /// # Errors
    /// Returns [`InvalidData`](io::ErrorKind::InvalidData) when the other side has another secret or purpose,
    /// [`TimedOut`](io::ErrorKind::TimedOut) at `deadline`, and the errors of the stream.
    pub fn connect(stream: TcpStream, secret: &Secret, purpose: &[u8], deadline: Time) -> io::Result<Link> {
        let mut handshake = Handshake::connecting(secret, purpose).map_err(refused)?;
        write_message(&stream, &handshake.say().map_err(refused)?, deadline)?;
        handshake
            .hear(&read_message(&stream, deadline)?)
            .map_err(refused)?;
        Session::new(stream, handshake).map(Link).map_err(refused)
    }

    /// Shakes hands as the side that accepted `stream`. A recorded handshake gets through here, but nothing that is
    /// [read](Link::read) after it: let the other side write first.
    ///
    /// # Errors
    /// Returns the errors of [`connect`](Link::connect).
    pub fn accept(stream: TcpStream, secret: &Secret, purpose: &[u8], deadline: Time) -> io::Result<Link> {
        let mut handshake = Handshake::accepting(secret, purpose).map_err(refused)?;
        handshake
            .hear(&read_message(&stream, deadline)?)
            .map_err(refused)?;
        write_message(&stream, &handshake.say().map_err(refused)?, deadline)?;
        Session::new(stream, handshake).map(Link).map_err(refused)
    }

    /// Writes a value, and waits until the system has taken all of it, while the stream blocks.
    ///
    /// # Errors
    /// Returns the errors of [`connect`](Link::connect).
    pub fn write(&mut self, value: &impl Serialize, deadline: Time) -> io::Result<()> {
        self.0.write(value, deadline)
    }

    /// Reads a value of at most 1 KiB, while the stream blocks.
    ///
    /// # Errors
    /// Returns [`InvalidData`](io::ErrorKind::InvalidData) when the other side did not send what came, or when it is no such
    /// value, and the errors of [`connect`](Link::connect).
    pub fn read<T: DeserializeOwned>(&mut self, deadline: Time) -> io::Result<T> {
        self.0.read(VALUE_BYTES_MAX, deadline)
    }

    /// Returns the stream. Whatever is to be read from it or written to it goes through [`open`](Link::open) and
    /// [`seal`](Link::seal).
    pub fn stream(&self) -> &TcpStream {
        &self.0.stream
    }

    /// Returns the records that carry `bytes`. They must be sent in the order in which they were sealed.
    ///
    /// # Errors
    /// Fails when no records are left, after some hundred years.
    pub fn seal(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        self.0.sealer.seal(bytes).map_err(refused)
    }

    /// Takes bytes as they came, and appends to `plain` what the whole records among them carry.
    ///
    /// # Errors
    /// Returns [`InvalidData`](io::ErrorKind::InvalidData), now and at every later call, when a record is not the one that the
    /// other side sent next.
    pub fn open(&mut self, bytes: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
        self.0.opener.open(bytes, plain).map(drop).map_err(refused)
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Link").field(self.stream()).finish()
    }
}

fn refused(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    use loco_fabric::{Platform, Std};

    use super::*;

    fn deadline() -> Time {
        Std.now().after(Duration::from_secs(60))
    }

    /// Connects two processes' ends that have these secrets.
    fn linked(secrets: [&str; 2]) -> [io::Result<Link>; 2] {
        let [one, two] = secrets.map(|text| Secret::new(text.as_bytes()).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let connecting =
            thread::spawn(move || Link::connect(TcpStream::connect(at).unwrap(), &one, b"test", deadline()));
        let accepted = Link::accept(listener.accept().unwrap().0, &two, b"test", deadline());
        [connecting.join().unwrap(), accepted]
    }

    #[test]
    fn both_ends_of_a_secret_carry_values_and_records() {
        let [Ok(mut one), Ok(mut two)] = linked(["a shared secret", "a shared secret"]) else {
            panic!("not linked")
        };
        one.write(&7_u16, deadline()).unwrap();
        assert_eq!(two.read::<u16>(deadline()).unwrap(), 7);
        let sealed = two.seal(b"records").unwrap();
        let mut plain = Vec::new();
        one.open(&sealed, &mut plain).unwrap();
        assert_eq!(plain, b"records");
        assert!(
            one.open(&sealed, &mut plain).is_err(),
            "a record that is repeated"
        );
    }

    #[test]
    fn a_stranger_is_not_let_in() {
        let [connected, accepted] = linked(["a shared secret", "another secret"]);
        assert_eq!(accepted.err().unwrap().kind(), io::ErrorKind::InvalidData);
        assert!(connected.is_err());
    }
}
