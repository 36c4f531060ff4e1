//! The worlds: how many nodes, how they begin, and what may go wrong.

/// The state in which the nodes of a world begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// No node is connected with another. They shake hands, and are set up when each has heard all others.
    Apart,
    /// All are connected. They bring a fabric up, by which nodes can affect one another once all have said that they are ready.
    Connected,
    /// The fabric is up.
    Up,
    /// The fabric is up, and each node takes its connections over one after the other. No job begins so, as a fabric is built
    /// over whole connections; the agreement does not rely on that.
    Late,
}

/// The means by which access to memory is revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fabric {
    /// Each node revokes the access to its own memory only.
    Network,
    /// The first node that revokes does so for all, in an order that all share, and the victim finds that in its own memory.
    SharedMemory,
}

/// What may go wrong in an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// The most faults of an execution.
    pub max: u8,
    /// A node stops for good.
    pub crashes: bool,
    /// A node hears nothing of a peer for too long, though the connection is whole.
    pub silences: bool,
    /// A connection is cut, one way or both ways.
    pub cuts: bool,
}

impl Faults {
    /// Returns no faults.
    pub const NONE: Faults = Faults {
        max: 0,
        crashes: false,
        silences: false,
        cuts: false,
    };

    /// Returns any `max` faults.
    pub const fn any(max: u8) -> Faults {
        Faults {
            max,
            crashes: true,
            silences: true,
            cuts: true,
        }
    }

    /// Returns crashes of up to `max` nodes.
    pub const fn crashes(max: u8) -> Faults {
        Faults {
            max,
            crashes: true,
            ..Faults::NONE
        }
    }
}

/// Some nodes that agree on who is in, and what may happen to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// The name.
    pub name: &'static str,
    /// The number of nodes at the beginning. With those that join, at most 8.
    pub nodes: usize,
    /// The number of nodes that join while the others run.
    pub joiners: usize,
    /// The number of indices that may be used.
    pub room: usize,
    /// How they begin.
    pub begin: Begin,
    /// There is a rendezvous while nodes connect, which tells all of the first node that ends. Without it a node that waits for a
    /// connection with one that has ended gives up at its deadline.
    pub rendezvous: bool,
    /// The means of revocations.
    pub fabric: Fabric,
    /// The faults.
    pub faults: Faults,
    /// Nodes from which the others are parted for a while, as a set of bits. On each side each node may hear nothing of a node of
    /// the other for too long, without that counting as a fault. What was sent comes later.
    pub parted: u8,
    /// The number of nodes that may leave with a goodbye.
    pub leavers: u8,
    /// The number of nodes that may announce that they leave. Whether they do so then counts as the leaving of any node.
    pub announcers: u8,
    /// Ways `(from, to)` on which messages stand before the words, and nobody takes them.
    pub clogged: Vec<(usize, usize)>,
    /// The least number of nodes that are in at the end and have one another, whatever happens.
    pub survivors_min: usize,
}

impl World {
    /// Returns true if nodes can affect one another from the start.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.begin, Begin::Up | Begin::Late)
    }

    /// Returns the number of all nodes.
    pub(crate) fn processes(&self) -> usize {
        self.nodes + self.joiners
    }

    /// Returns a world of connected nodes over a network, without faults.
    pub fn new(name: &'static str, nodes: usize) -> World {
        World {
            name,
            nodes,
            joiners: 0,
            room: nodes,
            begin: Begin::Up,
            rendezvous: true,
            fabric: Fabric::Network,
            faults: Faults::NONE,
            parted: 0,
            leavers: 0,
            announcers: 0,
            clogged: Vec::new(),
            survivors_min: 0,
        }
    }
}

/// Returns the worlds that are explored completely in moments, the largest last.
pub fn small() -> Vec<World> {
    let three = |name| World {
        faults: Faults::any(1),
        survivors_min: 2,
        ..World::new(name, 3)
    };
    let mut worlds = vec![
        World {
            faults: Faults::any(1),
            survivors_min: 1,
            ..World::new("two", 2)
        },
        World {
            faults: Faults::any(1),
            fabric: Fabric::SharedMemory,
            survivors_min: 1,
            ..World::new("two-shared-memory", 2)
        },
        three("three"),
        World {
            fabric: Fabric::SharedMemory,
            ..three("three-shared-memory")
        },
        World {
            clogged: vec![(1, 0)],
            ..three("three-clogged")
        },
        World {
            leavers: 1,
            survivors_min: 1,
            ..three("three-and-a-leaver")
        },
        World {
            begin: Begin::Apart,
            faults: Faults::crashes(1),
            survivors_min: 0,
            ..three("three-set-up")
        },
        World {
            begin: Begin::Apart,
            rendezvous: false,
            faults: Faults::crashes(1),
            survivors_min: 0,
            ..three("three-set-up-by-a-list")
        },
        World {
            faults: Faults::NONE,
            parted: 0b001,
            survivors_min: 0,
            ..three("three-parted")
        },
        World {
            faults: Faults::crashes(2),
            survivors_min: 1,
            ..three("three-two-crashes")
        },
        World {
            begin: Begin::Late,
            ..three("three-connected-late")
        },
        World {
            begin: Begin::Connected,
            survivors_min: 0,
            ..three("three-bring-up")
        },
    ];
    worlds.extend(small_joins());
    worlds.extend(small_announcements());
    worlds
}

