//! Clients: programs that call methods of libraries, LOCO'26 section 3.1.
//!
//! [`parse`] reads a client's text (`docs/clients.md`), and [`Client::print`] writes it. A client is not
//! bound to an implementation: both the specifications ([`crate::outcome`]) and the shipped objects can be
//! asked for its outcomes.
//!
//! Two constructs of the paper's language are different here. `let` is a register, since the paper's programs
//! use a value under a name. `break_k v` has no `v`, since a register carries the value.

mod admit;
mod condition;
mod declare;
mod method;
pub mod outcome;
mod parse;
mod print;
mod resolve;

use mowgli::syntax;
use serde::{Deserialize, Serialize};

pub use condition::{Condition, Expected, Formula, Operand, Query, Setting, UnknownSetting};
pub use method::{Library, Method, Param, Signature};
pub use mowgli::litmus::{Diagnostic, ParseError, Quantifier, Relation, Verdict};
pub use mowgli::program::{BinaryOp, Node, Reg, ThreadId, UnaryOp, WorkId};
pub(crate) use print::node_set;

use crate::value::Value;

/// A text that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The client.
    pub client: Client,
    /// Warnings, in the order of the text.
    pub warnings: Vec<Diagnostic>,
}

/// Reads a client.
///
/// # Errors
///
/// Returns every mistake found, each with its place and remedy. The bounds of [`mowgli::litmus::limits`]
/// hold.
pub fn parse(source: &str) -> Result<Parsed, ParseError> {
    let file = syntax::parse_dialect(source, "RDMA", parse::file).map_err(ParseError::of)?;
    let (client, diagnostics) = resolve::resolve(&file);
    let warnings = ParseError::warnings(diagnostics)?;
    Ok(Parsed { client, warnings })
}

/// Index of an object in [`Client::objects`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectId(pub u16);

/// A client: objects, threads on nodes, and conditions on its outcomes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Client {
    /// The name, from the header line.
    pub name: String,
    /// The origin of the client, and what it shows.
    pub description: Option<String>,
    /// The number of nodes. Nodes are `0..nodes`, and each takes part in every object that lives on all
    /// nodes.
    pub nodes: u8,
    /// Every object.
    pub objects: Vec<Object>,
    /// Every thread, at least one.
    pub threads: Vec<Thread>,
    /// The words of RDMA^WAIT whose last value is part of an outcome, namely those that conditions and
    /// `locations [..]` name.
    pub observed_words: Vec<ObjectId>,
    /// The final conditions, perhaps none. The first is the client's own; the n-th is called `NAME#n`.
    pub queries: Vec<Query>,
}

/// An object, which calls name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Object {
    /// The object's name.
    pub name: String,
    /// The object's kind.
    pub kind: ObjectKind,
}

/// The kind of an object, with the parameters that its library needs. The order has no meaning.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ObjectKind {
    /// A word of RDMA^WAIT.
    Word {
        /// The word's node.
        node: Node,
        /// The initial value.
        init: i64,
    },
    /// A shared variable, with a copy on every node that starts at 0.
    SharedVariable,
    /// A barrier (`b` of LOCO'26 4.1).
    Barrier {
        /// The threads that synchronise, ascending.
        participants: Vec<ThreadId>,
    },
    /// A ring buffer (`wthd`, `rthd` and `S` of LOCO'26 5.1 and Fig. 14).
    Ring {
        /// The thread that submits.
        writer: ThreadId,
        /// The threads that receive, ascending; may include the writer.
        readers: Vec<ThreadId>,
        /// The size in cells. A message of `n` words takes `n + 1` cells.
        size: u32,
    },
    /// A location of several words (`size` of LOCO'26 G.6), all 0 at the start.
    MixedSize {
        /// The location's node.
        node: Node,
        /// The number of words.
        size: u32,
    },
    /// A shared variable of several words, with a copy on every node, all 0 at the start.
    MixedVariable {
        /// The number of words.
        size: u32,
    },
    /// An owned variable, with a copy on every node that starts at 0.
    Owned {
        /// The node whose threads may store.
        owner: Node,
    },
    /// A shared state table: a row for each node, with copies on every node, all 0 at the start.
    Sst,
    /// An atomic variable.
    Atomic {
        /// The home node.
        node: Node,
        /// The initial value.
        init: i64,
    },
    /// A lock.
    Lock {
        /// The home node.
        node: Node,
    },
    /// A shared queue.
    Queue {
        /// The home node.
        node: Node,
        /// The number of values that it holds.
        size: u32,
    },
    /// A key-value store over all nodes, empty at the start.
    Store,
}

