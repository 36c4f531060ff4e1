//! The set-up service: answers joins and connects, runs callbacks, keeps the quarantine.

use std::sync::{Arc, Weak};

use loco_fabric::{Control, Fabric, FabricError, Lock, NodeId, PeerState, RegionKey};

use super::message::{Difference, Greeting, Message, Spec};
use super::registry::{Buried, Registry};
use crate::channel::ChannelRef;
use crate::manager::Inner;
use crate::node::Node;
use crate::region::Region;
use crate::{Error, Manager, Result};

/// Body of the service thread.
pub(crate) fn serve<F: Fabric>(node: &Arc<Node<F>>, manager: &Weak<Inner<F>>) {
    loop {
        match node.fabric().control().receive(None) {
            Ok(Some((from, payload))) => match postcard::from_bytes::<Message>(&payload) {
                Ok(message) => handle(node, manager, from, message),
                Err(error) => tracing::warn!(%from, %error, "unreadable set-up message dropped"),
            },
            Ok(None) => {}
            Err(error) => {
                tracing::error!(%error, "the control plane is broken: set-up ends");
                return;
            }
        }
        if node.stopped() {
            return;
        }
    }
}

/// Sends a new endpoint's join to the other participants.
pub(crate) fn announce<F: Fabric>(node: &Node<F>, channel: &str) {
    let registry = node.registry().lock();
    let Some(endpoint) = registry.endpoints.get(channel) else {
        return;
    };
    let peers: Vec<NodeId> = endpoint.links.keys().copied().collect();
    let join = Message::Join(endpoint.greeting(channel, None));
    drop(registry);
    for peer in peers {
        send(node, peer, &join);
    }
    node.changed();
}

/// Takes an endpoint out of service and puts its memory into quarantine. `drained`: none of this node's operations
/// is outstanding.
pub(crate) fn bury<F: Fabric>(node: &Node<F>, channel: &str, drained: bool) {
    let mut registry = node.registry().lock();
    let Some(endpoint) = registry.endpoints.remove(channel) else {
        return;
    };
    let peers: Vec<NodeId> = endpoint.links.keys().copied().collect();
    registry.buried.push(Buried {
        channel: channel.to_owned(),
        incarnation: endpoint.incarnation,
        _regions: endpoint.regions.clone(),
        waiting: peers.clone(),
    });
    let free = registry.sweep(node.fabric().control());
    drop(registry);
    drop(free);
    for peer in peers {
        let link = &endpoint.links[&peer];
        if !drained {
            // Peers keep their memory: something of ours may still land there.
            tracing::warn!(channel, %peer, "operations did not drain: memory stays in quarantine");
        } else if let (true, Some(incarnation)) = (link.left, link.connected) {
            let channel = channel.to_owned();
            send(node, peer, &Message::LeaveAck { channel, incarnation });
        }
        let leave = Message::Leave {
            channel: channel.to_owned(),
            incarnation: endpoint.incarnation,
        };
        send(node, peer, &leave);
    }
    // Callbacks may own sub-channels, whose end takes the lock again.
    drop(endpoint);
    node.changed();
}

