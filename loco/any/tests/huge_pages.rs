//! Checks that arenas are on huge pages where this host grants them and on small ones elsewhere, and that the
//! log says which.
//!
//! `test.sh` runs both branches. As root it reserves pages for the second (`LOCO_REQUIRE_HUGE_PAGES`).

#![allow(clippy::unwrap_used)]

use std::fmt::{Debug, Write as _};
use std::fs;
use std::sync::{Arc, Mutex};

use loco_fabric::{Fabric, Local, Memory, MemoryKind, QueuePair, Target, Work};
use loco_host::HugePages;
use loco_job::Mesh;
use loco_shm::{ShmConfig, ShmFabric};
use loco_test_networks::altered::{AlteredDevice, Limits};
use loco_verbs::{VerbsConfig, VerbsFabric};
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

const MIB: usize = 1 << 20;
const ARENA_BYTES: usize = 4 * MIB;
/// The number of 2 MiB pages that all tests of this file together take.
const PAGES: usize = 8;

/// Mappings and reserved pages belong to the process, so one test runs at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Returns the number of reserved pages of this size that nobody has taken.
fn free(page_kib: usize) -> usize {
    let path = format!("/sys/kernel/mm/hugepages/hugepages-{page_kib}kB/free_hugepages");
    fs::read_to_string(path).map_or(0, |text| text.trim().parse().unwrap())
}

/// Returns true if the host grants pages of 2 MiB, and false if it has none. (Returns `None` if it has some,
/// but too few: neither can then be expected.)
fn granted() -> Option<bool> {
    let free = free(2048);
    assert!(
        std::env::var_os("LOCO_REQUIRE_HUGE_PAGES").is_none() || free >= PAGES,
        "{free} pages of 2 MiB are free: `sysctl vm.nr_hugepages={}`",
        2 * PAGES
    );
    match free {
        0 => Some(false),
        PAGES.. => Some(true),
        _ => None,
    }
}

/// Returns the page size, in KiB, of each mapping of this process whose name contains `name`.
fn page_sizes(name: &str) -> Vec<usize> {
    let mut sizes = Vec::new();
    let mut named = false;
    for line in fs::read_to_string("/proc/self/smaps").unwrap().lines() {
        if let Some(size) = line.strip_prefix("KernelPageSize:") {
            if named {
                sizes.push(size.trim().trim_end_matches(" kB").parse().unwrap());
            }
        } else if line.split(' ').next().is_some_and(|range| range.contains('-')) {
            named = line.contains(name);
        }
    }
    sizes
}

/// Collects what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Visit for Log {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            writeln!(self.0.lock().unwrap(), "{value:?}").unwrap();
        }
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::INFO
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// Returns the result of `f`, and the lines about arenas that it logs.
fn logged<T>(f: impl FnOnce() -> T) -> (T, Vec<String>) {
    let log = Log::default();
    let value = tracing::subscriber::with_default(log.clone(), f);
    let text = log.0.lock().unwrap();
    let lines = text
        .lines()
        .filter(|line| line.contains("arena"))
        .map(str::to_owned);
    (value, lines.collect())
}

