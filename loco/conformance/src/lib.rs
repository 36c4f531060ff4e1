//! The tests that every fabric must pass, as the contract demands. They are generic over the fabric.
//!
//! A test file brings a fabric's nodes up, wraps them in a [`World`] and calls [`suite!`], which makes one
//! test of each function here. All waits are bounded: a fabric that loses something fails, and does not hang.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // All of it is tests.

use std::time::Duration;

use loco_fabric::{
    Completion, CompletionStatus, Fabric, FabricError, Local, Memory, MemoryKind, NodeId, Peers, Platform,
    Posted, QueuePair, Result, Target, Wait, WordCell, Work, WorkRequestId,
};
use loco_job::Mesh;

pub mod cpu_atomics;
pub mod doorbell;
pub mod failure;
pub mod job;
pub mod layout;
pub mod operations;
pub mod ordering;
pub mod processes;
pub mod sleeping;

/// A time that is long enough for any loaded machine. Only a failure reaches it.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The id of operations whose completion nobody asks for.
pub const STREAMED: WorkRequestId = WorkRequestId(u64::MAX - 1);

/// The nodes of one job, all in this process.
pub trait World {
    /// The fabric.
    type Fabric: Fabric;
    /// Returns `n` nodes, with ids in ascending order.
    fn nodes(n: usize) -> Vec<Self::Fabric>;
    /// Cuts a node off as if its process had been killed.
    fn kill(node: &Self::Fabric);
    /// Returns false for a test that cannot run here. It then reports that.
    fn runs(_test: &str) -> bool {
        true
    }
}

/// Makes one test of each conformance function over the given [`World`].
#[macro_export]
macro_rules! suite {
    ($world:ty: $($module:ident { $($test:ident),* $(,)? })*) => {
        $(mod $module {
            use super::*;
            $(#[test]
            fn $test() {
                if <$world as $crate::World>::runs(stringify!($test)) {
                    $crate::$module::$test::<$world>();
                }
            })*
        })*
    };
    ($world:ty) => {
        $crate::suite! { $world:
            cpu_atomics { atomics_with_cpu_accesses }
            operations {
                put_and_get_move_bytes, reads_at_once_bring_bytes, words_of_every_size,
                ranges_are_checked, words_must_be_aligned,
                foreign_memory_is_refused, memory_is_zeroed_and_returns, exhausted_memory_is_an_error,
                atomics_return_the_old_value, concurrent_adds_sum_up, compare_swap_is_won_once,
                loop_back, inline_data_may_be_reused_at_once,
                inline_data_beyond_the_limit_are_refused,
                unsignaled_operations_report_nothing, short_operations_in_a_row,
                each_operation_is_reported_once, a_full_queue_says_so,
            }
            ordering {
                words_do_not_tear, narrow_words_do_not_tear, words_within_copies_do_not_tear,
                words_within_aligned_copies_do_not_tear, puts_are_placed_in_order,
                a_put_of_many_words_precedes_the_next_put, a_flush_places_puts, a_get_comes_after_puts,
                a_fenced_put_comes_after_a_get, store_buffering_with_puts_and_gets,
                store_buffering_with_puts_and_reads_at_once, store_buffering_with_flush,
                an_atomic_comes_after_puts,
            }
            doorbell {
                a_refused_operation_lets_those_before_it_go,
                operations_that_waited_for_one_towards_a_dead_peer_end,
            }
            failure {
                a_wait_times_out, a_wait_that_is_ready_ignores_its_deadline, a_dead_peer_ends_the_wait,
                a_dead_peer_that_nobody_waits_for_is_ignored, a_value_that_came_before_the_death_counts,
                operations_towards_a_dead_peer_fail, outstanding_operations_of_a_dead_peer_are_reported,
                unknown_peers_are_refused,
            }
            sleeping {
                completions_end_sleeps, a_dead_peer_ends_the_sleep, a_ring_before_the_sleep_ends_it,
            }
        }
    };
}

/// A thread under test: its queue pair, and the state that it needs to complete operations.
pub struct Poster<F: Fabric> {
    /// The node's fabric.
    pub fabric: F,
    /// The thread's queue pair.
    pub qp: F::QueuePair,
    next: u64,
}

impl<F: Fabric> Poster<F> {
    /// Returns a new queue pair of `fabric` towards `peer`.
    pub fn new(fabric: &F, peer: NodeId) -> Poster<F> {
        Poster {
            fabric: fabric.clone(),
            qp: fabric.queue_pair(peer).unwrap(),
            next: 0,
        }
    }

