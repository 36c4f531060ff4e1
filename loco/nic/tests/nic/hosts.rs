//! Processes of several hosts: two addresses of the loopback are two hosts, and so are two network namespaces, whose link can be cut.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loco_host::dispatch::{Destination, Dispatcher, HostTable, PENDING_MAX};
use loco_host::places;
use loco_testing::skipped;

use crate::support::{
    Ended, Host, World, compiled_of, is_lost, lacks, wait_for_listener_of, wait_for_port,
    wait_until_it_writes,
};

/// How many processes a world may have, as the library has it.
const NUMBERS: u32 = 1 << 12;
/// A hang, however loaded the host is.
const HANG: Duration = Duration::from_secs(60);

/// Two hosts of a world, and what their dispatchers say.
struct Two {
    hosts: [World; 2],
    tables: [HostTable; 2],
    lines: [Receiver<String>; 2],
}

impl Two {
    /// Makes two hosts at addresses of the loopback.
    fn new(tier: &'static str, stress: &'static str) -> Two {
        let at = loco_testing::free_addresses(&["127.0.0.2", "127.0.0.3"]);
        Two::at(tier, stress, &at, [None, None])
    }

    fn at(tier: &'static str, stress: &'static str, at: &[SocketAddr], networks: [Option<String>; 2]) -> Two {
        let tables = [0, 1].map(|own| HostTable::new(at.to_vec(), own, NUMBERS).unwrap());
        let made = [0, 1].map(|own: usize| {
            let world = World::new(tier, stress, 5).on(Host {
                hosts: tables[own].text(),
                own,
                secret: "a secret of two hosts",
                network: networks[own].clone(),
            });
            let dispatcher = Arc::new(Dispatcher {
                hosts: tables[own].clone(),
                folder: world.meeting(),
                prefix: "nic",
            });
            let listener = listen(at[own], networks[own].as_deref());
            let (says, said) = channel();
            std::thread::spawn(move || dispatcher.serve(&listener, move |line| drop(says.send(line))));
            (world, said)
        });
        let [(one, first), (two, second)] = made;
        Two {
            hosts: [one, two],
            tables,
            lines: [first, second],
        }
    }

    fn address(&self, host: usize) -> String {
        self.tables[host].own_address().ip().to_string()
    }

    /// Runs a program of `target` and `form` on both hosts. Returns how they ended.
    fn apart(&self, program: &PathBuf, form: &str, rounds: &str) -> [Output; 2] {
        let (target, client) = self.start_apart(program, form, rounds);
        let client = client.wait_with_output().unwrap();
        [target.wait_with_output().unwrap(), client]
    }

    fn start_apart(&self, program: &PathBuf, form: &str, rounds: &str) -> (Child, Child) {
        let address = self.address(0);
        let port = loco_testing::free_addresses(&["127.0.0.1"])[0].port().to_string();
        let target = self.hosts[0].start(program, &["target", &address, &port]);
        wait_for_listener_of(target.id(), &port);
        let client = self.hosts[1].start(program, &[form, &address, &port, rounds]);
        (target, client)
    }
}

/// Listens in a network namespace, or in the test's own.
fn listen(at: SocketAddr, network: Option<&str>) -> TcpListener {
    let path = network.map(|network| format!("/run/netns/{network}"));
    // A socket stays in the namespace of the thread that made it.
    let listening = std::thread::spawn(move || {
        if let Some(path) = path {
            let file = std::fs::File::open(path).unwrap();
            let kind = rustix::thread::LinkNameSpaceType::Network;
            rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), Some(kind)).unwrap();
        }
        TcpListener::bind(at).unwrap()
    });
    listening.join().unwrap()
}

/// Runs a server on the first host and a client on the second, and checks that both succeed.
fn meet(two: &Two, program: &str, server: &[&str], client: &[&str], ready: impl FnOnce(&Child)) -> String {
    let mut server = Ended(Some(two.hosts[0].start(program, server)));
    ready(server.0.as_ref().unwrap());
    let client = two.hosts[1].run(program, client);
    let server = server.0.take().unwrap().wait_with_output().unwrap();
    assert!(
        client.status.success() && server.status.success(),
        "client: {client:?}\nserver: {server:?}"
    );
    String::from_utf8_lossy(&client.stdout).into_owned()
}

