//! Tests of members with a process that asks to join and then does not go on, which the test plays.

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use loco_fabric::{Platform, Std};
use loco_testing::free_addresses;

use super::admission::{ANSWER_BYTES_MAX, Admission, Answer};
use super::handshake::{self, Claim, Nodes, Purpose, Refusal};
use super::tests::{credentials, secret, soon};
use super::*;
use crate::{Hosts, Join};

/// What takes so long is not waited for.
pub(super) const HOUR: Duration = Duration::from_secs(3600);

/// Brings up a job of one node with room for others, which gives newcomers this long to connect.
fn alone(connect: Duration) -> (Mesh, Address) {
    let address = Address::from(free_addresses(&["127.0.0.1"])[0]);
    let hosts = Hosts::from_pairs([(NodeId(0), address.clone())]).unwrap();
    let job = Job::builder(NodeId(0)).secret(secret()).nodes_max(4);
    let job = job.timeouts(Timeouts::default().connect(connect));
    (Mesh::connect(&job.hosts(hosts).unwrap()).unwrap(), address)
}

/// Asks to join, as a process does that has drawn `key`.
fn ask(at: &Address, key: u64) -> (Answer, Session) {
    let stream = TcpStream::connect(&*at.resolve().unwrap()).unwrap();
    let mut session = handshake::connect(stream, &credentials(), &Claim::asking(key), soon()).unwrap();
    (session.read(ANSWER_BYTES_MAX, soon()).unwrap(), session)
}

/// Connects as the node that joins, and returns the reason why not.
fn enter(at: &Address, key: u64, node: u16, room: usize) -> Option<String> {
    let entered = connect(at, key, node, room);
    entered.err().map(|error| error.to_string())
}

fn connect(at: &Address, key: u64, node: u16, room: usize) -> Result<Session, handshake::HandshakeError> {
    let stream = TcpStream::connect(&*at.resolve().unwrap()).unwrap();
    let claim = Claim {
        node,
        nodes: Nodes::of(&[NodeId(0)], room).unwrap(),
        purpose: Purpose::Enter {
            to: 0,
            by: 0,
            key,
            port: 1,
        },
    };
    handshake::connect(stream, &credentials(), &claim, soon())
}

fn admitted(at: &Address, key: u64) -> (Admission, Session) {
    match ask(at, key) {
        (Answer::Admitted(admission), session) => (admission, session),
        (other, _) => panic!("{other:?}"),
    }
}

/// Joins for good, and checks the id and the view that come of it.
fn join(member: &Mesh, at: impl IntoIterator<Item = Address>, id: u16) {
    let join = Join::by(at).unwrap().secret(secret());
    let mesh = Mesh::join(&join.timeouts(Timeouts::default().connect(HOUR))).unwrap();
    assert_eq!(mesh.node(), NodeId(id));
    let view = member.next_view(1, soon()).unwrap();
    assert_eq!(view.members(), [NodeId(0), NodeId(id)]);
    assert_eq!(member.departures(), 0, "who was never in is not reported");
}

/// The time to connect is an hour: what is seen at once is the end of the connection.
#[test]
fn a_newcomer_that_ends_before_it_connects_is_not_waited_for() {
    let (member, at) = alone(HOUR);
    let (admission, session) = admitted(&at, 7);
    assert_eq!((admission.index, admission.room), (1, 4));
    assert!(matches!(ask(&at, 8), (Answer::Later, _)), "one at a time");
    drop(session);
    join(&member, [at], 2);
}

/// Nobody connects here: a real newcomer would have no more time than the first.
#[test]
fn a_newcomer_that_stays_and_does_not_connect_has_limited_time() {
    let (_member, at) = alone(Duration::from_millis(300));
    let (_, mut session) = admitted(&at, 7);
    let next = loop {
        match ask(&at, 8).0 {
            Answer::Later => thread::sleep(Duration::from_millis(10)),
            answer => break answer,
        }
    };
    assert!(
        matches!(&next, Answer::Admitted(admission) if admission.index == 2),
        "{next:?}"
    );
    let late = enter(&at, 7, 1, 4).unwrap();
    assert!(
        late.contains("it has lost this node, which did not connect in time"),
        "{late}"
    );
    // It is not to take this for the end of the member.
    assert_eq!(session.read::<Refusal>(64, soon()).unwrap(), Refusal::Late);
}

