//! The frames that go over a connection once the handshake is done: each has a length, a kind and a body.
//!
//! Written and read by the TCP inside of [`Mesh`](super::Mesh). All numbers are little-endian.

use loco_fabric::NodeId;

use super::parcel::{Closed, PAYLOAD_BYTES_MAX, Parcel};

/// The bytes of a frame's length (that of its body) and kind.
pub(super) const HEADER_BYTES: usize = 5;
/// The longest body: a payload and what a contribution has around it.
const BODY_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + GATHER_HEADER_BYTES;
/// The bytes of a contribution's view and round, and of the length of its label.
const GATHER_HEADER_BYTES: usize = 4 + 8 + 4;

const MESSAGE: u8 = 0;
const GATHER: u8 = 1;
const HEARTBEAT: u8 = 2;
const GOODBYE: u8 = 3;
const LOST: u8 = 4;
const REVOKED: u8 = 5;
const LEFT: u8 = 6;
const JOIN: u8 = 7;
const WAS_IN: u8 = 8;
const CLOSED: u8 = 9;
const LEAVING: u8 = 10;
const VIEW: u8 = 11;

const CLOSED_LEFT: u8 = 0;
const CLOSED_LOST: u8 = 1;

/// One frame, borrowing its bytes.
pub(super) enum Frame<'a> {
    Parcel(Parcel<'a>),
    /// A mere sign of life.
    Heartbeat,
    /// The sender leaves; nothing follows.
    Goodbye,
    /// The sender thinks that node lost.
    Lost(NodeId),
    /// Says that this node, which is thought lost, can no longer affect the sender.
    Revoked(NodeId),
    /// Says to a node that may have no connection with it that this node has left.
    Left(NodeId),
    /// Says that this node, which goes, has said that it is in.
    WasIn(NodeId),
    /// Says that a node joins.
    Join {
        node: NodeId,
        /// The number that its process has drawn.
        key: u64,
        /// The members without it.
        members: Vec<NodeId>,
        /// The number of the view that it makes.
        view: u32,
    },
    /// The sender is going to leave.
    Leaving,
    /// Says that the view with this number has these members.
    View {
        view: u32,
        members: Vec<NodeId>,
    },
}

/// The meaning of the bytes received so far.
pub(super) enum Decoded<'a> {
    /// A frame and how many bytes it took.
    Frame(Frame<'a>, usize),
    /// More bytes are needed.
    Incomplete,
    /// These bytes are not the language of a peer, for this reason.
    Malformed(&'static str),
}

impl Frame<'_> {
    /// Returns the frame's bytes. Payload limits were checked by the caller.
    pub(super) fn encode(&self) -> Vec<u8> {
        let kind = match self {
            Frame::Parcel(Parcel::Message { view, payload }) => {
                return assemble(MESSAGE, &[&view.to_le_bytes(), payload]);
            }
            Frame::Parcel(Parcel::Gather {
                view,
                label,
                round,
                bytes,
            }) => {
                let label_len = u32::try_from(label.len()).unwrap_or(u32::MAX);
                let parts: [&[u8]; 5] = [
                    &view.to_le_bytes(),
                    &round.to_le_bytes(),
                    &label_len.to_le_bytes(),
                    label.as_bytes(),
                    bytes,
                ];
                return assemble(GATHER, &parts);
            }
            Frame::Parcel(Parcel::Closed { view, how }) => {
                let how = match how {
                    Closed::Left => CLOSED_LEFT,
                    Closed::Lost => CLOSED_LOST,
                };
                return assemble(CLOSED, &[&view.to_le_bytes(), &[how]]);
            }
            Frame::Heartbeat => HEARTBEAT,
            Frame::Goodbye => GOODBYE,
            Frame::Lost(node) => return about(LOST, *node),
            Frame::Revoked(node) => return about(REVOKED, *node),
            Frame::Left(node) => return about(LEFT, *node),
            Frame::WasIn(node) => return about(WAS_IN, *node),
            Frame::Leaving => LEAVING,
            Frame::Join {
                node,
                key,
                members,
                view,
            } => {
                let (node, key, view) = (node.0.to_le_bytes(), key.to_le_bytes(), view.to_le_bytes());
                return assemble(JOIN, &[&node, &key, &view, &encode_nodes(members)]);
            }
            Frame::View { view, members } => {
                return assemble(VIEW, &[&view.to_le_bytes(), &encode_nodes(members)]);
            }
        };
        assemble(kind, &[])
    }
}

