//! A small interpreter of x86-TSO that works on bytes and on addresses as values.

use std::collections::BTreeSet;

use super::{Case, Held, Place, Step};

/// A buffered store: the location, the number, and whether it has 64 bits.
type Store = (usize, u64, bool);

/// A state of the interpreter: memory, and for each thread the next step, the registers and the buffered stores.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    memory: [u64; 2],
    threads: Vec<(usize, [Held; 4], Vec<Store>)>,
}

fn written(old: u64, value: u64, wide: bool) -> u64 {
    match wide {
        true => value,
        false => old & !0xffff_ffff | value & 0xffff_ffff,
    }
}

pub(super) type Final = ([u64; 2], Vec<[Held; 4]>);

/// Runs a case whose [`Case::kinds`] are right in every order.
pub(super) fn run(case: &Case) -> BTreeSet<Final> {
    let first = State {
        memory: case
            .initial
            .map(|n| if case.intel { u64::from(n as u32) } else { n as u64 }),
        threads: case.registers.iter().map(|r| (0, *r, Vec::new())).collect(),
    };
    let mut seen = BTreeSet::new();
    let mut open = vec![first];
    let mut out = BTreeSet::new();
    while let Some(state) = open.pop() {
        if !seen.insert(state.clone()) {
            continue;
        }
        let mut over = true;
        for t in 0..state.threads.len() {
            let (at, held, buffer) = &state.threads[t];
            if let Some(&(location, value, wide)) = buffer.first() {
                over = false;
                let mut next = state.clone();
                next.threads[t].2.remove(0);
                next.memory[location] = written(next.memory[location], value, wide);
                open.push(next);
            }
            let Some(step) = case.threads[t].get(*at) else {
                continue;
            };
            over = false;
            let mut next = state.clone();
            next.threads[t].0 += 1;
            let location = |place: &Place| match place {
                Place::Location(l) => Some(*l),
                Place::Through(r) => match held[*r] {
                    Held::Address(l) => Some(l),
                    Held::Number(_) => unreachable!("the kinds are right"),
                },
                _ => None,
            };
            let seen = |l: usize| {
                let own = buffer.iter().filter(|(at, ..)| *at == l);
                own.fold(state.memory[l], |old, (_, v, w)| written(old, *v, *w))
            };
            let number = |r: usize| match held[r] {
                Held::Number(n) => n,
                Held::Address(_) => unreachable!("the kinds are right"),
            };
            let cut = |n: u64, wide: bool| if wide { n } else { n & 0xffff_ffff };
            match step {
                Step::Fence | Step::Exchange(..) | Step::CompareExchange(..) | Step::Add(_, _, true, _)
                    if !buffer.is_empty() =>
                {
                    continue;
                }
                Step::Fence => {}
                Step::Exchange(at, r, wide) => {
                    let l = location(at).unwrap();
                    next.threads[t].1[*r] = Held::Number(cut(state.memory[l], *wide));
                    next.memory[l] = written(state.memory[l], number(*r), *wide);
                }
                Step::CompareExchange(at, r, wide) => {
                    let l = location(at).unwrap();
                    let old = cut(state.memory[l], *wide);
                    if old == cut(number(0), *wide) {
                        next.memory[l] = written(state.memory[l], number(*r), *wide);
                    } else {
                        next.threads[t].1[0] = Held::Number(old);
                    }
                }
                Step::Add(at, n, locked, wide) => match (location(at), at) {
                    (Some(l), _) => {
                        let sum = cut(seen(l), *wide).wrapping_add(*n as u64);
                        match locked {
                            true => next.memory[l] = written(state.memory[l], sum, *wide),
                            false => next.threads[t].2.push((l, cut(sum, *wide), *wide)),
                        }
                    }
                    (None, Place::Register(r)) => {
                        let sum = cut(number(*r), *wide).wrapping_add(*n as u64);
                        next.threads[t].1[*r] = Held::Number(cut(sum, *wide));
                    }
                    _ => unreachable!("an operand"),
                },
                Step::Move(to, from, wide) => {
                    let value = match (from, location(from)) {
                        (_, Some(l)) => Held::Number(seen(l)),
                        (Place::Register(r), _) => held[*r],
                        (Place::Constant(n), _) => Held::Number(*n as u64),
                        _ => unreachable!("an operand"),
                    };
                    let value = match value {
                        Held::Number(n) if !wide => Held::Number(n & 0xffff_ffff),
                        other => other,
                    };
                    match (to, location(to), value) {
                        (Place::Register(r), ..) => next.threads[t].1[*r] = value,
                        (_, Some(l), Held::Number(n)) => next.threads[t].2.push((l, n, *wide)),
                        _ => unreachable!("the kinds are right"),
                    }
                }
            }
            open.push(next);
        }
        if over {
            out.insert((state.memory, state.threads.iter().map(|t| t.1).collect()));
        }
    }
    out
}
