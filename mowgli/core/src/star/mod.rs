//! The star translation (Robust'25 5.3): makes an RDMA program of one server and its clients from a shared-memory program.
//!
//! Every shared location moves to the server's node. One thread stays with it, or none; every other thread becomes a client on a node
//! of its own, whose loads are gets into private copies and whose stores are puts. The result is tree-fenced (Def. 9, Def. 14) and
//! locally free of data races (Def. 7), so its outcomes are those of the source under sequential consistency (Cor. 1, Cor. 3).
//! `client` and `server` translate threads, `early` moves gets, [`x86`] reads herd7's tests. Used by `mowgli star`.

mod client;
mod early;
mod server;
pub mod x86;

use std::collections::BTreeSet;

use crate::litmus::{Expected, Litmus, Property, Query, Setting, Statement};
use crate::model::{Model, RmwAtomicity};
use crate::program::{Instr, Loc, Location, Node, Program, Reg, Thread};

/// The thread that stays on the server's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// This thread, by its index. Robust'25 5.3 takes the first.
    Thread(usize),
    /// No thread: the node only holds the locations.
    Idle,
}

/// Target of the translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The thread that stays with the locations.
    pub server: Server,
    /// Whether gets are posted as early as allowed: right after the operation of the same queue pair before them.
    pub early: bool,
    /// The model that the program is made for. Under [`Model::RdmaTso`] the server gets the fences that Def. 14 asks for.
    pub model: Model,
    /// Atomicity of remote read-modify-writes. With [`RmwAtomicity::Hca`] a location that clients swap must be written by
    /// no other instruction.
    pub rmw: RmwAtomicity,
}

impl Default for Options {
    /// Makes the first thread the server, under the model `rdma-tso`.
    fn default() -> Options {
        Options {
            server: Server::Thread(0),
            early: false,
            model: Model::RdmaTso,
            rmw: RmwAtomicity::Hca,
        }
    }
}

/// Why a program cannot be translated.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The program is on several nodes.
    #[error(
        "the program is on several nodes: put every location and thread of a shared-memory program on node 1"
    )]
    SeveralNodes,
    /// A thread has an instruction for the network.
    #[error(
        "thread {thread} has `{instr}`: a shared-memory program has no remote operations, polls or waits"
    )]
    Remote {
        /// The thread's name.
        thread: String,
        /// The instruction.
        instr: String,
    },
    /// There is no thread that could be the server.
    #[error("there is no thread P{0} to be the server: name one of the program's threads, or none")]
    NoServer(usize),
    /// The model is not one for which the translation is defined.
    #[error("the translation is for rdma-sc and rdma-tso, not for {0}")]
    Model(Model),
    /// A location is swapped by a client and written otherwise, which `hca` does not make atomic.
    #[error(
        "clients swap `{location}` and {writer} writes it otherwise; under hca a remote compare-and-swap or exchange is not \
         atomic against that write: make every write of `{location}` a cas or swap of a client (with no thread on the server), or translate for glob"
    )]
    MixedAtomicity {
        /// The location.
        location: String,
        /// The thread with the other write.
        writer: String,
    },
    /// The result exceeds a bound of the litmus language.
    #[error("the translation is too large: {0}")]
    TooLarge(String),
}

crate::debug_as_display!(Refused);

/// Translates a test on one node. The result's locations begin with those of the source, and its threads have the registers of the
/// source, so conditions keep their meaning. A verdict that the source states for `sc` is stated for the models of the translation.
///
/// # Errors
///
/// Returns why the program has no translation.
pub fn translate(litmus: &Litmus, options: &Options) -> Result<Litmus, Refused> {
    let source = &litmus.program;
    check(source, options)?;
    let shared = shared(source);
    let mut locations: Vec<Location> = source.locations.clone();
    locations.iter_mut().for_each(|l| l.node = Node(0));
    let mut copies = Copies::new(source, locations);
    let mut threads = Vec::new();
    let mut nodes = 1;
    for (index, thread) in source.threads.iter().enumerate() {
        let (node, code) = match options.server == Server::Thread(index) {
            true => (Node(0), server::thread(&thread.code, &shared, options.model)),
            false => {
                nodes += 1;
                let node = Node(nodes - 1);
                (
                    node,
                    client::thread(thread, index, node, options.early, &mut copies),
                )
            }
        };
        threads.push(Thread {
            node,
            code,
            ..thread.clone()
        });
    }
    let locations = copies.locations;
    let bounds = [
        (
            "LOCATIONS_MAX",
            crate::litmus::limits::LOCATIONS_MAX,
            locations.len(),
        ),
        ("NODES_MAX", crate::litmus::limits::NODES_MAX, usize::from(nodes)),
    ];
    if let Some((name, bound, found)) = bounds.into_iter().find(|&(_, bound, found)| found > bound) {
        return Err(Refused::TooLarge(format!("{found} exceeds {name} ({bound})")));
    }
    let early = if options.early { "-early" } else { "" };
    Ok(Litmus {
        name: format!("{}+star{early}", litmus.name),
        description: Some(description(litmus, options)),
        program: Program {
            nodes,
            locations,
            threads,
        },
        observed: litmus.observed.clone(),
        queries: litmus.queries.iter().map(|q| verdicts(q, options)).collect(),
        stated: statements(options),
    })
}