/// Neither the connection nor the thread that waits for its end outlives the member, which gave the newcomer an hour.
#[test]
fn a_member_that_leaves_keeps_nothing_of_a_newcomer_on_its_way() {
    for fails in [false, true] {
        let (member, at) = alone(HOUR);
        let (_, session) = admitted(&at, 7);
        let left = Arc::downgrade(wire(&member));
        match fails {
            true => member.fail(),
            false => member.close(),
        }
        wait_for_end(session);
        drop(member);
        wait_for(|| left.upgrade().is_none());
    }
}

/// Its key tells a process that was let in from one that is not expected.
#[test]
fn a_process_that_was_not_let_in_is_not_taken_for_the_newcomer() {
    let (_member, at) = alone(HOUR);
    let (_, _session) = admitted(&at, 7);
    let enter = |key, node, room| enter(&at, key, node, room);
    let not_now = Some("it refuses: it does not expect this node now".to_owned());
    // Another one has this id, so that it will never be that of this key.
    assert!(enter(8, 1, 4).is_some_and(|error| error.contains("will not let this node in any more")));
    assert_eq!(enter(7, 2, 4), not_now);
    assert!(enter(7, 1, 5).is_some_and(|error| error.contains("room for 4 nodes")));
    assert_eq!(enter(7, 1, 4), None);
}

/// Waits for a newcomer to close the connection on which it asked.
pub(super) fn wait_for_end(mut session: Session) {
    let ended = session.read::<()>(0, soon()).unwrap_err();
    assert_eq!(ended.kind(), std::io::ErrorKind::UnexpectedEof);
}

/// It sends what no node sends, and goes on when it is cut off.
#[test]
fn who_goes_on_sending_after_its_loss_is_hung_up_on() {
    let (_member, at) = alone(HOUR);
    let (_, _session) = admitted(&at, 7);
    let mut session = connect(&at, 7, 1, 4).unwrap();
    let own = introduction::Introduction::of_process(&Timeouts::default());
    door::tell_introduction(&mut session, &own, soon()).unwrap();
    door::hear_introduction(&mut session, soon()).unwrap();
    let mut sent = 0;
    let garbage = vec![0; 1 << 20];
    while let Ok(n) = std::io::Write::write(&mut session.stream, &garbage) {
        sent += n;
        assert!(sent < 1 << 30, "its bytes are read for ever");
    }
    // One that reads has read its loss before.
    assert!(sent > closing::DROPPED_BYTES_MAX, "{sent}");
}

/// Returns the address of a listener that takes connections and never says anything, like a process that is stopped.
pub(super) fn silent() -> (TcpListener, Address) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = Address::from(listener.local_addr().unwrap());
    (listener, at)
}

/// The newcomer's time to connect is an hour.
#[test]
fn a_member_that_does_not_answer_keeps_nobody_from_the_next() {
    let (member, at) = alone(HOUR);
    let (_listener, silent) = silent();
    join(&member, [silent, at], 1);
}

/// Brings up a job of one node with another id, and returns it with its address.
fn of_another_job() -> (Mesh, Address) {
    let address = Address::from(free_addresses(&["127.0.0.1"])[0]);
    let hosts = Hosts::from_pairs([(NodeId(0), address.clone())]).unwrap();
    let job = Job::builder(NodeId(0)).secret(secret()).nodes_max(4);
    let job = job.id("another").hosts(hosts).unwrap();
    (Mesh::connect(&job).unwrap(), address)
}

