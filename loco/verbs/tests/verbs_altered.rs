//! Runs the conformance suite on altered devices of tier `ibta`: one without reads of length zero, so that flushes read a word, and
//! without reliable fences; what it says of inline data on one that puts nothing inline; and what it says of atomics on one whose atomics
//! are atomic against the CPU's (`IBV_ATOMIC_GLOB`).
//!
//! `verbs_device` runs it on the device as it is, of several tiers; `verbs_unknown` and `verbs_relaxed` on others that are altered.

#![allow(clippy::unwrap_used)]

mod worlds;

use loco_fabric::{Atomicity, Fabric};
use loco_test_networks::altered::{AlteredDevice, Limits};

worlds::world!(
    NoZeroLengthReads,
    AlteredDevice::new(Limits {
        zero_length_reads: false,
        fences_stall: true,
        ..Limits::default()
    }),
    |fabric| assert!(!fabric.flushes_by_zero_length_reads())
);
worlds::world!(
    NoInline,
    AlteredDevice::new(Limits {
        inline_bytes_max: 0,
        ..Limits::default()
    }),
    |fabric| assert_eq!(fabric.caps().inline_bytes_max, 0)
);
worlds::world!(
    Glob,
    AlteredDevice::new(Limits {
        atomicity: Atomicity::Glob,
        ..Limits::default()
    }),
    |fabric| assert_eq!(fabric.caps().atomicity, Atomicity::Glob)
);

mod no_zero_length_reads {
    use super::NoZeroLengthReads;
    loco_conformance::suite!(NoZeroLengthReads);
}

mod no_inline {
    use super::NoInline;
    loco_conformance::suite! { NoInline:
        operations {
            inline_data_may_be_reused_at_once, inline_data_beyond_the_limit_are_refused,
        }
    }
}

mod glob {
    use super::Glob;
    loco_conformance::suite! { Glob:
        cpu_atomics { atomics_with_cpu_accesses }
        operations {
            atomics_return_the_old_value, concurrent_adds_sum_up, compare_swap_is_won_once,
        }
    }
}
