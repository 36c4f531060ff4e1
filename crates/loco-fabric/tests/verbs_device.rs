//! The conformance suite on the RDMA device of this host: Soft-RoCE in the machine of `ci/rdma-vm`, or a real one.
//!
//! One test of the suite is left out, `words_within_copies_do_not_tear`: Soft-RoCE copies packets by the kernel's
//! `memcpy`, which moves words that are aligned to the start of the copy, not to memory. Copies that begin at an aligned
//! word are tested.
//!
//! Without a device each test says so and passes; `LOCO_REQUIRE_RDMA` makes that a failure.

#![allow(clippy::unwrap_used)]

mod conformance;

use conformance::World;
use loco_fabric::verbs::{VerbsConfig, VerbsFabric, choose};
use loco_fabric::{HugePages, Mesh};

struct Device;

fn config() -> VerbsConfig {
    VerbsConfig {
        arena_bytes: 1 << 20,
        memory_limit_bytes: 16 << 20,
        huge_pages: HugePages::Never,
        queue_depth: 64,
        ..VerbsConfig::from_env().unwrap()
    }
}

impl World for Device {
    type Fabric = VerbsFabric;
    fn nodes(n: usize) -> Vec<VerbsFabric> {
        let meshes = Mesh::in_process(n).unwrap();
        std::thread::scope(|scope| {
            let ups: Vec<_> = meshes
                .into_iter()
                .map(|mesh| scope.spawn(|| VerbsFabric::new(mesh, config()).unwrap()))
                .collect();
            ups.into_iter().map(|up| up.join().unwrap()).collect()
        })
    }
    fn kill(node: &VerbsFabric) {
        node.mesh().fail();
    }
}

/// True if there is a device; says so if not.
fn device() -> bool {
    match choose(&config()) {
        Ok(_) => true,
        Err(error) => {
            assert!(std::env::var_os("LOCO_REQUIRE_RDMA").is_none(), "{error}");
            eprintln!("SKIPPED: {error}");
            false
        }
    }
}

/// As `suite!`, skipped without a device.
macro_rules! device_suite {
    ($($module:ident { $($test:ident),* $(,)? })*) => {
        $(mod $module {
            use super::*;
            $(#[test]
            fn $test() {
                if device() {
                    conformance::$module::$test::<Device>();
                }
            })*
        })*
    };
}

device_suite! {
    operations {
        put_and_get_move_bytes, words_of_every_size, ranges_are_checked, words_must_be_aligned,
        foreign_memory_is_refused, memory_is_zeroed_and_returns, exhausted_memory_is_an_error,
        atomics_return_the_old_value, concurrent_adds_sum_up, compare_swap_is_won_once,
        atomics_with_cpu_accesses, loop_back, inline_data_may_be_reused_at_once,
        unsignaled_operations_report_nothing, each_operation_is_reported_once, a_full_queue_says_so,
    }
    ordering {
        words_do_not_tear, words_within_aligned_copies_do_not_tear, puts_are_placed_in_order,
        a_put_of_many_words_precedes_the_next_put, a_flush_places_puts, a_get_comes_after_puts,
        a_fenced_put_comes_after_a_get, store_buffering_with_puts_and_gets,
        store_buffering_with_flush, an_atomic_comes_after_puts,
    }
    failure {
        a_wait_times_out, a_wait_that_is_ready_ignores_its_deadline, a_dead_peer_ends_the_wait,
        a_dead_peer_that_nobody_waits_for_is_ignored, a_value_that_came_before_the_death_counts,
        operations_towards_a_dead_peer_fail, outstanding_operations_of_a_dead_peer_are_reported,
        unknown_peers_are_refused,
    }
}