/// Plays a member that names the one that lets nodes in. That one has gone, and another job has its port, until its loss is agreed.
#[test]
fn a_member_that_is_named_and_is_another_ends_no_join() {
    let (member, at) = alone(HOUR);
    let (_other, foreign) = of_another_job();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let asked = Address::from(listener.local_addr().unwrap());
    let playing = thread::spawn(move || {
        for named in [foreign, at] {
            let (stream, _) = listener.accept().unwrap();
            let (_, mut session) = handshake::accept(stream, &credentials(), soon(), |_| Ok(())).unwrap();
            let answer = Answer::Ask(admission::Place::of(&named));
            session.write(&answer, soon()).unwrap();
        }
    });
    join(&member, [asked], 1);
    playing.join().unwrap();
}

/// Each stands first among the addresses of a member that lets the newcomer in.
#[test]
fn an_address_that_does_not_do_keeps_nobody_from_the_next() {
    let (member, at) = alone(HOUR);
    let (_other, foreign) = of_another_job();
    let nobody = Address::from(free_addresses(&["127.0.0.1"])[0]);
    // A part of a name has 63 letters at most, so that no server is asked for it.
    let name = "x".repeat(64);
    let nameless = Address::parse(&name, Some(1)).unwrap();
    let addresses = [nobody.clone(), foreign.clone(), nameless.clone(), at];
    join(&member, addresses, 1);
    let reason = |at: [&Address; 2]| {
        let join = Join::by(at.map(Clone::clone)).unwrap().secret(secret());
        Mesh::join(&join).unwrap_err().to_string()
    };
    let other = reason([&nobody, &foreign]);
    assert!(
        other.contains(&format!("{foreign}: it belongs to another job")),
        "{other}"
    );
    assert!(reason([&nobody, &nameless]).contains(&format!("resolving host `{name}`")));
    assert!(reason([&nobody, &nobody]).contains("the job is over"));
}

/// It listens while it waits for its nodes, and no longer.
#[test]
fn a_job_with_a_fixed_number_of_nodes_lets_nobody_in() {
    let free = free_addresses(&["127.0.0.1"; 2]);
    let addresses = [0, 1].map(|node: usize| Address::from(free[node]));
    let hosts = Hosts::from_pairs((0..).map(NodeId).zip(addresses.clone())).unwrap();
    let connecting = |id| {
        let job = Job::builder(NodeId(id)).secret(secret());
        // The test takes as long as it takes until the other node starts.
        let job = job
            .timeouts(Timeouts::default().connect(HOUR))
            .hosts(hosts.clone());
        thread::spawn(move || Mesh::connect(&job.unwrap()).unwrap())
    };
    let zero = connecting(0);
    let join = Join::by(addresses).unwrap().secret(secret());
    let reason = || Mesh::join(&join).unwrap_err().to_string();
    let mut refused = String::new();
    wait_for(|| {
        refused = reason();
        refused.contains("it refuses")
    });
    let remedy = "its job has a fixed number of nodes; start it with room for more (`loco run --nodes-max`, LOCO_NODES_MAX)";
    assert!(refused.contains(remedy), "{refused}");
    let meshes = [connecting(1), zero].map(|mesh| mesh.join().unwrap());
    let refused = reason();
    let over = "the job is over, is not up yet, or has a fixed number of nodes; start it with room for more (`loco run --nodes-max`, LOCO_NODES_MAX)";
    assert!(
        refused.contains("nobody listens") && refused.contains(over),
        "{refused}"
    );
    drop(meshes);
}

#[test]
fn a_member_of_another_version_is_named_with_the_remedy() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = Address::from(listener.local_addr().unwrap());
    let playing = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let version = handshake::PROTOCOL_VERSION + 1;
        let hello = [&b"LOCO"[..], &version.to_le_bytes(), &[0; 16]].concat();
        std::io::Write::write_all(&mut stream, &hello).unwrap();
        // The other side closes, and may have left something unread.
        let _ = std::io::Read::read_to_end(&mut stream, &mut Vec::new());
    });
    let join = Join::by([at.clone()]).unwrap().secret(secret());
    let error = Mesh::join(&join).unwrap_err().to_string();
    playing.join().unwrap();
    let reason = format!(
        "{at}: it speaks protocol version {}",
        handshake::PROTOCOL_VERSION + 1
    );
    assert!(error.contains(&reason), "{error}");
    assert!(error.contains("build all nodes from the same sources"), "{error}");
}