fn meet_by_socket(two: &Two, program: &str, args: &[&str]) -> String {
    let port = loco_testing::free_addresses(&["127.0.0.1"])[0].port().to_string();
    let server = [&["-p", &port], args].concat();
    let address = two.address(0);
    let client = [&server[..], &[&address]].concat();
    meet(two, program, &server, &client, |server| {
        wait_for_listener_of(server.id(), &port)
    })
}

fn ping_pong(two: &Two) {
    let said = meet_by_socket(two, "ibv_rc_pingpong", &["-g", "1", "-n", "100", "-c"]);
    assert!(said.contains(" iters in "), "{said}");
}

#[test]
fn programs_of_two_hosts_meet() {
    if lacks("ibv_rc_pingpong") || lacks("ib_write_bw") || lacks("rping") {
        return;
    }
    for (tier, stress) in [("ibta", "none"), ("unordered", "default")] {
        let two = Two::new(tier, stress);
        ping_pong(&two);
        let address = two.address(0);
        let common = ["-a", &address, "-C", "20", "-V", "-S", "1000"];
        let [server, client] = [["-s"], ["-c"]].map(|side| [&side[..], &common].concat());
        meet(&two, "rping", &server, &client, |_| wait_for_port(&two.hosts[0]));
        for host in &two.hosts {
            assert_eq!(
                std::fs::read_dir(host.meeting()).unwrap().count(),
                0,
                "nothing is left"
            );
        }
    }
    let two = Two::new("ibta", "none");
    let measured = ["-d", "loco0", "-x", "1", "-F", "-n", "200", "-s", "65536"];
    let said = meet_by_socket(&two, "ib_write_bw", &measured);
    assert!(said.contains("#bytes"), "{said}");
}

/// Further devices have no address of their own there. Their GIDs are made of their GUIDs.
#[test]
fn further_devices_of_two_hosts_meet() {
    if lacks("ibv_rc_pingpong") || lacks("ibv_ud_pingpong") {
        return;
    }
    let mut two = Two::new("ibta", "default");
    two.hosts = two.hosts.map(|host| host.with("LOCO_NIC_DEVICES", "2"));
    for program in ["ibv_rc_pingpong", "ibv_ud_pingpong"] {
        let said = meet_by_socket(&two, program, &["-d", "loco1", "-g", "1", "-n", "100"]);
        assert!(said.contains(" iters in "), "{said}");
    }
}

/// Runs `alike.c` with its target in one world and its client in another, and checks that both succeed. Returns what the client saw.
fn alike(program: &PathBuf, target: &World, client: &World, address: &str, seed: &str) -> String {
    let port = loco_testing::free_addresses(&["127.0.0.1"])[0].port().to_string();
    let mut target = Ended(Some(target.start(program, &["target", address, &port, seed])));
    wait_for_listener_of(target.0.as_ref().unwrap().id(), &port);
    let client = client.run(program, &["client", address, &port, seed, "120"]);
    let target = target.0.take().unwrap().wait_with_output().unwrap();
    assert!(
        client.status.success() && target.status.success(),
        "seed {seed}: client: {client:?}\ntarget: {target:?}"
    );
    String::from_utf8_lossy(&client.stdout).into_owned()
}

/// The shared memory of one host, and the bells beside it, do what a socket does that carries every byte.
#[test]
fn a_random_program_ends_alike_on_one_host_and_on_two() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled_of("programs", "alike", folder.path()) else {
        return;
    };
    for stress in ["none", "default"] {
        let two = Two::new("ibta", stress);
        // All ways in which the two wait.
        for seed in ["0", "1", "2", "3", "4", "5"] {
            let one = World::new("ibta", stress, 5);
            let here = alike(&program, &one, &one, "127.0.0.1", seed);
            let there = alike(&program, &two.hosts[0], &two.hosts[1], &two.address(0), seed);
            assert!(here == there && !here.is_empty(), "seed {seed}: {here} {there}");
        }
    }
}

