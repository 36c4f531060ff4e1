//! Programs of litmus tests, without reference to a memory model.
//!
//! A program is a set of *locations*, each placed on a node, and a list of *threads*, each running on a node. Instructions follow
//! RDMA-TSO'24 Fig. 6 (CPU and remote operations, poll, remote fence), LOCO'26 3.3 (work identifiers and `Wait`) and `docs/rmw.md` (remote
//! read-modify-write). The parser and [`crate::generate`] make programs; both engines and the printer read them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Values of registers and memory words.
pub type Value = i64;

/// Index of a location in [`Program::locations`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Loc(pub u16);

/// A node (machine) of the network, numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Node(pub u8);

impl fmt::Display for Node {
    /// Writes the number from 1, as the papers and litmus files do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", u32::from(self.0) + 1)
    }
}

/// A thread, numbered from 0 in textual order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ThreadId(pub u8);

/// A thread-local register: index into [`Thread::registers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Reg(pub u16);

/// A work identifier of RDMA^WAIT, local to its thread: index into [`Thread::work_ids`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkId(pub u16);

/// A program. The models assume rules of placement, which the parser checks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Program {
    /// Number of nodes; nodes are `0..nodes`.
    pub nodes: u8,
    /// Every shared location, with its node and initial value.
    pub locations: Vec<Location>,
    /// Every thread.
    pub threads: Vec<Thread>,
}

/// A shared word of memory placed on one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Location {
    /// Name in the source text.
    pub name: String,
    /// Node whose memory holds it.
    pub node: Node,
    /// Initial value.
    pub init: Value,
    /// True if the location is in a region registered for relaxed ordering. Only [`crate::model::Tier::PcieRelaxed`] has such regions.
    pub relaxed: bool,
}

/// A sequential thread on one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Thread {
    /// Name in the source text (`P0`).
    pub name: String,
    /// Node that runs it.
    pub node: Node,
    /// Register names; registers start at 0.
    pub registers: Vec<String>,
    /// Names of work identifiers.
    pub work_ids: Vec<String>,
    /// Its code.
    pub code: Vec<Instr>,
}

/// Expressions over the thread's registers. Arithmetic wraps; comparisons and logic yield 0 or 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Expr {
    /// A constant.
    Const(Value),
    /// A register's value.
    Reg(Reg),
    /// A unary operator.
    Unary(UnaryOp, Box<Expr>),
    /// A binary operator.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
}

/// Unary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum UnaryOp {
    /// Wrapping negation.
    Neg,
    /// 1 if the operand is 0, else 0.
    Not,
}

/// Binary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BinaryOp {
    /// Wrapping addition.
    Add,
    /// Wrapping subtraction.
    Sub,
    /// Wrapping multiplication.
    Mul,
    /// Equality.
    Eq,
    /// Disequality.
    Ne,
    /// Less than.
    Lt,
    /// At most.
    Le,
    /// Greater than.
    Gt,
    /// At least.
    Ge,
    /// Logical and.
    And,
    /// Logical or.
    Or,
}

impl UnaryOp {
    /// Applies the operator.
    pub fn apply(self, a: Value) -> Value {
        match self {
            UnaryOp::Neg => a.wrapping_neg(),
            UnaryOp::Not => Value::from(a == 0),
        }
    }
}

impl BinaryOp {
    /// Returns the symbol of the operator in litmus tests and clients.
    pub const fn symbol(self) -> &'static str {
        match self {
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Mul => "*",
            BinaryOp::Eq => "==",
            BinaryOp::Ne => "!=",
            BinaryOp::Lt => "<",
            BinaryOp::Le => "<=",
            BinaryOp::Gt => ">",
            BinaryOp::Ge => ">=",
            BinaryOp::And => "&&",
            BinaryOp::Or => "||",
        }
    }

    /// Applies the operator.
    pub fn apply(self, a: Value, b: Value) -> Value {
        match self {
            BinaryOp::Add => a.wrapping_add(b),
            BinaryOp::Sub => a.wrapping_sub(b),
            BinaryOp::Mul => a.wrapping_mul(b),
            BinaryOp::Eq => Value::from(a == b),
            BinaryOp::Ne => Value::from(a != b),
            BinaryOp::Lt => Value::from(a < b),
            BinaryOp::Le => Value::from(a <= b),
            BinaryOp::Gt => Value::from(a > b),
            BinaryOp::Ge => Value::from(a >= b),
            BinaryOp::And => Value::from(a != 0 && b != 0),
            BinaryOp::Or => Value::from(a != 0 || b != 0),
        }
    }
}