/// Brings up a job of two nodes with room for more. Node 0 lets newcomers in, and takes node 1 to listen at an address at which it does
/// not: `elsewhere`, given that of node 0.
fn pair(elsewhere: impl FnOnce(&Address) -> Address) -> ([Mesh; 2], Join) {
    let free = free_addresses(&["127.0.0.1"; 2]);
    let [zero, one] = [0, 1].map(|node: usize| Address::from(free[node]));
    let members = [[zero.clone(), elsewhere(&zero)], [zero.clone(), one]];
    let mut id = 0;
    let meshes = members.map(|addresses| {
        let job = Job::builder(NodeId(id)).secret(secret()).nodes_max(4);
        let job = job.timeouts(Timeouts::default().connect(HOUR));
        let job = job.hosts(Hosts::from_pairs((0..).map(NodeId).zip(addresses)).unwrap());
        id += 1;
        thread::spawn(move || Mesh::connect(&job.unwrap()).unwrap())
    });
    let join = Join::by([zero]).unwrap().secret(secret());
    let meshes = meshes.map(|mesh| mesh.join().unwrap());
    (meshes, join.timeouts(Timeouts::default().connect(HOUR)))
}

fn wire(mesh: &Mesh) -> &Arc<Wire> {
    match &mesh.end().link {
        Way::Tcp(wire, _) => wire,
        Way::InProcess(_) => panic!("a mesh within one process"),
    }
}