/// A target whose client is gone ends, however it waits for messages.
#[test]
fn a_random_program_whose_client_fails_ends() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled_of("programs", "alike", folder.path()) else {
        return;
    };
    for seed in ["0", "1", "2"] {
        let world = World::new("ibta", "none", 5);
        let port = loco_testing::free_addresses(&["127.0.0.1"])[0].port().to_string();
        let target = world.start(&program, &["target", "127.0.0.1", &port, seed]);
        let mut target = Ended(Some(target));
        wait_for_listener_of(target.0.as_ref().unwrap().id(), &port);
        let client = world.run(&program, &["fails", "127.0.0.1", &port, seed, "0"]);
        assert_eq!(client.status.code(), Some(1), "{client:?}");
        let target = target.0.take().unwrap().wait_with_output().unwrap();
        assert_eq!(target.status.code(), Some(1), "{target:?}");
    }
}

#[test]
fn a_mistake_shows_between_two_hosts_and_its_mended_form_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled_of("programs", "apart", folder.path()) else {
        return;
    };
    let two = Two::new("ooo-rw", "default");
    let [target, client] = two.apart(&program, "mistake", "100000");
    assert_eq!(target.status.code(), Some(3), "{target:?}, {client:?}");
    for output in two.apart(&program, "mended", "300") {
        assert!(output.status.success(), "{output:?}");
    }
    let ordered = Two::new("ibta", "default");
    for output in ordered.apart(&program, "mistake", "300") {
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn a_killed_process_of_another_host_is_one_that_does_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled_of("programs", "apart", folder.path()) else {
        return;
    };
    let two = Two::new("ibta", "default");
    let (mut target, mut writer) = two.start_apart(&program, "lost", "0");
    let said = wait_until_it_writes(&mut writer);
    target.kill().unwrap();
    target.wait().unwrap();
    is_lost(writer, said);
}

/// Two network namespaces with a link between them, which go at the end.
struct Networks([String; 2]);

impl Networks {
    /// Makes them, or reports the calling test as skipped.
    fn new() -> Option<Networks> {
        static COUNT: Mutex<u32> = Mutex::new(0);
        let mut count = COUNT.lock().unwrap();
        *count += 1;
        let name = |side| format!("loco-nic-{}-{count}{side}", std::process::id());
        let networks = Networks([name("a"), name("b")]);
        let [a, b] = &networks.0;
        let link = format!("ip -n {a} link add eth0 type veth peer name eth0 netns {b}");
        let mut lines = vec![format!("ip netns add {a}"), format!("ip netns add {b}"), link];
        for (network, address) in [(a, "10.77.0.1"), (b, "10.77.0.2")] {
            lines.push(format!("ip -n {network} address add {address}/24 dev eth0"));
            lines.push(format!("ip -n {network} link set lo up"));
            lines.push(format!("ip -n {network} link set eth0 up"));
        }
        for line in lines {
            if let Err(why) = run(&line) {
                skipped(
                    "NETWORK_NAMESPACE",
                    format!("`{line}` fails, which root may do: {why}"),
                );
                return None;
            }
        }
        Some(networks)
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for network in &self.0 {
            let _ = run(&format!("ip netns delete {network}"));
        }
    }
}

fn run(line: &str) -> Result<(), String> {
    let mut words = line.split(' ');
    let output = Command::new(words.next().unwrap()).args(words).output();
    let output = output.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    output.status.success().then_some(()).ok_or(said)
}

#[test]
fn a_host_whose_link_is_cut_is_one_that_does_not_answer() {
    if lacks("ibv_rc_pingpong") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled_of("programs", "apart", folder.path()) else {
        return;
    };
    let Some(networks) = Networks::new() else { return };
    let at = ["10.77.0.1:7700", "10.77.0.2:7701"].map(|at| at.parse().unwrap());
    let two = Two::at("ibta", "none", &at, networks.0.clone().map(Some));
    ping_pong(&two);
    let (target, mut writer) = two.start_apart(&program, "lost", "0");
    let mut target = Ended(Some(target));
    let said = wait_until_it_writes(&mut writer);
    run(&format!("ip -n {} link set eth0 down", networks.0[0])).unwrap();
    is_lost(writer, said);
    target.0.as_mut().unwrap().kill().unwrap();
}

