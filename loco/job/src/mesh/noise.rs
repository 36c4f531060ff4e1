//! The [Noise protocol](https://noiseprotocol.org/noise.html), revision 34, as control connections use it: the handshake
//! `NNpsk0` under the job's secret, and afterwards records, each a transport message of Noise behind its length.
//!
//! Records carry a stream of bytes. They are encrypted and authenticated and numbered without the number being sent, so a
//! record that was changed, left out, repeated or sent out of order does not [open](Opener::open), and neither does any
//! record after it. Each direction has a key of its own that is made afresh for every connection.
//!
//! Relies on the crate `snow`. Used by [`handshake`](super::handshake) before nodes know each other, by
//! [`session`](super::session) and [`wire`](super::wire) after that.

use std::sync::Arc;

// `snow` makes keys by it. With its tables, a feature, a handshake takes less time.
use curve25519_dalek as _;
use snow::params::HashChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::{Builder, HandshakeState, StatelessTransportState};

use crate::secret::Secret;

/// The handshake's name, which both sides mix into it.
const PROTOCOL: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// Longest message of Noise, in bytes.
const MESSAGE_BYTES_MAX: usize = 65_535;
/// Longest message of the handshake, whose messages carry nothing: a public key and a tag, with room to spare.
const HANDSHAKE_BYTES_MAX: usize = 128;
/// The size of the tag that authenticates a message, at its end.
const TAG_BYTES: usize = 16;
/// Longest plaintext of one record.
const PLAIN_BYTES_MAX: usize = MESSAGE_BYTES_MAX - TAG_BYTES;
/// The length before a record, little-endian.
pub(super) const LENGTH_BYTES: usize = 2;

/// Returns 32 bytes that depend on all of `bytes`. `purpose` keeps apart what is made for different uses.
pub(super) fn digest(purpose: &[u8; 16], bytes: &[u8]) -> Result<[u8; 32], snow::Error> {
    let hash = DefaultResolver.resolve_hash(&HashChoice::Blake2s);
    // Present as long as the feature of `snow` that has it.
    let mut hash = hash.ok_or(snow::Error::Input)?;
    hash.input(purpose);
    hash.input(bytes);
    let mut digest = [0; 32];
    hash.result(&mut digest);
    Ok(digest)
}

/// A handshake under way: the connecting side says its message first, then the accepting side.
pub(super) struct Handshake(HandshakeState);

impl Handshake {
    /// Begins a handshake as the side that connects. Both sides must give the same `prologue`, which is
    /// authenticated with everything else.
    pub(super) fn connecting(secret: &Secret, prologue: &[u8]) -> Result<Handshake, snow::Error> {
        Handshake::start(secret, prologue, |builder| builder.build_initiator())
    }

    /// Begins a handshake as the side that accepts.
    pub(super) fn accepting(secret: &Secret, prologue: &[u8]) -> Result<Handshake, snow::Error> {
        Handshake::start(secret, prologue, |builder| builder.build_responder())
    }