/// Assembles a frame that says one thing about one node.
fn about(kind: u8, node: NodeId) -> Vec<u8> {
    assemble(kind, &[&node.0.to_le_bytes()])
}

fn encode_nodes(nodes: &[NodeId]) -> Vec<u8> {
    nodes.iter().flat_map(|node| node.0.to_le_bytes()).collect()
}

fn decode_nodes(bytes: &[u8]) -> Option<Vec<NodeId>> {
    let (nodes, []) = bytes.as_chunks::<2>() else {
        return None;
    };
    Some(nodes.iter().map(|&id| NodeId(u16::from_le_bytes(id))).collect())
}

fn assemble(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    debug_assert!(len <= BODY_BYTES_MAX, "the sender checked its payload");
    let mut frame = Vec::with_capacity(HEADER_BYTES + len);
    frame.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
    frame.push(kind);
    for part in parts {
        frame.extend_from_slice(part);
    }
    frame
}

/// Takes the first frame off `bytes`.
pub(super) fn decode(bytes: &[u8]) -> Decoded<'_> {
    let Some((len, rest)) = bytes.split_first_chunk::<4>() else {
        return Decoded::Incomplete;
    };
    let len = u32::from_le_bytes(*len) as usize;
    if len > BODY_BYTES_MAX {
        return Decoded::Malformed("a frame is longer than any may be");
    }
    let Some((&kind, rest)) = rest.split_first() else {
        return Decoded::Incomplete;
    };
    let body = rest.get(..len);
    let frame = match (kind, body) {
        (MESSAGE | GATHER | LOST | REVOKED | LEFT | JOIN | WAS_IN | CLOSED | VIEW, None) => {
            return Decoded::Incomplete;
        }
        (MESSAGE, Some(body)) => match body.split_first_chunk() {
            Some((view, payload)) => Frame::Parcel(Parcel::Message {
                view: u32::from_le_bytes(*view),
                payload,
            }),
            None => return Decoded::Malformed("a message is cut short"),
        },
        (GATHER, Some(body)) => match decode_gather(body) {
            Some(parcel) => Frame::Parcel(parcel),
            None => return Decoded::Malformed("a contribution is cut short or its label is not text"),
        },
        (CLOSED, Some(body)) => match decode_closed(body) {
            Some(parcel) => Frame::Parcel(parcel),
            None => return Decoded::Malformed("the end of a view is cut short or of no known kind"),
        },
        (LOST | REVOKED | LEFT | WAS_IN, Some(body)) => {
            let Ok(node) = <[u8; 2]>::try_from(body) else {
                return Decoded::Malformed("a node id does not have two bytes");
            };
            let node = NodeId(u16::from_le_bytes(node));
            match kind {
                LOST => Frame::Lost(node),
                LEFT => Frame::Left(node),
                WAS_IN => Frame::WasIn(node),
                _ => Frame::Revoked(node),
            }
        }
        (JOIN, Some(body)) => match decode_join(body) {
            Some(frame) => frame,
            None => return Decoded::Malformed("the word of a node that joins is cut short"),
        },
        (VIEW, Some(body)) => match decode_view(body) {
            Some(frame) => frame,
            None => return Decoded::Malformed("the members of a view are cut short"),
        },
        (LEAVING, _) if len == 0 => Frame::Leaving,
        (HEARTBEAT, _) if len == 0 => Frame::Heartbeat,
        (GOODBYE, _) if len == 0 => Frame::Goodbye,
        _ => return Decoded::Malformed("a frame is of no known kind"),
    };
    Decoded::Frame(frame, HEADER_BYTES + len)
}

