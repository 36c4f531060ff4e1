//! A second implementation of guaranteed-before and of the conditions, straight from the definitions of Robust'25, with relations as
//! sets of pairs and all quantifiers spelt out. It shares only the events of a path with the library.

use std::collections::BTreeSet;

use mowgli::declarative::unfold::{self, End, Path};
use mowgli::event::{Event, Kind};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::models::Spec;
use mowgli::outcome::Budget;
use mowgli::program::{Node, Program};

type Pairs = BTreeSet<(usize, usize)>;

/// Laws of every pre-execution.
#[derive(Debug, PartialEq, Eq)]
pub struct Verdicts {
    pub pre_executions: u64,
    pub ldrf: bool,
    pub fenced: bool,
    pub tree_fenced: bool,
}

/// A pre-execution: the events of all threads, program order and polls-from.
struct Pre<'p> {
    program: &'p Program,
    model: Model,
    rmw: RmwAtomicity,
    refined: bool,
    events: Vec<Event>,
    po: Pairs,
    pf: Pairs,
}

fn compose(a: &Pairs, b: &Pairs) -> Pairs {
    let mut out = Pairs::new();
    for &(x, y) in a {
        for &(_, z) in b.range((y, 0)..=(y, usize::MAX)) {
            out.insert((x, z));
        }
    }
    out
}

fn closure(mut r: Pairs) -> Pairs {
    loop {
        let size = r.len();
        let next = compose(&r, &r);
        r.extend(next);
        if r.len() == size {
            return r;
        }
    }
}

use Kind::{
    Cas, Fence, LocalRead, LocalWrite, NicAtomicRead, NicFence, NicLocalRead, NicLocalWrite, NicRemoteRead,
    NicRemoteWrite, Poll,
};

fn cpu(k: Kind) -> bool {
    matches!(k, LocalRead | LocalWrite | Cas | Fence | Poll)
}