    fn start(
        secret: &Secret,
        prologue: &[u8],
        build: impl FnOnce(Builder<'_>) -> Result<HandshakeState, snow::Error>,
    ) -> Result<Handshake, snow::Error> {
        // Noise takes a key of 32 bytes; a secret has any length.
        let key = digest(b"loco control key", secret.bytes())?;
        let builder = Builder::new(PROTOCOL.parse()?).psk(0, &key)?.prologue(prologue)?;
        build(builder).map(Handshake)
    }

    /// Returns the next message to the other side.
    pub(super) fn say(&mut self) -> Result<Vec<u8>, snow::Error> {
        let mut message = vec![0; HANDSHAKE_BYTES_MAX];
        let len = self.0.write_message(&[], &mut message)?;
        message.truncate(len);
        Ok(message)
    }

    /// Takes the other side's message.
    ///
    /// # Errors
    /// Fails when the other side has another secret or prologue, or the message was changed on its way.
    pub(super) fn hear(&mut self, message: &[u8]) -> Result<(), snow::Error> {
        let mut payload = vec![0; message.len()];
        self.0.read_message(message, &mut payload).map(drop)
    }

    /// Returns the two directions, once both messages are through.
    pub(super) fn finish(self) -> Result<(Sealer, Opener), snow::Error> {
        let keys = Arc::new(self.0.into_stateless_transport_mode()?);
        let sealer = Sealer {
            keys: Arc::clone(&keys),
            next: 0,
        };
        let opener = Opener {
            keys,
            next: 0,
            received: Vec::new(),
        };
        Ok((sealer, opener))
    }
}

/// The sending direction of a connection.
pub(super) struct Sealer {
    keys: Arc<StatelessTransportState>,
    /// Number of the next record. At a thousand million records a second it would last for 500 years.
    next: u64,
}

impl Sealer {
    /// Returns the records that carry `bytes`, in the order in which they must be sent, and before those of
    /// any later call.
    ///
    /// # Errors
    /// Fails when there are no numbers left.
    pub(super) fn seal(&mut self, bytes: &[u8]) -> Result<Vec<u8>, snow::Error> {
        let records = bytes.len().div_ceil(PLAIN_BYTES_MAX);
        let mut sealed = Vec::with_capacity(bytes.len() + records * (LENGTH_BYTES + TAG_BYTES));
        for plain in bytes.chunks(PLAIN_BYTES_MAX) {
            let len = plain.len() + TAG_BYTES;
            // At most `MESSAGE_BYTES_MAX`, which fits.
            sealed.extend_from_slice(&u16::try_from(len).unwrap_or(u16::MAX).to_le_bytes());
            let start = sealed.len();
            sealed.resize(start + len, 0);
            self.keys.write_message(self.next, plain, &mut sealed[start..])?;
            self.next += 1;
        }
        Ok(sealed)
    }
}

/// The receiving direction of a connection.
pub(super) struct Opener {
    keys: Arc<StatelessTransportState>,
    /// Number of the next record.
    next: u64,
    /// The beginning of a record that is not all here; less than a record, unless one did not open.
    received: Vec<u8>,
}

/// A record is not the one that the other side sent next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("something between the nodes has changed, repeated or removed what was sent")]
pub(super) struct Forged;

impl Opener {
    /// Takes bytes as they come, and appends to `plain` what the whole records among them carry. Returns true if
    /// there was a whole record, which is a sign of life that nobody else can give.
    ///
    /// # Errors
    /// Returns [`Forged`], now and at every later call: nothing that follows can be trusted.
    pub(super) fn open(&mut self, bytes: &[u8], plain: &mut Vec<u8>) -> Result<bool, Forged> {
        self.received.extend_from_slice(bytes);
        let mut taken = 0;
        let mut forged = None;
        while let Some((length, rest)) = self.received[taken..].split_first_chunk::<LENGTH_BYTES>() {
            let Some(record) = rest.get(..usize::from(u16::from_le_bytes(*length))) else {
                break;
            };
            let start = plain.len();
            plain.resize(start + record.len(), 0);
            match self.keys.read_message(self.next, record, &mut plain[start..]) {
                Ok(len) => plain.truncate(start + len),
                Err(_) => {
                    plain.truncate(start);
                    forged = Some(Forged);
                    break;
                }
            }
            self.next += 1;
            taken += LENGTH_BYTES + record.len();
        }
        self.received.drain(..taken);
        forged.map_or(Ok(taken > 0), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text.as_bytes()).unwrap()
    }

    fn shake(
        connecting: &str,
        accepting: &str,
        prologues: [&[u8]; 2],
    ) -> Result<[(Sealer, Opener); 2], snow::Error> {
        let mut one = Handshake::connecting(&secret(connecting), prologues[0])?;
        let mut two = Handshake::accepting(&secret(accepting), prologues[1])?;
        two.hear(&one.say()?)?;
        one.hear(&two.say()?)?;
        Ok([one.finish()?, two.finish()?])
    }

    fn pair() -> [(Sealer, Opener); 2] {
        shake("a shared secret", "a shared secret", [b"p", b"p"]).unwrap()
    }

