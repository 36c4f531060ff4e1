//! The measured cases. Each function is the work of one thread of one node.

use std::cell::RefCell;

use loco::fabric::{Fabric, Local, Memory, NodeId, Peers, Target, WordCell};
use loco::raw::{Flags, Operation};
use loco::{AckKey, Channel, Region, RingBuffer, RingConfig, Thread};
use loco_app::Latencies;

use super::measure::{Sample, latencies, one_way_ns, rate, rate_of_batches};
use super::site::Bench;
use super::workload::wrong;
use crate::error::CliError;

/// The alignment of the parts of a lane, which keeps them on cache lines of their own.
const STRIDE: usize = 128;
/// The most operations that are timed one by one: some seconds of the slowest.
pub(super) const TIMED_MAX: u64 = 10_000_000;

/// One thread and its memory: the data that the other node moves, then the data that this node moves, then a word
/// that serves as bell. As both nodes are at work at the same time, neither may touch the data that the other reads.
struct Lane<'a, F: Fabric> {
    thread: Thread<F>,
    region: &'a Region<F>,
    partner: NodeId,
    /// Offset of the data that this node moves.
    own: usize,
    /// Offset of the bell.
    bell: usize,
    size: usize,
}

impl<'a, F: Fabric> Lane<'a, F> {
    fn local(&self) -> Result<Local<'_, F::Memory>, CliError> {
        Ok(Local {
            memory: self.region.local()?,
            offset: self.own,
            len: self.size,
        })
    }

    fn remote(&self) -> Result<Target<'_, F::Remote>, CliError> {
        Ok(Target {
            remote: self.region.remote(self.partner)?,
            offset: 0,
        })
    }

    /// Posts `operation` for each of the measured operations, with a window of them under way. Returns the
    /// rate.
    fn rate(&self, bench: &Bench<'_, F>, operation: &Operation<'_, F>) -> Result<f64, CliError> {
        let window = u64::from(bench.parameters.window);
        let run = |count| {
            let (mut old, mut new) = (AckKey::done(), AckKey::done());
            rate(
                count,
                bench.progress,
                |i| {
                    self.thread
                        .raw()
                        .post_into(operation, Flags::default(), &mut new)?;
                    // One half of a window is waited for while the other half is under way.
                    if (i + 1) % window.div_ceil(2) == 0 {
                        std::mem::take(&mut old).wait(&self.thread)?;
                        std::mem::swap(&mut old, &mut new);
                    }
                    Ok::<_, CliError>(())
                },
                || Ok(loco::fence::thread(&self.thread)?),
            )
        };
        bench.meet(&self.thread)?;
        run(bench.parameters.warmup())?;
        bench.meet(&self.thread)?;
        let rate = run(bench.parameters.iters)?;
        bench.meet(&self.thread)?;
        Ok(rate)
    }

    /// Times `operation` up to its completion on the lowest node. The other nodes wait.
    fn completion(&self, bench: &Bench<'_, F>, operation: &Operation<'_, F>) -> Result<Sample, CliError> {
        let operations_per_second = self.rate(bench, operation)?;
        let mut found = Latencies::new();
        if position(bench) == 0 {
            latencies(timed(bench), 1, bench.timing, &mut found, |_| {
                self.thread
                    .raw()
                    .post(operation, Flags::default())?
                    .wait(&self.thread)
            })?;
        }
        bench.progress.add(bench.parameters.iters);
        bench.meet(&self.thread)?;
        Ok(Sample {
            operations_per_second,
            latencies: found,
            one_way_ns: None,
        })
    }
}

/// Measures puts: a rate, and half the time of a round trip between the two lowest nodes.
pub(super) fn put<F: Fabric>(bench: &Bench<'_, F>, index: usize) -> Result<Sample, CliError> {
    with_lane(bench, index, |lane| {
        let data = vec![1; lane.size];
        // Longer data are put from registered memory, as with other fabrics.
        let inline_max = bench.manager.fabric().caps().inline_bytes_max.min(4096);
        let small = lane.size <= inline_max;
        let operation = if small {
            Operation::PutInline(&data, lane.remote()?)
        } else {
            Operation::Put(lane.local()?, lane.remote()?)
        };
        let operations_per_second = lane.rate(bench, &operation)?;

        let mut found = Latencies::new();
        let mut one_way = None;
        let position = position(bench);
        if position < 2 {
            let other = bench.manager.nodes()[1 - position];
            let cell = lane.region.local()?.cell::<u64>(lane.bell)?;
            let remote = lane.region.remote(other)?;
            let heard = |value: u64| {
                lane.thread.wait_until("the other's put", Peers::One(other), || {
                    // The data of earlier puts are there, too.
                    (cell.load() >= value).then_some(())
                })
            };
            let say = |value: u64| {
                if lane.size > 8 {
                    let data = match operation {
                        Operation::PutInline(data, _) => Operation::PutInline(data, there(remote, 0)),
                        _ => Operation::Put(lane.local()?, there(remote, 0)),
                    };
                    lane.thread.raw().post_untracked(&data, Flags::default())?;
                }
                let word = value.to_ne_bytes();
                let bell = Operation::PutInline(&word, there(remote, lane.bell));
                Ok::<_, CliError>(lane.thread.raw().post_untracked(&bell, Flags::default())?)
            };
            let mut value = 0;
            let mut round_trip = || {
                value += 1;
                if position == 0 {
                    say(value)?;
                    heard(value)?;
                } else {
                    heard(value)?;
                    say(value)?;
                }
                Ok::<_, CliError>(())
            };
            for _ in 0..bench.parameters.warmup().min(TIMED_MAX) {
                round_trip()?;
            }
            one_way = in_turn(bench, &mut found, round_trip)?;
        }
        bench.progress.add(bench.parameters.iters);
        bench.meet(&lane.thread)?;
        Ok(Sample {
            operations_per_second,
            latencies: found,
            one_way_ns: one_way,
        })
    })
}

