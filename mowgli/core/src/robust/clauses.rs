//! The clauses of Defs. 7 to 9 and 14 as data, so that tests can drop one and see that it matters.

/// A clause of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Clause {
    /// Def. 7: a local conflict is on one location.
    RaceSameLocation,
    /// Def. 7: one event of a local conflict is a write.
    RaceOneWrites,
    /// Def. 7: the events of a local conflict are ordered by guaranteed-before.
    RaceOrdered,
    /// Def. 8: only events on public locations count.
    FencedPublic,
    /// Def. 8: only pairs whose nodes other threads connect count.
    FencedConnected,
    /// Def. 8: links are made by other threads only.
    FencedOthers,
    /// Def. 8: links are made on public locations only.
    FencedPublicLinks,
    /// Def. 8: such pairs are ordered by guaranteed-before.
    FencedOrdered,
    /// Def. 9 (1): local locations of remote operations are private.
    TreePrivate,
    /// Def. 9 (2): a get is fenced or polled before the next operation on its queue pair.
    TreeGetInOrder,
    /// Def. 9 (2): a remote fence is enough.
    TreeGetByFence,
    /// Def. 9 (2): a poll of the get is enough.
    TreeGetByPoll,
    /// Def. 9 (3a): the network has no cycle.
    TreeAcyclic,
    /// Def. 9 (3b): no two nodes have queue pairs towards each other.
    TreeOneWay,
    /// Def. 9 (3c): each node has at most one queue pair towards each remote node.
    TreeSingle,
    /// Def. 14 (2): a memory fence or compare-and-swap separates a public CPU write from a later public CPU read.
    TreeStoreBuffer,
    /// Def. 14 (2): a compare-and-swap is enough.
    TreeByCas,
}

impl Clause {
    /// Every clause.
    pub const ALL: [Clause; 17] = [
        Clause::RaceSameLocation,
        Clause::RaceOneWrites,
        Clause::RaceOrdered,
        Clause::FencedPublic,
        Clause::FencedConnected,
        Clause::FencedOthers,
        Clause::FencedPublicLinks,
        Clause::FencedOrdered,
        Clause::TreePrivate,
        Clause::TreeGetInOrder,
        Clause::TreeGetByFence,
        Clause::TreeGetByPoll,
        Clause::TreeAcyclic,
        Clause::TreeOneWay,
        Clause::TreeSingle,
        Clause::TreeStoreBuffer,
        Clause::TreeByCas,
    ];
}

/// A set of clauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Clauses(u32);

impl Clauses {
    /// Every clause.
    pub const ALL: Clauses = Clauses((1 << Clause::ALL.len()) - 1);

    /// Returns whether the clause is in force.
    pub const fn contains(self, clause: Clause) -> bool {
        self.0 >> clause as u32 & 1 == 1
    }

    /// Returns the set without one clause.
    #[must_use]
    pub const fn without(self, clause: Clause) -> Clauses {
        Clauses(self.0 & !(1 << clause as u32))
    }
}