fn decode_gather(body: &[u8]) -> Option<Parcel<'_>> {
    let (view, body) = body.split_first_chunk::<4>()?;
    let (round, body) = body.split_first_chunk::<8>()?;
    let (label_len, body) = body.split_first_chunk::<4>()?;
    let (label, bytes) = body.split_at_checked(u32::from_le_bytes(*label_len) as usize)?;
    Some(Parcel::Gather {
        view: u32::from_le_bytes(*view),
        label: std::str::from_utf8(label).ok()?,
        round: u64::from_le_bytes(*round),
        bytes,
    })
}

fn decode_closed(body: &[u8]) -> Option<Parcel<'_>> {
    let (view, how) = body.split_first_chunk()?;
    let how = match how {
        [CLOSED_LEFT] => Closed::Left,
        [CLOSED_LOST] => Closed::Lost,
        _ => return None,
    };
    Some(Parcel::Closed {
        view: u32::from_le_bytes(*view),
        how,
    })
}

fn decode_join(body: &[u8]) -> Option<Frame<'_>> {
    let (node, body) = body.split_first_chunk::<2>()?;
    let (key, body) = body.split_first_chunk::<8>()?;
    let (view, body) = body.split_first_chunk::<4>()?;
    Some(Frame::Join {
        node: NodeId(u16::from_le_bytes(*node)),
        key: u64::from_le_bytes(*key),
        members: decode_nodes(body)?,
        view: u32::from_le_bytes(*view),
    })
}

