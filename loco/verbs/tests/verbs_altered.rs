//! Runs the conformance suite on altered devices of tier `ibta`: one without reads of length zero, so that flushes read a word, and
//! without reliable fences; and what it says of inline data on one that puts nothing inline.
//!
//! `verbs_device` runs it on the device as it is, of several tiers; `verbs_unknown` and `verbs_relaxed` on others that are altered.

#![allow(clippy::unwrap_used)]

mod worlds;

use loco_fabric::Fabric;
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
