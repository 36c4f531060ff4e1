//! The claims of `mowgli robust --fix` against all sets of additions that cost less, on small random programs.
//!
//! The additions are made here by other code than the product's: fences, polls, waits and gets are put at every place in every order.
//! `MOWGLI_MEND_BRUTE=COUNT,SEED` compares so many programs.

use mowgli::generate::{self, Shape};
use mowgli::litmus::parse;
use mowgli::model::Model;
use mowgli::outcome::Budget;
use mowgli::program::{Instr, Loc, Location, Node, Program, WorkId};
use mowgli::robust::fix::{Costs, Minimal, mend, mend_exactly};
use mowgli::robust::{Exact, Question, conditions, exact};

/// Most sets that are tried for one program.
const SETS_MAX: usize = 6_000;

/// Returns the node towards which an instruction posts.
fn peer(program: &Program, instr: &Instr) -> Option<Node> {
    let far = match instr {
        Instr::Put { dst: far, .. }
        | Instr::Get { src: far, .. }
        | Instr::RemoteFaa { target: far, .. }
        | Instr::RemoteCas { target: far, .. }
        | Instr::RemoteSwap { target: far, .. } => far,
        _ => return None,
    };
    Some(program.locations[usize::from(far.0)].node)
}

/// An addition to a thread: an instruction and its price.
struct Choice {
    instr: Instr,
    price: u64,
}

struct Brute<'a> {
    question: &'a Question,
    costs: &'a Costs,
    /// Sets must cost less.
    bound: u64,
    /// Whether the exact search judges, each added get being followed by the polls that reach it.
    exactly: bool,
    /// The threads that are given additions, with what may be added.
    threads: Vec<(usize, Vec<Choice>)>,
    /// The code before additions.
    code: Vec<Vec<Instr>>,
    program: Program,
    tried: usize,
    found: Option<(u64, Program)>,
}

/// A thread that is being written.
#[derive(Clone)]
struct Draft {
    code: Vec<Instr>,
    /// Operations without a poll, by node.
    pending: Vec<usize>,
    /// Instructions of the thread that are already there.
    at: usize,
    price: u64,
    /// Polls that were added, and polls that found nothing and were left out.
    added: u64,
    gone: u64,
    /// Additions at this place.
    here: Vec<Instr>,
}

