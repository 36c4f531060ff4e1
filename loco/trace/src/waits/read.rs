//! Reads the page of a node, as another process sees it.

use loco_fabric::NodeId;

use super::page::{
    AWAITED, AWAITED_LIST, AWAITED_MAX, FIRST_OBJECT, FIRST_WAIT, HOLDER, JOB, JOB_WORDS, KIND, KIND_WORDS,
    LOOKS, MAGIC, NAME_WORDS, NODE, NODES, OBJECT_NAME, OBJECT_WORDS, OBJECTS, OBJECTS_LEFT_OUT, OF_TASK,
    PROCESS, SINCE, STAGE, THREAD, THREADS, UNTIL, VERSION, WAIT_NAME, WAIT_WORDS, WAITS, WAITS_LEFT_OUT,
    WORDS,
};

/// What the page of a node says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePage {
    /// The job's id.
    pub job: String,
    /// The node.
    pub node: NodeId,
    /// The number of nodes of the job.
    pub nodes: u64,
    /// The process, as it calls itself.
    pub process: u32,
    /// The number of accesses to the network that its threads have. A thread without one can do nothing with objects.
    pub threads: u64,
    /// The objects that the node has an endpoint of.
    pub objects: Vec<Object>,
    /// The waits of its threads.
    pub waits: Vec<Wait>,
    /// The number of objects, and of waits, for which the page had no room.
    pub left_out: (u64, u64),
}

/// An object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its name.
    pub name: String,
    /// Its type with its parameters.
    pub kind: String,
    /// If it is a lock that a thread of this node holds, that thread.
    pub holder: Option<Who>,
}

/// A thread of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Who {
    /// The thread's number in the system.
    pub thread: u32,
    /// Set if it is an asynchronous call that runs on the thread, beside others.
    pub of_task: bool,
}

/// A wait that has lasted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The place and the state of the wait: another wait, or another state of this one, has another.
    pub state: (usize, u64),
    /// Who waits.
    pub who: Who,
    /// What the thread waits for.
    pub what: String,
    /// Set if it waits until an object is set up.
    pub is_set_up: bool,
    /// The nodes for which it waits, as far as the page has room for them.
    pub nodes: Vec<NodeId>,
    /// The time since which it waits, in nanoseconds of `CLOCK_MONOTONIC`.
    pub since: u64,
    /// The time at which it gives up; `None` for never.
    pub until: Option<u64>,
    /// How often it has looked in vain.
    pub looks: u64,
}

/// Reads a page. Returns `None` if it is not a page of this version, or not yet one. A wait that changes meanwhile is left out.
pub fn read(bytes: &[u8]) -> Option<NodePage> {
    let words: Vec<u64> = bytes
        .chunks_exact(size_of::<u64>())
        .map(|chunk| u64::from_ne_bytes(chunk.try_into().unwrap_or_default()))
        .collect();
    if words.len() != WORDS || words[0] != MAGIC {
        return None;
    }
    let objects = (0..OBJECTS).filter_map(|number| object(&words[FIRST_OBJECT + number * OBJECT_WORDS..]));
    let waits = (0..WAITS).filter_map(|number| wait(number, &words[FIRST_WAIT + number * WAIT_WORDS..]));
    Some(NodePage {
        job: text(&words[JOB..], JOB_WORDS),
        node: node(words[NODE]),
        nodes: words[NODES],
        process: low(words[PROCESS]),
        threads: words[THREADS],
        objects: objects.collect(),
        waits: waits.collect(),
        left_out: (words[OBJECTS_LEFT_OUT], words[WAITS_LEFT_OUT]),
    })
}

fn object(words: &[u64]) -> Option<Object> {
    // 1 while it is being written.
    (words[0] > 1).then(|| Object {
        name: text(&words[OBJECT_NAME..], NAME_WORDS),
        kind: text(&words[KIND..], KIND_WORDS),
        holder: (words[HOLDER] != 0).then(|| who(words[HOLDER])),
    })
}

fn wait(number: usize, words: &[u64]) -> Option<Wait> {
    let version = words[VERSION];
    if words[0] == 0 || version == 0 || version % 2 == 1 {
        return None;
    }
    let listed = usize::try_from(words[AWAITED]).unwrap_or(0).min(AWAITED_MAX);
    let nodes = (0..listed).map(|index| node(words[AWAITED_LIST + index / 4] >> (16 * (index % 4))));
    Some(Wait {
        state: (number, version),
        who: who(words[THREAD]),
        what: text(&words[WAIT_NAME..], NAME_WORDS),
        is_set_up: words[STAGE] != 0,
        nodes: nodes.collect(),
        since: words[SINCE],
        until: (words[UNTIL] != u64::MAX).then_some(words[UNTIL]),
        looks: words[LOOKS],
    })
}

#[allow(clippy::cast_possible_truncation)] // Wanted.
fn node(word: u64) -> NodeId {
    NodeId(word as u16)
}

#[allow(clippy::cast_possible_truncation)] // Wanted.
fn low(word: u64) -> u32 {
    word as u32
}

fn who(word: u64) -> Who {
    Who {
        thread: low(word),
        of_task: word & OF_TASK != 0,
    }
}

fn text(words: &[u64], room: usize) -> String {
    let bytes: Vec<u8> = words[1..room]
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .collect();
    let length = usize::try_from(words[0]).unwrap_or(0).min(bytes.len());
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}
