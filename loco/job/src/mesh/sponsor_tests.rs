//! Tests of a newcomer with a member that lets it in, which the test plays.

use std::net::TcpListener;
use std::thread;

use loco_fabric::{Platform, Std};
use loco_testing::free_addresses;

use super::admission::{self, Admission, Answer};
use super::handshake::{self, Purpose, Refusal};
use super::join_tests::{HOUR, silent, wait_for_end};
use super::tests::{credentials, secret, soon};
use super::*;
use crate::{Hosts, Join};

/// Returns a listener for a sponsor that is played, and its address.
fn listener() -> (TcpListener, Address) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = Address::from(listener.local_addr().unwrap());
    (listener, at)
}

/// Plays a sponsor that lets one process in, into a job that began with `first` and has these members.
fn let_in(
    listener: &TcpListener,
    first: &[u16],
    members: impl IntoIterator<Item = (u32, Address)>,
) -> Session {
    let admission = Admission {
        first: first.to_vec(),
        room: 4,
        index: u32::try_from(first.len()).unwrap(),
        view: u32::try_from(first.len()).unwrap() + 1,
        members: members
            .into_iter()
            .map(|(member, at)| (member, admission::Place::of(&at)))
            .collect(),
    };
    let (stream, _) = listener.accept().unwrap();
    let asked = handshake::accept(stream, &credentials(), soon(), |_| Ok(()));
    let (claim, mut session) = asked.unwrap();
    assert!(matches!(claim.purpose, Purpose::Ask { .. }), "{claim:?}");
    session.write(&Answer::Admitted(admission), soon()).unwrap();
    session
}

/// Plays a member that does not let a newcomer connect.
fn refuse(listener: &TcpListener, why: Refusal) {
    let (stream, _) = listener.accept().unwrap();
    let refused = handshake::accept(stream, &credentials(), soon(), |claim| {
        assert!(matches!(claim.purpose, Purpose::Enter { .. }), "{claim:?}");
        Err(why)
    });
    assert!(matches!(refused, Err(handshake::HandshakeError::Refused(_))));
}

/// Plays a sponsor that lets one process in, with these other members, and ends. Returns its address.
fn sponsor_that_ends(
    first: &[u16],
    others: impl IntoIterator<Item = (u32, Address)>,
) -> (Address, thread::JoinHandle<()>) {
    let (listener, at) = listener();
    let members: Vec<_> = [(0, at.clone())].into_iter().chain(others).collect();
    let first = first.to_vec();
    let playing = thread::spawn(move || drop(let_in(&listener, &first, members)));
    (at, playing)
}

/// Joins by asking there, with an hour to connect, and returns the reason why not.
fn why_not(sponsor: &Address) -> String {
    let join = Join::by([sponsor.clone()]).unwrap().secret(secret());
    let join = join.timeouts(Timeouts::default().connect(HOUR));
    Mesh::join(&join).unwrap_err().to_string()
}

/// The address at which the newcomer reached the sponsor leads elsewhere for others, as by a forwarded port. The sponsor lives, so that
/// asking again would only use up another id.
#[test]
fn a_newcomer_asks_no_second_time_while_the_sponsor_lives() {
    let (listener, sponsor) = listener();
    let members = [(0, sponsor.clone())];
    let playing = thread::spawn(move || {
        let mut session = let_in(&listener, &[0], members);
        for _ in 0..3 {
            refuse(&listener, Refusal::NotMe(0));
        }
        session.write(&Refusal::Late, soon()).unwrap();
        // Whoever asked again would wait for an answer here.
        wait_for_end(session);
    });
    let why = why_not(&sponsor);
    assert!(
        why.contains(&format!("node 0 (at {sponsor}: it refuses: it is not node 0")),
        "{why}"
    );
    playing.join().unwrap();
}

/// The place of the sponsor takes connections, as one of a process that is stopped does, and says nothing.
#[test]
fn a_newcomer_hears_of_the_end_of_its_sponsor_where_it_asked() {
    let (_silent, place) = silent();
    let (listener, sponsor) = listener();
    let playing = thread::spawn(move || {
        let session = let_in(&listener, &[0], [(0, place)]);
        drop(listener);
        drop(session);
    });
    let why = why_not(&sponsor);
    playing.join().unwrap();
    let reason = format!("nobody listens at {sponsor}: the job is over");
    assert!(why.contains(&reason), "{why}");
}

