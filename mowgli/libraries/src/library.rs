//! Libraries (LOCO'26 Def. 3.5): methods with locations and stamps, and a consistency predicate.
//!
//! A predicate is given as its enumeration. [`Specification::order`] tries the synchronisation orders that
//! the library allows. [`Specification::accepts`] checks the library's demands on `hb` beyond being a strict
//! partial order.

use mowgli::model::Tier;
use rustc_hash::FxHashMap;

use crate::client::{Client, Library, Method, Node};
use crate::event::{Arg, Event, Loc, Stamp};
use crate::execution::{Flow, Graph, State};
use crate::network::Network;
use crate::order::Order;
use crate::past::Past;
use crate::value::Value;

/// The continuation of a choice of `so`: the other libraries' choices, and in the end the consistent
/// execution.
pub type Next<'n> = &'n mut dyn FnMut(&mut State<'_>) -> Flow;

/// The specification of a library.
pub trait Specification: Sync {
    /// Returns the library.
    fn library(&self) -> Library;

    /// Returns `stmp(e)`, which is not empty. Returns `None` if the call by itself has no consistent
    /// execution (its thread takes no part).
    fn stamps(&self, client: &Client, event: &Event) -> Option<Vec<Stamp>>;

    /// Adds every synchronisation order that the library allows to the state, one after the other, and calls
    /// `next` with each. Ends when `next` stops.
    fn order(&self, g: &Graph<'_>, state: &mut State<'_>, next: Next<'_>) -> Flow;

    /// Returns whether the library's predicate holds for a complete `hb`. Only predicates that depend on `hb` need
    /// this.
    fn accepts(&self, _g: &Graph<'_>, _hb: &Order) -> bool {
        true
    }

    /// Returns the possible results of the call: a finite set that contains every result of a consistent
    /// execution.
    fn results(&self, past: &Past<'_>, method: Method, args: &[Arg]) -> Vec<Value>;

    /// Returns the effects of the call on the reads of its library.
    fn effects(&self, past: &Past<'_>, event: &Event) -> Vec<Effect>;

    /// Returns the locations of a call (`loc` of Def. 3.5). By default these are the locations among its
    /// arguments.
    fn locations(&self, event: &Event) -> Vec<Loc> {
        let locs = event.args.iter().filter_map(|arg| match arg {
            Arg::Loc(loc) => Some(*loc),
            _ => None,
        });
        locs.collect()
    }
}

/// An effect of a call on the values that reads may find.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// The thread's CPU writes the value.
    Write(Loc, Value),
    /// A network card writes the value.
    Place(Loc, Value),
    /// A network card copies the value that it finds.
    Copy {
        /// Destination.
        to: Loc,
        /// Source.
        from: Loc,
    },
}

/// A set of compatible libraries (Λ of LOCO'26 Def. 3.6), with one specification for each, over one network.
#[derive(Default)]
pub struct Libraries<'a> {
    /// The network. By default it is that of the papers.
    pub network: &'static Network,
    specifications: FxHashMap<Library, &'a dyn Specification>,
}

impl<'a> Libraries<'a> {
    /// Makes the set of these specifications. If a library has several, the last one counts.
    pub fn new(specifications: impl IntoIterator<Item = &'a dyn Specification>) -> Libraries<'a> {
        let specifications = specifications.into_iter().map(|s| (s.library(), s)).collect();
        Libraries {
            specifications,
            ..Libraries::default()
        }
    }

    /// Returns the set over a network of this tier.
    #[must_use]
    pub fn on(self, tier: Tier) -> Libraries<'a> {
        Libraries {
            network: Network::of(tier),
            ..self
        }
    }

    /// Returns the set with this specification in place of the one of its library.
    #[must_use]
    pub fn with(mut self, specification: &'a dyn Specification) -> Libraries<'a> {
        self.specifications.insert(specification.library(), specification);
        self
    }

    /// Returns the specification of a library.
    pub fn get(&self, library: Library) -> Option<&'a dyn Specification> {
        self.specifications.get(&library).copied()
    }
}

/// Returns the initial value of a location. It is the client's for words of the client, and 0 for others.
pub fn initial(client: &Client, loc: Loc) -> Value {
    use crate::client::ObjectKind;
    let init = match loc.client_object().map(|object| &client.object(object).kind) {
        Some(ObjectKind::Word { init, .. } | ObjectKind::Atomic { init, .. }) => *init,
        Some(ObjectKind::MixedSize { size, .. } | ObjectKind::MixedVariable { size }) => {
            return Value::message(&vec![0; *size as usize]);
        }
        _ => 0,
    };
    Value::Int(init)
}

/// Returns the location that a thread on `own` accesses. Where there is a copy on every node, it is the
/// thread's own.
pub fn copy_of(loc: Loc, own: Node) -> Loc {
    if loc.node == Loc::EVERYWHERE {
        loc.at(own)
    } else {
        loc
    }
}
