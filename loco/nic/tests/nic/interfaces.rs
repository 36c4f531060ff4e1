//! Calls of libibverbs and what they answer, case by case (`tests/programs/interfaces.c`), and faults that are asked for. Of librdmacm:
//! the end of identifiers and event channels (`tests/programs/event_channel.c`). The end of objects that have asynchronous events
//! (`tests/programs/async_events.c`).

use std::process::Output;

use crate::support::{World, compiled_of};

/// Runs a case with settings, and checks that it passes. Returns `None` where C programs cannot be compiled.
fn case(name: &str, set: &[(&str, &str)]) -> Option<Output> {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled_of("programs", "interfaces", folder.path())?;
    let world = World::new("ibta", "none", 1);
    let output = world
        .command(&program, &[name])
        .envs(set.iter().copied())
        .output()
        .unwrap();
    assert!(output.status.success(), "{name}: {output:?}");
    Some(output)
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn errors_end_requests_as_the_specification_says() {
    case("errors", &[]);
}

#[test]
fn solicited_events_come_for_solicited_messages() {
    case("solicited", &[]);
}

#[test]
fn a_drained_send_queue_gives_its_event_and_goes_on() {
    case("drained", &[]);
    // With stress, some requests are under way when the queue begins to drain, and others have not begun.
    case("drained", &[("LOCO_NIC_STRESS", "default")]);
}

#[test]
fn a_peer_that_speaks_early_gives_an_event() {
    case("established", &[]);
}

#[test]
fn an_identifier_is_destroyed_when_its_events_are_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled_of("programs", "event_channel", folder.path()) else {
        return;
    };
    let output = World::new("ibta", "none", 1).run(program.to_str().unwrap(), &[]);
    assert!(output.status.success(), "{output:?}");
}

/// Queue pairs, shared receive queues and completion queues.
#[test]
fn an_object_is_destroyed_when_its_asynchronous_events_are_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled_of("programs", "async_events", folder.path()) else {
        return;
    };
    for object in ["qp", "srq", "cq"] {
        let output = World::new("ibta", "none", 1).run(&program, &[object]);
        assert!(output.status.success(), "{object}: {output:?}");
    }
}

#[test]
fn shared_receive_queues_report_their_limit_and_end() {
    case("shared", &[]);
}

#[test]
fn builders_post_what_they_build() {
    case("builders", &[]);
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let Some(output) = case("refused", &[]) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    for request in [
        "ibv_reg_dmabuf_mr",
        "ibv_open_xrcd",
        "IBV_QPT_XRC",
        "IBV_QPT_RAW_PACKET",
        "a shared receive queue of this type",
        "ibv_alloc_mw",
        "ibv_alloc_dm",
        "ibv_alloc_td",
        "ibv_create_flow",
        "IBV_ACCESS_ON_DEMAND",
        "ibv_attach_mcast",
    ] {
        let line = format!("loco nic: {request}");
        let named = said.lines().filter(|said| said.starts_with(&line));
        assert_eq!(named.count(), 1, "{request}: {said}");
    }
}

#[test]
fn datagrams_are_lost_as_often_as_asked_and_messages_never() {
    let Some(output) = case("datagrams", &[]) else {
        return;
    };
    assert_eq!(printed(&output), "400 of 400");
    let Some(output) = case("datagrams", &[("LOCO_NIC_DROP", "4")]) else {
        return;
    };
    let came: u32 = printed(&output).split(' ').next().unwrap().parse().unwrap();
    // 300 on average; the seed is fixed.
    assert!((250..350).contains(&came), "{came}");
}

#[test]
fn a_queue_pair_that_is_killed_flushes_and_another_takes_its_place() {
    for seed in ["1", "2", "3"] {
        let set = [("LOCO_NIC_KILL_QP", "200"), ("LOCO_NIC_SEED", seed)];
        let Some(output) = case("killed-queue-pair", &set) else {
            return;
        };
        let said = printed(&output);
        assert!(said.ends_with("then success"), "{said}");
    }
}

/// A request that waits for its link is asked for hundreds of times. Of twelve draws of one in 100, none has a fault in most runs.
#[test]
fn faults_are_drawn_once_for_a_request_however_long_it_waits() {
    for fault in ["LOCO_NIC_KILL_QP", "LOCO_NIC_LOSE_LINK"] {
        let mut said = Vec::new();
        for seed in ["1", "2", "3", "4", "5", "6", "7", "8"] {
            let Some(output) = case("crowded-link", &[(fault, "100"), ("LOCO_NIC_SEED", seed)]) else {
                return;
            };
            said.push(printed(&output));
            if said.ends_with(&["12 of 12".to_owned()]) {
                break;
            }
        }
        assert!(said.ends_with(&["12 of 12".to_owned()]), "{fault}: {said:?}");
    }
}

#[test]
fn a_link_that_is_lost_stays_lost() {
    for seed in ["1", "2", "3"] {
        let set = [("LOCO_NIC_LOSE_LINK", "200"), ("LOCO_NIC_SEED", seed)];
        let Some(output) = case("lost-link", &set) else {
            return;
        };
        let said = printed(&output);
        assert!(said.ends_with("then transport retry counter exceeded"), "{said}");
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(log.matches("is lost, as --lose-link asks").count(), 1, "{log}");
        assert!(!log.contains("closed a connection"), "{log}");
    }
}