impl<'a> Brute<'a> {
    fn new(
        program: &Program,
        question: &'a Question,
        costs: &'a Costs,
        bound: u64,
        exactly: bool,
    ) -> Brute<'a> {
        let mut program = program.clone();
        let mut threads = Vec::new();
        for t in 0..program.threads.len() {
            let thread = &program.threads[t];
            let (node, mut code) = (thread.node, thread.code.clone());
            let mut choices = vec![Choice {
                instr: Instr::Mfence,
                price: costs.mfence,
            }];
            let mut fresh = None;
            if question.model == Model::RdmaWait {
                let id = WorkId(thread.work_ids.len() as u16);
                fresh = Some(id);
                for instr in &mut code {
                    if let Instr::Put { work, .. }
                    | Instr::Get { work, .. }
                    | Instr::RemoteFaa { work, .. }
                    | Instr::RemoteCas { work, .. }
                    | Instr::RemoteSwap { work, .. } = instr
                    {
                        work.get_or_insert(id);
                    }
                }
                program.threads[t].work_ids.push("brute".to_owned());
                choices.extend((0..=id.0).map(|id| Choice {
                    instr: Instr::Wait { work: WorkId(id) },
                    price: costs.poll,
                }));
            }
            let mut peers: Vec<Node> = code.iter().filter_map(|i| peer(&program, i)).collect();
            peers.sort_unstable();
            peers.dedup();
            for peer in peers {
                let mut place = |name: &str, node| {
                    let (name, init) = (format!("{name}{t}_{peer}"), 0);
                    program.locations.push(Location {
                        name,
                        node,
                        init,
                        relaxed: false,
                    });
                    Loc(program.locations.len() as u16 - 1)
                };
                let (dst, src) = (place("brute_to", node), place("brute_from", peer));
                let get = Instr::Get {
                    dst,
                    src,
                    work: fresh,
                };
                let mut add = |instr, price| choices.push(Choice { instr, price });
                add(Instr::Rfence { node: peer }, costs.rfence);
                add(get, costs.get);
                if fresh.is_none() {
                    add(Instr::Poll { node: peer }, costs.moved);
                }
            }
            program.threads[t].code.clone_from(&code);
            threads.push((t, choices));
        }
        let code = program.threads.iter().map(|t| t.code.clone()).collect();
        Brute {
            question,
            costs,
            bound,
            exactly,
            threads,
            code,
            program,
            tried: 0,
            found: None,
        }
    }

    fn over(&self) -> bool {
        self.found.is_some() || self.tried >= SETS_MAX
    }

    /// Gives additions to the threads from the `number`-th on, after additions of some price.
    fn threads_from(&mut self, number: usize, price: u64) {
        if self.over() {
            return;
        }
        if number == self.threads.len() {
            self.tried += 1;
            if self.holds() {
                self.found = Some((price, self.program.clone()));
            }
            return;
        }
        let start = Draft {
            code: Vec::new(),
            pending: vec![0; usize::from(self.program.nodes)],
            at: 0,
            price: 0,
            added: 0,
            gone: 0,
            here: Vec::new(),
        };
        self.write(number, price, start);
    }

    fn holds(&self) -> bool {
        let budget = Budget::default();
        match self.exactly {
            true => exact(&self.program, self.question.model, self.question.rmw, &budget) == Exact::Robust,
            false => {
                let found = conditions(&self.program, self.question, &budget);
                found.theorem().is_some() && !found.is_vacuous()
            }
        }
    }

    /// Adds an instruction to a draft, or refuses a poll without an operation.
    fn push(&self, draft: &mut Draft, instr: &Instr) -> bool {
        if let Some(node) = peer(&self.program, instr) {
            draft.pending[usize::from(node.0)] += 1;
        }
        if let Instr::Poll { node } = instr {
            let pending = &mut draft.pending[usize::from(node.0)];
            if *pending == 0 {
                return false;
            }
            *pending -= 1;
        }
        draft.code.push(instr.clone());
        true
    }

    fn write(&mut self, number: usize, before: u64, draft: Draft) {
        if self.over() {
            return;
        }
        let (thread, _) = self.threads[number];
        // Go on with the thread's own instruction.
        let mut next = draft.clone();
        next.here.clear();
        match self.code[thread].get(draft.at).cloned() {
            None => {
                let moved = draft.added.min(draft.gone);
                let price = draft.price + (draft.added - moved) * (self.costs.poll - self.costs.moved);
                if before + price < self.bound {
                    self.program.threads[thread].code = draft.code;
                    self.threads_from(number + 1, before + price);
                }
                return;
            }
            Some(own) => {
                next.at += 1;
                let kept = self.push(&mut next, &own);
                next.gone += u64::from(!kept);
                self.write(number, before, next);
            }
        }
        for choice in 0..self.threads[number].1.len() {
            let Choice { instr, price } = &self.threads[number].1[choice];
            let (instr, price) = (instr.clone(), *price);
            let fence = matches!(instr, Instr::Mfence | Instr::Rfence { .. } | Instr::Wait { .. });
            // A second fence beside the first does nothing.
            if fence && draft.here.contains(&instr) {
                continue;
            }
            let mut next = draft.clone();
            next.price += price;
            next.here.push(instr.clone());
            if !self.push(&mut next, &instr) {
                continue;
            }
            next.added += u64::from(matches!(instr, Instr::Poll { .. }));
            if let (true, Instr::Get { .. }, Some(node)) = (self.exactly, &instr, peer(&self.program, &instr))
            {
                let polls = match self.question.model {
                    Model::RdmaWait => vec![
                        self.threads[number]
                            .1
                            .iter()
                            .filter_map(|c| match c.instr {
                                Instr::Wait { .. } => Some(c.instr.clone()),
                                _ => None,
                            })
                            .next_back()
                            .unwrap(),
                    ],
                    _ => vec![Instr::Poll { node }; next.pending[usize::from(node.0)]],
                };
                for poll in polls {
                    next.price += self.costs.moved;
                    next.added += 1;
                    assert!(self.push(&mut next, &poll));
                }
            }
            if before + next.price < self.bound {
                self.write(number, before, next);
            }
        }
    }
}

const COSTS: [&str; 4] = [
    "rfence=1,mfence=1,poll=3,move=2,get=1",
    "rfence=1,mfence=2,poll=2,get=1",
    "rfence=2,mfence=3,poll=2,move=1,get=1",
    "rfence=1,mfence=1,poll=1,move=1,get=1",
];

/// Returns a small program for a model.
fn small(seed: u64, model: Model) -> Program {
    let shape = Shape {
        instructions: 3 + (seed % 4) as u8,
        rmw: seed.is_multiple_of(5),
        control: false,
        polls: model != Model::RdmaWait,
        waits: model == Model::RdmaWait,
        nodes: 2 + (seed % 3 == 2) as u8,
        ..Shape::SMALL
    };
    generate::program(seed, &shape)
}

#[derive(Debug, Default)]
struct Tally {
    mended: u64,
    checked: u64,
    exactly: u64,
    unfinished: u64,
    unproved: u64,
    bare: u64,
}