#[test]
fn who_does_not_know_the_secret_reaches_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled_of("programs", "apart", folder.path()) else {
        return;
    };
    let two = Two::new("ibta", "none");
    let [one, other] = two.hosts;
    let stranger = other.on(Host {
        hosts: two.tables[1].text(),
        own: 1,
        secret: "another secret",
        network: None,
    });
    let two = Two {
        hosts: [one, stranger],
        ..two
    };
    let [target, writer] = two.apart(&program, "lost", "0");
    let said = String::from_utf8_lossy(&writer.stdout) + String::from_utf8_lossy(&writer.stderr);
    assert!(writer.status.success(), "{writer:?}");
    assert!(said.contains("transport retry counter exceeded"), "{said}");
    assert!(said.contains("does not know the world's secret"), "{said}");
    let said = String::from_utf8_lossy(&target.stderr).into_owned();
    assert!(said.contains("closed a connection from"), "{said}");
    assert!(said.contains("does not know the world's secret"), "{said}");
}

#[test]
fn strangers_at_the_port_are_sent_away_and_do_no_harm() {
    if lacks("ibv_rc_pingpong") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled_of("programs", "apart", folder.path()) else {
        return;
    };
    let two = Two::new("ibta", "none");
    let address = two.tables[0].own_address();
    let said = |what: &str| {
        let begun = std::time::Instant::now();
        loop {
            let line = two.lines[0].recv_timeout(HANG).unwrap();
            assert!(line.contains("closed a connection from"), "{line}");
            if line.contains(what) {
                return;
            }
            // Those who say nothing are sent away after a while.
            assert!(line.contains("says nothing") && begun.elapsed() < HANG, "{line}");
        }
    };
    // Some say nothing, and keep nobody waiting.
    let silent: Vec<_> = (0..10).map(|_| TcpStream::connect(address).unwrap()).collect();
    for garbage in [
        &b"GET / HTTP/1.1\r\nHost: alpha.example.org\r\n\r\n"[..],
        &[0xff; 4096],
        &[0; 200],
    ] {
        let mut stranger = TcpStream::connect(address).unwrap();
        let _ = stranger.write_all(garbage);
        let mut end = Vec::new();
        // The port is closed, and nothing is said.
        let _ = stranger.read_to_end(&mut end);
        assert!(end.is_empty());
        said("does not speak as a NIC");
    }
    // Some name a process that is there, and then send garbage.
    let (target, mut writer) = two.start_apart(&program, "lost", "0");
    let mut target = Ended(Some(target));
    let writes = wait_until_it_writes(&mut writer);
    let names = places::names(&two.hosts[0].meeting(), "nic").unwrap();
    let place = names
        .iter()
        .find_map(|name| places::parsed("nic", name))
        .unwrap()
        .0;
    let destination = Destination::Process(two.tables[0].number(place));
    for garbage in [&[0; 4096][..], &[0xff; 100_000], b"HELLO"] {
        let (mut stranger, _) = two.tables[1].connect(0, destination, HANG).unwrap();
        let _ = stranger.write_all(garbage);
        let _ = stranger.shutdown(std::net::Shutdown::Write);
        let mut end = Vec::new();
        let _ = stranger.read_to_end(&mut end);
        assert!(end.is_empty());
    }
    let lines = BufReader::new(target.0.as_mut().unwrap().stderr.take().unwrap()).lines();
    for line in lines.take(3) {
        let line = line.unwrap();
        assert!(line.contains("closed a connection from 127.0.0.1:"), "{line}");
    }
    target.0.as_mut().unwrap().kill().unwrap();
    is_lost(writer, writes);
    ping_pong(&two);
    // No more than so many are pending at once.
    let crowd: Vec<_> = (0..=PENDING_MAX)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    said("too many connections are pending");
    drop((silent, crowd));
}
