//! Measures the cost of an operation of the verbs fabric between two processes. It measures as perftest does,
//! so that `benches/peers/verbs-cost.sh` can compare the two. Run as two nodes: `loco run -n 2 --
//! verbs_cost`.
//!
//! Prints one line for each measurement: name, value, unit. Latencies are medians. That of a put is half a
//! ping-pong, as with `ib_write_lat`. Those of get and fetch-and-add go from posting to completion, as with
//! `ib_read_lat` and `ib_atomic_lat`. The rate has at most 64 puts under way. As in perftest, the clock is
//! read once a round, which matters on an emulated machine.

use std::time::{Duration, Instant};

use loco_fabric::{
    Completion, CompletionStatus, Fabric, FabricError, Local, Memory, MemoryKind, NodeId, Platform, Posted,
    QueuePair, RegionKey, Result, Std, Target, WordCell, Work, WorkRequestId,
};
use loco_job::{Job, Mesh};
use loco_verbs::{VerbsConfig, VerbsFabric, VerbsMemory, VerbsQueuePair, VerbsRemote};

const WARM_UP: usize = 100;
const ITERATIONS: usize = 1000;
/// The number of puts of the rate measurement.
const PUTS: u64 = 10_000;
/// The most puts under way.
const WINDOW: u64 = 64;
/// One put in so many is signaled.
const SIGNAL_EVERY: u64 = 16;

/// This node, with access to the other's memory.
struct Pair {
    fabric: VerbsFabric,
    memory: VerbsMemory,
    remote: VerbsRemote,
    here: VerbsMemory,
    qp: VerbsQueuePair,
    completions: Vec<Completion>,
}

fn main() -> Result<()> {
    let mesh = Mesh::connect(&Job::from_env()?)?;
    let config = VerbsConfig::from_env()?.arena_bytes(1 << 20);
    let fabric = VerbsFabric::new(mesh, config)?;
    let memory = fabric.allocate(4096, MemoryKind::Host)?;
    let encode = |error: postcard::Error| FabricError::Config(error.to_string());
    let key = postcard::to_stdvec(&fabric.export(&memory)).map_err(encode)?;
    let keys = fabric
        .mesh()
        .allgather("keys", &key, Std.now().after(Duration::from_secs(30)))?;
    let own = fabric.node();
    let Some((peer, key)) = keys
        .iter()
        .find(|(node, _)| *node != own)
        .filter(|_| keys.len() == 2)
    else {
        return Err(FabricError::Config(
            "this takes two nodes: `loco run -n 2`".to_owned(),
        ));
    };
    let key: RegionKey = postcard::from_bytes(key).map_err(encode)?;
    let mut pair = Pair {
        remote: fabric.import(*peer, &key)?,
        here: fabric.allocate(64, MemoryKind::Host)?,
        qp: fabric.queue_pair(*peer)?,
        completions: Vec::with_capacity(64),
        memory,
        fabric,
    };
    let first = own == NodeId(0);
    let put = pair.ping_pong(first)?;
    if first {
        println!("put_latency {put:.2} us");
        let get = pair.round_trips(|p, work| p.qp.get(local(&p.here), target(&p.remote), work))?;
        println!("get_latency {get:.2} us");
        let add = pair.round_trips(|p, work| p.qp.fetch_add(target(&p.remote), 1, local(&p.here), work))?;
        println!("fetch_add_latency {add:.2} us");
        println!("put_rate {:.2} per_s", pair.rate()?);
    }
    pair.fabric
        .mesh()
        .allgather("done", &[], Std.now().after(Duration::from_secs(120)))?;
    Ok(())
}

fn local(memory: &VerbsMemory) -> Local<'_, VerbsMemory> {
    Local {
        memory,
        offset: 0,
        len: 8,
    }
}

fn target(remote: &VerbsRemote) -> Target<'_, VerbsRemote> {
    Target { remote, offset: 0 }
}

fn median_us(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times
        .get(times.len() / 2)
        .map_or(0.0, |median| median.as_secs_f64() * 1e6)
}

impl Pair {
    /// Returns half the time of a ping-pong of 8-byte puts.
    fn ping_pong(&mut self, first: bool) -> Result<f64> {
        let seen = self.memory.cell::<u64>(0)?;
        let mut times = Vec::with_capacity(ITERATIONS);
        let mut last = Instant::now();
        for round in 1..=(WARM_UP + ITERATIONS) as u64 {
            if first {
                self.put(round)?;
            }
            // The loop has no pauses, as in `ib_write_lat`: an emulator leaves the guest at each.
            while seen.load() < round {}
            if !first {
                self.put(round)?;
            }
            self.await_completions(1)?;
            let now = Instant::now();
            if round > WARM_UP as u64 {
                times.push((now - last) / 2);
            }
            last = now;
        }
        Ok(median_us(&mut times))
    }

    fn put(&mut self, value: u64) -> Result<()> {
        let work = Work::signaled(WorkRequestId(value));
        let _ = self
            .qp
            .put_inline(&value.to_ne_bytes(), target(&self.remote), work)?;
        Ok(())
    }

    /// Returns the median time from posting to completion.
    fn round_trips(&mut self, operation: impl Fn(&mut Pair, Work) -> Result<Posted>) -> Result<f64> {
        let mut times = Vec::with_capacity(ITERATIONS);
        let mut last = Instant::now();
        for round in 0..WARM_UP + ITERATIONS {
            let _ = operation(self, Work::signaled(WorkRequestId(round as u64)))?;
            self.await_completions(1)?;
            let now = Instant::now();
            if round >= WARM_UP {
                times.push(now - last);
            }
            last = now;
        }
        Ok(median_us(&mut times))
    }

    /// Returns the number of 8-byte puts a second.
    fn rate(&mut self) -> Result<f64> {
        let start = Instant::now();
        let mut completed = 0;
        for id in 0..PUTS {
            while id - completed >= WINDOW {
                completed += SIGNAL_EVERY * self.poll()?;
            }
            let work = Work {
                signaled: (id + 1) % SIGNAL_EVERY == 0,
                ..Work::signaled(WorkRequestId(id))
            };
            let _ = self.qp.put(local(&self.here), target(&self.remote), work)?;
        }
        while completed < PUTS / SIGNAL_EVERY * SIGNAL_EVERY {
            completed += SIGNAL_EVERY * self.poll()?;
        }
        Ok(PUTS as f64 / start.elapsed().as_secs_f64())
    }

    fn await_completions(&mut self, n: u64) -> Result<()> {
        let mut seen = 0;
        while seen < n {
            seen += self.poll()?;
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<u64> {
        self.fabric.poll(&mut self.completions)?;
        let mut n = 0;
        for completion in self.completions.drain(..) {
            if let CompletionStatus::Failed(error) = completion.status {
                return Err(*error);
            }
            n += 1;
        }
        Ok(n)
    }
}