fn description(litmus: &Litmus, options: &Options) -> String {
    let server = match options.server {
        Server::Thread(t) => format!("P{t} is the server"),
        Server::Idle => "no thread on the server".to_owned(),
    };
    let early = if options.early { ", gets posted early" } else { "" };
    let about = litmus
        .description
        .as_ref()
        .map_or(String::new(), |d| format!(": {d}"));
    format!(
        "Star translation (Robust'25 5.3) for {}, {server}{early}{about}",
        options.model
    )
}

/// States the verdict of the source under `sc` for the models under which the translation has the same outcomes.
fn verdicts(query: &Query, options: &Options) -> Query {
    let sc = Setting {
        model: Model::Sc,
        rmw: RmwAtomicity::Hca,
    };
    let mut expected = Expected::new();
    if let Some(&verdict) = query.expected.get(&sc) {
        let rmw = options.rmw;
        expected.insert(sc, verdict);
        expected.insert(
            Setting {
                model: Model::RdmaSc,
                rmw,
            },
            verdict,
        );
        if options.model == Model::RdmaTso {
            expected.insert(
                Setting {
                    model: Model::RdmaTso,
                    rmw,
                },
                verdict,
            );
        }
    }
    Query {
        condition: query.condition.clone(),
        expected,
    }
}

/// Returns the models under which the translation has the outcomes of its source.
fn settings(options: &Options) -> impl Iterator<Item = Setting> {
    let (model, rmw) = (options.model, options.rmw);
    [Model::RdmaSc, Model::RdmaTso]
        .into_iter()
        .filter(move |&m| m == Model::RdmaSc || m == model)
        .map(move |model| Setting { model, rmw })
}

/// States what makes the translation right: it meets the conditions of Cor. 1 (under TSO Cor. 3).
fn statements(options: &Options) -> Vec<Statement> {
    let all = Property::ALL.into_iter();
    let stated = all.flat_map(|property| {
        settings(options).map(move |setting| Statement {
            property,
            setting,
            holds: true,
        })
    });
    let mut stated: Vec<Statement> = stated.collect();
    stated.sort();
    stated
}

fn check(program: &Program, options: &Options) -> Result<(), Refused> {
    if !matches!(options.model, Model::RdmaSc | Model::RdmaTso) {
        return Err(Refused::Model(options.model));
    }
    let mut nodes = program.locations.iter().map(|l| l.node);
    let first = program.threads.first().map_or(Node(0), |t| t.node);
    if nodes.any(|n| n != first) || program.threads.iter().any(|t| t.node != first) {
        return Err(Refused::SeveralNodes);
    }
    if let Server::Thread(t) = options.server
        && t >= program.threads.len()
    {
        return Err(Refused::NoServer(t));
    }
    for thread in &program.threads {
        if let Some(instr) = find(&thread.code, &is_remote) {
            return Err(Refused::Remote {
                thread: thread.name.clone(),
                instr: crate::litmus::instruction(program, thread, instr),
            });
        }
    }
    if options.rmw == RmwAtomicity::Hca {
        check_atomicity(program, options.server)?;
    }
    Ok(())
}

fn is_remote(instr: &Instr) -> bool {
    use Instr::{Get, Message, Poll, PollRecv, Put, Recv, RemoteCas, RemoteFaa, RemoteSwap, Rfence, Wait};
    matches!(
        instr.request().0,
        Put { .. }
            | Get { .. }
            | RemoteFaa { .. }
            | RemoteCas { .. }
            | RemoteSwap { .. }
            | Poll { .. }
            | Rfence { .. }
            | Wait { .. }
            | Message(_)
            | Recv { .. }
            | PollRecv { .. }
    )
}