/// Puts most of an arena from one node to the other. Checks that memory that was used before comes back
/// zeroed.
fn check_memory<F: Fabric>(nodes: &[F], in_use: impl FnOnce()) -> Vec<String> {
    const LEN: usize = 3 * MIB;
    let ((here, there), lines) = logged(|| {
        let allocate = |node: &F| node.allocate(LEN, MemoryKind::Host).unwrap();
        (allocate(&nodes[0]), allocate(&nodes[1]))
    });
    let bytes: Vec<u8> = (0..LEN).map(|i| (i / 7 % 251).to_ne_bytes()[0]).collect();
    here.write(0, &bytes).unwrap();
    let remote = nodes[0]
        .import(nodes[1].node(), &nodes[1].export(&there))
        .unwrap();
    let mut qp = nodes[0].queue_pair(nodes[1].node()).unwrap();
    let src = Local {
        memory: &here,
        offset: 0,
        len: LEN,
    };
    let dst = Target {
        remote: &remote,
        offset: 0,
    };
    let _ = qp.put(src, dst, Work::unsignaled()).unwrap();
    let _ = qp.flush(Work::unsignaled()).unwrap();
    let mut arrived = vec![0; LEN];
    for _ in 0..1000 {
        nodes[0].poll(&mut Vec::new()).unwrap();
        there.read(0, &mut arrived).unwrap();
        if arrived == bytes {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(arrived == bytes, "not all of it has arrived");
    in_use();
    drop((there, remote, qp));
    let again = nodes[1].allocate(LEN, MemoryKind::Host).unwrap();
    again.read(0, &mut arrived).unwrap();
    assert!(arrived.iter().all(|&byte| byte == 0));
    lines
}

fn check_lines(granted: Option<bool>, lines: &[String]) {
    assert_eq!(lines.len(), 2, "one line an arena: {lines:?}");
    for (node, line) in lines.iter().enumerate() {
        let arena = format!("node {node}: arena 0 of 4 MiB on ");
        match granted {
            Some(true) => assert_eq!(*line, format!("{arena}huge pages of 2 MiB")),
            Some(false) => {
                let fall_back = format!("{arena}small pages, huge ones by advice: no huge pages of 2 MiB (");
                assert!(line.starts_with(&fall_back), "{line}");
                assert!(
                    line.ends_with("; `sysctl vm.nr_hugepages=2` reserves enough"),
                    "{line}"
                );
            }
            None => assert!(line.starts_with(&arena), "{line}"),
        }
    }
}

#[test]
fn arenas_lie_on_huge_pages_where_the_host_grants_them() {
    let _turn = TURN.lock();
    let granted = granted();
    let check_pages = |name: &str| {
        let sizes = page_sizes(name);
        match granted {
            Some(true) => assert_eq!(sizes, [2048, 2048], "{name}"),
            Some(false) => assert!(!sizes.contains(&2048), "{name}: {sizes:?}"),
            None => {}
        }
    };

    let shm = |mesh| {
        let config = ShmConfig::default()
            .arena_bytes(ARENA_BYTES)
            .huge_pages(HugePages::TwoMiB);
        ShmFabric::new(mesh, config).unwrap()
    };
    let lines = check_memory(&on_two_nodes(shm), || check_pages("/memfd:loco-arena-"));
    check_lines(granted, &lines);

    let device = AlteredDevice::new(Limits::default());
    let (nodes, lines) = {
        let verbs = |mesh| {
            let config = VerbsConfig::default()
                .provider(device.provider())
                .arena_bytes(ARENA_BYTES)
                .huge_pages(HugePages::TwoMiB);
            logged(|| VerbsFabric::new(mesh, config).unwrap())
        };
        let (nodes, lines): (Vec<_>, Vec<_>) = on_two_nodes(verbs).into_iter().unzip();
        (nodes, lines.concat())
    };
    // Set-up makes the first arena, for the word that flushes read.
    check_lines(granted, &lines);
    check_memory(&nodes, || check_pages("/anon_hugepage"));
}

fn on_two_nodes<T: Send>(bring_up: impl Fn(Mesh) -> T + Sync) -> Vec<T> {
    let meshes = Mesh::in_process(2).unwrap();
    std::thread::scope(|scope| {
        let nodes: Vec<_> = meshes
            .into_iter()
            .map(|mesh| scope.spawn(|| bring_up(mesh)))
            .collect();
        nodes.into_iter().map(|node| node.join().unwrap()).collect()
    })
}

/// Few hosts grant pages of 1 GiB. Elsewhere the next smaller ones are taken, and that is logged.
#[test]
fn an_arena_of_a_gigabyte_lies_on_the_largest_pages() {
    let _turn = TURN.lock();
    let one_gib = free(1 << 20) > 0;
    let mesh = Mesh::in_process(1).unwrap().remove(0);
    let config = ShmConfig::default().huge_pages(HugePages::OneGiB);
    let fabric = ShmFabric::new(mesh, config).unwrap();
    let (memory, lines) = logged(|| fabric.allocate(64, MemoryKind::Host).unwrap());
    memory.write(0, &[7; 64]).unwrap();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = &lines[0];
    if one_gib {
        assert_eq!(line, "node 0: arena 0 of 1024 MiB on huge pages of 1 GiB");
        assert!(page_sizes("/memfd:loco-arena-").contains(&(1 << 20)));
    } else {
        assert!(line.contains(": no huge pages of 1 GiB ("), "{line}");
    }
}