fn decode_view(body: &[u8]) -> Option<Frame<'_>> {
    let (view, body) = body.split_first_chunk::<4>()?;
    Some(Frame::View {
        view: u32::from_le_bytes(*view),
        members: decode_nodes(body)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(bytes: &[u8]) -> String {
        match decode(bytes) {
            Decoded::Incomplete => "incomplete".to_owned(),
            Decoded::Malformed(why) => why.to_owned(),
            Decoded::Frame(Frame::Parcel(Parcel::Message { view, payload }), taken) => {
                format!("{payload:?} in {view} of {taken}")
            }
            Decoded::Frame(
                Frame::Parcel(Parcel::Gather {
                    view,
                    label,
                    round,
                    bytes,
                }),
                taken,
            ) => format!("{label} {round} {bytes:?} in {view} of {taken}"),
            Decoded::Frame(Frame::Parcel(Parcel::Closed { view, how }), taken) => {
                format!("view {view} closed, {how:?}, of {taken}")
            }
            Decoded::Frame(Frame::Heartbeat, taken) => format!("heartbeat of {taken}"),
            Decoded::Frame(Frame::Goodbye, taken) => format!("goodbye of {taken}"),
            Decoded::Frame(Frame::Lost(node), taken) => format!("{node} lost, of {taken}"),
            Decoded::Frame(Frame::Revoked(node), taken) => format!("{node} revoked, of {taken}"),
            Decoded::Frame(Frame::Left(node), taken) => format!("{node} left, of {taken}"),
            Decoded::Frame(Frame::WasIn(node), taken) => format!("{node} was in, of {taken}"),
            Decoded::Frame(Frame::Leaving, taken) => format!("leaving of {taken}"),
            Decoded::Frame(
                Frame::Join {
                    node,
                    key,
                    members,
                    view,
                },
                taken,
            ) => {
                let members = NodeId::list(members);
                format!("{node} joins {members} with {key} in view {view}, of {taken}")
            }
            Decoded::Frame(Frame::View { view, members }, taken) => {
                format!("view {view} of {members:?}, of {taken}")
            }
        }
    }

    #[test]
    fn malformed_frames_are_told_from_incomplete_ones() {
        assert_eq!(shown(&[]), "incomplete");
        assert_eq!(shown(&[1, 0, 0, 0]), "incomplete");
        assert_eq!(shown(&[1, 0, 0, 0, MESSAGE]), "incomplete");
        assert_eq!(
            shown(&[5, 0, 0, 0, MESSAGE, 2, 1, 0, 0, 9, 9]),
            "[9] in 258 of 10"
        );
        assert_eq!(shown(&[3, 0, 0, 0, MESSAGE, 2, 1, 0]), "a message is cut short");
        assert_eq!(shown(&[0, 0, 0, 0, HEARTBEAT]), "heartbeat of 5");
        assert_eq!(shown(&[0, 0, 0, 0, GOODBYE]), "goodbye of 5");
        assert_eq!(shown(&[2, 0, 0, 0, LOST, 3, 1]), "node 259 lost, of 7");
        assert_eq!(shown(&[2, 0, 0, 0, REVOKED, 3, 0]), "node 3 revoked, of 7");
        assert_eq!(shown(&[2, 0, 0, 0, LEFT, 3, 0]), "node 3 left, of 7");
        let was_in = Frame::WasIn(NodeId(3)).encode();
        assert_eq!(was_in, [2, 0, 0, 0, WAS_IN, 3, 0]);
        assert_eq!(shown(&was_in), "node 3 was in, of 7");
        for how in [Closed::Left, Closed::Lost] {
            let closed = Frame::Parcel(Parcel::Closed { view: 258, how }).encode();
            assert_eq!(shown(&closed), format!("view 258 closed, {how:?}, of 10"));
            assert_eq!(shown(&closed[..9]), "incomplete");
        }
        for wrong in [
            &[4, 0, 0, 0, CLOSED, 2, 1, 0, 0][..],
            &[5, 0, 0, 0, CLOSED, 2, 1, 0, 0, 9],
        ] {
            assert_eq!(shown(wrong), "the end of a view is cut short or of no known kind");
        }
        let join = Frame::Join {
            node: NodeId(4),
            key: 77,
            members: vec![NodeId(0), NodeId(300)],
            view: 258,
        };
        let join = join.encode();
        assert_eq!(
            shown(&join),
            "node 4 joins nodes 0, 300 with 77 in view 258, of 23"
        );
        assert_eq!(shown(&join[..22]), "incomplete");
        let odd = [&[15, 0, 0, 0, JOIN][..], &join[5..20]].concat();
        assert_eq!(shown(&odd), "the word of a node that joins is cut short");
        assert_eq!(shown(&Frame::Leaving.encode()), "leaving of 5");
        let view = |members| Frame::View { view: 258, members }.encode();
        assert_eq!(shown(&view(Vec::new())), "view 258 of [], of 9");
        let view = view(vec![NodeId(300)]);
        assert_eq!(shown(&view), "view 258 of [NodeId(300)], of 11");
        assert_eq!(shown(&view[..10]), "incomplete");
        let odd = [&[5, 0, 0, 0, VIEW][..], &view[5..10]].concat();
        assert_eq!(shown(&odd), "the members of a view are cut short");
        assert_eq!(shown(&[2, 0, 0, 0, LOST, 3]), "incomplete");
        assert_eq!(shown(&[1, 0, 0, 0, LOST, 3]), "a node id does not have two bytes");
        assert_eq!(shown(&[0, 0, 0, 0, 77]), "a frame is of no known kind");
        assert_eq!(shown(&[1, 0, 0, 0, GOODBYE, 0]), "a frame is of no known kind");
        assert_eq!(
            shown(&[255, 255, 255, 255, MESSAGE]),
            "a frame is longer than any may be"
        );
        assert_eq!(
            shown(&[1, 0, 0, 0, GATHER, 0]),
            "a contribution is cut short or its label is not text"
        );
    }

    proptest! {
        #[test]
        fn contributions_read_back(view: u32, label in ".{0,20}", round: u64, bytes: Vec<u8>, after: Vec<u8>) {
            let frame = Frame::Parcel(Parcel::Gather { view, label: &label, round, bytes: &bytes }).encode();
            let mut stream = frame.clone();
            stream.extend_from_slice(&after);
            prop_assert_eq!(shown(&stream), format!("{label} {round} {bytes:?} in {view} of {}", frame.len()));
            prop_assert_eq!(shown(&stream[..frame.len() - 1]), "incomplete");
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(bytes: Vec<u8>) {
            shown(&bytes);
        }
    }
}