/// Instructions. *Local* locations are on the thread's own node, *remote* ones on the node of the queue pair
/// that the operation uses; a remote location may be on the thread's own node (loop-back).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Instr {
    /// `x := e`: CPU store to a local location.
    Store {
        /// Destination.
        loc: Loc,
        /// Stored value.
        value: Expr,
    },
    /// `r := x`: CPU load from a local location.
    Load {
        /// Destination register.
        reg: Reg,
        /// Source.
        loc: Loc,
    },
    /// `r := e`: register assignment, no memory event.
    Assign {
        /// Destination register.
        reg: Reg,
        /// Value.
        value: Expr,
    },
    /// `r := CAS(x, e1, e2)`: CPU compare-and-swap on a local location; `reg` gets the old value.
    Cas {
        /// Register for the old value, if wanted.
        reg: Option<Reg>,
        /// Local location.
        loc: Loc,
        /// Expected value.
        expected: Expr,
        /// New value.
        new: Expr,
    },
    /// `r := swap(x, e)`: CPU exchange of a local location, which always writes; `reg` gets the old value.
    Swap {
        /// Register for the old value, if wanted.
        reg: Option<Reg>,
        /// Local location.
        loc: Loc,
        /// New value.
        new: Expr,
    },
    /// CPU memory fence.
    Mfence,
    /// `x^n := y` (put of a local location), `x^n := e` (put of a constant) or `x^n := inline(e)` (put of a constant whose data
    /// are in the work request).
    Put {
        /// Remote destination.
        dst: Loc,
        /// The value.
        src: PutSrc,
        /// Work identifier (RDMA^WAIT), if any.
        work: Option<WorkId>,
    },
    /// `x := y^n`: get of a remote location into a local one.
    Get {
        /// Local destination.
        dst: Loc,
        /// Remote source.
        src: Loc,
        /// Work identifier (RDMA^WAIT), if any.
        work: Option<WorkId>,
    },
    /// Remote fetch-and-add; the old value is written to local `dst` (`docs/rmw.md`).
    RemoteFaa {
        /// Local destination of the old value.
        dst: Loc,
        /// Remote location.
        target: Loc,
        /// Addend.
        add: Expr,
        /// Work identifier, if any.
        work: Option<WorkId>,
    },
    /// Remote compare-and-swap; the old value is written to local `dst` (`docs/rmw.md`).
    RemoteCas {
        /// Local destination of the old value.
        dst: Loc,
        /// Remote location.
        target: Loc,
        /// Expected value.
        expected: Expr,
        /// New value.
        new: Expr,
        /// Work identifier, if any.
        work: Option<WorkId>,
    },
    /// Remote exchange, which always writes; the old value is written to local `dst` (`docs/rmw.md`).
    RemoteSwap {
        /// Local destination of the old value.
        dst: Loc,
        /// Remote location.
        target: Loc,
        /// New value.
        new: Expr,
        /// Work identifier, if any.
        work: Option<WorkId>,
    },
    /// `poll(n)`: waits for the earliest unpolled operation towards node `n`.
    Poll {
        /// The peer.
        node: Node,
    },
    /// `rfence(n)`: remote fence towards node `n`; does not block the CPU.
    Rfence {
        /// The peer.
        node: Node,
    },
    /// `strong I`: a put, get or remote read-modify-write that takes effect at the peer after the earlier writes of its queue pair have
    /// been placed there (`docs/ordering-models.md`). Only remote operations with a remote side stand inside.
    Strong(Box<Instr>),
    /// `unsignaled I`: an operation without a completion of its own. The poll of the next operation of its queue pair that has one covers it.
    /// The instruction inside is one that may stand inside [`Instr::Strong`]; a request for strong order stands outside.
    Unsignaled(Box<Instr>),
    /// `send(n, y)`, or a put with immediate data: an operation that takes the oldest receive of its queue pair at the peer, and completes
    /// it once its data are placed (`docs/litmus.md`). Requests stand outside.
    Message(Box<Message>),
    /// `recv(P, x)`: posts a receive for the queue pair from another thread to this node.
    Recv {
        /// The thread at the other end.
        from: ThreadId,
        /// The local location that a send writes; `None` for a receive that only announces.
        buffer: Option<Loc>,
        /// The entry of the receive queue, which the CPU writes.
        entry: Loc,
    },
    /// `r := pollrecv(P)`: waits for the oldest receive, not yet polled, of the queue pair from another thread to this node.
    PollRecv {
        /// Register for the immediate data, if wanted.
        reg: Option<Reg>,
        /// The thread at the other end.
        from: ThreadId,
        /// The entry of the completion queue, which the card writes.
        done: Loc,
    },
    /// `wait(d)`: waits for earlier operations with work identifier `d` (RDMA^WAIT).
    Wait {
        /// The work identifier.
        work: WorkId,
    },
    /// Continues only if the expression is not 0. Executions in which it is 0 are discarded.
    Assume(Expr),
    /// Conditional.
    If {
        /// Condition (not 0 means true).
        cond: Expr,
        /// Run when true.
        then: Vec<Instr>,
        /// Run when false.
        otherwise: Vec<Instr>,
    },
    /// Runs `body` while `cond` is not 0. Where an engine does not come to an end otherwise, it runs `body` at most `bound` times, and the
    /// verdict is *Unknown* if an execution needs more iterations.
    While {
        /// Condition.
        cond: Expr,
        /// Body.
        body: Vec<Instr>,
        /// Largest number of iterations explored.
        bound: u32,
    },
    /// Non-deterministic choice between blocks.
    Choose(Vec<Vec<Instr>>),
}

