//! The barrier and the owned variable as they were: whichever thread calls puts the node's word, without
//! regard to what another thread posted before.

use loco::fabric::{AtomicCell, Fabric as _, Memory, Platform, WordCell};
use loco::{AckKey, Manager, PutOp, Result, SharedRegion, Thread};

use crate::Fabric;
use crate::objects::{Register as IsRegister, Rounds, wait_for_word};

type Cell = <<Fabric as loco::fabric::Fabric>::Memory as Memory>::Cell<u64>;
type Count = <<Fabric as loco::fabric::Fabric>::Platform as Platform>::AtomicU64;

/// A word of this node with a copy on every other.
struct Word {
    region: SharedRegion<Fabric>,
    cell: Cell,
}

impl Word {
    fn make(manager: &Manager<Fabric>, name: &str) -> Word {
        let region = SharedRegion::new(manager, name, 8).unwrap();
        Word {
            cell: region.local().unwrap().cell::<u64>(0).unwrap(),
            region,
        }
    }

    fn load(&self) -> u64 {
        WordCell::<u64>::load(&self.cell)
    }

    fn store(&self, value: u64) {
        WordCell::<u64>::store(&self.cell, value);
    }

    fn push(&self, thread: &Thread<Fabric>) -> Result<AckKey<Fabric>> {
        let here = thread.node_id();
        let others = thread.fabric().nodes().iter().filter(|&&node| node != here);
        let targets = others.map(|&node| self.region.target(node, 0).unwrap().remote.clone());
        PutOp::new(self.region.local()?.clone(), targets)?.post_inline(thread, &self.load().to_ne_bytes())
    }
}

pub struct Barrier {
    rows: Vec<Word>,
    threads: u64,
    arrived: Count,
}

impl Rounds for Barrier {
    fn make(manager: &Manager<Fabric>, threads: usize) -> Self {
        let rows = manager.nodes().iter();
        Barrier {
            rows: rows
                .map(|node| Word::make(manager, &format!("row{}", node.0)))
                .collect(),
            threads: threads as u64,
            arrived: AtomicCell::<u64>::new(0),
        }
    }

    fn wait(&self, thread: &Thread<Fabric>, fenced: bool) -> Result<()> {
        if fenced {
            loco::fence::thread(thread)?;
        }
        let mine = &self.rows[usize::from(thread.node_id().0)];
        let (round, last) = if self.threads == 1 {
            (mine.load() + 1, true)
        } else {
            let earlier: u64 = self.arrived.fetch_add(1);
            let last = (earlier + 1).is_multiple_of(self.threads);
            (earlier / self.threads + 1, last)
        };
        if last {
            mine.store(round);
            mine.push(thread)?.forget();
        }
        for row in &self.rows {
            let arrived = || (row.load() >= round).then_some(());
            thread.wait_until("former barrier", loco::fabric::Peers::All, arrived)?;
        }
        Ok(())
    }
}

pub struct Register(Word);

impl IsRegister for Register {
    fn make(manager: &Manager<Fabric>) -> Self {
        Register(Word::make(manager, "register"))
    }

    fn store(&self, _: &Thread<Fabric>, value: u64) -> Result<()> {
        self.0.store(value);
        Ok(())
    }

    fn push(&self, thread: &Thread<Fabric>) -> Result<AckKey<Fabric>> {
        self.0.push(thread)
    }

    fn load(&self, _: &Thread<Fabric>) -> u64 {
        self.0.load()
    }

    fn wait_for(&self, thread: &Thread<Fabric>, value: u64) -> Result<()> {
        wait_for_word(thread, || self.0.load(), value)
    }
}
