//! Who waits for whom in a job, and which of these waits can never end.
//!
//! A wait can end if somebody can act who does not wait, or whose own wait can end. What is left is a deadlock. Nobody is taken
//! for stuck on suspicion: nodes of other hosts, threads that work and asynchronous calls may always act.

use loco::fabric::NodeId;
use loco_trace::waits::{Wait, Who};

use super::found::Node;

/// The nodes of a job that were found on this host.
pub struct Job {
    /// The nodes, in ascending order.
    pub nodes: Vec<Node>,
    /// The waits of their threads, without those of services.
    pub waits: Vec<Waiting>,
}

/// A wait of a thread.
pub struct Waiting {
    /// The position of the node.
    pub node: usize,
    /// The wait.
    pub wait: Wait,
    /// The kind of what it waits for.
    pub kind: Kind,
    /// Set if the thread has looked, in vain, between the first look of ours and the last.
    pub looks: bool,
    /// The threads that hold the lock for which it waits, each with the position of its node.
    pub holders: Vec<(usize, Who)>,
}

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// That an object is set up, on all nodes that it names.
    SetUp,
    /// A lock.
    Lock,
    /// A barrier: all nodes that it names.
    Barrier,
    /// Something else that one of the nodes that it names does.
    Other,
}

impl Kind {
    fn of(node: &Node, wait: &Wait) -> Kind {
        if wait.is_set_up {
            return Kind::SetUp;
        }
        let object = node.page.objects.iter().find(|object| object.name == wait.what);
        match object.map_or("", |object| object.kind.as_str()) {
            kind if kind.starts_with("ticket_lock") || kind.starts_with("tas_lock") => Kind::Lock,
            kind if kind.starts_with("barrier") => Kind::Barrier,
            _ => Kind::Other,
        }
    }
}

/// A circle of threads each of which waits for the next, by their positions among the waits.
pub type Circle = Vec<usize>;

impl Job {
    /// Returns the job of these nodes. `looked` says of a wait whether its thread has looked meanwhile.
    pub fn new(mut nodes: Vec<Node>, looked: impl Fn(&Node, &Wait) -> bool) -> Job {
        nodes.sort_by_key(|node| node.page.node);
        let mut waits = Vec::new();
        for (position, node) in nodes.iter().enumerate() {
            for wait in node.page.waits.iter().filter(|wait| !node.is_service(wait.who)) {
                let kind = Kind::of(node, wait);
                let holders = match kind {
                    Kind::Lock => holders(&nodes, &wait.what),
                    _ => Vec::new(),
                };
                waits.push(Waiting {
                    node: position,
                    looks: looked(node, wait),
                    wait: wait.clone(),
                    kind,
                    holders,
                });
            }
        }
        Job { nodes, waits }
    }

    /// Returns the circles of waits that can never end, each once.
    pub fn deadlocks(&self) -> Vec<Circle> {
        let stuck = self.stuck();
        let mut circles: Vec<Circle> = Vec::new();
        let mut seen = vec![false; self.waits.len()];
        for first in (0..self.waits.len()).filter(|&wait| stuck[wait]) {
            let mut path = Vec::new();
            let mut at = Some(first);
            while let Some(wait) = at.filter(|&wait| !seen[wait]) {
                seen[wait] = true;
                path.push(wait);
                at = self.next(wait, &stuck);
            }
            // The path has come back to itself, or to a circle that is known.
            let begin = at.and_then(|again| path.iter().position(|&wait| wait == again));
            circles.extend(begin.map(|begin| path.split_off(begin)));
        }
        circles
    }

    /// Returns for each wait whether it can never end.
    pub fn stuck(&self) -> Vec<bool> {
        let mut stuck: Vec<bool> = self
            .waits
            .iter()
            .map(|waiting| waiting.looks && !waiting.wait.who.of_task)
            .collect();
        loop {
            let ends = |&wait: &usize| stuck[wait] && !self.is_held_up(wait, &stuck);
            let ending: Vec<usize> = (0..self.waits.len()).filter(ends).collect();
            if ending.is_empty() {
                return stuck;
            }
            for wait in ending {
                stuck[wait] = false;
            }
        }
    }