/// An operation that takes a receive at the peer.
///
/// The entries of a queue pair's receive queue and of its completions are words of the peer's memory, which no name of a test reaches: the
/// peer's CPU writes an entry to post a receive, and the card that takes it writes the completion.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Message {
    /// The put that carries its data: into the buffer of the receive (`send`), or where the operation says (a write with immediate).
    /// `None` for a send without data.
    pub put: Option<Instr>,
    /// True for `send`, false for a write with immediate.
    pub send: bool,
    /// The immediate data.
    pub immediate: Expr,
    /// The entry of the receive queue that it takes.
    pub entry: Loc,
    /// The entry of the completion queue that it writes.
    pub done: Loc,
}

/// The value of an entry of the completion queue that the card has not written.
pub const NOT_DONE: Value = Value::MIN;

impl Location {
    /// Returns whether this is an entry of a queue of receives or of their completions, which has no name in the text of a test.
    pub fn is_queue_entry(&self) -> bool {
        self.name.contains('>')
    }
}

/// Source of a put.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PutSrc {
    /// A local location, read by the NIC.
    Loc(Loc),
    /// A value fixed when the instruction is issued. The models of RDMA-TSO'24 have no inlining, so a put of a value still has a NIC
    /// local read, of a fresh location that nobody writes.
    Value(Expr),
    /// A value fixed when the instruction is issued, which travels in the work request. The NIC reads no memory for it, so the put does
    /// not flush what the NIC has yet to write locally: RDMA-TSO'24 Fig. 17 (GFP2) was seen with such puts only. In all else it is a put
    /// of a value. The definitions of the paper leave it out; the variant is ours (`docs/litmus.md`).
    Inline(Expr),
}

impl PutSrc {
    /// Returns the value of a put of a constant, whichever way it travels; `None` for a put of a location.
    pub fn constant(&self) -> Option<&Expr> {
        match self {
            PutSrc::Loc(_) => None,
            PutSrc::Value(value) | PutSrc::Inline(value) => Some(value),
        }
    }
}

impl Program {
    /// Returns the program with all puts of constants inlined.
    pub fn inlined(&self) -> Program {
        let mut program = self.clone();
        program.each_instr_mut(&mut |instr| {
            if let Instr::Put { src, .. } = instr.request_mut()
                && let PutSrc::Value(value) = src
            {
                *src = PutSrc::Inline(value.clone());
            }
        });
        program
    }

    /// Calls `visit` with every instruction, to change it: thread by thread, in the order of the text, nested ones included.
    pub fn each_instr_mut(&mut self, visit: &mut dyn FnMut(&mut Instr)) {
        for thread in &mut self.threads {
            each_mut(&mut thread.code, visit);
        }
    }

    /// Returns whether some thread sends messages or posts receives for them.
    pub fn has_messages(&self) -> bool {
        self.locations.iter().any(Location::is_queue_entry)
    }

    /// Returns whether two messages of one queue pair take receives.
    pub fn has_several_messages(&self) -> bool {
        // Entries count from 1.
        let second = |l: &Location| l.is_queue_entry() && l.name.ends_with("done2");
        self.locations.iter().any(second)
    }

    /// Returns whether a location is in a region registered for relaxed ordering.
    pub fn has_relaxed_regions(&self) -> bool {
        self.locations.iter().any(|l| l.relaxed)
    }

    /// Returns whether some thread has a loop.
    pub fn has_loops(&self) -> bool {
        self.has(&|instr| matches!(instr, Instr::While { .. }))
    }

    /// Returns whether some instruction without its requests, nested ones included, is one of these.
    pub fn has(&self, is_one: &dyn Fn(&Instr) -> bool) -> bool {
        self.threads.iter().any(|thread| thread.has(is_one))
    }