    /// Posts as soon as there is room. The ids of one poster are distinct, and distinct from those of other
    /// nodes' posters.
    pub fn post(
        &mut self,
        operation: impl Fn(&mut F::QueuePair, Work) -> Result<Posted>,
    ) -> Option<WorkRequestId> {
        let id = WorkRequestId(u64::from(self.qp.peer().0) << 32 | self.next);
        self.next += 1;
        let mut completions = Vec::new();
        let posted = wait_for(&self.fabric, || {
            match operation(&mut self.qp, Work::signaled(id)) {
                Err(FabricError::QueueFull(_)) => {
                    self.fabric.poll(&mut completions).unwrap();
                    None
                }
                posted => Some(posted.unwrap()),
            }
        });
        assert!(
            completions.is_empty(),
            "post one at a time with `complete`, or poll yourself"
        );
        (posted == Posted::Pending).then_some(id)
    }

    /// Posts, and waits for the completion. Only one thread of the node may do so at a time, because it takes
    /// all completions.
    pub fn complete(&mut self, operation: impl Fn(&mut F::QueuePair, Work) -> Result<Posted>) {
        let Some(id) = self.post(operation) else { return };
        let mut completions = Vec::new();
        wait_for(&self.fabric, || {
            self.fabric.poll(&mut completions).unwrap();
            completions.retain(|completion| completion.id != STREAMED);
            (!completions.is_empty()).then_some(())
        });
        let peer = self.qp.peer();
        let status = CompletionStatus::Success;
        assert_eq!(completions, [Completion { id, peer, status }]);
    }
}

/// Waits, with patience, for a condition that does not depend on a peer's life.
pub fn wait_for<F: Fabric, T>(fabric: &F, ready: impl FnMut() -> Option<T>) -> T {
    let wait = Wait {
        what: "conformance test",
        peers: Peers::None,
        deadline: Some(fabric.platform().now().after(PATIENCE)),
    };
    fabric.wait(wait, ready).unwrap()
}

/// Waits until the word at `offset` satisfies `condition`, and returns the word.
pub fn wait_word<F: Fabric>(
    fabric: &F,
    memory: &F::Memory,
    offset: usize,
    condition: impl Fn(u64) -> bool,
) -> u64 {
    let cell = memory.cell::<u64>(offset).unwrap();
    // Acquire: data that were placed before the word are read after it.
    wait_for(fabric, || Some(cell.load()).filter(|&word| condition(word)))
}

/// Allocates zeroed host memory.
pub fn allocate<F: Fabric>(fabric: &F, len: usize) -> F::Memory {
    fabric.allocate(len, MemoryKind::Host).unwrap()
}

/// Returns memory of `owner`, and access to it for `user`.
pub fn share<F: Fabric>(owner: &F, user: &F, len: usize) -> (F::Memory, F::Remote) {
    let memory = allocate(owner, len);
    let remote = user.import(owner.node(), &owner.export(&memory)).unwrap();
    (memory, remote)
}

/// Returns the `len` bytes from `offset` as the local side of an operation.
pub fn local<M>(memory: &M, offset: usize, len: usize) -> Local<'_, M> {
    Local { memory, offset, len }
}

/// Returns the memory from `offset` on as the remote side of an operation.
pub fn target<R>(remote: &R, offset: usize) -> Target<'_, R> {
    Target { remote, offset }
}

/// Returns the word at `offset`.
pub fn word<M: Memory>(memory: &M, offset: usize) -> u64 {
    memory.cell::<u64>(offset).unwrap().load()
}

/// Sets the word at `offset`.
pub fn set_word<M: Memory>(memory: &M, offset: usize, value: u64) {
    memory.cell::<u64>(offset).unwrap().store(value);
}

/// Brings up the `n` nodes of a job in this process, each on a thread of its own since they wait for one another.
pub fn bring_up<T: Send>(n: usize, up: impl Fn(Mesh) -> T + Sync) -> Vec<T> {
    let up = &up;
    let meshes = Mesh::in_process(n).unwrap();
    std::thread::scope(|scope| {
        let ups: Vec<_> = meshes
            .into_iter()
            .map(|mesh| scope.spawn(move || up(mesh)))
            .collect();
        ups.into_iter().map(|up| up.join().unwrap()).collect()
    })
}

/// Runs each closure on a thread of its own.
pub fn together(bodies: Vec<Box<dyn FnOnce() + Send + '_>>) {
    std::thread::scope(|scope| {
        for body in bodies {
            scope.spawn(body);
        }
    });
}
