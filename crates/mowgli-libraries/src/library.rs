//! What a library is (LOCO'26 Def. 3.5): methods with locations and stamps, and a consistency predicate.
//!
//! A predicate is given as its enumeration: [`Specification::order`] tries the synchronisation orders that the library
//! allows, and [`Specification::accepts`] says what the library asks of `hb` beyond being a strict partial order.

use rustc_hash::FxHashMap;

use crate::client::{Client, Library, Method, Node};
use crate::event::{Arg, Event, Loc, Stamp};
use crate::execution::{Flow, Graph, State};
use crate::order::Order;
use crate::past::Past;
use crate::value::Value;

/// What follows a choice of `so`: the other libraries' choices, and in the end the consistent execution.
pub type Next<'n> = &'n mut dyn FnMut(&mut State<'_>) -> Flow;

/// The specification of a library.
pub trait Specification: Sync {
    /// The library.
    fn library(&self) -> Library;

    /// `stmp(e)`, not empty; none if the call by itself has no consistent execution (a thread that takes no part).
    fn stamps(&self, client: &Client, event: &Event) -> Option<Vec<Stamp>>;

    /// Adds to the state every synchronisation order that the library allows, one after the other, and calls `next`
    /// with each. Ends when `next` stops.
    fn order(&self, g: &Graph<'_>, state: &mut State<'_>, next: Next<'_>) -> Flow;

    /// Whether the library's predicate holds of a complete `hb`, for predicates that read it.
    fn accepts(&self, _g: &Graph<'_>, _hb: &Order) -> bool {
        true
    }

    /// What the call may return: a finite set that has every result of a consistent execution.
    fn results(&self, past: &Past<'_>, method: Method, args: &[Arg]) -> Vec<Value>;

    /// What the call makes known to reads of the same library.
    fn effects(&self, past: &Past<'_>, event: &Event) -> Vec<Effect>;

    /// The locations of a call (`loc` of Def. 3.5). The arguments' by default.
    fn locations(&self, event: &Event) -> Vec<Loc> {
        let locs = event.args.iter().filter_map(|arg| match arg {
            Arg::Loc(loc) => Some(*loc),
            _ => None,
        });
        locs.collect()
    }
}

/// What a call does to the values that reads may find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The thread's CPU writes the value.
    Write(Loc, Value),
    /// A network card writes the value.
    Place(Loc, Value),
    /// A network card copies what it finds.
    Copy {
        /// Destination.
        to: Loc,
        /// Source.
        from: Loc,
    },
}

/// A set of compatible libraries (Λ of LOCO'26 Def. 3.6): one specification a library.
#[derive(Default)]
pub struct Libraries<'a> {
    specifications: FxHashMap<Library, &'a dyn Specification>,
}

impl<'a> Libraries<'a> {
    /// The set of these specifications; the last of each library counts.
    pub fn new(specifications: impl IntoIterator<Item = &'a dyn Specification>) -> Libraries<'a> {
        let specifications = specifications.into_iter().map(|s| (s.library(), s)).collect();
        Libraries { specifications }
    }

    /// The specification of a library.
    pub fn get(&self, library: Library) -> Option<&'a dyn Specification> {
        self.specifications.get(&library).copied()
    }
}

/// The initial value of a location: the client's for its words, 0 elsewhere.
pub fn initial(client: &Client, loc: Loc) -> Value {
    use crate::client::ObjectKind;
    let init = match loc.client_object().map(|object| &client.object(object).kind) {
        Some(ObjectKind::Word { init, .. } | ObjectKind::Atomic { init, .. }) => *init,
        Some(ObjectKind::MixedSize { size, .. }) => return Value::message(&vec![0; *size as usize]),
        _ => 0,
    };
    Value::Int(init)
}

/// The node that a location's `node` means for a thread on `own`: its own where there is a copy on every node.
pub fn copy_of(loc: Loc, own: Node) -> Loc {
    if loc.node == Loc::EVERYWHERE {
        loc.at(own)
    } else {
        loc
    }
}
