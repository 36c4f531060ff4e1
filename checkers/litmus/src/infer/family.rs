//! A family of models: each rule is on or off, on top of what every RDMA fabric has.
//!
//! Every member has x86-TSO processors, coherent memory, and operations whose own steps are in order. The rules are the
//! cells of the ordering tables between operations of the network card, the meaning of a poll, remote fences, the PCIe
//! flush, and the atomicity of remote read-modify-writes. `rdma-tso` is the member with the rules that it
//! [promises](Rule::is_promised), which a test checks. A member is written as a model file (`docs/models.md`). Used by
//! the inference.

use std::fmt::{self, Write as _};

use mowgli::cat::{Embedded, ModelFile};
use mowgli::event::Kind;
use mowgli::models::tables::{Cell, OPPO, Order};
use mowgli::program::{Instr, Loc, Program, PutSrc};

/// The kinds of the network card's accesses.
const NIC: [Kind; 5] = [
    Kind::NicLocalRead,
    Kind::NicRemoteWrite,
    Kind::NicRemoteRead,
    Kind::NicLocalWrite,
    Kind::NicAtomicRead,
];

/// A rule that a fabric may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Operations of one queue pair keep the order of these steps, when issued and when observed.
    Cell(Cell),
    /// Orders the two steps of cell G8 or G9 when observed, but not when issued.
    Observed(Cell),
    /// A remote fence orders the operations before it with those after it.
    Fence,
    /// A poll of a get or read-modify-write says that the result has landed.
    GetCompletion,
    /// A poll of a put says that the source was read and the put was sent.
    PutCompletion,
    /// A poll of a put says that the put is placed.
    PutPlacement,
    /// A read of the network card places earlier writes of its queue pair (the PCIe guarantee).
    Flush,
    /// Remote read-modify-writes of a node are atomic among themselves.
    Atomicity,
}

impl Rule {
    /// Returns every rule.
    pub fn all() -> Vec<Rule> {
        let cells = NIC
            .into_iter()
            .flat_map(|earlier| NIC.map(|later| Cell { earlier, later }));
        let cells = cells.flat_map(|cell| match is_split(cell) {
            true => vec![Rule::Cell(cell), Rule::Observed(cell)],
            false => vec![Rule::Cell(cell)],
        });
        let others = [
            Rule::Fence,
            Rule::GetCompletion,
            Rule::PutCompletion,
            Rule::PutPlacement,
            Rule::Flush,
            Rule::Atomicity,
        ];
        cells.chain(others).collect()
    }

    /// Returns whether `rdma-tso` has the rule.
    pub fn is_promised(self) -> bool {
        match self {
            Rule::Cell(cell) | Rule::Observed(cell) => OPPO.get(cell) != Order::No,
            Rule::PutPlacement => false,
            _ => true,
        }
    }

    /// Describes the rule in a few words.
    pub fn summary(self) -> String {
        let cell = |cell: Cell| format!("{} before a later {}", cell.earlier.prose(), cell.later.prose());
        match self {
            Rule::Cell(c) => cell(c),
            Rule::Observed(c) => format!("{}, when observed", cell(c)),
            Rule::Fence => "a remote fence orders".into(),
            Rule::GetCompletion => "the poll of a get tells that its result has landed".into(),
            Rule::PutCompletion => "the poll of a put tells that its source was read".into(),
            Rule::PutPlacement => "the poll of a put tells that it is placed".into(),
            Rule::Flush => "a read of the network card places earlier writes (PCIe)".into(),
            Rule::Atomicity => "remote read-modify-writes are atomic among themselves".into(),
        }
    }

    /// Returns false if the rule surely changes no outcome of the program.
    pub fn concerns(self, program: &Program) -> bool {
        let threads = program.threads.iter().map(|thread| {
            let mut steps = Vec::new();
            flatten(program, &thread.code, &mut steps);
            steps
        });
        let mut threads = threads.collect::<Vec<_>>().into_iter();
        let has = |steps: &[Step], kind| steps.iter().any(|step| step.kinds.contains(&kind));
        let follows = |steps: &[Step], cell: Cell| {
            steps.iter().enumerate().any(|(at, step)| {
                let is_later = |later: &Step| later.peer == step.peer && later.kinds.contains(&cell.later);
                step.kinds.contains(&cell.earlier) && steps[at + 1..].iter().any(is_later)
            })
        };
        match self {
            Rule::Cell(cell) | Rule::Observed(cell) => threads.any(|steps| follows(&steps, cell)),
            Rule::Fence => threads.any(|steps| has(&steps, Kind::NicFence)),
            Rule::GetCompletion => {
                threads.any(|steps| has(&steps, Kind::Poll) && has(&steps, Kind::NicLocalWrite))
            }
            Rule::PutCompletion | Rule::PutPlacement => {
                threads.any(|steps| has(&steps, Kind::Poll) && has(&steps, Kind::NicLocalRead))
            }
            Rule::Flush => threads.any(|steps| steps.iter().filter(|step| step.kinds.len() > 1).count() > 1),
            Rule::Atomicity => threads.filter(|steps| has(steps, Kind::NicAtomicRead)).count() > 1,
        }
    }
}

/// Writes `G8`, `oppo:G8`, `fence` and so on.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Rule::Cell(cell) if is_split(*cell) => format!("ippo:{cell}"),
            Rule::Cell(cell) => cell.to_string(),
            Rule::Observed(cell) => format!("oppo:{cell}"),
            Rule::Fence => "fence".into(),
            Rule::GetCompletion => "get-completion".into(),
            Rule::PutCompletion => "put-completion".into(),
            Rule::PutPlacement => "put-placement".into(),
            Rule::Flush => "flush".into(),
            Rule::Atomicity => "atomicity".into(),
        };
        f.pad(&name)
    }
}