    /// Returns whether a wait cannot end while the `stuck` ones do not.
    fn is_held_up(&self, wait: usize, stuck: &[bool]) -> bool {
        let waiting = &self.waits[wait];
        let nodes = &waiting.wait.nodes;
        let is_stuck = |&node: &NodeId| self.is_node_stuck(node, stuck);
        match waiting.kind {
            Kind::Lock => {
                let holds_up = |&(node, who): &(usize, Who)| self.wait_of(node, who, stuck).is_some();
                !waiting.holders.is_empty() && waiting.holders.iter().all(holds_up)
            }
            // One that cannot come is enough.
            Kind::SetUp | Kind::Barrier => nodes.iter().any(is_stuck),
            Kind::Other => !nodes.is_empty() && nodes.iter().all(is_stuck),
        }
    }

    /// Returns whether every access to the network of a node's threads is in a stuck wait.
    fn is_node_stuck(&self, node: NodeId, stuck: &[bool]) -> bool {
        let Some(position) = self.nodes.iter().position(|found| found.id() == node) else {
            return false;
        };
        let waits = (0..self.waits.len()).filter(|&wait| stuck[wait] && self.waits[wait].node == position);
        let waits = waits.count() as u64;
        // Without a wait, a node that has no access yet may still be at its beginning.
        waits > 0 && waits >= self.nodes[position].page.threads
    }

    /// Returns the stuck wait of a thread.
    fn wait_of(&self, node: usize, who: Who, stuck: &[bool]) -> Option<usize> {
        (0..self.waits.len()).find(|&wait| {
            let waiting = &self.waits[wait];
            stuck[wait] && waiting.node == node && waiting.wait.who == who && !who.of_task
        })
    }

    /// Returns a stuck wait that holds up this one.
    fn next(&self, wait: usize, stuck: &[bool]) -> Option<usize> {
        let waiting = &self.waits[wait];
        if waiting.kind == Kind::Lock {
            let mut holders = waiting.holders.iter();
            return holders.find_map(|&(node, who)| self.wait_of(node, who, stuck));
        }
        let held_up_by = waiting
            .wait
            .nodes
            .iter()
            .filter(|&&node| self.is_node_stuck(node, stuck));
        let mut waits = held_up_by.filter_map(|&node| {
            (0..self.waits.len())
                .find(|&other| stuck[other] && self.nodes[self.waits[other].node].id() == node)
        });
        waits.next()
    }
}

