//! The counters of a node: what is counted, and that an exporter hands it out.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use loco::fabric::{Fabric, NodeId, ShmConfig, ShmFabric, Tier, var};
use loco::fence::{self, Scope};
use loco::metrics::{BYTES, COMPLETIONS, Counters, FENCES, LOCK_WAITS, OPERATIONS, RETRIES};
use loco::{
    Barrier, Inserted, KvConfig, KvStore, Manager, Result, SharedRegion, SharedVar, TasLock, Thread,
    TicketLock, testing,
};
use loco_conformance::job::Processes;
use loco_test_networks::deferred::{Deferred, Nic};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};

/// Hands the counters of a node to an exporter of its own, and returns them: by the name with its labels, `node` left out.
fn counted(counters: &Counters, recorder: &PrometheusRecorder) -> BTreeMap<String, u64> {
    metrics::with_local_recorder(recorder, || counters.publish_now());
    read(&recorder.handle().render())
}

/// Reads the lines of an exporter.
fn read(text: &str) -> BTreeMap<String, u64> {
    let lines = text.lines().filter(|line| line.starts_with("loco_"));
    let one = |line: &str| {
        let (name, value) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = name.split_once('{').expect("labels");
        let labels = labels.trim_end_matches('}').split(',');
        let mut others = labels.filter(|label| !label.starts_with("node="));
        let key = others
            .next()
            .map_or(name.to_owned(), |label| format!("{name}{{{label}}}"));
        (key, value.parse().expect("a number"))
    };
    lines.map(one).collect()
}

fn kind(name: &str, kind: &str) -> String {
    format!("{name}{{kind=\"{kind}\"}}")
}

/// Publishes the counters of a node to an exporter of their own, and never by themselves.
fn published<F: Fabric>(node: &Manager<F>) -> Result<(Counters, PrometheusRecorder)> {
    let counters = Counters::publish(node, Duration::MAX)?;
    Ok((counters, PrometheusBuilder::new().build_recorder()))
}

/// Makes `calls` on node 0 of two, which have a region each, and gives `check` how much each counter of it grew.
fn counting<F: Fabric>(
    fabric: F,
    calls: impl Fn(&Thread<F>, &SharedRegion<F>) -> Result<()>,
    check: impl Fn(&dyn Fn(&str) -> u64),
) -> Result<()> {
    let node = Manager::new(fabric)?;
    let region = SharedRegion::new(&node, "region", 64)?;
    let end = Barrier::new(&node, "end")?;
    node.wait_for_ready()?;
    let thread = node.thread()?;
    let (counters, recorder) = published(&node)?;
    if node.node() == NodeId(0) {
        let before = counted(&counters, &recorder);
        calls(&thread, &region)?;
        let after = counted(&counters, &recorder);
        check(&|name| after[name] - before[name]);
    }
    end.wait(&thread)
}

#[test]
fn operations_bytes_and_fences_are_counted_where_they_are_done_at_once() {
    testing::run(2, |fabric| {
        counting(
            fabric,
            |thread, region| {
                let at = || region.target(NodeId(1), 0);
                thread.put_inline_untracked(&[1; 24], at()?)?;
                thread.put_inline(&[1; 8], at()?)?.wait(thread)?;
                thread.fetch_add_word(at()?, 1)?;
                thread.read_word(at()?)?;
                thread.mem_ref(16)?.get(at()?)?.wait()?;
                thread.put_inline_untracked(&[1; 8], at()?)?;
                fence::thread(thread)?;
                fence::thread(thread)
            },
            |grew| {
                assert_eq!(grew(&kind(OPERATIONS, "put")), 3);
                assert_eq!(grew(&kind(BYTES, "put")), 24 + 8 + 8);
                assert_eq!(grew(&kind(OPERATIONS, "atomic")), 1);
                assert_eq!(grew(&kind(BYTES, "atomic")), 8);
                assert_eq!(grew(&kind(OPERATIONS, "get")), 2);
                assert_eq!(grew(&kind(BYTES, "get")), 8 + 16);
                assert_eq!(
                    grew(&format!("{FENCES}{{with=\"cpu\"}}")),
                    1,
                    "the second fence is free"
                );
                assert_eq!(grew(COMPLETIONS), 0);
            },
        )
    });
}

#[test]
fn flushes_waits_and_completions_are_counted_on_a_card() {
    let nic = Nic::deferred(1).tier(Tier::Ibta);
    let bring_up = |mesh| Deferred::new(ShmFabric::new(mesh, ShmConfig::default())?, Some(&nic));
    testing::run_on(2, bring_up, |fabric| {
        counting(
            fabric,
            |thread, region| {
                let at = || region.target(NodeId(1), 0);
                thread.put_inline(&[1; 8], at()?)?.wait(thread)?;
                fence::thread(thread)
            },
            |grew| {
                assert_eq!(grew(&kind(OPERATIONS, "put")), 1);
                assert_eq!(grew(&kind(OPERATIONS, "flush")), 1);
                assert_eq!(grew(&format!("{FENCES}{{with=\"flush\"}}")), 1);
                assert_eq!(grew(COMPLETIONS), 2);
            },
        )
    });
}

