//! Set-up messages and the comparison of two endpoints' declarations.
//!
//! Messages to one peer travel together: a frame is a sequence of messages without anything between them. A frame has
//! data that are the same for all participants only once, so that the length of a message does not depend on their
//! number.

use std::borrow::Cow;

use loco_fabric::{NodeId, RegionKey};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::channels::participants::Participants;

/// A message on the control plane.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Message<'a> {
    /// An endpoint was made.
    #[serde(borrow)]
    Join(Hello<'a>),
    /// The answer to a join by an endpoint that fits.
    #[serde(borrow)]
    Connect(Hello<'a>),
    /// The answer to a connect: the sender has connected too.
    Ack {
        #[serde(borrow)]
        channel: Cow<'a, str>,
        incarnation: u64,
    },
    /// The answer by an endpoint that does not fit.
    Mismatch {
        #[serde(borrow)]
        channel: Cow<'a, str>,
        /// The endpoint that is answered.
        incarnation: u64,
        difference: Difference,
    },
    /// The answer by an endpoint that cannot connect.
    Refused {
        #[serde(borrow)]
        channel: Cow<'a, str>,
        /// The endpoint that is answered.
        incarnation: u64,
        reason: String,
    },
    /// An endpoint goes away. None of its operations is outstanding.
    Leave {
        #[serde(borrow)]
        channel: Cow<'a, str>,
        incarnation: u64,
    },
    /// The sender will not access memory of that endpoint any more.
    LeaveAck {
        #[serde(borrow)]
        channel: Cow<'a, str>,
        incarnation: u64,
    },
}

/// The introduction of one endpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hello<'a> {
    #[serde(borrow)]
    pub(crate) channel: Cow<'a, str>,
    /// The number that names the endpoint among all that this node ever made.
    pub(crate) incarnation: u64,
    /// In a connect, the endpoint whose join this answers. That endpoint may have been replaced in the
    /// meantime, and its replacement must not take this answer for its own.
    pub(crate) answers: Option<u64>,
    pub(crate) spec: Cow<'a, Spec>,
    /// Keys of the regions offered, in the order of `spec.offers`.
    pub(crate) keys: Cow<'a, [RegionKey]>,
}

/// The declarations of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// The type with its parameters: `sst<u64>`.
    pub(crate) kind: String,
    #[serde(with = "runs")]
    pub(crate) participants: Participants,
    pub(crate) offers: Vec<SpecRegion>,
    pub(crate) expects: Vec<(Expected, SpecRegion)>,
}

/// The nodes that a region is expected of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Expected {
    /// Every other participant.
    Everybody,
    /// These nodes.
    Of(Vec<NodeId>),
}

impl Expected {
    /// Returns the nodes of both.
    pub(crate) fn both(one: Option<Expected>, other: Option<Expected>) -> Option<Expected> {
        match (one, other) {
            (Some(Expected::Of(mut nodes)), Some(Expected::Of(more))) => {
                nodes.extend(more);
                Some(Expected::Of(nodes))
            }
            (Some(_), Some(_)) => Some(Expected::Everybody),
            (one, other) => one.or(other),
        }
    }

    fn is_of(&self, node: NodeId) -> bool {
        match self {
            Expected::Everybody => true,
            Expected::Of(nodes) => nodes.contains(&node),
        }
    }
}

/// A region by name and length in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpecRegion {
    pub(crate) name: String,
    pub(crate) len: u64,
}

/// A difference between two endpoints, seen from `here`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Difference {
    what: String,
    ours: String,
    theirs: String,
}

impl Difference {
    /// Returns the first difference between `ours` and `theirs`.
    pub(crate) fn between(here: NodeId, ours: &Spec, peer: NodeId, theirs: &Spec) -> Option<Difference> {
        if ours.kind != theirs.kind {
            return Some(Difference {
                what: "type".to_owned(),
                ours: format!("`{}`", ours.kind),
                theirs: format!("`{}`", theirs.kind),
            });
        }
        if ours.participants != theirs.participants {
            return Some(Difference {
                what: "participants".to_owned(),
                ours: participants(ours.participants.nodes()),
                theirs: participants(theirs.participants.nodes()),
            });
        }
        unmet(&ours.expects, peer, &theirs.offers)
            .map(|(name, wanted, offered)| Difference {
                what: format!("region `{name}` of {peer}"),
                ours: format!("expected {wanted} bytes"),
                theirs: offered,
            })
            .or_else(|| {
                unmet(&theirs.expects, here, &ours.offers).map(|(name, wanted, offered)| Difference {
                    what: format!("region `{name}` of {here}"),
                    ours: offered,
                    theirs: format!("expected {wanted} bytes"),
                })
            })
    }

    /// Returns the difference, seen from the other side.
    pub(crate) fn reversed(self) -> Difference {
        Difference {
            what: self.what,
            ours: self.theirs,
            theirs: self.ours,
        }
    }

    pub(crate) fn error(self, channel: &str, here: NodeId, peer: NodeId) -> Error {
        Error::Mismatch {
            channel: channel.to_owned(),
            what: self.what,
            here,
            ours: self.ours,
            peer,
            theirs: self.theirs,
        }
    }
}

fn participants(nodes: &[NodeId]) -> String {
    let ids: Vec<String> = nodes.iter().map(|n| n.0.to_string()).collect();
    format!("{} (nodes {})", nodes.len(), ids.join(", "))
}