    #[test]
    fn only_who_knows_the_secret_and_agrees_on_the_prologue_gets_through() {
        assert!(shake("a shared secret", "a shared secret", [b"p", b"p"]).is_ok());
        assert!(shake("a shared secret", "another secret", [b"p", b"p"]).is_err());
        assert!(shake("a shared secret", "a shared secret", [b"p", b"q"]).is_err());
    }

    #[test]
    fn a_recorded_answer_is_of_no_use_later() {
        let mut two = Handshake::accepting(&secret("a shared secret"), b"p").unwrap();
        let mut one = Handshake::connecting(&secret("a shared secret"), b"p").unwrap();
        two.hear(&one.say().unwrap()).unwrap();
        let recorded = two.say().unwrap();
        one.hear(&recorded).unwrap();
        let mut later = Handshake::connecting(&secret("a shared secret"), b"p").unwrap();
        later.say().unwrap();
        assert!(later.hear(&recorded).is_err());
    }

    #[test]
    fn what_is_longer_than_a_record_is_split_and_put_together_again() {
        let [(mut sealer, _), (_, mut opener)] = pair();
        let bytes: Vec<u8> = (0..300_000u32).map(|i| i as u8).collect();
        let sealed = sealer.seal(&bytes).unwrap();
        assert_eq!(sealed.len(), bytes.len() + 5 * (LENGTH_BYTES + TAG_BYTES));
        let mut plain = Vec::new();
        // In pieces that end anywhere.
        for piece in sealed.chunks(7919) {
            opener.open(piece, &mut plain).unwrap();
        }
        assert_eq!(plain, bytes);
    }

    #[test]
    fn the_two_directions_have_keys_of_their_own() {
        let [(mut sealer, mut own), (_, mut opener)] = pair();
        let sealed = sealer.seal(b"there").unwrap();
        assert_eq!(own.open(&sealed, &mut Vec::new()), Err(Forged));
        assert_eq!(opener.open(&sealed, &mut Vec::new()), Ok(true));
    }

    #[test]
    fn records_that_are_repeated_left_out_or_cut_short_do_not_open() {
        let [(mut sealer, _), (_, mut opener)] = pair();
        let [first, second] = [b"one", b"two"].map(|bytes| sealer.seal(bytes).unwrap());
        let mut plain = Vec::new();
        assert_eq!(opener.open(&first, &mut plain), Ok(true));
        assert_eq!(opener.open(&first, &mut plain), Err(Forged));
        // Nothing after it opens either.
        assert_eq!(opener.open(&second, &mut plain), Err(Forged));
        assert_eq!(plain, b"one");

        let [(mut sealer, _), (_, mut opener)] = pair();
        let [_, second] = [b"one", b"two"].map(|bytes| sealer.seal(bytes).unwrap());
        assert_eq!(opener.open(&second, &mut plain), Err(Forged));

        let [_, (_, mut opener)] = pair();
        assert_eq!(opener.open(&[0, 0], &mut plain), Err(Forged));
        assert_eq!(plain, b"one");
    }

    proptest! {
        #[test]
        fn a_record_with_one_bit_changed_does_not_open(bytes in proptest::collection::vec(any::<u8>(), 1..200), at: prop::sample::Index, bit in 0..8) {
            let [(mut sealer, _), (_, mut opener)] = pair();
            let mut sealed = sealer.seal(&bytes).unwrap();
            // Past the length: a longer record is waited for.
            let at = LENGTH_BYTES + at.index(sealed.len() - LENGTH_BYTES);
            sealed[at] ^= 1u8 << bit;
            let mut plain = Vec::new();
            prop_assert_eq!(opener.open(&sealed, &mut plain), Err(Forged));
            prop_assert!(plain.is_empty());
        }

        #[test]
        fn no_bytes_make_a_handshake_or_an_opener_panic(bytes: Vec<u8>) {
            let mut accepting = Handshake::accepting(&secret("a shared secret"), b"p").unwrap();
            prop_assert!(accepting.hear(&bytes).is_err());
            let mut connecting = Handshake::connecting(&secret("a shared secret"), b"p").unwrap();
            connecting.say().unwrap();
            prop_assert!(connecting.hear(&bytes).is_err());
            let [_, (_, mut opener)] = pair();
            let _ = opener.open(&bytes, &mut Vec::new());
        }
    }
}