/// Measures gets: a rate, and the time to completion.
pub(super) fn get<F: Fabric>(bench: &Bench<'_, F>, index: usize) -> Result<Sample, CliError> {
    with_lane(bench, index, |lane| {
        lane.completion(bench, &Operation::Get(lane.local()?, lane.remote()?))
    })
}

/// Measures fetch-and-add: a rate, and the time to completion.
pub(super) fn atomic<F: Fabric>(bench: &Bench<'_, F>, index: usize) -> Result<Sample, CliError> {
    with_lane(bench, index, |lane| {
        let result = Local {
            len: 8,
            ..lane.local()?
        };
        let bell = Target {
            offset: lane.bell,
            ..lane.remote()?
        };
        lane.completion(bench, &Operation::FetchAdd(bell, 1, result))
    })
}

/// Measures the barrier, with or without completing outstanding operations first.
pub(super) fn barrier<F: Fabric>(
    bench: &Bench<'_, F>,
    index: usize,
    fenced: bool,
) -> Result<Sample, CliError> {
    let thread = bench.manager.thread()?;
    let wait = || match fenced {
        true => bench.line.wait(&thread),
        false => bench.line.wait_unfenced(&thread),
    };
    for _ in 0..bench.parameters.warmup() {
        wait()?;
    }
    let measured = rate(bench.parameters.iters, bench.progress, |_| wait(), || Ok(()))?;
    let mut found = Latencies::new();
    latencies(timed(bench), 1, bench.timing, &mut found, |_| wait())?;
    bench.progress.add(bench.parameters.iters);
    if position(bench) != 0 || index != 0 {
        found.clear();
    }
    Ok(Sample {
        // All threads count the same barriers.
        operations_per_second: if position(bench) == 0 && index == 0 {
            measured
        } else {
            0.0
        },
        latencies: found,
        one_way_ns: None,
    })
}

/// Measures a ring buffer from the lowest node to the others. It has room for a window of messages, which are
/// submitted together (`batch`) or one by one.
pub(super) fn broadcast<F: Fabric>(bench: &Bench<'_, F>, batch: bool) -> Result<Sample, CliError> {
    let size = bench.parameters.size(64);
    let nodes = bench.manager.nodes();
    let window = bench.parameters.window as usize;
    let ring = RingBuffer::with_config(
        bench.manager,
        if batch { "ring" } else { "ring-single" },
        nodes[0],
        &RingConfig::new(window * RingConfig::record_bytes(size)),
    )?;
    loco_app::wait_for_ready(bench.manager)?;
    let thread = bench.manager.thread()?;
    let (warmup, iters, timed) = (bench.parameters.warmup(), bench.parameters.iters, timed(bench));
    let mut found = Latencies::new();
    bench.meet(&thread)?;
    let mut operations_per_second = 0.0;
    if position(bench) == 0 {
        let writer = RefCell::new(ring.writer()?);
        let message = vec![7; size];
        let together = vec![&message; if batch { window } else { 1 }];
        let submit = |count: u64| {
            let mut left = usize::try_from(count).unwrap_or(usize::MAX);
            while left > 0 {
                let now = left.min(together.len());
                writer.borrow_mut().submit_batch(&thread, &together[..now])?;
                left -= now;
            }
            Ok::<_, CliError>(())
        };
        let read = || Ok(writer.borrow_mut().wait_until_read(&thread)?);
        submit(warmup)?;
        read()?;
        bench.meet(&thread)?;
        operations_per_second = rate_of_batches(iters, bench.progress, submit, read)?;
        bench.meet(&thread)?;
        let mut writer = writer.borrow_mut();
        latencies(timed, 1, bench.timing, &mut found, |_| {
            writer.submit(&thread, &message)?;
            writer.wait_until_read(&thread)
        })?;
        bench.progress.add(iters);
        bench.meet(&thread)?;
    } else {
        let mut reader = ring.reader()?;
        let mut message = Vec::with_capacity(size);
        let mut all_right = true;
        for count in [warmup, iters, timed] {
            for _ in 0..count {
                reader.receive_into(&thread, &mut message)?;
                all_right &= message.first() == Some(&7) && message.last() == Some(&7);
            }
            bench.meet(&thread)?;
        }
        if !all_right {
            return Err(wrong("a message is not as it was sent".to_owned()));
        }
    }
    Ok(Sample {
        operations_per_second,
        latencies: found,
        one_way_ns: None,
    })
}

