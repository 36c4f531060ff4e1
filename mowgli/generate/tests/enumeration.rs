//! The list of programs is complete and without duplicates, compared with plain enumeration at small sizes.

use std::collections::BTreeSet;

use mowgli_generate::enumerate::{programs, units};
use mowgli_generate::language::{Language, Regions};
use mowgli_generate::sketch::{Column, Expected, Op, Sketch};

/// A language of two nodes and two locations.
const SMALL: Language = Language {
    size: 3,
    threads: 2,
    nodes: 2,
    locations: 2,
    remote: true,
    constant_puts: true,
    fences: true,
    remote_fences: true,
    cas: false,
    rmw: false,
    polls: true,
    waits: false,
    strong: false,
    regions: Regions::Ignored,
    loopback: false,
    idle: false,
};

fn listed(language: &Language) -> Vec<Sketch> {
    let mut out = Vec::new();
    for unit in units(language) {
        programs(language, &unit, &mut |sketch| out.push(sketch.clone()));
    }
    out
}

/// Every instruction over these nodes and locations, with compare-and-swaps that expect an initial value or what an instruction at any
/// position writes.
fn instructions(language: &Language) -> Vec<Op> {
    let locations = 0..language.locations;
    let works = if language.waits { 0..=language.size } else { 0..=0 };
    let mut expected = vec![Expected::Initial];
    for thread in 0..language.threads {
        expected.extend((0..language.size).map(|at| Expected::Written { thread, at }));
    }
    let mut out = vec![Op::Mfence];
    for x in locations.clone() {
        out.extend([Op::Load(x), Op::Store(x)]);
        out.extend(expected.iter().map(|&e| Op::Cas(x, e)));
        for work in works.clone() {
            out.push(Op::PutConst { dst: x, work });
            for y in locations.clone() {
                out.extend([Op::Put { dst: x, src: y, work }, Op::Get { dst: x, src: y, work }]);
                out.push(Op::Faa {
                    dst: x,
                    target: y,
                    work,
                });
                out.extend(expected.iter().map(|&e| Op::RemoteCas {
                    dst: x,
                    target: y,
                    expected: e,
                    work,
                }));
            }
        }
    }
    for node in 0..language.nodes {
        out.extend([Op::Rfence(node), Op::Poll(node)]);
    }
    out.extend((1..=language.size).map(Op::Wait));
    out.retain(|op| match op {
        Op::Mfence => language.fences,
        Op::Cas(..) => language.cas,
        Op::Rfence(_) => language.remote_fences,
        Op::Poll(_) => language.polls,
        Op::Wait(_) => language.waits,
        Op::Faa { .. } | Op::RemoteCas { .. } => language.rmw,
        Op::PutConst { .. } => language.remote && language.constant_puts,
        Op::Put { .. } | Op::Get { .. } => language.remote,
        Op::Load(_) | Op::Store(_) => true,
    });
    out
}

/// Says whether a sketch is a program of the language, sentence by sentence of the module's description.
fn is_program(sketch: &Sketch, language: &Language) -> bool {
    let node = |l: u8| sketch.locations[usize::from(l)];
    sketch.threads.iter().enumerate().all(|(t, column)| {
        let mut posted = Vec::new();
        let mut works: Vec<u8> = Vec::new();
        column.ops.iter().enumerate().all(|(i, &op)| {
            let placed = match op {
                Op::Load(x) | Op::Store(x) | Op::Cas(x, _) => node(x) == column.node,
                Op::Put {
                    dst: far, src: near, ..
                }
                | Op::Get {
                    dst: near, src: far, ..
                }
                | Op::Faa {
                    dst: near,
                    target: far,
                    ..
                }
                | Op::RemoteCas {
                    dst: near,
                    target: far,
                    ..
                } => node(near) == column.node && node(far) != column.node,
                Op::PutConst { dst, .. } => node(dst) != column.node,
                Op::Rfence(n) => n != column.node,
                Op::Poll(n) => {
                    let at = posted.iter().position(|&p| p == n);
                    at.map(|at| posted.remove(at)).is_some()
                }
                Op::Wait(work) => works.contains(&work),
                Op::Mfence => true,
            };
            posted.extend(op.remote().map(node));
            let numbered = op.work() <= works.iter().max().copied().unwrap_or(0) + 1;
            works.extend(Some(op.work()).filter(|&w| w > 0));
            let mut op = op;
            let expects = match op.expectation() {
                Some((loc, Expected::Written { thread, at })) => {
                    let column = sketch.threads.get(usize::from(*thread));
                    let written = column.and_then(|c| c.ops.get(usize::from(*at)));
                    let written = written.and_then(|o| o.writes_constant());
                    written == Some(loc) && (usize::from(*thread), usize::from(*at)) != (t, i)
                }
                _ => true,
            };
            placed && numbered && expects
        })
    }) && (language.idle || has_purpose(sketch))
}