impl Pre<'_> {
    fn kind(&self, e: usize) -> Kind {
        self.events[e].kind
    }

    fn sqp(&self, a: usize, b: usize) -> bool {
        self.events[a].peer.is_some()
            && self.events[a].thread == self.events[b].thread
            && self.events[a].peer == self.events[b].peer
    }

    /// Fig. 4 on the right, cell by cell; with `strong`, RDMA^SC's. The two writes of one read-modify-write are not ordered.
    fn oppo(&self, a: usize, b: usize, strong: bool) -> bool {
        let (k, l) = (self.kind(a), self.kind(b));
        if cpu(k) {
            let buffered = k == LocalWrite && matches!(l, LocalRead | Poll);
            return strong || !buffered;
        }
        if !self.sqp(a, b) || cpu(l) {
            return false;
        }
        let own = self.events[a].rmw && self.events[a].same_instruction(&self.events[b]);
        match k {
            NicLocalRead => true,
            NicRemoteWrite if own && l == NicLocalWrite => false,
            NicRemoteWrite => !matches!(l, NicLocalRead | NicFence),
            NicRemoteRead => matches!(l, NicLocalWrite | NicFence),
            NicLocalWrite => l == NicLocalWrite,
            NicFence => true,
            NicAtomicRead => l != NicLocalRead,
            _ => unreachable!(),
        }
    }

    /// Def. 6 (12), with the target of the fifth line restricted to NIC events, closed transitively. `nAR` acts as `nrR`, but is fenced
    /// only against `nlR`, because the table orders the rest.
    fn gb(&self, strong: bool) -> Pairs {
        let mut base = Pairs::new();
        for &(a, b) in &self.po {
            if self.oppo(a, b, strong) {
                base.insert((a, b));
            }
        }
        for &(w, p) in &self.pf {
            if self.kind(w) == NicLocalWrite {
                base.insert((w, p));
            }
            for e in 0..self.events.len() {
                if !self.po.contains(&(e, w)) {
                    continue;
                }
                let same = self.events[e].same_instruction(&self.events[w]);
                let holds = match (self.kind(e), self.kind(w)) {
                    (NicLocalRead, NicRemoteWrite) => same,
                    (NicRemoteRead | NicAtomicRead, NicLocalWrite) => same,
                    (NicRemoteWrite, NicLocalWrite) => self.sqp(e, w) && !same,
                    _ => false,
                };
                if holds {
                    base.insert((e, p));
                }
            }
        }
        for f in (0..self.events.len()).filter(|&f| self.kind(f) == NicFence) {
            for &(a, _) in self.po.iter().filter(|&&(a, b)| b == f && self.sqp(a, f)) {
                for &(_, b) in self.po.iter().filter(|&&(x, b)| x == f && self.sqp(f, b)) {
                    let holds = match (self.kind(a), self.kind(b)) {
                        (NicRemoteRead, l) => !cpu(l) && l != NicFence,
                        (NicLocalWrite, NicLocalRead) => true,
                        (NicLocalWrite, NicRemoteWrite) => !self.events[b].rmw,
                        (NicAtomicRead, NicLocalRead) => true,
                        _ => false,
                    };
                    if holds {
                        base.insert((a, b));
                    }
                }
            }
        }
        closure(base)
    }

    fn node_of(&self, e: usize) -> Option<Node> {
        let loc = self.events[e].loc?;
        Some(self.program.locations[usize::from(loc.0)].node)
    }

    fn home(&self, e: usize) -> Node {
        let thread = self.events[e].thread.expect("no initial writes");
        self.program.threads[usize::from(thread.0)].node
    }

    fn unit(&self, e: usize) -> Option<Node> {
        let atomic = self.events[e].rmw && matches!(self.kind(e), NicAtomicRead | NicRemoteWrite);
        (atomic && self.rmw == RmwAtomicity::Hca).then(|| self.events[e].peer.expect("an RMW has a peer"))
    }

    fn public(&self, e: usize) -> bool {
        (0..self.events.len()).any(|o| {
            let other = self.events[o].thread != self.events[e].thread;
            let loc = self.events[e].loc.is_some() && self.events[e].loc == self.events[o].loc;
            let writes = self.events[e].writes || self.events[o].writes;
            let unit = self.unit(e).is_some() && self.unit(e) == self.unit(o);
            other && (unit || loc && (writes || !self.refined))
        })
    }

    fn remote(&self, e: usize) -> bool {
        matches!(self.kind(e), NicRemoteRead | NicRemoteWrite | NicAtomicRead)
    }

    fn ldrf(&self, strong: &Pairs) -> bool {
        self.po.iter().all(|&(a, b)| {
            let (x, y) = (&self.events[a], &self.events[b]);
            let conflict = x.loc.is_some() && x.loc == y.loc && (x.writes || y.writes);
            !conflict || strong.contains(&(a, b))
        })
    }

    /// Nodes connected by the public remote accesses of threads other than that of `e`.
    fn connected(&self, e: usize, from: Node, to: Node) -> bool {
        let mut seen = BTreeSet::from([from]);
        loop {
            let size = seen.len();
            for l in (0..self.events.len()).filter(|&l| self.remote(l) && self.public(l)) {
                if self.events[l].thread == self.events[e].thread {
                    continue;
                }
                let ends = (
                    self.home(l),
                    self.events[l].peer.expect("a remote access has a peer"),
                );
                if seen.contains(&ends.0) || seen.contains(&ends.1) {
                    seen.extend([ends.0, ends.1]);
                }
            }
            if seen.len() == size {
                return seen.contains(&to);
            }
        }
    }

    fn fenced(&self, gb: &Pairs) -> bool {
        self.po.iter().all(|&(a, b)| {
            let nodes = (self.node_of(a), self.node_of(b));
            let (Some(x), Some(y)) = nodes else { return true };
            !(self.public(a) && self.public(b) && self.connected(a, x, y)) || gb.contains(&(a, b))
        })
    }

    fn has_qp(&self, thread: usize, node: Node) -> bool {
        (0..self.events.len()).any(|e| {
            self.remote(e)
                && usize::from(self.events[e].thread.expect("no initial writes").0) == thread
                && self.events[e].peer == Some(node)
        })
    }

    fn tree_fenced(&self) -> bool {
        let all = || 0..self.events.len();
        let private =
            all().all(|e| !(matches!(self.kind(e), NicLocalRead | NicLocalWrite) && self.public(e)));
        let in_order = self.po.iter().all(|&(a, b)| {
            if self.kind(a) != NicRemoteRead || !self.remote(b) || !self.sqp(a, b) {
                return true;
            }
            let fence = all().any(|f| {
                self.kind(f) == NicFence
                    && self.sqp(a, f)
                    && self.po.contains(&(a, f))
                    && self.po.contains(&(f, b))
            });
            let poll = self
                .pf
                .iter()
                .any(|&(w, p)| self.events[w].same_instruction(&self.events[a]) && self.po.contains(&(p, b)));
            fence || poll
        });
        let buffers = self.model == Model::RdmaSc
            || self.po.iter().all(|&(a, b)| {
                let pair = self.kind(a) == LocalWrite && self.kind(b) == LocalRead;
                let between = |f| self.po.contains(&(a, f)) && self.po.contains(&(f, b));
                !(pair && self.public(a) && self.public(b))
                    || all().any(|f| matches!(self.kind(f), Fence | Cas) && between(f))
            });
        private && in_order && buffers && self.is_tree()
    }

    fn is_tree(&self) -> bool {
        let threads = || 0..self.program.threads.len();
        let home = |t: usize| self.program.threads[t].node;
        let both = threads().any(|t| threads().any(|u| self.has_qp(t, home(u)) && self.has_qp(u, home(t))));
        let nodes = || (0..self.program.nodes).map(Node);
        let twice = threads().any(|t| {
            threads().any(|u| {
                t != u && home(t) == home(u) && nodes().any(|n| self.has_qp(t, n) && self.has_qp(u, n))
            })
        });
        let link = |a: Node, b: Node| {
            threads().any(|t| home(t) == a && self.has_qp(t, b) || home(t) == b && self.has_qp(t, a))
        };
        // A circle of more than two nodes: two neighbours that stay connected without the link between them.
        let circle = nodes().any(|a| {
            nodes().any(|b| {
                let mut seen = BTreeSet::from([a]);
                loop {
                    let size = seen.len();
                    for (x, y) in nodes().flat_map(|x| nodes().map(move |y| (x, y))) {
                        let direct = (x, y) == (a, b) || (x, y) == (b, a);
                        if x != y && !direct && link(x, y) && seen.contains(&x) {
                            seen.insert(y);
                        }
                    }
                    if seen.len() == size {
                        break;
                    }
                }
                a != b && link(a, b) && seen.contains(&b)
            })
        });
        !both && !twice && !circle
    }
}