/// Takes a lock on node 1 that node 0 waits for until it has counted `awaited`, and returns what node 0 counted.
fn waited<L>(
    awaited: &str,
    make: impl Fn(&Manager) -> Result<L> + Sync,
    lock: impl Fn(&L, &Thread, &dyn Fn() -> Result<()>) -> Result<()> + Sync,
) -> BTreeMap<String, u64> {
    let of_node_0 = OnceLock::new();
    let nodes = testing::run(2, |fabric| {
        let node = Manager::new(fabric)?;
        let contended = make(&node)?;
        let (taken, wanted) = (
            SharedVar::<u64>::new(&node, "taken")?,
            SharedVar::<u64>::new(&node, "wanted")?,
        );
        let end = Barrier::new(&node, "end")?;
        node.wait_for_ready()?;
        let thread = node.thread()?;
        let (counters, recorder) = published(&node)?;
        let counters = match node.node() {
            NodeId(0) => of_node_0.get_or_init(|| counters),
            _ => &counters,
        };
        let tell = |word: &SharedVar<u64>| {
            word.write(1);
            word.broadcast(&thread)?.wait(&thread)
        };
        if node.node() == NodeId(1) {
            lock(&contended, &thread, &|| {
                tell(&taken)?;
                wanted.wait_until(&thread, |wanted| wanted == 1)?;
                // Node 0 has published its counters before it wants the lock.
                while counted(of_node_0.get().expect("published"), &recorder)[awaited] == 0 {
                    std::thread::yield_now();
                }
                Ok(())
            })?;
        } else {
            taken.wait_until(&thread, |taken| taken == 1)?;
            tell(&wanted)?;
            lock(&contended, &thread, &|| Ok(()))?;
        }
        let after = counted(counters, &recorder);
        end.wait(&thread)?;
        Ok(after)
    });
    nodes.into_iter().next().expect("node 0")
}

#[test]
fn waits_for_locks_and_further_attempts_are_counted() {
    let ticket = waited(
        LOCK_WAITS,
        |node| TicketLock::new(node, "l", NodeId(0)),
        |lock, thread, steps| {
            let _guard = lock.lock(thread, Scope::Thread)?;
            steps()
        },
    );
    assert_eq!(ticket[LOCK_WAITS], 1, "{ticket:?}");
    let again = format!("{RETRIES}{{of=\"lock\"}}");
    let tas = waited(
        &again,
        |node| TasLock::new(node, "l", NodeId(0)),
        |lock, thread, steps| {
            let _guard = lock.lock(thread, Scope::Thread)?;
            steps()
        },
    );
    assert_eq!(tas[LOCK_WAITS], 1, "{tas:?}");
    assert!(tas[&again] > 0, "{tas:?}");
}

/// The threads of a node start updates under one lock. Each but the first waits once, however often its thread asks.
#[test]
fn a_started_update_counts_its_wait_for_a_lock_once() {
    let nic = Nic::deferred(2).tier(Tier::Unordered);
    let bring_up = |mesh| Deferred::new(ShmFabric::new(mesh, ShmConfig::default())?, Some(&nic));
    testing::run_on(1, bring_up, |fabric| {
        let node = Manager::new(fabric)?;
        let store = KvStore::<u64, u64, _>::new(&node, "kv", KvConfig::default().locks(1))?;
        node.wait_for_ready()?;
        let (first, second) = (node.thread()?, node.thread()?);
        assert_eq!(store.insert(&first, &0, &0)?, Inserted::Done);
        let (counters, recorder) = published(&node)?;
        let before = counted(&counters, &recorder)[LOCK_WAITS];
        let holds = store.update_start(&first, &0, &1)?;
        let waits = store.update_start(&second, &0, &2)?;
        for _ in 0..100 {
            assert!(!waits.query(), "the first thread has not moved its update on");
        }
        assert!(holds.wait()? && waits.wait()?);
        let after = counted(&counters, &recorder)[LOCK_WAITS];
        assert_eq!(after - before, 1);
        assert_eq!(store.get(&first, &0)?, Some(2));
        Ok(())
    });
}

/// Gets the page that an exporter serves.
fn scrape(port: u16) -> String {
    let mut stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).expect("an exporter");
    stream
        .write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
        .expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn prometheus_scrapes_the_counters_of_each_node() {
    let tests = std::env::current_exe().expect("this test");
    let built = tests
        .parent()
        .and_then(Path::parent)
        .expect("the folder of what is built");
    let program = built.join("examples/counters");
    assert!(
        program.exists(),
        "first: cargo build -p loco-rdma --features metrics --examples"
    );
    // Ports of the two nodes: one after the other.
    let port = (0..100)
        .map(|_| loco_testing::free_addresses(&["127.0.0.1"])[0].port())
        .find(|port| *port < u16::MAX && std::net::TcpListener::bind(("127.0.0.1", port + 1)).is_ok())
        .expect("two free ports");
    let mut job = Processes::new("counters-test", 2);
    let mut input = None;
    let mut outputs = Vec::new();
    for node in [NodeId(0), NodeId(1)] {
        let mut command = Command::new(&program);
        command.arg(port.to_string()).env(var::FABRIC, "shm");
        command
            .envs(job.environment(node))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = command.spawn().expect("the example");
        let stdin = process.stdin.take();
        input = input.or(stdin);
        outputs.push((process.stdout.take().expect("a pipe"), process));
    }
    job.rendezvous();
    for (node, (output, _)) in outputs.iter_mut().enumerate() {
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).expect("a line");
        assert_eq!(
            line,
            format!(
                "node {node}: http://127.0.0.1:{}/metrics\n",
                usize::from(port) + node
            )
        );
    }
    // Node 1 adds to a word of node 0. The numbers come some time after the calls.
    let begin = std::time::Instant::now();
    let found = loop {
        let found = read(&scrape(port + 1));
        if found
            .get(&kind(OPERATIONS, "atomic"))
            .is_some_and(|&count| count >= 1000)
        {
            break found;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{found:?}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(found[&kind(BYTES, "atomic")] >= 8000, "{found:?}");
    let text = scrape(port);
    assert!(text.contains("# TYPE loco_operations_total counter"), "{text}");
    assert!(text.contains("node=\"0\""), "{text}");
    drop(input);
    for (_, mut process) in outputs {
        assert!(process.wait().expect("its end").success());
    }
}
