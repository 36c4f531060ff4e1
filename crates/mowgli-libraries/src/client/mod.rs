//! Clients: programs that call methods of libraries, LOCO'26 section 3.1.
//!
//! [`parse`] reads a client's text (`docs/clients.md`), [`Client::print`] writes it. A client runs on nothing in
//! particular: the specifications ([`crate::outcome`]) and the shipped objects are asked for its outcomes alike.
//!
//! Of the paper's language, `let` is a register here, since its programs use a value under a name; `break_k v` has no `v`, as
//! a register carries it.

mod admit;
mod condition;
mod declare;
mod method;
pub mod outcome;
mod parse;
mod print;
mod resolve;

use serde::{Deserialize, Serialize};

pub use condition::{Condition, Expected, Formula, Operand, Query, Setting, UnknownSetting};
pub use method::{Library, Method, Param, Signature};
pub use mowgli::litmus::{Diagnostic, ParseError, Quantifier, Relation, Verdict};
pub use mowgli::program::{BinaryOp, Node, Reg, ThreadId, UnaryOp, WorkId};
pub use parse::{Parsed, parse};
pub(crate) use print::node_set;

use crate::value::Value;

/// Index of an object in [`Client::objects`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectId(pub u16);

/// A client: objects, threads on nodes, and what is asked about its outcomes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Client {
    /// Name, from the header line.
    pub name: String,
    /// Where the client comes from and what it shows.
    pub description: Option<String>,
    /// Number of nodes; nodes are `0..nodes`, each a participant of every object that lives on all nodes.
    pub nodes: u8,
    /// Every object.
    pub objects: Vec<Object>,
    /// Every thread, at least one.
    pub threads: Vec<Thread>,
    /// Words of RDMA^WAIT whose last value is part of an outcome: those that conditions and `locations [..]` name.
    pub observed_words: Vec<ObjectId>,
    /// Final conditions, perhaps none. The first is the client's own; the n-th is called `NAME#n`.
    pub queries: Vec<Query>,
}

/// An object that calls name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Object {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: ObjectKind,
}

/// What an object is, with the parameters that its library needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ObjectKind {
    /// A word of RDMA^WAIT.
    Word {
        /// Where it is.
        node: Node,
        /// Its initial value.
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
        /// Its size in cells; a message of `n` words takes `n + 1`.
        size: u32,
    },
    /// A location of several words (`size` of LOCO'26 G.6), all 0 at the start.
    MixedSize {
        /// Where it is.
        node: Node,
        /// How many words.
        size: u32,
    },
    /// An owned variable, with a copy on every node that starts at 0.
    Owned {
        /// The node whose threads may store.
        owner: Node,
    },
    /// A shared state table: a row a node, with copies on every node, all 0 at the start.
    Sst,
    /// An atomic variable.
    Atomic {
        /// Its home.
        node: Node,
        /// Its initial value.
        init: i64,
    },
    /// A lock.
    Lock {
        /// Its home.
        node: Node,
    },
    /// A shared queue.
    Queue {
        /// Its home.
        node: Node,
        /// How many values it holds.
        size: u32,
    },
    /// A key-value store over all nodes, empty at the start.
    Store,
}

impl ObjectKind {
    /// The library whose methods take it.
    pub fn library(&self) -> Library {
        match self {
            ObjectKind::Word { .. } => Library::RdmaWait,
            ObjectKind::SharedVariable => Library::SharedVariable,
            ObjectKind::Barrier { .. } => Library::Barrier,
            ObjectKind::Ring { .. } => Library::RingBuffer,
            ObjectKind::MixedSize { .. } => Library::MixedSize,
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
    /// Its node.
    pub node: Node,
    /// Names of its registers, which start at the number 0.
    pub registers: Vec<String>,
    /// Names of its work identifiers; one that nothing waits for is called `_`. No two threads share an identifier.
    pub work_ids: Vec<String>,
    /// Its code.
    pub body: Vec<Stmt>,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stmt {
    /// `r := m(..)`, or `m(..)` if `result` is none.
    Call {
        /// Where the result goes.
        result: Option<Reg>,
        /// What is called.
        call: Call,
    },
    /// `r := e`.
    Assign {
        /// Destination.
        reg: Reg,
        /// Value.
        value: Expr,
    },
    /// `if (e) { .. } else { .. }`.
    If {
        /// Condition, by [`Value::truth`].
        cond: Expr,
        /// Run if it is true.
        then: Vec<Stmt>,
        /// Run if not.
        otherwise: Vec<Stmt>,
    },
    /// `loop { .. }`: runs the body until a `break` leaves it. Whoever runs clients states how many iterations are
    /// considered, and answers *unknown* where more are needed.
    Loop(Vec<Stmt>),
    /// `break k`: leaves `k` nested loops, at least one.
    Break(u32),
}

/// A call. The arguments fit the method's [`Signature`]: as many, each of its kind, objects of the right library.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// Its arguments.
    pub args: Vec<Arg>,
}

/// An argument.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Arg {
    /// [`Param::Object`].
    Object(ObjectId),
    /// [`Param::Number`] or [`Param::Message`].
    Value(Expr),
    /// [`Param::Work`].
    Work(WorkId),
    /// [`Param::Node`].
    Node(Node),
    /// [`Param::Nodes`].
    Nodes(NodeSet),
}

impl Call {
    /// The objects it names, in the order of the arguments.
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
    /// The nodes `0..count`.
    pub fn all(count: u8) -> NodeSet {
        NodeSet(u32::try_from((1u64 << count) - 1).unwrap_or(u32::MAX))
    }

    /// Whether the node is in it.
    pub fn contains(self, node: Node) -> bool {
        self.0 >> node.0 & 1 == 1
    }

    /// With the node.
    pub fn with(self, node: Node) -> NodeSet {
        NodeSet(self.0 | 1 << node.0)
    }

    /// Without the node.
    pub fn without(self, node: Node) -> NodeSet {
        NodeSet(self.0 & !(1 << node.0))
    }

    /// Whether it has no node.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its nodes, ascending.
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
    /// Its value, given those of the registers. A register that is not there counts as 0.
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
    /// An object. Ids of the client's own calls are in range.
    pub fn object(&self, id: ObjectId) -> &Object {
        &self.objects[usize::from(id.0)]
    }

    /// The node of a thread of the client.
    pub fn node_of(&self, thread: ThreadId) -> Node {
        self.threads[usize::from(thread.0)].node
    }

    /// The libraries that its objects and calls belong to, each once, ascending.
    pub fn libraries(&self) -> Vec<Library> {
        let mut out: Vec<Library> = self.objects.iter().map(|o| o.kind.library()).collect();
        self.for_each_call(&mut |_, call| out.push(call.method.library()));
        out.sort_unstable();
        out.dedup();
        out
    }

    /// How many calls its text has.
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

    /// What reports call query `index`: `NAME` for the first, `NAME#2` for the second.
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