/// Returns why a newcomer gives up that is let in twice, and refused by the only member each time.
fn refused_twice(refusal: Refusal) -> String {
    let (listener, sponsor) = listener();
    let place = sponsor.clone();
    let playing = thread::spawn(move || {
        for _ in 0..2 {
            let session = let_in(&listener, &[0], [(0, place.clone())]);
            refuse(&listener, refusal.clone());
            wait_for_end(session);
        }
    });
    let why = why_not(&sponsor);
    playing.join().unwrap();
    why
}

/// It may have been silent for once. No member has gone, so that it does not ask for ever.
#[test]
fn a_newcomer_that_has_reached_all_members_and_is_lost_asks_once_more() {
    let why = refused_twice(Refusal::Late);
    assert!(
        why.contains("LOCO_SILENCE_MS") && why.contains("it was so twice"),
        "{why}"
    );
}

/// Another run of the same program has the port of the sponsor as the newcomer sees it, and knows nothing of this one.
#[test]
fn a_process_of_another_run_at_the_place_of_a_member_uses_up_two_ids() {
    let why = refused_twice(Refusal::NoLonger);
    assert!(why.contains("was let in by a node that is gone"), "{why}");
}

/// The process that was let in by a sponsor of which nobody else has heard asks again.
#[test]
fn a_place_that_is_lost_with_its_sponsor_is_asked_for_again() {
    let free = free_addresses(&["127.0.0.1"; 2]);
    let [zero, one] = [0, 1].map(|node: usize| Address::from(free[node]));
    let hosts = Hosts::from_pairs([(NodeId(0), zero), (NodeId(1), one.clone())]).unwrap();
    let [zero, member] = [0, 1].map(|id| {
        let job = Job::builder(NodeId(id)).secret(secret()).nodes_max(4);
        let job = job.hosts(hosts.clone()).unwrap();
        thread::spawn(move || Mesh::connect(&job).unwrap())
    });
    let member = member.join().unwrap();
    drop(zero.join().unwrap());
    member.wait_for_departures(0, soon());
    let (sponsor, playing) = sponsor_that_ends(&[0, 1], [(1, one.clone())]);
    let join = Join::by([sponsor, one]).unwrap().secret(secret());
    let joined = Mesh::join(&join.timeouts(Timeouts::default().connect(HOUR))).unwrap();
    playing.join().unwrap();
    assert_eq!(joined.nodes(), [NodeId(1), NodeId(2)]);
    // The loss has made a view, too.
    let alone = member.next_view(2, soon()).unwrap();
    assert_eq!(
        member.next_view(alone.number(), soon()).unwrap().members(),
        joined.nodes()
    );
}

/// The only member ends before the newcomer is connected with it.
#[test]
fn a_newcomer_without_members_says_that_the_job_is_over() {
    let (sponsor, playing) = sponsor_that_ends(&[0], []);
    let error = why_not(&sponsor);
    playing.join().unwrap();
    let reason = format!("nobody listens at {sponsor}: the job is over");
    assert!(error.contains(&reason), "{error}");
}

/// The member that lets the newcomer in was reached by loopback. Later newcomers may come from where the other members are.
#[test]
fn a_newcomer_listens_where_later_ones_can_reach_it() {
    for (other, is_everywhere) in [("alpha:1", true), ("127.0.0.1:1", false)] {
        let other = Address::parse(other, None).unwrap();
        let (sponsor, playing) = sponsor_that_ends(&[0, 1], [(1, other)]);
        let join = Join::by([sponsor]).unwrap();
        let asked = asking::ask(&join, &credentials(), 7, Std.now(), soon()).unwrap();
        playing.join().unwrap();
        let at = asked.listener.local_addr().unwrap().ip();
        assert_eq!(
            (at.is_unspecified(), at.is_loopback()),
            (is_everywhere, !is_everywhere)
        );
    }
}