impl ObjectKind {
    /// Returns the library whose methods take the object.
    pub fn library(&self) -> Library {
        match self {
            ObjectKind::Word { .. } => Library::RdmaWait,
            ObjectKind::SharedVariable => Library::SharedVariable,
            ObjectKind::Barrier { .. } => Library::Barrier,
            ObjectKind::Ring { .. } => Library::RingBuffer,
            ObjectKind::MixedSize { .. } => Library::MixedSize,
            ObjectKind::MixedVariable { .. } => Library::MixedVariable,
            ObjectKind::Owned { .. } => Library::Owned,
            ObjectKind::Sst => Library::Sst,
            ObjectKind::Atomic { .. } => Library::Atomic,
            ObjectKind::Lock { .. } => Library::Lock,
            ObjectKind::Queue { .. } => Library::Queue,
            ObjectKind::Store => Library::Store,
        }
    }
}

/// A sequential thread on one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Thread {
    /// The thread's node.
    pub node: Node,
    /// The names of its registers, which start as the number 0.
    pub registers: Vec<String>,
    /// The names of its work identifiers. One that nothing waits for is called `_`. No two threads share an
    /// identifier.
    pub work_ids: Vec<String>,
    /// The thread's code.
    pub body: Vec<Stmt>,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stmt {
    /// `r := m(..)`, or `m(..)` if `result` is `None`.
    Call {
        /// The register that the result goes to.
        result: Option<Reg>,
        /// The call.
        call: Call,
    },
    /// `r := e`.
    Assign {
        /// The destination.
        reg: Reg,
        /// The value.
        value: Expr,
    },
    /// `if (e) { .. } else { .. }`.
    If {
        /// The condition, evaluated by [`Value::truth`].
        cond: Expr,
        /// The statements to run if it is true.
        then: Vec<Stmt>,
        /// The statements to run if it is false.
        otherwise: Vec<Stmt>,
    },
    /// `loop { .. }`: runs the body until a `break` leaves it. The code that runs clients limits the number
    /// of iterations, and answers *unknown* where more are needed.
    Loop(Vec<Stmt>),
    /// `break k`: leaves `k` nested loops, at least one.
    Break(u32),
}

/// A call. The arguments fit the method's [`Signature`]: they have the right number and kinds, and objects
/// are of the right library.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// The arguments.
    pub args: Vec<Arg>,
}

/// An argument.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Arg {
    /// A [`Param::Object`].
    Object(ObjectId),
    /// A [`Param::Number`] or [`Param::Message`].
    Value(Expr),
    /// A [`Param::Work`].
    Work(WorkId),
    /// A [`Param::Node`].
    Node(Node),
    /// A [`Param::Nodes`].
    Nodes(NodeSet),
}

impl Call {
    /// Returns the objects that the call names, in the order of the arguments.
    pub fn objects(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.args.iter().filter_map(|arg| match arg {
            Arg::Object(object) => Some(*object),
            _ => None,
        })
    }
}

/// A set of nodes, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeSet(pub u32);

impl NodeSet {
    /// Returns the nodes `0..count`.
    pub fn all(count: u8) -> NodeSet {
        NodeSet(u32::try_from((1u64 << count) - 1).unwrap_or(u32::MAX))
    }

    /// Returns whether the node is in the set.
    pub fn contains(self, node: Node) -> bool {
        self.0 >> node.0 & 1 == 1
    }

    /// Returns the set with the node.
    pub fn with(self, node: Node) -> NodeSet {
        NodeSet(self.0 | 1 << node.0)
    }

    /// Returns the set without the node.
    pub fn without(self, node: Node) -> NodeSet {
        NodeSet(self.0 & !(1 << node.0))
    }

    /// Returns whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the nodes of the set, ascending.
    pub fn iter(self) -> impl Iterator<Item = Node> {
        (0..32).map(Node).filter(move |&node| self.contains(node))
    }
}