fn compare(seed: u64, tally: &mut Tally) {
    let model = [Model::RdmaTso, Model::RdmaSc, Model::RdmaWait][(seed % 3) as usize];
    let program = small(seed / 3, model);
    let question = Question::of(model);
    let costs: Costs = COSTS[(seed / 7 % 4) as usize].parse().unwrap();
    let budget = Budget::default();
    for exactly in [false, true] {
        let mended = match exactly {
            true => mend_exactly(&program, &question, &costs, &budget),
            false => mend(&program, &question, &costs, &budget),
        };
        let Ok(mended) = mended else { return };
        if mended.cost == 0 {
            continue;
        }
        tally.mended += 1;
        if mended.minimal != Minimal::Proved {
            tally.unproved += 1;
            continue;
        }
        let gets = mended
            .changes
            .iter()
            .filter(|c| c.instr.contains("probe"))
            .count();
        let polls = mended.changes.iter().filter(|c| c.instr.contains("poll")).count();
        tally.bare += u64::from(gets > 0 && polls == 0);
        let mut brute = Brute::new(&program, &question, &costs, mended.cost, exactly);
        brute.threads_from(0, 0);
        if let Some((price, cheaper)) = brute.found {
            panic!(
                "seed {seed}, {model}, exactly {exactly}: cost {} with {:#?}\nbut {price} with {:#?}\nof {:#?}",
                mended.cost, mended.changes, cheaper.threads, program.threads
            );
        }
        match brute.tried < SETS_MAX {
            true if exactly => tally.exactly += 1,
            true => tally.checked += 1,
            false => tally.unfinished += 1,
        }
    }
}

#[test]
fn no_cheaper_set_of_additions_does() {
    let asked = std::env::var("MOWGLI_MEND_BRUTE").ok();
    let (count, seed) = match asked.as_deref().and_then(|s| s.split_once(',')) {
        Some((count, seed)) => (count.parse().unwrap(), seed.parse().unwrap()),
        None => (1_500, 0),
    };
    let mut tally = Tally::default();
    (seed..seed + count).for_each(|seed| compare(seed, &mut tally));
    if asked.is_some() {
        eprintln!("{tally:?}");
    }
    assert!(
        tally.checked * 10 > count && tally.exactly * 20 > count,
        "{tally:?}"
    );
    assert!(tally.unproved * 20 <= tally.mended, "{tally:?}");
    assert!(tally.bare > 0, "{tally:?}");
}

/// A put and a later put on its queue pair, with a remote fence between them: a get before the fence is enough (Fig. 5, cell C6, by the
/// closure), and no poll.
#[test]
fn a_get_before_a_fence_needs_no_poll() {
    let text = "RDMA t\n{ y@1=0; d@1=0; x@2=0; u@2=0; }\n P0@1 | P1@1 ;\n x^2 := 1 | y := 5 ;\n rfence(2) | d := x^2 ;\n \
                u^2 := y | ;\nexists (true)\n";
    let program = parse(text).unwrap().litmus.program;
    for model in [Model::RdmaSc, Model::RdmaTso] {
        let question = Question::of(model);
        let mended = mend(&program, &question, &Costs::default(), &Budget::default()).unwrap();
        assert_eq!(
            (mended.cost, mended.minimal),
            (Costs::default().get, Minimal::Proved)
        );
        assert!(mended.verify(&question, &Budget::default()).is_robust());
    }
}

/// A get right after the put that it places is reached by one poll less than a get after the next put.
#[test]
fn a_get_further_up_needs_fewer_polls() {
    let text = "RDMA t\n{ z@1=0; d@1=0; x@2=0; y@2=0; }\n P0@1 | P1@2 ;\n x^2 := 1 | a := x ;\n y^2 := 2 | z^1 := 1 ;\n \
                r := z | ;\nexists (true)\n";
    let program = parse(text).unwrap().litmus.program;
    let mended = mend(
        &program,
        &Question::of(Model::RdmaSc),
        &Costs::default(),
        &Budget::default(),
    )
    .unwrap();
    let costs = Costs::default();
    assert!(mended.cost <= costs.get + 2 * costs.poll, "{:?}", mended.changes);
}

/// A poll that is needed anyway orders the CPU's accesses too, so that no memory fence is.
#[test]
fn a_poll_does_for_a_memory_fence() {
    let text = "RDMA t\n{ x@1=0; y@1=0; z@2=0; }\n P0@1 | P1@1 ;\n x := 1 | y := 1 ;\n z^2 := x | mfence ;\n r := y | a := x ;\n \
                x := 2 | ;\nexists (true)\n";
    let program = parse(text).unwrap().litmus.program;
    let mended = mend(
        &program,
        &Question::of(Model::RdmaTso),
        &Costs::default(),
        &Budget::default(),
    )
    .unwrap();
    assert_eq!(mended.cost, Costs::default().poll, "{:?}", mended.changes);
}