/// Waits for what another thread brings about.
fn wait_for(mut ready: impl FnMut() -> bool) {
    let deadline = soon();
    while !ready() {
        assert!(Std.now() < deadline, "waited for too long");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The newcomer has no way to node 1, which loses it. Nothing would be otherwise if it asked again.
#[test]
fn a_newcomer_that_cannot_reach_a_member_uses_up_one_id() {
    let (_listener, silent) = silent();
    let refusing = Address::from(free_addresses(&["127.0.0.1"])[0]);
    for elsewhere in [silent, refusing] {
        uses_up_one_id(elsewhere);
    }
}

fn uses_up_one_id(elsewhere: Address) {
    let ([zero, one], join) = pair(|_| elsewhere);
    let joining = {
        let join = join.clone();
        thread::spawn(move || Mesh::join(&join).map(drop))
    };
    let state = &one.end().state;
    wait_for(|| !state.expected().is_empty());
    let (newcomer, key) = state.expected()[0];
    wait_for(|| zero.end().state.expected().is_empty());
    wire(&one).lose_if_expected(newcomer, key);
    let error = joining.join().unwrap().unwrap_err();
    assert!(matches!(error, FabricError::Timeout { .. }), "{error}");
    assert!(error.to_string().contains("node 1"), "{error}");
    wait_for(|| matches!(ask(&join.members[0], 8).0, Answer::Admitted(admission) if admission.index == 3));
}

/// The system may give the port of a member that has ended to another, here to node 0.
#[test]
fn who_listens_at_the_port_of_a_member_and_is_another_ends_no_join() {
    let ([zero, one], join) = pair(|zero| Address::parse("localhost", Some(zero.port())).unwrap());
    let joining = thread::spawn(move || Mesh::join(&join));
    let state = &zero.end().state;
    let is_connected = || wire(&zero).is_attached(2) && state.expected().is_empty();
    wait_for(|| is_connected() || joining.is_finished());
    one.fail();
    let newcomer = joining.join().unwrap().unwrap();
    assert_eq!(newcomer.nodes(), [0, 1, 2].map(NodeId));
    assert!(newcomer.is_gone(NodeId(1)));
}

/// A revoker that speaks for all, and tells whom it was to revoke.
struct ForAll(std::sync::mpsc::Sender<NodeId>);

impl Revoke for ForAll {
    fn revoke(&self, peer: NodeId) -> Revoked {
        self.0.send(peer).unwrap();
        Revoked::DoneForAll
    }
}

/// One node may have a fabric of a view already that another has not.
#[test]
fn where_a_job_grows_a_revoker_is_for_its_view_and_speaks_for_its_node() {
    let nodes: Arc<[NodeId]> = [0, 1, 2].map(NodeId).into();
    let revoking = |count| {
        let state = State::with_room(NodeId(0), Arc::clone(&nodes), count);
        let (sender, revoked) = std::sync::mpsc::channel();
        let scope = Scope::of(View::first(&nodes[..2]), &nodes).unwrap();
        state.add_revoker(scope, Arc::new(ForAll(sender)));
        let outcomes = [state.revoke(NodeId(1)), state.revoke(NodeId(2))];
        (outcomes, revoked.try_iter().collect::<Vec<_>>())
    };
    let of_its_view = vec![NodeId(1)];
    assert_eq!(revoking(2), ([Revoked::Done; 2], of_its_view.clone()));
    assert_eq!(revoking(3), ([Revoked::DoneForAll, Revoked::Done], of_its_view));
}

/// A node may be shut out through the fabric of a later view alone, by a newcomer.
#[test]
fn a_node_is_out_as_soon_as_any_of_its_fabrics_shows_it() {
    let (zero, at) = alone(HOUR);
    let join = Join::by([at]).unwrap().secret(secret());
    let one = Mesh::join(&join).unwrap();
    let second = zero.of_view(&zero.next_view(1, soon()).unwrap()).unwrap();
    zero.look_for_revocation(|| false);
    let is_shut_out = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let shown = Arc::clone(&is_shut_out);
    second.look_for_revocation(move || shown.load(std::sync::atomic::Ordering::SeqCst));
    assert!(!zero.declared_lost());
    is_shut_out.store(true, std::sync::atomic::Ordering::SeqCst);
    assert!(zero.declared_lost());
    // No more views come to it.
    assert_eq!(zero.next_view(2, Time::NEVER), None);
    drop(one);
}

#[test]
fn what_belongs_to_the_fabrics_of_a_view_is_dropped_with_it() {
    let (zero, at) = alone(HOUR);
    let one = Mesh::join(&Join::by([at]).unwrap().secret(secret())).unwrap();
    let second = zero.of_view(&zero.next_view(1, soon()).unwrap()).unwrap();
    let looked = Arc::new(());
    for mesh in [&zero, &second] {
        mesh.add_revoker(Arc::new(ForAll(std::sync::mpsc::channel().0)));
        let kept = Arc::clone(&looked);
        mesh.look_for_revocation(move || Arc::strong_count(&kept) == 0);
    }
    let kept = |end: &End| (end.state.revokers(), Arc::strong_count(&looked));
    second.close();
    assert_eq!(kept(zero.end()), (2, 3), "its fabric may be there still");
    drop(second);
    assert_eq!(kept(zero.end()), (1, 2));
    drop(one);
}

/// A fabric that comes up after a node was shut out is shut to it, too.
#[test]
fn a_new_fabric_is_shut_to_those_that_were_shut_out_before() {
    let nodes: Arc<[NodeId]> = [0, 1, 2, 3].map(NodeId).into();
    let state = State::with_room(NodeId(0), Arc::clone(&nodes), 3);
    state.expose();
    // Its loss is not reported: node 2 has not said that it has revoked the access.
    let _ = state.agree(|agreement, actions| agreement.lose(1, actions), |_, _| ());
    assert!(state.is_suspect(1));
    let (sender, revoked) = std::sync::mpsc::channel();
    let scope = Scope::of(View::first(&nodes[..3]), &nodes).unwrap();
    state.add_revoker(scope, Arc::new(ForAll(sender)));
    assert_eq!(revoked.try_iter().collect::<Vec<_>>(), [NodeId(1)]);
}

/// What is noted is of the process, so that no other test has these ids.
#[test]
fn a_newcomer_that_was_never_in_is_missed_by_nobody() {
    let nodes: Arc<[NodeId]> = [500, 501, 502, 503].map(NodeId).into();
    let state = State::with_room(NodeId(500), nodes, 2);
    state.expose();
    let agree = |event: &dyn Fn(&mut Agreement, &mut Vec<agreement::Action>)| {
        let _ = state.agree(event, |_, _| ());
    };
    agree(&|own, actions| {
        own.attach(1, actions);
        assert_eq!(own.propose(7, actions).unwrap().index, 2);
    });
    for (victim, missed) in [(2, 0), (1, 1)] {
        agree(&|own, actions| own.lose(victim, actions));
        agree(&|own, actions| own.revoked(victim, Revoked::Done, actions));
        assert_eq!(crate::missed_by(NodeId(500)), missed);
    }
}

/// A member that was stopped for half an hour has given the newcomer no more time than it has run itself.
#[test]
fn time_in_which_a_member_did_not_run_is_not_that_of_newcomers() {
    let interval = Duration::from_millis(100);
    let start = Std.now();
    let mut expected = std::collections::BTreeMap::from([((2, 7), start)]);
    for (pass, forgiven) in [(interval, 0), (Duration::from_millis(1_800_200), 1_800_000)] {
        wire::forgive_own_absence(&mut [], &mut expected, pass, interval);
        let since = expected[&(2, 7)].since(start);
        assert_eq!(since, Duration::from_millis(forgiven));
    }
}

/// What `JobBuilder::nodes_max` says of the memory that an id takes.
#[test]
fn an_id_takes_about_as_much_memory_as_is_said() {
    let of_wire = size_of::<std::sync::OnceLock<connection::Connection>>() + size_of::<wire::Incoming>();
    // The descriptors of its connection and its process in the list of the I/O thread.
    let watched = 2 * 2 * size_of::<rustix::event::epoll::EventFlags>();
    // Its id, and what `State` and the agreement keep.
    let of_state = size_of::<NodeId>() + 1 + size_of::<usize>() + 3;
    let all = of_wire + watched + of_state;
    assert!((250..=350).contains(&all), "{all} bytes");
    let newcomer = agreement::Newcomer {
        index: 1,
        key: 7,
        members: vec![0],
        epoch: 2,
    };
    let view = View::first(&[NodeId(0)]);
    let of_member = size_of_val(&newcomer.members[0]) + size_of_val(&view.members()[0]);
    assert_eq!(of_member, 10, "bytes of each member, once the id is used");
}

/// An answer that no member gives is refused, and does not make the newcomer panic.
#[test]
fn an_admission_that_contradicts_itself_is_refused() {
    let admission = |first: &[u16], index, room, members: &[u32]| Admission {
        first: first.to_vec(),
        room,
        index,
        view: index + 1,
        members: members
            .iter()
            .map(|&member| {
                (
                    member,
                    admission::Place::of(&Address::parse("alpha:1", None).unwrap()),
                )
            })
            .collect(),
    };
    let sound = admission(&[0, 5], 3, 4, &[0, 2]);
    assert_eq!(sound.ids().unwrap(), [0, 5, 6, 7].map(NodeId));
    for wrong in [
        admission(&[0], 4, 4, &[0]),
        admission(&[0], 1, 4, &[1]),
        admission(&[0], 3, 4, &[2, 0]),
        admission(&[5, 0], 3, 4, &[0]),
        admission(&[0, 1], 0, 1, &[]),
        admission(&[u16::MAX], 1, 2, &[0]),
    ] {
        assert!(wrong.ids().is_err(), "{wrong:?}");
    }
}