impl FromIterator<Node> for NodeSet {
    fn from_iter<I: IntoIterator<Item = Node>>(nodes: I) -> NodeSet {
        nodes.into_iter().fold(NodeSet::default(), NodeSet::with)
    }
}

/// An expression over the thread's registers. `==` and `!=` compare values of any kind; other operators work on
/// [`Value::number`] (comparisons and logic give truth values).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Expr {
    /// A constant.
    Const(Value),
    /// A register's value.
    Reg(Reg),
    /// `[e1, e2]`: a message of several words.
    Tuple(Vec<Expr>),
    /// A unary operator.
    Unary(UnaryOp, Box<Expr>),
    /// A binary operator.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
}

impl Expr {
    /// Returns the expression's value, given those of the registers. A missing register counts as 0.
    pub fn eval(&self, registers: &[Value]) -> Value {
        match self {
            Expr::Const(value) => value.clone(),
            Expr::Reg(reg) => registers
                .get(usize::from(reg.0))
                .cloned()
                .unwrap_or(Value::Int(0)),
            Expr::Tuple(parts) => {
                let words: Vec<i64> = parts.iter().map(|e| e.eval(registers).number()).collect();
                Value::message(&words)
            }
            Expr::Unary(UnaryOp::Not, e) => Value::Bool(!e.eval(registers).truth()),
            Expr::Unary(op, e) => Value::Int(op.apply(e.eval(registers).number())),
            Expr::Binary(op, a, b) => {
                let (a, b) = (a.eval(registers), b.eval(registers));
                match op {
                    BinaryOp::Eq => Value::Bool(a == b),
                    BinaryOp::Ne => Value::Bool(a != b),
                    BinaryOp::And => Value::Bool(a.truth() && b.truth()),
                    BinaryOp::Or => Value::Bool(a.truth() || b.truth()),
                    BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul => {
                        Value::Int(op.apply(a.number(), b.number()))
                    }
                    _ => Value::Bool(op.apply(a.number(), b.number()) != 0),
                }
            }
        }
    }
}

impl Client {
    /// Returns an object. Ids in the client's own calls are in range.
    pub fn object(&self, id: ObjectId) -> &Object {
        &self.objects[usize::from(id.0)]
    }

    /// Returns the node of a thread of the client.
    pub fn node_of(&self, thread: ThreadId) -> Node {
        self.threads[usize::from(thread.0)].node
    }

    /// Returns the libraries that the client's objects and calls belong to, each once, ascending.
    pub fn libraries(&self) -> Vec<Library> {
        let mut out: Vec<Library> = self.objects.iter().map(|o| o.kind.library()).collect();
        self.for_each_call(&mut |_, call| out.push(call.method.library()));
        out.sort_unstable();
        out.dedup();
        out
    }

    /// Returns the number of calls in the client's text.
    pub fn calls(&self) -> usize {
        let mut calls = 0;
        self.for_each_call(&mut |_, _| calls += 1);
        calls
    }

    /// Visits every call of the text, with its thread.
    pub fn for_each_call(&self, visit: &mut impl FnMut(ThreadId, &Call)) {
        for (thread, t) in self.threads.iter().zip(0..) {
            each_call(&thread.body, &mut |call| visit(ThreadId(t), call));
        }
    }

    /// Returns whether a thread polls. Then the client is one of RDMA^TSO (LOCO'26 F.1) and has words alone.
    pub fn polls(&self) -> bool {
        let mut polls = false;
        self.for_each_call(&mut |_, call| polls |= call.method == Method::Poll);
        polls
    }

    /// Returns the name of query `index` in reports: `NAME` for the first, `NAME#2` for the second.
    pub fn query_name(&self, index: usize) -> String {
        match index {
            0 => self.name.clone(),
            n => format!("{}#{}", self.name, n + 1),
        }
    }
}

fn each_call(body: &[Stmt], visit: &mut impl FnMut(&Call)) {
    for stmt in body {
        match stmt {
            Stmt::Call { call, .. } => visit(call),
            Stmt::Assign { .. } | Stmt::Break(_) => {}
            Stmt::If { then, otherwise, .. } => {
                each_call(then, visit);
                each_call(otherwise, visit);
            }
            Stmt::Loop(body) => each_call(body, visit),
        }
    }
}
