//! One direction of the connection between two nodes.

use std::collections::VecDeque;

use loco_job::agreement::Word;

/// A thing that comes over a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Item {
    /// A word about who is in.
    Word(Word),
    /// The sender's contribution to the round of the set-up.
    Contribution,
    /// The sender has closed; nothing follows.
    End,
}

/// The way from one node to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Link {
    items: VecDeque<Item>,
    /// The receiver reads what comes: it has the connection, and has not closed it.
    pub(crate) is_read: bool,
    /// The sender has closed.
    is_closed: bool,
    /// The end may come without what was sent before it.
    pub(crate) may_lose: bool,
    /// Nothing comes any more.
    pub(crate) is_cut: bool,
}

impl Link {
    /// Returns a link without connection.
    pub(crate) fn unattached() -> Link {
        Link::default()
    }

    /// Sends an item.
    pub(crate) fn push(&mut self, item: Item) {
        if !self.is_cut && !self.is_closed {
            self.items.push_back(item);
        }
    }

    /// Closes it, as the sender. What was sent before may be lost with `may_lose`.
    pub(crate) fn close(&mut self, may_lose: bool) {
        self.push(Item::End);
        self.is_closed = true;
        self.may_lose |= may_lose;
        self.tidy();
    }

    /// Closes it, as the receiver, who reads nothing more.
    pub(crate) fn stop_reading(&mut self) {
        self.is_read = false;
        self.items.clear();
        // Nothing that the sender does to the link changes the receiver any more: equal states get equal encodings.
        (self.is_closed, self.may_lose) = (true, false);
    }

    /// Cuts it: what was sent does not come.
    pub(crate) fn cut(&mut self) {
        self.is_cut = true;
        self.items.clear();
    }

    /// Takes what comes next.
    pub(crate) fn pop(&mut self) -> Option<Item> {
        let item = self.items.pop_front();
        self.tidy();
        item
    }

    /// Loses all but the end.
    pub(crate) fn lose_tail(&mut self) {
        self.items.retain(|item| *item == Item::End);
        self.tidy();
    }

    /// Returns true if something is to come.
    pub(crate) fn has_items(&self) -> bool {
        !self.items.is_empty()
    }

    /// Returns true if the sender has closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// States that differ only in what cannot be lost any more are one.
    fn tidy(&mut self) {
        if self.items.len() < 2 {
            self.may_lose = false;
        }
    }
}