/// Returns the first region expected of `of` that `offers` does not have in that length.
fn unmet(
    expects: &[(Expected, SpecRegion)],
    of: NodeId,
    offers: &[SpecRegion],
) -> Option<(String, u64, String)> {
    expects
        .iter()
        .filter(|(expected, _)| expected.is_of(of))
        .find_map(
            |(_, wanted)| match offers.iter().find(|o| o.name == wanted.name) {
                Some(offer) if offer.len == wanted.len => None,
                Some(offer) => Some((wanted.name.clone(), wanted.len, format!("{} bytes", offer.len))),
                None => Some((wanted.name.clone(), wanted.len, "no such region".to_owned())),
            },
        )
}

/// The encoding of participants in messages: runs of adjacent ids, each as its first id and its length.
mod runs {
    use loco_fabric::NodeId;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::Participants;

    pub(super) fn serialize<S: Serializer>(participants: &Participants, to: S) -> Result<S::Ok, S::Error> {
        let mut runs: Vec<(u16, u32)> = Vec::new();
        for node in participants {
            match runs.last_mut() {
                Some((first, len)) if u32::from(*first) + *len == u32::from(node.0) => *len += 1,
                _ => runs.push((node.0, 1)),
            }
        }
        runs.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Participants, D::Error> {
        let runs = Vec::<(u16, u32)>::deserialize(from)?;
        let mut nodes = Vec::new();
        for (first, len) in runs {
            // Runs do not overlap, so this bounds what a frame can make this node allocate, too.
            let left = u32::from(u16::MAX - first);
            if len == 0 || len - 1 > left || nodes.last().is_some_and(|&NodeId(last)| last >= first) {
                return Err(D::Error::custom("participants that are no set of ids"));
            }
            let last = u32::from(first) + (len - 1);
            nodes.extend((first..=u16::try_from(last).unwrap_or(u16::MAX)).map(NodeId));
        }
        Ok(Participants::of(nodes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spec(kind: &str, participants: &[u16], offer: u64, expect: u64) -> Spec {
        let region = |len| SpecRegion {
            name: "data".to_owned(),
            len,
        };
        Spec {
            kind: kind.to_owned(),
            participants: Participants::of(participants.iter().map(|&n| NodeId(n))),
            offers: vec![region(offer)],
            expects: vec![(Expected::Everybody, region(expect))],
        }
    }

    fn difference(a: &Spec, b: &Spec) -> Option<String> {
        Difference::between(NodeId(0), a, NodeId(1), b).map(|d| d.what)
    }

    #[test]
    fn equal_declarations_fit() {
        let a = spec("sv", &[0, 1], 8, 8);
        assert_eq!(difference(&a, &a.clone()), None);
    }

    #[test]
    fn each_difference_is_named() {
        let a = spec("sv", &[0, 1], 8, 8);
        assert_eq!(difference(&a, &spec("sst", &[0, 1], 8, 8)).unwrap(), "type");
        assert_eq!(
            difference(&a, &spec("sv", &[0, 1, 2], 8, 8)).unwrap(),
            "participants"
        );
        let offers_less = spec("sv", &[0, 1], 4, 8);
        assert_eq!(difference(&a, &offers_less).unwrap(), "region `data` of node 1");
        let expects_less = spec("sv", &[0, 1], 8, 4);
        assert_eq!(difference(&a, &expects_less).unwrap(), "region `data` of node 0");
    }

    #[test]
    fn a_region_may_be_expected_of_some_only() {
        let a = spec("sv", &[0, 1, 2], 8, 8);
        let mut b = spec("sv", &[0, 1, 2], 4, 8);
        b.expects.clear();
        let mut of_two = a.clone();
        of_two.expects[0].0 = Expected::Of(vec![NodeId(2)]);
        assert_eq!(difference(&a, &b).unwrap(), "region `data` of node 1");
        assert_eq!(difference(&of_two, &b), None);
    }

    fn frame_of(spec: &Spec) -> Vec<u8> {
        let hello = Hello {
            channel: "bar".into(),
            incarnation: 7,
            answers: None,
            spec: Cow::Borrowed(spec),
            keys: Cow::Owned(Vec::new()),
        };
        postcard::to_stdvec(&Message::Join(hello)).unwrap()
    }

    #[test]
    fn a_message_does_not_grow_with_the_participants() {
        let of = |n: u16| frame_of(&spec("sv", &(0..n).collect::<Vec<_>>(), 8, 8)).len();
        // Numbers up to 127 take a byte.
        assert_eq!(of(2), of(100));
        assert!(of(10_000) <= of(2) + 2);
    }

    proptest! {
        #[test]
        fn participants_read_back(nodes in proptest::collection::btree_set(prop_oneof![0u16..300, 65_500u16..=65_535], 1..40)) {
            let nodes: Vec<u16> = nodes.into_iter().collect();
            let sent = spec("sv", &nodes, 8, 8);
            let frame = frame_of(&sent);
            let (message, rest) = postcard::take_from_bytes::<Message<'_>>(&frame).unwrap();
            prop_assert!(rest.is_empty());
            match message {
                Message::Join(hello) => prop_assert_eq!(&*hello.spec, &sent),
                other => prop_assert!(false, "{:?}", other),
            }
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(bytes: Vec<u8>) {
            let _ = postcard::take_from_bytes::<Message<'_>>(&bytes);
        }
    }
}