fn handle<F: Fabric>(node: &Arc<Node<F>>, manager: &Weak<Inner<F>>, from: NodeId, message: Message) {
    match message {
        Message::Join(greeting) => {
            if let Some(answer) = meet(node, manager, from, &greeting) {
                send(node, from, &answer);
            }
        }
        Message::Connect(greeting) => match meet(node, manager, from, &greeting) {
            None => {}
            Some(Message::Connect(_)) => {
                if let Some(incarnation) = greeting.answers {
                    let mut registry = node.registry().lock();
                    registry.acknowledged(&greeting.channel, incarnation, from);
                }
                let ack = Message::Ack {
                    channel: greeting.channel,
                    incarnation: greeting.incarnation,
                };
                send(node, from, &ack);
            }
            Some(problem) => send(node, from, &problem),
        },
        Message::Ack { channel, incarnation } => {
            node.registry().lock().acknowledged(&channel, incarnation, from);
        }
        Message::Mismatch {
            channel,
            incarnation,
            difference,
        } => {
            let error = difference.reversed().error(&channel, node.fabric().node(), from);
            fail(node, &channel, incarnation, error);
        }
        Message::Refused {
            channel,
            incarnation,
            reason,
        } => {
            let error = Error::Refused {
                channel: channel.clone(),
                peer: from,
                reason,
            };
            fail(node, &channel, incarnation, error);
        }
        Message::Leave { channel, incarnation } => leave(node, from, channel, incarnation),
        Message::LeaveAck { channel, incarnation } => {
            let mut registry = node.registry().lock();
            for buried in &mut registry.buried {
                if buried.channel == channel && buried.incarnation == incarnation {
                    buried.waiting.retain(|&peer| peer != from);
                }
            }
        }
    }
    let free = node.registry().lock().sweep(node.fabric().control());
    drop(free);
    node.changed();
}

/// A counterpart of one of our endpoints introduces itself; returns what to answer to its join.
fn meet<F: Fabric>(
    node: &Arc<Node<F>>,
    manager: &Weak<Inner<F>>,
    from: NodeId,
    theirs: &Greeting,
) -> Option<Message> {
    let channel = &theirs.channel;
    let here = node.fabric().node();
    let Visit {
        incarnation,
        answer,
        regions,
        spec,
        first,
    } = {
        let mut registry = node.registry().lock();
        match visit(&mut registry, here, from, theirs) {
            Visited::Unknown => {
                tracing::debug!(%channel, %from, "join ignored: no such channel here (yet)");
                return None;
            }
            Visited::Differs(ours, difference) => {
                drop(registry);
                fail(node, channel, ours, difference.clone().error(channel, here, from));
                return Some(Message::Mismatch {
                    channel: channel.clone(),
                    incarnation: theirs.incarnation,
                    difference,
                });
            }
            Visited::Known(answer) => return Some(answer),
            Visited::New(visit) => visit,
        }
    };
    // The lock is not held here: callbacks make channels of their own.
    let connected = (|| {
        let inner = manager.upgrade().ok_or(Error::Closed)?;
        let manager = Manager::from_inner(inner);
        let reference = ChannelRef::new(&manager, channel, &spec.participants);
        let result = (|| {
            if first {
                callback(
                    node,
                    channel,
                    incarnation,
                    |e| e.on_join.clone(),
                    &reference,
                    from,
                )?;
            }
            import(node, from, theirs, &regions)?;
            callback(
                node,
                channel,
                incarnation,
                |e| e.on_connect.clone(),
                &reference,
                from,
            )
        })();
        manager.drop_on_service();
        result
    })();
    match connected {
        Ok(()) => {
            let mut registry = node.registry().lock();
            let link = registry
                .endpoints
                .get_mut(channel)
                .filter(|endpoint| endpoint.incarnation == incarnation)
                .and_then(|endpoint| endpoint.links.get_mut(&from))?;
            link.connected = Some(theirs.incarnation);
            Some(answer)
        }
        Err(error) => {
            tracing::warn!(%channel, %from, %error, "connecting failed");
            let reason = error.to_string();
            fail(node, channel, incarnation, error);
            Some(Message::Refused {
                channel: channel.clone(),
                incarnation: theirs.incarnation,
                reason,
            })
        }
    }
}

enum Visited<F: Fabric> {
    /// No endpoint here, or not one for this counterpart.
    Unknown,
    /// An endpoint, of this incarnation, that does not fit.
    Differs(u64, Difference),
    /// Connected already.
    Known(Message),
    /// To be connected.
    New(Visit<F>),
}

struct Visit<F: Fabric> {
    incarnation: u64,
    answer: Message,
    regions: Vec<Region<F>>,
    spec: Spec,
    /// The callback on joining has not run for this peer.
    first: bool,
}

