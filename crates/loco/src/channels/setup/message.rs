//! Set-up messages and the comparison of two endpoints' declarations.

use loco_fabric::{NodeId, RegionKey};
use serde::{Deserialize, Serialize};

use crate::Error;

/// A message on the control plane.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// An endpoint was made.
    Join(Greeting),
    /// The answer to a join by an endpoint that fits.
    Connect(Greeting),
    /// The answer to a connect: the sender has connected too.
    Ack { channel: String, incarnation: u64 },
    /// The answer by an endpoint that does not fit.
    Mismatch {
        channel: String,
        /// The endpoint that is answered.
        incarnation: u64,
        difference: Difference,
    },
    /// The answer by an endpoint that cannot connect.
    Refused {
        channel: String,
        /// The endpoint that is answered.
        incarnation: u64,
        reason: String,
    },
    /// An endpoint goes away. None of its operations is outstanding.
    Leave { channel: String, incarnation: u64 },
    /// The sender will not access memory of that endpoint any more.
    LeaveAck { channel: String, incarnation: u64 },
}

/// The introduction of one endpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Greeting {
    pub(crate) channel: String,
    /// The number that names the endpoint among all that this node ever made.
    pub(crate) incarnation: u64,
    /// In a connect, the endpoint whose join this answers. That endpoint may have been replaced in the
    /// meantime, and its replacement must not take this answer for its own.
    pub(crate) answers: Option<u64>,
    pub(crate) spec: Spec,
    /// Keys of the regions offered, in the order of `spec.offers`.
    pub(crate) keys: Vec<RegionKey>,
}

/// The declarations of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// The type with its parameters: `sst<u64>`.
    pub(crate) kind: String,
    /// The participants in ascending order.
    pub(crate) participants: Vec<NodeId>,
    pub(crate) offers: Vec<SpecRegion>,
    pub(crate) expects: Vec<(NodeId, SpecRegion)>,
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
    /// Returns the first thing in which `theirs` does not fit `ours`.
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
                ours: participants(&ours.participants),
                theirs: participants(&theirs.participants),
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
    expects: &[(NodeId, SpecRegion)],
    of: NodeId,
    offers: &[SpecRegion],
) -> Option<(String, u64, String)> {
    expects
        .iter()
        .filter(|(node, _)| *node == of)
        .find_map(
            |(_, wanted)| match offers.iter().find(|o| o.name == wanted.name) {
                Some(offer) if offer.len == wanted.len => None,
                Some(offer) => Some((wanted.name.clone(), wanted.len, format!("{} bytes", offer.len))),
                None => Some((wanted.name.clone(), wanted.len, "no such region".to_owned())),
            },
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(kind: &str, participants: &[u16], offer: u64, expect: u64) -> Spec {
        let region = |len| SpecRegion {
            name: "data".to_owned(),
            len,
        };
        Spec {
            kind: kind.to_owned(),
            participants: participants.iter().map(|&n| NodeId(n)).collect(),
            offers: vec![region(offer)],
            expects: participants
                .iter()
                .map(|&n| (NodeId(n), region(expect)))
                .collect(),
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
}
