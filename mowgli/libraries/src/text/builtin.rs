//! The functions of the language of implementations: what the papers' figures ask of objects, threads, sets and messages.

use std::collections::BTreeSet;

use super::Kind;
use crate::client::{Client, Method, Node, ObjectKind, ThreadId};
use crate::event::{Event, Loc, Wid};
use crate::implementation::Caller;
use crate::value::Value;

macro_rules! functions {
    ($($(#[doc = $doc:literal])+ $function:ident = $name:literal ($($kind:ident),*) $result:ident;)+) => {
        /// A function.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Function {
            $($(#[doc = $doc])+ $function,)+
        }

        impl Function {
            /// Every function.
            pub(super) const ALL: &'static [Function] = &[$(Function::$function),+];

            /// Returns the name, what the arguments are, and what the result is.
            pub(super) const fn form(self) -> (&'static str, &'static [Kind], Kind) {
                match self {
                    $(Function::$function => ($name, &[$(Kind::$kind),*], Kind::$result),)+
                }
            }
        }
    };
}

functions! {
    /// The thread's node.
    Here = "here" () Value;
    /// The thread.
    Me = "me" () Value;
    /// All nodes.
    Nodes = "nodes" () Value;
    /// The node of a thread.
    NodeOf = "node" (Value) Value;
    /// The nodes of threads, ascending, each once.
    NodesOf = "nodes_of" (Value) Value;
    /// The participants of a barrier.
    Participants = "participants" (Location) Value;
    /// The writer of a ring.
    Writer = "writer" (Location) Value;
    /// The readers of a ring.
    Readers = "readers" (Location) Value;
    /// The size of a ring or of a mixed-size location.
    Size = "size" (Location) Value;
    /// The number of words of a message, or of members of a set.
    Len = "len" (Value) Value;
    /// The words in the other order.
    Reverse = "reverse" (Value) Value;
    /// A message with more words at its end.
    Append = "append" (Value, Value) Value;
    /// A set without a member.
    Without = "without" (Value, Value) Value;
    /// Whether a set has a member.
    Contains = "contains" (Value, Value) Value;
    /// The lesser number.
    Min = "min" (Value, Value) Value;
    /// The greater number.
    Max = "max" (Value, Value) Value;
    /// The remainder, from 0 to below the second number; 0 for a second number below 1.
    Mod = "mod" (Value, Value) Value;
    /// An identifier of the implementation's own, one for each object; `id(mine)` is one that belongs to none.
    Id = "id" (Location) Work;
    /// Whether the thread has an operation towards a node with this identifier that no poll has seen.
    Pending = "pending" (Value, Work) Value;
}

/// An argument of a function.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Value(Value),
    Location(Loc),
    Work(Wid),
}

impl Item {
    pub(super) fn value(&self) -> Value {
        match self {
            Item::Value(value) => value.clone(),
            Item::Location(_) | Item::Work(_) => Value::Unit,
        }
    }

    pub(super) fn number(&self) -> i64 {
        self.value().number()
    }
}

/// Returns the node with a number, counted from 1 as in texts.
pub(super) fn node(number: i64) -> Option<Node> {
    u8::try_from(number.checked_sub(1)?).ok().map(Node)
}

/// Returns the number of a node.
pub(super) fn number(node: Node) -> i64 {
    i64::from(node.0) + 1
}

fn threads(threads: &[ThreadId]) -> Value {
    let numbers: Vec<i64> = threads.iter().map(|t| i64::from(t.0)).collect();
    Value::message(&numbers)
}

fn kind(client: &Client, x: Loc) -> Option<&ObjectKind> {
    client.objects.get(usize::from(x.object)).map(|o| &o.kind)
}

impl Function {
    /// Applies the function. What it cannot say, such as the writer of a barrier, is `bot`'s kin `()`.
    pub(super) fn apply(self, c: &Caller<'_>, args: &[Item]) -> Item {
        let client = c.client();
        let value = |at: usize| args.get(at).map_or(Value::Unit, Item::value);
        let int = |at: usize| value(at).number();
        let object = match args.first() {
            Some(Item::Location(x)) => kind(client, *x),
            _ => None,
        };
        let node_of = |thread: i64| {
            let thread = usize::try_from(thread).ok().and_then(|t| client.threads.get(t));
            thread.map(|t| number(t.node))
        };
        Item::Value(match self {
            Function::Here => Value::Int(number(c.node())),
            Function::Me => Value::Int(i64::from(c.thread())),
            Function::Nodes => Value::message(&(1..=i64::from(client.nodes)).collect::<Vec<_>>()),
            Function::NodeOf => node_of(int(0)).map_or(Value::Unit, Value::Int),
            Function::NodesOf => {
                let nodes: BTreeSet<i64> = value(0).words().into_iter().filter_map(node_of).collect();
                Value::message(&nodes.into_iter().collect::<Vec<_>>())
            }
            Function::Participants => match object {
                Some(ObjectKind::Barrier { participants }) => threads(participants),
                _ => Value::Unit,
            },
            Function::Writer => match object {
                Some(ObjectKind::Ring { writer, .. }) => threads(&[*writer]),
                _ => Value::Unit,
            },
            Function::Readers => match object {
                Some(ObjectKind::Ring { readers, .. }) => threads(readers),
                _ => Value::Unit,
            },
            Function::Size => match object {
                Some(
                    ObjectKind::Ring { size, .. }
                    | ObjectKind::MixedSize { size, .. }
                    | ObjectKind::MixedVariable { size },
                ) => Value::Int(i64::from(*size)),
                _ => Value::Unit,
            },
            Function::Len => Value::Int(value(0).words().len() as i64),
            Function::Reverse => Value::message(&value(0).words().into_iter().rev().collect::<Vec<_>>()),
            Function::Append => Value::message(&[value(0).words(), value(1).words()].concat()),
            Function::Without => {
                let left: Vec<i64> = value(0).words().into_iter().filter(|w| *w != int(1)).collect();
                Value::message(&left)
            }
            Function::Contains => Value::Bool(value(0).words().contains(&int(1))),
            Function::Min => Value::Int(int(0).min(int(1))),
            Function::Max => Value::Int(int(0).max(int(1))),
            Function::Mod => Value::Int(match int(1) {
                by @ 1.. => int(0).rem_euclid(by),
                _ => 0,
            }),
            Function::Id => {
                return match args.first() {
                    Some(Item::Location(x)) => Item::Work(Wid::of(x.object)),
                    _ => Item::Work(Wid::NONE),
                };
            }
            Function::Pending => match (node(int(0)), args.get(1)) {
                (Some(node), Some(Item::Work(d))) => Value::Bool(outstanding(c, node).contains(d)),
                _ => Value::Bool(false),
            },
        })
    }
}

/// Returns the identifiers of the thread's operations towards a node that have not been polled, oldest first.
fn outstanding(c: &Caller<'_>, node: Node) -> Vec<Wid> {
    let remote = |e: &Event| match e.method.plain() {
        Method::Put => e.loc(0),
        Method::Get | Method::RemoteFaa | Method::RemoteCas => e.loc(1),
        _ => None,
    };
    let polls = |e: &&Event| e.method == Method::Poll && e.nodes().contains(node);
    let polled = c.made().iter().filter(polls).count();
    let towards = |e: &&Event| remote(e).is_some_and(|x| x.node == node.0);
    let operations = c.made().iter().filter(towards).skip(polled);
    operations.map(|e| e.work().unwrap_or(Wid::NONE)).collect()
}
