//! Counts of what the NIC did, and of the liberties that it took.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::settings::settings;

macro_rules! counts {
    ($($(#[$meta:meta])* $name:ident = $text:literal,)*) => {
        /// Something that is counted.
        #[derive(Clone, Copy)]
        pub(crate) enum Count { $($(#[$meta])* $name,)* }

        const NAMES: &[&str] = &[$($text),*];
        static COUNTS: [AtomicU64; NAMES.len()] = [const { AtomicU64::new(0) }; NAMES.len()];
    };
}

counts! {
    /// Work requests that were sent.
    Sent = "sent",
    /// Source buffers that were read a while after the post.
    LateSources = "late-sources",
    /// Operations that were carried out before an earlier one of their queue pair.
    Overtaken = "overtaken",
    /// Acknowledged data that became visible a while later.
    LatePlacements = "late-placements",
    /// Data of one operation that became visible in parts.
    Torn = "torn",
    /// Reads that were gathered over a while.
    GatheredReads = "gathered-reads",
    /// Atomics between whose read and write the CPU had time.
    SplitAtomics = "split-atomics",
    /// Completions that were reported a while after the fact.
    LateCompletions = "late-completions",
    /// Messages that were lost on request.
    Dropped = "dropped",
    /// Queue pairs that were broken on request.
    KilledQps = "killed-queue-pairs",
    /// Links that were lost on request.
    LostLinks = "lost-links",
    /// Operations that ended with an error.
    Errors = "errors",
}

/// Counts one more.
pub(crate) fn count(what: Count) {
    COUNTS[what as usize].fetch_add(1, Ordering::Relaxed);
}

/// Appends the counts as one line to the file of the report, for `loco nic` to add up.
pub(crate) fn report() {
    let Some(path) = &settings().report else { return };
    let mut line = String::new();
    for (name, count) in NAMES.iter().zip(&COUNTS) {
        let _ = write!(line, "{name}={} ", count.load(Ordering::Relaxed));
    }
    line.push('\n');
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    if let Ok(mut file) = file {
        let _ = file.write_all(line.as_bytes());
    }
}