fn visit<F: Fabric>(registry: &mut Registry<F>, here: NodeId, from: NodeId, theirs: &Greeting) -> Visited<F> {
    let Some(endpoint) = registry.endpoints.get_mut(&theirs.channel) else {
        return Visited::Unknown;
    };
    if theirs.answers.is_some_and(|asked| asked != endpoint.incarnation) {
        return Visited::Unknown;
    }
    if let Some(difference) = Difference::between(here, &endpoint.spec, from, &theirs.spec) {
        return Visited::Differs(endpoint.incarnation, difference);
    }
    let answer = Message::Connect(endpoint.greeting(&theirs.channel, Some(theirs.incarnation)));
    // Equal participant lists and a join from there: the link exists.
    let Some(link) = endpoint.links.get_mut(&from) else {
        return Visited::Unknown;
    };
    match link.connected {
        Some(incarnation) if incarnation == theirs.incarnation => Visited::Known(answer),
        // The counterpart was replaced: that one waits for our replacement.
        Some(_) => Visited::Unknown,
        None if theirs.incarnation <= link.gone => Visited::Unknown,
        None => Visited::New(Visit {
            incarnation: endpoint.incarnation,
            answer,
            regions: endpoint.regions.clone(),
            spec: endpoint.spec.clone(),
            first: !std::mem::replace(&mut link.joined, true),
        }),
    }
}

fn callback<F: Fabric>(
    node: &Node<F>,
    channel: &str,
    incarnation: u64,
    which: impl FnOnce(&super::Endpoint<F>) -> Option<super::OnPeer<F>>,
    reference: &ChannelRef<'_, F>,
    peer: NodeId,
) -> Result<()> {
    let callback = {
        let registry = node.registry().lock();
        registry
            .endpoints
            .get(channel)
            .filter(|endpoint| endpoint.incarnation == incarnation)
            .and_then(which)
    };
    callback.map_or(Ok(()), |callback| callback(reference, peer))
}

/// Makes the regions that `from` offers accessible.
fn import<F: Fabric>(node: &Node<F>, from: NodeId, theirs: &Greeting, regions: &[Region<F>]) -> Result<()> {
    for region in regions {
        let offered: Option<&RegionKey> = theirs
            .spec
            .offers
            .iter()
            .zip(&theirs.keys)
            .find(|(offer, _)| offer.name == region.short_name())
            .map(|(_, key)| key);
        if let Some(key) = offered {
            let remote = node.fabric().import(from, key)?;
            region.connect(node.position(from)?, remote);
        }
    }
    Ok(())
}

fn leave<F: Fabric>(node: &Node<F>, from: NodeId, channel: String, incarnation: u64) {
    let mut registry = node.registry().lock();
    if let Some(link) = registry
        .endpoints
        .get_mut(&channel)
        .and_then(|endpoint| endpoint.links.get_mut(&from))
    {
        link.gone = link.gone.max(incarnation);
        if link.connected == Some(incarnation) {
            // Acknowledged when our endpoint goes.
            link.left = true;
            return;
        }
    }
    drop(registry);
    send(node, from, &Message::LeaveAck { channel, incarnation });
}

fn fail<F: Fabric>(node: &Node<F>, channel: &str, incarnation: u64, error: Error) {
    let mut registry = node.registry().lock();
    if let Some(endpoint) = registry.endpoints.get_mut(channel)
        && endpoint.incarnation == incarnation
        && endpoint.error.is_none()
    {
        endpoint.error = Some(error);
    }
    drop(registry);
    node.changed();
}

/// Sends; a peer that is gone will be found so by whoever waits for it.
fn send<F: Fabric>(node: &Node<F>, to: NodeId, message: &Message) {
    let control = node.fabric().control();
    if control.peer_state(to) != PeerState::Alive {
        return;
    }
    // Encoding into a growing buffer fails for no value of these types.
    let sent = postcard::to_stdvec(message)
        .map_err(|error| FabricError::Config(error.to_string()))
        .and_then(|payload| control.send(to, &payload));
    if let Err(error) = sent {
        tracing::debug!(%to, %error, "set-up message not sent");
    }
}
