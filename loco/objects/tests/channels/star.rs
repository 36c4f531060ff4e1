//! The star translation of Peterson's lock (`mowgli star shm-Peterson`, Robust'25 5.3) as object code on every fabric:
//! node 0 is the server and uses its memory by the CPU, node 1 is the client and puts and gets. No increment under the
//! lock is lost.
//!
//! That the translation has only the outcomes of sequential consistency is checked by `mowgli`, and by `loco-sim` for the same
//! operations on the model fabric. Here they run on real threads.

use crate::common::ALL;
use loco::fabric::{Fabric, NodeId};
use loco::raw::Flags;
use loco::{Barrier, Manager, Result, SharedRegion, Thread};

const ROUNDS: u64 = 100;

/// Offsets of the words in the server's memory.
const FLAGS: [usize; 2] = [0, 8];
const TURN: usize = 16;
const COUNT: usize = 24;

/// The shared words as one thread uses them.
trait Words {
    fn load(&self, offset: usize) -> Result<u64>;
    fn store(&self, offset: usize, value: u64) -> Result<()>;
    /// Orders stores before later loads. One queue pair does so by itself; a CPU needs a fence (Def. 14).
    fn fence(&self);
}

struct Server<'a, F: Fabric> {
    thread: &'a Thread<F>,
    data: &'a SharedRegion<F>,
}

impl<F: Fabric> Words for Server<'_, F> {
    fn load(&self, offset: usize) -> Result<u64> {
        let mut bytes = [0; 8];
        self.data.read(offset, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    fn store(&self, offset: usize, value: u64) -> Result<()> {
        self.data.write(offset, &value.to_ne_bytes())
    }

    fn fence(&self) {
        self.thread.fabric().cpu_fence();
    }
}

struct Client<'a, F: Fabric> {
    thread: &'a Thread<F>,
    data: &'a SharedRegion<F>,
}

impl<F: Fabric> Words for Client<'_, F> {
    /// A get after all puts before it, whose completion is waited for where its result is used.
    fn load(&self, offset: usize) -> Result<u64> {
        let copy = self.thread.mem_ref(8)?;
        let word = self.data.target(NodeId(0), offset)?;
        copy.get_with(word, Flags::STRONG)?.wait()?.word(0)
    }

    /// A put of a value, placed after those before it, which nothing waits for. The translation is for networks that keep the order of
    /// puts; on others the client asks for it.
    fn store(&self, offset: usize, value: u64) -> Result<()> {
        let target = self.data.target(NodeId(0), offset)?;
        self.thread
            .put_inline_with(&value.to_ne_bytes(), target, Flags::STRONG)?
            .forget();
        Ok(())
    }

    fn fence(&self) {}
}

/// Counts on under the lock, as thread `me` of two.
fn count_on(words: &dyn Words, me: usize) -> Result<()> {
    words.store(FLAGS[me], 1)?;
    words.store(TURN, 1 - me as u64)?;
    words.fence();
    while words.load(FLAGS[1 - me])? == 1 && words.load(TURN)? != me as u64 {
        std::thread::yield_now();
    }
    let count = words.load(COUNT)?;
    words.store(COUNT, count + 1)?;
    words.store(FLAGS[me], 0)
}

#[test]
fn petersons_lock_of_a_server_and_a_client_loses_no_increment() {
    for cluster in ALL {
        let counts = cluster.run(2, |manager: Manager<_>| {
            let data = SharedRegion::new(&manager, "data", 32)?;
            let end = Barrier::new(&manager, "end")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let (thread, data) = (&thread, &data);
            let server = Server { thread, data };
            let client = Client { thread, data };
            let me = usize::from(manager.node().0);
            let words: &dyn Words = if me == 0 { &server } else { &client };
            for _ in 0..ROUNDS {
                count_on(words, me)?;
            }
            end.wait(thread)?;
            let count = words.load(COUNT)?;
            end.wait(thread)?;
            Ok(count)
        });
        assert_eq!(counts, [2 * ROUNDS; 2], "{cluster:?}");
    }
}