/// Measures messages that the two lowest nodes send each other in turn, each through a ring buffer of its own: half the time
/// of a round trip.
pub(super) fn ping_pong<F: Fabric>(bench: &Bench<'_, F>) -> Result<Sample, CliError> {
    let size = bench.parameters.size(64);
    let nodes = bench.manager.nodes();
    let pair = [nodes[0], nodes[1 % nodes.len()]];
    let config = RingConfig::new(4 * RingConfig::record_bytes(size));
    let ring = |writer: usize| {
        let config = config.clone().readers([pair[1 - writer]]);
        RingBuffer::with_config(bench.manager, &format!("ring{writer}"), pair[writer], &config)
    };
    let rings = [ring(0)?, ring(1)?];
    loco_app::wait_for_ready(bench.manager)?;
    let thread = bench.manager.thread()?;
    let mut found = Latencies::new();
    let (mut operations_per_second, mut one_way) = (0.0, None);
    bench.meet(&thread)?;
    let own = position(bench);
    if own < 2 {
        let (mut writer, mut reader) = (rings[own].writer()?, rings[1 - own].reader()?);
        let (message, mut received) = (vec![7; size], Vec::with_capacity(size));
        let mut round_trip = || {
            if own == 0 {
                writer.submit(&thread, &message)?;
                reader.receive_into(&thread, &mut received)
            } else {
                reader.receive_into(&thread, &mut received)?;
                writer.submit(&thread, &message)
            }
        };
        for _ in 0..bench.parameters.warmup() {
            round_trip()?;
        }
        let round_trips = rate(
            bench.parameters.iters,
            bench.progress,
            |_| round_trip(),
            || Ok(()),
        )?;
        if own == 0 {
            operations_per_second = 2.0 * round_trips;
        }
        one_way = in_turn(bench, &mut found, round_trip)?;
        bench.progress.add(bench.parameters.iters);
    }
    bench.meet(&thread)?;
    Ok(Sample {
        operations_per_second,
        latencies: found,
        one_way_ns: one_way,
    })
}

/// Measures round trips between the two lowest nodes, which both call this: first in pieces of many round trips, then
/// one by one. Returns the time of a message one way on the lower node, and `None` on the other.
fn in_turn<F: Fabric, E>(
    bench: &Bench<'_, F>,
    found: &mut Latencies,
    mut round_trip: impl FnMut() -> Result<(), E>,
) -> Result<Option<f64>, E> {
    if position(bench) == 0 {
        let one_way = one_way_ns(timed(bench), &mut round_trip)?;
        latencies(timed(bench), 2, bench.timing, found, |_| round_trip())?;
        return Ok(Some(one_way));
    }
    // This node looks at no clock: it must be back at its wait when the next message comes.
    for _ in 0..2 * timed(bench) {
        round_trip()?;
    }
    Ok(None)
}

/// Makes the memory that this thread uses on all nodes, and runs `body` with it.
fn with_lane<F: Fabric>(
    bench: &Bench<'_, F>,
    index: usize,
    body: impl FnOnce(&Lane<'_, F>) -> Result<Sample, CliError>,
) -> Result<Sample, CliError> {
    let size = bench.parameters.size(8);
    let own = size.next_multiple_of(STRIDE);
    let bell = 2 * own;
    let channel = Channel::builder(bench.manager, &format!("lane{index}"))
        .kind("lane")
        .region("data", bell + 8)
        .join()?;
    loco_app::wait_for_ready(bench.manager)?;
    let region = channel.region("data")?.clone();
    let nodes = bench.manager.nodes();
    let partner = nodes[(position(bench) + 1) % nodes.len()];
    body(&Lane {
        thread: bench.manager.thread()?,
        region: &region,
        partner,
        own,
        bell,
        size,
    })
}

fn there<R>(remote: &R, offset: usize) -> Target<'_, R> {
    Target { remote, offset }
}

/// Returns this node's place among the nodes.
fn position<F: Fabric>(bench: &Bench<'_, F>) -> usize {
    let nodes = bench.manager.nodes();
    nodes
        .iter()
        .position(|&node| node == bench.manager.node())
        .unwrap_or(0)
}

/// Returns the number of operations that are timed one by one.
fn timed<F: Fabric>(bench: &Bench<'_, F>) -> u64 {
    bench.parameters.iters.min(TIMED_MAX)
}