/// Returns a world in which nodes join, with room for all.
fn joins(name: &'static str, nodes: usize, joiners: usize) -> World {
    World {
        joiners,
        room: nodes + joiners,
        ..World::new(name, nodes)
    }
}

/// Returns the worlds in which nodes join that are explored completely in moments.
fn small_joins() -> Vec<World> {
    vec![
        World {
            survivors_min: 4,
            ..joins("two-and-two-join", 2, 2)
        },
        World {
            room: 3,
            survivors_min: 3,
            ..joins("two-and-one-too-many", 2, 2)
        },
        World {
            faults: Faults::any(1),
            survivors_min: 1,
            ..joins("two-and-one-joins", 2, 1)
        },
        World {
            fabric: Fabric::SharedMemory,
            faults: Faults::any(1),
            survivors_min: 1,
            ..joins("two-and-one-joins-shared-memory", 2, 1)
        },
        World {
            leavers: 1,
            survivors_min: 2,
            ..joins("two-and-one-joins-one-leaves", 2, 1)
        },
        World {
            faults: Faults::any(1),
            leavers: 1,
            ..joins("two-and-one-joins-a-fault-and-a-leaver", 2, 1)
        },
        World {
            fabric: Fabric::SharedMemory,
            faults: Faults::crashes(1),
            leavers: 1,
            ..joins("two-and-one-joins-shared-memory-a-crash-and-a-leaver", 2, 1)
        },
        World {
            faults: Faults::crashes(2),
            ..joins("two-and-one-joins-two-crashes", 2, 1)
        },
        World {
            parted: 0b01,
            ..joins("two-parted-and-one-joins", 2, 1)
        },
    ]
}

/// Returns a world of nodes of which so many may announce that they leave.
fn announcements(name: &'static str, nodes: usize, announcers: u8) -> World {
    World {
        announcers,
        room: nodes + 1,
        ..World::new(name, nodes)
    }
}

/// Returns the worlds in which nodes announce that they leave, and are explored completely in moments.
fn small_announcements() -> Vec<World> {
    vec![
        World {
            leavers: 2,
            ..announcements("two-announce", 2, 2)
        },
        World {
            leavers: 1,
            survivors_min: 2,
            ..announcements("three-announce", 3, 2)
        },
        World {
            faults: Faults::any(1),
            survivors_min: 1,
            ..announcements("two-and-an-announcement-a-fault", 2, 1)
        },
        World {
            faults: Faults::crashes(1),
            survivors_min: 2,
            ..announcements("three-and-an-announcement-a-crash", 3, 1)
        },
        World {
            announcers: 1,
            survivors_min: 2,
            ..joins("two-and-one-joins-one-announces", 2, 1)
        },
        World {
            announcers: 1,
            faults: Faults::crashes(1),
            ..joins("two-and-one-joins-one-announces-a-crash", 2, 1)
        },
    ]
}

/// Returns the worlds that take longer, each with the delays within which it is explored where it has too many states.
pub fn large() -> Vec<(World, Option<u32>)> {
    let four = |name, faults| World {
        faults,
        ..World::new(name, 4)
    };
    vec![
        (
            World {
                survivors_min: 3,
                ..four("four-a-crash", Faults::crashes(1))
            },
            None,
        ),
        (
            World {
                faults: Faults::any(2),
                survivors_min: 1,
                ..World::new("three-two-faults", 3)
            },
            None,
        ),
        (
            World {
                begin: Begin::Apart,
                faults: Faults::crashes(2),
                ..World::new("three-set-up-two-crashes", 3)
            },
            None,
        ),
        (
            World {
                survivors_min: 2,
                ..four("four-a-fault", Faults::any(1))
            },
            Some(8),
        ),
        (four("four-two-faults", Faults::any(2)), Some(6)),
        (
            World {
                leavers: 1,
                ..joins("two-and-two-join-one-leaves", 2, 2)
            },
            None,
        ),
        (
            World {
                leavers: 1,
                survivors_min: 3,
                ..joins("three-and-one-joins-one-leaves", 3, 1)
            },
            None,
        ),
        (
            World {
                faults: Faults::crashes(1),
                survivors_min: 2,
                ..joins("three-and-one-joins-a-crash", 3, 1)
            },
            None,
        ),
        (
            World {
                faults: Faults::crashes(1),
                survivors_min: 2,
                ..joins("two-and-two-join-a-crash", 2, 2)
            },
            Some(4),
        ),
        (
            World {
                parted: 0b01,
                ..joins("two-parted-and-two-join", 2, 2)
            },
            Some(4),
        ),
        (
            World {
                faults: Faults::any(1),
                survivors_min: 2,
                ..joins("three-and-one-joins", 3, 1)
            },
            Some(4),
        ),
        (
            World {
                faults: Faults::any(2),
                ..joins("two-and-one-joins-two-faults", 2, 1)
            },
            Some(4),
        ),
        (
            World {
                faults: Faults::any(1),
                survivors_min: 2,
                ..announcements("three-and-two-announcements-a-fault", 3, 2)
            },
            Some(4),
        ),
        (
            World {
                announcers: 1,
                faults: Faults::any(1),
                ..joins("two-and-one-joins-one-announces-a-fault", 2, 1)
            },
            Some(4),
        ),
        (
            World {
                announcers: 2,
                leavers: 1,
                ..joins("three-and-one-joins-two-announce", 3, 1)
            },
            Some(4),
        ),
    ]
}
