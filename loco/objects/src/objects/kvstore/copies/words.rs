//! Words that each node announces to all others: one of each node, by its position.
//!
//! Relies on a published region of the store. Used for the views that nodes have turned to (`views`), and for those after which they
//! have made all copies (`copier`).

use loco_fabric::{Fabric, Memory, NodeId, WordCell};

use crate::operations::peers::is_gone;
use crate::operations::published::Published;
use crate::{Channel, Region, Result, Thread};

use super::super::slot::WORD_BYTES;

/// The words of all nodes, as this node knows them, and the way of its own word to the others.
pub(super) struct Words<F: Fabric> {
    region: Region<F>,
    here: usize,
    /// The way to this node's word at each other node. Each goes by itself, so that one who is lost keeps it from nobody else.
    posts: Box<[(NodeId, Published<F>)]>,
}

impl<F: Fabric> Words<F> {
    /// Takes the published region called `name` of `channel` for the words. `here` is the position of this node.
    pub(super) fn new(channel: &Channel<F>, name: &str, here: usize) -> Result<Words<F>> {
        let region = channel.published(name)?.clone();
        let post = |&node: &NodeId| {
            let published = Published::new(&region, here * WORD_BYTES, WORD_BYTES, vec![node]);
            (node, published)
        };
        Ok(Words {
            posts: channel.peers().iter().map(post).collect(),
            here,
            region,
        })
    }

    /// Returns the word of the node at `position`.
    pub(super) fn of(&self, position: usize) -> Result<u64> {
        Ok(self.region.local()?.load_word(position * WORD_BYTES)?)
    }

    /// Sets this node's word, here and at the others, apart from those that `is_left_out` names. Calls come one after another. Waits for
    /// no call of another node: at most for room in the queue towards one that lives, as every post does.
    ///
    /// # Errors
    /// Returns the first error of posting the word to a node that lives. It was posted to the others. Call again.
    pub(super) fn announce(
        &self,
        thread: &Thread<F>,
        word: u64,
        is_left_out: impl Fn(NodeId) -> bool,
    ) -> Result<()> {
        let mine = self.region.local()?.cell::<u64>(self.here * WORD_BYTES)?;
        mine.store_fence(word);
        thread.ring();
        let mut posted = Ok(());
        for (node, post) in self.posts.iter().filter(|(node, _)| !is_left_out(*node)) {
            match post.post_inline_untracked(thread, &word.to_ne_bytes()) {
                // Whoever waits goes on without it.
                Err(_) if is_gone(thread.fabric(), *node) => {}
                outcome => posted = posted.and(outcome),
            }
        }
        posted
    }
}