fn has_purpose(sketch: &Sketch) -> bool {
    let touch = |column: &Column| -> BTreeSet<u8> { column.ops.iter().flat_map(|o| o.locations()).collect() };
    let mut group: BTreeSet<u8> = touch(&sketch.threads[0]);
    for _ in &sketch.threads {
        for column in &sketch.threads {
            if !group.is_disjoint(&touch(column)) {
                group.extend(touch(column));
            }
        }
    }
    let all: BTreeSet<u8> = sketch.threads.iter().flat_map(touch).collect();
    let connected = sketch
        .threads
        .iter()
        .all(|c| touch(c).iter().any(|l| group.contains(l)))
        || sketch.threads.len() == 1;
    let located = all.iter().all(|&l| {
        let users: Vec<Op> = sketch.ops().filter(|o| o.locations().any(|x| x == l)).collect();
        let written = users.iter().any(|o| o.writes(l));
        match users.as_slice() {
            [only] => only.copies_to() == Some(l) || matches!(only, Op::Get { src, .. } if *src == l),
            _ => written,
        }
    });
    let lines = sketch.threads.iter().all(|column| {
        let ops = &column.ops;
        let orders = |op: &Op| matches!(op, Op::Mfence | Op::Rfence(_) | Op::Poll(_) | Op::Wait(_));
        let repeated = ops
            .windows(2)
            .any(|w| w[0] == w[1] && orders(&w[0]) && !matches!(w[0], Op::Poll(_)));
        let used = |n: u8| {
            ops.iter()
                .filter_map(|o| o.remote())
                .any(|l| sketch.locations[usize::from(l)] == n)
        };
        !ops.first().is_some_and(orders)
            && !ops.last().is_some_and(orders)
            && !repeated
            && ops.iter().enumerate().all(|(i, o)| match o {
                Op::Rfence(n) => used(*n) && ops[..i].iter().any(|o| o.remote().is_some()),
                _ => true,
            })
            && ops
                .iter()
                .enumerate()
                .all(|(i, o)| o.work() == 0 || ops[i..].contains(&Op::Wait(o.work())))
    });
    connected && located && lines
}

/// Every sketch over fixed nodes and locations, in canonical form.
fn plain(language: &Language) -> BTreeSet<Sketch> {
    let instructions = instructions(language);
    let mut out = BTreeSet::new();
    let placements = language.nodes.pow(u32::from(language.locations));
    for code in 0..placements {
        let digit = |l: u8| code / language.nodes.pow(u32::from(l)) % language.nodes;
        let locations: Vec<u8> = (0..language.locations).map(digit).collect();
        let empty = Sketch {
            threads: Vec::new(),
            locations,
            relaxed: Vec::new(),
        };
        extend(language, &instructions, empty, &mut out);
    }
    out
}

fn extend(language: &Language, instructions: &[Op], sketch: Sketch, out: &mut BTreeSet<Sketch>) {
    if !sketch.threads.is_empty()
        && sketch.threads.iter().all(|t| !t.ops.is_empty())
        && is_program(&sketch, language)
    {
        marks(language, sketch.clone(), out);
    }
    if sketch.size() == usize::from(language.size) {
        return;
    }
    if !sketch.threads.is_empty() {
        for &op in instructions {
            let mut longer = sketch.clone();
            longer.threads.last_mut().expect("a thread").ops.push(op);
            extend(language, instructions, longer, out);
        }
    }
    if sketch.threads.len() < usize::from(language.threads)
        && sketch.threads.last().is_none_or(|t| !t.ops.is_empty())
    {
        for node in 0..language.nodes {
            let mut wider = sketch.clone();
            wider.threads.push(Column::of(node));
            extend(language, instructions, wider, out);
        }
    }
}

/// Inserts the sketch, and every one with more requests for strong order and more relaxed regions.
fn marks(language: &Language, sketch: Sketch, out: &mut BTreeSet<Sketch>) {
    if !out.insert(sketch.canonical()) {
        return;
    }
    let far = |op: &Op| op.remote().map(|l| sketch.locations[usize::from(l)]);
    for (t, column) in sketch.threads.iter().enumerate().filter(|_| language.strong) {
        for (at, op) in column.ops.iter().enumerate() {
            let earlier = &column.ops[..at];
            let writes = |o: &&Op| far(o) == far(op) && !matches!(o, Op::Get { .. });
            let serves = language.idle || earlier.iter().any(|o| writes(&o));
            if far(op).is_some() && serves && !column.strong.contains(&(at as u8)) {
                let mut more = sketch.clone();
                more.threads[t].strong.push(at as u8);
                more.threads[t].strong.sort_unstable();
                marks(language, more, out);
            }
        }
    }
    for l in (0..sketch.locations.len() as u8).filter(|_| language.regions == Regions::Known) {
        let by_card = sketch.ops().any(|op| op.remote().is_some() && op.writes(l));
        let used = sketch.ops().any(|op| op.locations().any(|x| x == l));
        if used && (language.idle || by_card) && !sketch.relaxed.contains(&l) {
            let mut more = sketch.clone();
            more.relaxed.push(l);
            more.relaxed.sort_unstable();
            marks(language, more, out);
        }
    }
}