    /// Returns whether some thread has an instruction for the network card.
    pub fn has_remote_operations(&self) -> bool {
        self.threads
            .iter()
            .flat_map(|thread| &thread.code)
            .any(Instr::is_remote)
    }
}

impl Thread {
    /// Returns whether some instruction of the thread, without its requests, nested ones included, is one of these.
    pub fn has(&self, is_one: &dyn Fn(&Instr) -> bool) -> bool {
        fn any(code: &[Instr], is_one: &dyn Fn(&Instr) -> bool) -> bool {
            code.iter()
                .any(|i| is_one(i.request().0) || i.blocks().into_iter().any(|block| any(block, is_one)))
        }
        any(&self.code, is_one)
    }
}

fn each_mut(code: &mut [Instr], visit: &mut dyn FnMut(&mut Instr)) {
    for instr in code {
        visit(instr);
        for block in instr.blocks_mut() {
            each_mut(block, visit);
        }
    }
}

/// Returns the instruction at a place: its number in the outermost block, the number of a block in it, and so on.
pub(crate) fn at<'c>(code: &'c [Instr], place: &[u16]) -> Option<&'c Instr> {
    let (&index, rest) = place.split_first()?;
    let instr = code.get(usize::from(index))?;
    match rest.split_first() {
        None => Some(instr),
        Some((&number, inner)) => at(instr.blocks().get(usize::from(number)).copied()?, inner),
    }
}

/// Returns the instruction at a place, as [`at`], to change it.
pub(crate) fn at_mut<'c>(code: &'c mut [Instr], place: &[u16]) -> Option<&'c mut Instr> {
    let (&index, rest) = place.split_first()?;
    let instr = code.get_mut(usize::from(index))?;
    match rest.split_first() {
        None => Some(instr),
        Some((&number, inner)) => at_mut(instr.blocks_mut().into_iter().nth(usize::from(number))?, inner),
    }
}

impl Instr {
    /// Returns the instruction without its requests, and whether it asks for strong order.
    pub fn request(&self) -> (&Instr, bool) {
        match self {
            Instr::Strong(operation) => (operation.request().0, true),
            Instr::Unsignaled(operation) => operation.request(),
            other => (other, false),
        }
    }

    /// Returns the instruction without its requests, to change it.
    pub fn request_mut(&mut self) -> &mut Instr {
        match self {
            Instr::Strong(operation) | Instr::Unsignaled(operation) => operation.request_mut(),
            other => other,
        }
    }

    /// Returns whether the instruction may stand inside [`Instr::Strong`].
    pub fn can_be_strong(&self) -> bool {
        match self {
            Instr::Unsignaled(operation) => operation.can_be_strong(),
            Instr::Put { .. }
            | Instr::Get { .. }
            | Instr::RemoteFaa { .. }
            | Instr::RemoteCas { .. }
            | Instr::RemoteSwap { .. }
            | Instr::Message(_) => true,
            _ => false,
        }
    }

    /// Returns whether the instruction is an operation without a completion of its own.
    pub fn is_unsignaled(&self) -> bool {
        match self {
            Instr::Strong(operation) => operation.is_unsignaled(),
            Instr::Unsignaled(_) => true,
            _ => false,
        }
    }

    /// Returns the blocks in the instruction, in the order of their numbers in places.
    pub fn blocks(&self) -> Vec<&[Instr]> {
        match self {
            Instr::If { then, otherwise, .. } => vec![then, otherwise],
            Instr::While { body, .. } => vec![body],
            Instr::Choose(blocks) => blocks.iter().map(Vec::as_slice).collect(),
            _ => Vec::new(),
        }
    }

    fn blocks_mut(&mut self) -> Vec<&mut [Instr]> {
        match self {
            Instr::If { then, otherwise, .. } => vec![then, otherwise],
            Instr::While { body, .. } => vec![body],
            Instr::Choose(blocks) => blocks.iter_mut().map(Vec::as_mut_slice).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns whether the instruction, or a part of it, is for the network card.
    fn is_remote(&self) -> bool {
        match self {
            Instr::Store { .. }
            | Instr::Load { .. }
            | Instr::Assign { .. }
            | Instr::Cas { .. }
            | Instr::Swap { .. }
            | Instr::Mfence
            | Instr::Recv { .. }
            | Instr::PollRecv { .. }
            | Instr::Assume(_) => false,
            Instr::If { then, otherwise, .. } => then.iter().chain(otherwise).any(Instr::is_remote),
            Instr::While { body, .. } => body.iter().any(Instr::is_remote),
            Instr::Choose(blocks) => blocks.iter().flatten().any(Instr::is_remote),
            _ => true,
        }
    }
}