/// Returns whether the orders of issue and of observation are separate rules for this cell: the PCIe guarantee is
/// about these cells.
fn is_split(cell: Cell) -> bool {
    cell.earlier == Kind::NicRemoteWrite && matches!(cell.later, Kind::NicRemoteRead | Kind::NicLocalWrite)
}

/// The accesses of one instruction on a queue pair.
struct Step {
    peer: u8,
    kinds: Vec<Kind>,
}

fn flatten(program: &Program, code: &[Instr], steps: &mut Vec<Step>) {
    let node = |loc: &Loc| program.locations[usize::from(loc.0)].node.0;
    for instr in code {
        let (peer, kinds) = match instr.request().0 {
            Instr::Put { dst, src, .. } => {
                let _either: &PutSrc = src; // A constant is read, too.
                (node(dst), vec![Kind::NicLocalRead, Kind::NicRemoteWrite])
            }
            Instr::Get { src, .. } => (node(src), vec![Kind::NicRemoteRead, Kind::NicLocalWrite]),
            Instr::RemoteFaa { target, .. }
            | Instr::RemoteCas { target, .. }
            | Instr::RemoteSwap { target, .. } => (
                node(target),
                vec![Kind::NicAtomicRead, Kind::NicRemoteWrite, Kind::NicLocalWrite],
            ),
            Instr::Poll { node } => (node.0, vec![Kind::Poll]),
            Instr::Rfence { node } => (node.0, vec![Kind::NicFence]),
            Instr::If { then, otherwise, .. } => {
                flatten(program, then, steps);
                flatten(program, otherwise, steps);
                continue;
            }
            Instr::While { body, .. } => {
                // An operation of one iteration may follow an operation of the previous iteration.
                flatten(program, body, steps);
                flatten(program, body, steps);
                continue;
            }
            _ => continue,
        };
        steps.push(Step { peer, kinds });
    }
}

/// Writes the member of the family that has these rules, as a model file.
pub fn text(title: &str, rules: &[Rule]) -> String {
    let cells = |observed: bool| {
        let of = rules.iter().filter_map(|rule| match *rule {
            Rule::Cell(cell) if !(observed && is_split(cell)) => Some(cell),
            Rule::Observed(cell) if observed => Some(cell),
            _ => None,
        });
        let pairs =
            of.map(|cell| format!("(* {cell} *) ({} * {})", cell.earlier.label(), cell.later.label()));
        let pairs: Vec<_> = pairs.collect();
        match pairs.is_empty() {
            true => "0".to_owned(),
            false => pairs.join("\n  | "),
        }
    };
    let has = |rule: Rule| rules.contains(&rule);
    let when = |rule: Rule, relation: &'static str| if has(rule) { relation } else { "0" };
    let mut out = String::new();
    let _ = writeln!(out, "\"{}\"", title.replace('"', "'"));
    let _ = writeln!(
        out,
        "requires empty WAIT as no-wait\ninclude \"rdma-tables.cat\"\n"
    );
    let _ = writeln!(out, "(* Between operations of one queue pair. *)");
    let _ = writeln!(out, "let between = (po & sqp) \\ same-instr");
    let _ = writeln!(out, "let inside = po & same-instr");
    let _ = writeln!(out, "let issued =\n    {}", cells(false));
    let _ = writeln!(out, "let observed =\n    {}", cells(true));
    let fence = when(Rule::Fence, "po & sqp & ((nF * NIC) | (NIC * nF))");
    let _ = writeln!(out, "let fence = {fence}");
    let _ = writeln!(out, "let ippo = cpu-rows | inside | (between & issued) | fence");
    let _ = writeln!(
        out,
        "let oppo = (cpu-rows | inside | (between & observed) | fence) \\ unplaced \\ returns-unplaced\n"
    );
    let _ = writeln!(out, "(* Polls. *)");
    let _ = writeln!(
        out,
        "let get-completion = {}",
        when(Rule::GetCompletion, "[nlW];pf")
    );
    let _ = writeln!(
        out,
        "let put-completion = {}",
        when(Rule::PutCompletion, "[nrW];pf")
    );
    let _ = writeln!(
        out,
        "let put-placement = {}\n",
        when(Rule::PutPlacement, "[nrW];pf")
    );
    let (buffer, flush) = match has(Rule::Flush) {
        true => ("same-thread & (lW * lR)", "nfo"),
        false => (
            "(same-thread & (lW * lR)) | (sqp & ((nrW * nrR) | (nlW * nlR)))",
            "0",
        ),
    };
    let _ = writeln!(out, "let buffer = {buffer}\nlet flush = {flush}");
    let _ = writeln!(out, "let atomics = {}\n", when(Rule::Atomicity, "rao-apart"));
    out.push_str(
        "let Inst = _ \\ (lW | nlW | nrW)\n\
         let rf_b = rf & buffer\n\
         let rb_b = rb & buffer^-1\n\
         let ib = (ippo | rf | get-completion | put-completion | flush | rb_b | atomics)+\n\
         let ob = (oppo | (rf \\ rf_b) | get-completion | put-placement | flush | rb | mo | atomics)+\n\n\
         irreflexive ib as ib\n\
         irreflexive ob as ob\n\
         irreflexive ([Inst] ; ib ; ob)+ as joint\n",
    );
    out
}

/// Returns the member of the family that has these rules.
///
/// # Panics
/// Never: tests parse every kind of member.
pub fn model(rules: &[Rule]) -> ModelFile {
    match ModelFile::parse("family.cat", &text("a member of the family", rules), &Embedded) {
        Ok(file) => file,
        Err(errors) => unreachable!("members are well formed: {errors:?}"),
    }
}