/// Returns the threads that hold the lock of this name.
fn holders(nodes: &[Node], lock: &str) -> Vec<(usize, Who)> {
    let mut found = Vec::new();
    for (position, node) in nodes.iter().enumerate() {
        let held = node.page.objects.iter().filter(|object| object.name == lock);
        found.extend(held.filter_map(|object| Some((position, object.holder?))));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use loco_trace::waits::{NodePage, Object};

    use super::*;

    const MAIN: Who = Who {
        thread: 1,
        of_task: false,
    };
    const SECOND: Who = Who {
        thread: 2,
        of_task: false,
    };

    fn node(
        id: u16,
        threads: u64,
        objects: &[(&str, &str, Option<Who>)],
        waits: &[(Who, &str, &[u16])],
    ) -> Node {
        let objects = objects.iter().map(|&(name, kind, holder)| Object {
            name: name.to_owned(),
            kind: kind.to_owned(),
            holder,
        });
        let waits = waits
            .iter()
            .enumerate()
            .map(|(number, &(who, what, nodes))| Wait {
                state: (number, 2),
                who,
                what: what.to_owned(),
                is_set_up: false,
                nodes: nodes.iter().copied().map(NodeId).collect(),
                since: 0,
                until: None,
                looks: 0,
            });
        Node {
            page: NodePage {
                job: "job".to_owned(),
                node: NodeId(id),
                nodes: 3,
                process: 1,
                threads,
                objects: objects.collect(),
                waits: waits.collect(),
                left_out: (0, 0),
            },
            process: 1,
            program: "program".to_owned(),
            threads: BTreeMap::new(),
        }
    }

    fn job(nodes: Vec<Node>) -> Job {
        Job::new(nodes, |_, _| true)
    }

    /// Returns the circles as the names of what is waited for, by node.
    fn circles(job: &Job) -> Vec<Vec<(u16, &str)>> {
        let one = |&wait: &usize| {
            let waiting = &job.waits[wait];
            (job.nodes[waiting.node].id().0, waiting.wait.what.as_str())
        };
        let circles = job.deadlocks();
        circles
            .iter()
            .map(|circle| circle.iter().map(one).collect())
            .collect()
    }

    const LOCK: &str = "ticket_lock on node 0, Poison";

    fn locks<'a>(a: Option<Who>, b: Option<Who>) -> [(&'a str, &'a str, Option<Who>); 2] {
        [("a", LOCK, a), ("b", "tas_lock on node 1, Poison", b)]
    }

    #[test]
    fn two_nodes_that_hold_what_the_other_wants_are_a_circle() {
        let crossed = job(vec![
            node(0, 1, &locks(Some(MAIN), None), &[(MAIN, "b", &[1])]),
            node(1, 1, &locks(None, Some(MAIN)), &[(MAIN, "a", &[0, 2])]),
            // It waits behind them, and is no part of it.
            node(2, 1, &locks(None, None), &[(MAIN, "a", &[0, 1])]),
        ]);
        assert_eq!(circles(&crossed), [[(0, "b"), (1, "a")]]);
        assert_eq!(crossed.stuck(), [true; 3]);
        let itself = job(vec![node(0, 1, &locks(Some(MAIN), None), &[(MAIN, "a", &[])])]);
        assert_eq!(circles(&itself), [[(0, "a")]]);
    }

    #[test]
    fn a_holder_that_may_act_holds_nobody_up_for_good() {
        let task = Who {
            of_task: true,
            ..MAIN
        };
        let wants_a = |held: Option<Who>, waits: &[(Who, &str, &[u16])]| {
            job(vec![
                node(0, 1, &locks(None, Some(MAIN)), &[(MAIN, "a", &[1])]),
                node(1, 2, &locks(held, None), waits),
            ])
        };
        for (held, waits) in [
            // It works; another thread of its node waits; nobody has the lock at this moment; a call of a task.
            (Some(MAIN), &[][..]),
            (Some(MAIN), &[(SECOND, "b", &[0][..])][..]),
            (None, &[(MAIN, "b", &[0][..])][..]),
            (Some(task), &[(task, "b", &[0][..])][..]),
        ] {
            let job = wants_a(held, waits);
            assert_eq!(job.deadlocks().len(), 0, "{waits:?}");
        }
        assert_eq!(wants_a(Some(MAIN), &[(MAIN, "b", &[0])]).deadlocks().len(), 1);
        // A thread that did not look meanwhile may have got what it waits for.
        let starved = Job::new(
            vec![
                node(0, 1, &locks(Some(MAIN), None), &[(MAIN, "b", &[1])]),
                node(1, 1, &locks(None, Some(MAIN)), &[(MAIN, "a", &[0])]),
            ],
            |node, _| node.id().0 == 0,
        );
        assert_eq!(starved.deadlocks().len(), 0);
    }

    #[test]
    fn a_barrier_is_stuck_if_one_of_the_missing_nodes_cannot_come() {
        let barriers = |x, y| [("x", x, None), ("y", y, Some(MAIN))];
        let of = |threads, other: &[(Who, &str, &[u16])]| {
            job(vec![
                node(0, 1, &barriers("barrier", LOCK), &[(MAIN, "x", &[1, 2])]),
                node(1, threads, &barriers("barrier", LOCK), other),
            ])
        };
        // Node 1 wants the lock that node 0 holds; node 2 is elsewhere.
        let wants_lock = of(1, &[(MAIN, "y", &[0])]);
        assert!(wants_lock.waits.iter().any(|waiting| waiting.kind == Kind::Lock));
        assert_eq!(circles(&wants_lock), [[(0, "x"), (1, "y")]]);
        // Another thread of node 1 has access to the network, and may come.
        assert_eq!(of(2, &[(MAIN, "y", &[0])]).deadlocks().len(), 0);
        assert_eq!(of(1, &[]).deadlocks().len(), 0);
        // Two barriers in another order.
        let orders = job(vec![
            node(0, 1, &barriers("barrier", "barrier"), &[(MAIN, "x", &[1])]),
            node(1, 1, &barriers("barrier", "barrier"), &[(MAIN, "y", &[0])]),
        ]);
        assert_eq!(circles(&orders), [[(0, "x"), (1, "y")]]);
    }

    #[test]
    fn other_waits_are_stuck_if_nobody_can_act() {
        let ring = |nodes: &'static [u16]| {
            job(vec![
                node(0, 1, &[], &[(MAIN, "ring", nodes)]),
                node(1, 1, &[], &[(MAIN, "variable", &[0])]),
            ])
        };
        assert_eq!(circles(&ring(&[1])), [[(0, "ring"), (1, "variable")]]);
        // Node 2 may act; what a network does is not a node's.
        assert_eq!(ring(&[1, 2]).deadlocks().len(), 0);
        assert_eq!(ring(&[]).deadlocks().len(), 0);
    }
}
