//! Tests what `loco doctor` says of devices: the self-test, on altered devices.

#![allow(clippy::unwrap_used)]

use loco_fabric::{Atomicity, Tier};
use loco_test_networks::altered::{AlteredDevice, Limits};
use loco_verbs::{Check, VerbsConfig, Verdict, check_host};

fn verdict(checks: &[Check], name: &str) -> Verdict {
    checks.iter().find(|check| check.name == name).unwrap().verdict
}

#[test]
fn the_self_test_says_what_the_device_can_do() {
    let config = VerbsConfig::default().provider(
        AlteredDevice::new(Limits {
            device_memory_bytes: 4096,
            ..Limits::default()
        })
        .provider(),
    );
    let checks = check_host(&config);
    assert_eq!(verdict(&checks, "self-test"), Verdict::Ok);
    assert!(
        checks[0].found.contains("4096 bytes of device memory"),
        "{checks:?}"
    );
}

#[test]
fn the_self_test_says_what_the_device_orders_and_what_requests_cost() {
    let order = |limits| {
        let config = VerbsConfig::default().provider(AlteredDevice::new(limits).provider());
        let checks = check_host(&config);
        let check = checks.into_iter().find(|check| check.name == "order");
        check.unwrap_or_else(|| panic!("the order is checked"))
    };
    let known = order(Limits {
        words_in_order: true,
        ..Limits::default()
    });
    assert_eq!(known.verdict, Verdict::Ok);
    assert!(known.found.contains("ibta") && known.found.contains("strong: free"));
    assert!(known.found.contains("nothing about two writes"), "{known:?}");
    let unknown = order(Limits {
        known: None,
        ..Limits::default()
    });
    assert_eq!(unknown.verdict, Verdict::Warning);
    assert!(unknown.found.contains("ooo-all (assumed"), "{unknown:?}");
    assert!(
        unknown.found.contains("strong: a wait for completion"),
        "{unknown:?}"
    );
    assert!(
        unknown
            .remedy
            .is_some_and(|remedy| remedy.contains("LOCO_VERBS_ORDER"))
    );
}

#[test]
fn the_self_test_says_against_what_atomics_are_atomic() {
    for (atomicity, verdict, found) in [
        (Atomicity::Glob, Verdict::Ok, "against the CPU (GLOB)"),
        (Atomicity::Hca, Verdict::Ok, "not against the CPU (HCA)"),
        (Atomicity::None, Verdict::Warning, "none"),
    ] {
        let device = AlteredDevice::new(Limits {
            atomicity,
            ..Limits::default()
        });
        let checks = check_host(&VerbsConfig::default().provider(device.provider()));
        let check = checks.iter().find(|check| check.name == "remote atomics");
        let check = check.unwrap_or_else(|| panic!("atomics are checked: {checks:?}"));
        assert_eq!(check.verdict, verdict, "{check:?}");
        assert!(check.found.ends_with(found), "{check:?}");
    }
}

/// What a fabric cannot buy is refused when it comes up.
#[test]
fn a_relaxed_device_without_atomics_is_refused_with_a_remedy() {
    let config = VerbsConfig::default().provider(
        AlteredDevice::new(Limits {
            known: Some(Tier::PcieRelaxed),
            atomicity: Atomicity::None,
            ..Limits::default()
        })
        .provider(),
    );
    let checks = check_host(&config);
    assert_eq!(verdict(&checks, "self-test"), Verdict::Failed);
    assert!(checks[0].found.contains("--fabric ofi"), "{checks:?}");
}

/// A setting may say that a known device orders less than it does, and not that it orders more.
#[test]
fn a_setting_may_not_say_more_than_is_known_of_the_device() {
    let self_test = |order| {
        let device = AlteredDevice::new(Limits {
            known: Some(Tier::OooRw),
            ..Limits::default()
        });
        let config = VerbsConfig::default().provider(device.provider()).order(order);
        check_host(&config).swap_remove(0)
    };
    for order in [
        None,
        Some(Tier::OooRw),
        Some(Tier::OooAll),
        Some(Tier::PcieRelaxed),
    ] {
        assert_eq!(self_test(order).verdict, Verdict::Ok, "{order:?}");
    }
    let refused = self_test(Some(Tier::Ibta));
    assert_eq!(refused.verdict, Verdict::Failed, "{refused:?}");
    for words in ["tier ooo-rw", "LOCO_VERBS_ORDER", "give ooo-rw, or `auto`"] {
        assert!(refused.found.contains(words), "{refused:?}");
    }
}