/// Refuses a location that a client swaps and that a store, or a swap of the server, writes too. Under `hca` a remote compare-and-swap
/// is atomic against its like only (`docs/rmw.md`).
fn check_atomicity(program: &Program, server: Server) -> Result<(), Refused> {
    let is_client = |t: usize| server != Server::Thread(t);
    for (index, location) in program.locations.iter().enumerate() {
        let loc = Loc(index as u16);
        let swaps =
            |i: &Instr| matches!(i, Instr::Cas { loc: l, .. } | Instr::Swap { loc: l, .. } if *l == loc);
        let stores = |i: &Instr| matches!(i, Instr::Store { loc: l, .. } if *l == loc);
        let threads = || program.threads.iter().enumerate();
        if !threads().any(|(t, thread)| is_client(t) && find(&thread.code, &swaps).is_some()) {
            continue;
        }
        let other = threads().find(|(t, thread)| {
            find(&thread.code, &stores).is_some() || !is_client(*t) && find(&thread.code, &swaps).is_some()
        });
        if let Some((_, thread)) = other {
            return Err(Refused::MixedAtomicity {
                location: location.name.clone(),
                writer: thread.name.clone(),
            });
        }
    }
    Ok(())
}

/// Finds the first instruction, nested ones included, that is wanted.
fn find<'a>(block: &'a [Instr], wanted: &dyn Fn(&Instr) -> bool) -> Option<&'a Instr> {
    block.iter().find_map(|instr| match instr {
        _ if wanted(instr) => Some(instr),
        Instr::If { then, otherwise, .. } => find(then, wanted).or_else(|| find(otherwise, wanted)),
        Instr::While { body, .. } => find(body, wanted),
        Instr::Choose(blocks) => blocks.iter().find_map(|b| find(b, wanted)),
        _ => None,
    })
}

/// Returns whether an instruction accesses a location. In a shared-memory program that is an operation of a client.
fn accesses(instr: &Instr) -> bool {
    matches!(
        instr,
        Instr::Load { .. } | Instr::Store { .. } | Instr::Cas { .. } | Instr::Swap { .. }
    )
}

/// Returns the locations that two threads or more mention.
fn shared(program: &Program) -> BTreeSet<Loc> {
    let mentions = |thread: &Thread, loc: Loc| {
        let on_it = |i: &Instr| match i {
            Instr::Load { loc: l, .. }
            | Instr::Store { loc: l, .. }
            | Instr::Cas { loc: l, .. }
            | Instr::Swap { loc: l, .. } => *l == loc,
            _ => false,
        };
        find(&thread.code, &on_it).is_some()
    };
    (0..program.locations.len())
        .map(|l| Loc(l as u16))
        .filter(|&loc| program.threads.iter().filter(|t| mentions(t, loc)).count() > 1)
        .collect()
}

/// The private copies of clients: one for every load and swap in the text, used once.
struct Copies {
    locations: Vec<Location>,
    taken: BTreeSet<String>,
}

impl Copies {
    fn new(source: &Program, locations: Vec<Location>) -> Copies {
        let registers = source.threads.iter().flat_map(|t| t.registers.iter().cloned());
        let taken = locations
            .iter()
            .map(|l| l.name.clone())
            .chain(registers)
            .collect();
        Copies { locations, taken }
    }

    /// Places a copy of `loc` on the client's node: `x_1` for the first of thread 1, then `x_1_2`.
    fn place(&mut self, loc: Loc, thread: usize, node: Node) -> Loc {
        let base = format!("{}_{thread}", self.locations[usize::from(loc.0)].name);
        let numbered = (2..).map(|n| format!("{base}_{n}"));
        let name = std::iter::once(base.clone())
            .chain(numbered)
            .find(|n| !self.taken.contains(n));
        let name = name.unwrap_or(base);
        self.taken.insert(name.clone());
        self.locations.push(Location {
            name,
            node,
            init: 0,
            relaxed: false,
        });
        // `translate` refuses a result with more than LOCATIONS_MAX locations before anyone uses the index.
        Loc(u16::try_from(self.locations.len() - 1).unwrap_or(u16::MAX))
    }
}

/// Returns the registers that an expression reads.
fn registers_of(expr: &crate::program::Expr) -> BTreeSet<Reg> {
    use crate::program::Expr;
    match expr {
        Expr::Const(_) => BTreeSet::new(),
        Expr::Reg(r) => BTreeSet::from([*r]),
        Expr::Unary(_, e) => registers_of(e),
        Expr::Binary(_, a, b) => &registers_of(a) | &registers_of(b),
    }
}