fn agrees(language: Language) -> usize {
    let listed = listed(&language);
    let unique: BTreeSet<Sketch> = listed.iter().cloned().collect();
    assert_eq!(
        unique.len(),
        listed.len(),
        "no program is listed twice: {language:?}"
    );
    assert!(listed.iter().all(|s| s.canonical() == *s), "{language:?}");
    let plain = plain(&language);
    let missed = plain.difference(&unique).next();
    assert_eq!(missed, None, "missed: {language:?}");
    let extra = unique.difference(&plain).next();
    assert_eq!(extra, None, "no program of the language: {language:?}");
    listed.len()
}

#[test]
fn puts_gets_fences_and_polls() {
    assert_eq!(agrees(SMALL), 291);
    assert_eq!(agrees(Language { idle: true, ..SMALL }), 1_414);
}

#[test]
fn three_nodes() {
    let language = Language {
        nodes: 3,
        size: 2,
        ..SMALL
    };
    assert_eq!(agrees(language), 34);
    assert_eq!(
        agrees(Language {
            idle: true,
            ..language
        }),
        165
    );
}

#[test]
fn compare_and_swaps() {
    let cpu = Language {
        nodes: 1,
        cas: true,
        remote: false,
        remote_fences: false,
        polls: false,
        ..SMALL
    };
    assert_eq!(agrees(cpu), 228);
    assert_eq!(
        agrees(Language {
            threads: 3,
            idle: true,
            ..cpu
        }),
        730
    );
}

#[test]
fn waits() {
    let waits = Language {
        polls: false,
        waits: true,
        fences: false,
        remote_fences: false,
        ..SMALL
    };
    assert_eq!(agrees(waits), 269);
    assert_eq!(agrees(Language { idle: true, ..waits }), 2_428);
}

#[test]
fn remote_read_modify_writes() {
    let rmw = Language {
        rmw: true,
        size: 2,
        polls: false,
        ..SMALL
    };
    assert_eq!(agrees(rmw), 75);
    assert_eq!(agrees(Language { idle: true, ..rmw }), 200);
}

#[test]
fn requests_for_strong_order_and_relaxed_regions() {
    let marked = Language {
        strong: true,
        regions: Regions::Known,
        rmw: true,
        polls: false,
        fences: false,
        remote_fences: false,
        ..SMALL
    };
    assert_eq!(agrees(marked), 9_241);
    assert_eq!(
        agrees(Language {
            size: 2,
            idle: true,
            ..marked
        }),
        1_392
    );
}

#[test]
fn threads_nodes_and_locations_can_be_renamed() {
    let language = Language {
        threads: 3,
        locations: 3,
        cas: true,
        strong: true,
        regions: Regions::Known,
        ..SMALL
    };
    for sketch in listed(&language) {
        let mut other = sketch.clone();
        other.threads.reverse();
        let last = sketch.threads.len() as u8 - 1;
        let flip = |l: &mut u8| *l = sketch.locations.len() as u8 - 1 - *l;
        for column in &mut other.threads {
            column.node = 7 - column.node;
            for op in &mut column.ops {
                match op {
                    Op::Load(x) | Op::Store(x) | Op::Cas(x, _) | Op::PutConst { dst: x, .. } => flip(x),
                    Op::Put { dst: x, src: y, .. }
                    | Op::Get { dst: x, src: y, .. }
                    | Op::Faa {
                        dst: x, target: y, ..
                    }
                    | Op::RemoteCas {
                        dst: x, target: y, ..
                    } => {
                        flip(x);
                        flip(y);
                    }
                    Op::Rfence(n) | Op::Poll(n) => *n = 7 - *n,
                    Op::Mfence | Op::Wait(_) => {}
                }
                if let Some((_, Expected::Written { thread, .. })) = op.expectation() {
                    *thread = last - *thread;
                }
            }
        }
        other.locations = sketch.locations.iter().rev().map(|n| 7 - n).collect();
        other.relaxed.iter_mut().for_each(flip);
        other.relaxed.sort_unstable();
        assert_eq!(other.canonical(), sketch);
    }
}