/// Calls `visit` with every pre-execution, one path for each thread.
fn each_pre(program: &Program, spec: &Spec, refined: bool, mut visit: impl FnMut(&Pre<'_>)) {
    let paths: Vec<Vec<Path>> = (0..program.threads.len())
        .map(|t| {
            let all = unfold::paths(program, t, spec, &Budget::default()).expect("small programs");
            all.into_iter().filter(|p| p.end == End::Complete).collect()
        })
        .collect();
    let mut choices: Vec<Vec<&Path>> = vec![Vec::new()];
    for thread in &paths {
        choices = choices
            .iter()
            .flat_map(|c| thread.iter().map(|p| [c.as_slice(), &[p]].concat()))
            .collect();
    }
    for choice in choices {
        let mut pre = Pre {
            program,
            model: spec.model,
            rmw: spec.atomicity,
            refined,
            events: Vec::new(),
            po: Pairs::new(),
            pf: Pairs::new(),
        };
        for path in choice {
            let first = pre.events.len();
            pre.events.extend(path.events.iter().cloned());
            for b in first..pre.events.len() {
                pre.po.extend((first..b).map(|a| (a, b)));
            }
            pre.pf
                .extend(path.pf.iter().map(|&(w, p)| (first + w, first + p)));
        }
        visit(&pre);
    }
}

/// Decides the conditions for every pre-execution.
pub fn verdicts(program: &Program, model: Model, rmw: RmwAtomicity, refined: bool) -> Verdicts {
    let spec = Spec::of(model, rmw);
    let mut all = Verdicts {
        pre_executions: 0,
        ldrf: true,
        fenced: true,
        tree_fenced: true,
    };
    each_pre(program, &spec, refined, |pre| {
        let strong = pre.gb(true);
        let gb = pre.gb(model == Model::RdmaSc);
        all.pre_executions += 1;
        all.ldrf &= pre.ldrf(&strong);
        all.fenced &= pre.fenced(&gb);
        all.tree_fenced &= pre.tree_fenced();
    });
    all
}
