//! Implementations as text (`docs/clients.md`): methods of a library as programs over other libraries, in the language of clients.
//!
//! [`parse`] reads a text and checks its names and kinds; the result is an [`Implementation`] and runs as the built-in ones do, which are
//! written in Rust and, for reading and changing, also as such texts ([`FILES`]). Tests compare the two forms on all clients of a size.

mod builtin;
mod parse;
mod run;

use mowgli::program::{BinaryOp, UnaryOp};
use mowgli::syntax::{self, ParseError};

use crate::client::{Client, Library, Method};
use crate::event::{Arg, Event, Stamp, StampKind};
use crate::execution::Graph;
use crate::implementation::{Caller, Implementation, Run};
use crate::value::Value;
use builtin::Function;

/// The built-in implementations as texts, by the names of their files.
pub const FILES: [(&str, &str); 6] = [
    ("I_W.impl", include_str!("../../implementations/I_W.impl")),
    ("I_SV.impl", include_str!("../../implementations/I_SV.impl")),
    ("I_BAL.impl", include_str!("../../implementations/I_BAL.impl")),
    ("I_RBL.impl", include_str!("../../implementations/I_RBL.impl")),
    ("I_MSW.impl", include_str!("../../implementations/I_MSW.impl")),
    ("I_MSV.impl", include_str!("../../implementations/I_MSV.impl")),
];

/// Returns the text of a built-in implementation.
pub fn find(name: &str) -> Option<&'static str> {
    FILES.iter().find(|f| f.0 == name).map(|f| f.1)
}

/// Reads an implementation.
///
/// # Errors
///
/// Returns the mistakes found, each with its place and remedy.
pub fn parse(source: &str) -> Result<Text, ParseError> {
    syntax::parse_dialect(source, parse::DIALECT, parse::file).map_err(ParseError::of)
}

/// An implementation that was read from a text.
#[derive(Clone, Debug)]
pub struct Text {
    name: String,
    description: Option<String>,
    library: Library,
    /// The methods of the library, and the procedures that they call, in the order of the text.
    procedures: Vec<Procedure>,
    choices: Vec<Choice>,
}

/// A method, or a procedure of the text's own.
#[derive(Clone, Debug)]
struct Procedure {
    name: String,
    /// The method that it implements, if it is one.
    method: Option<Method>,
    params: usize,
    /// Names of the parameters and of the registers, with what they hold.
    variables: Vec<(String, Kind)>,
    body: Vec<Stmt>,
}

/// The kind of value that a variable or an expression holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A number, truth value, message, `bot`; nodes and threads are numbers, sets of them messages.
    Value,
    /// A location.
    Location,
    /// A work identifier.
    Work,
}

#[derive(Clone, Debug)]
enum Stmt {
    /// `r := e`, or an expression whose value is not used.
    Assign(usize, Expr),
    /// `r := m(..)`, or `m(..)`.
    Call {
        result: Option<usize>,
        callee: Callee,
        args: Vec<Expr>,
    },
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    While(Expr, Vec<Stmt>),
    For(usize, Expr, Vec<Stmt>),
    Return(Expr),
    /// `return m(..)`: the result of the call is that of the method.
    Forward(Callee, Vec<Expr>),
    Await(Expr),
}

#[derive(Clone, Copy, Debug)]
enum Callee {
    Method(Method),
    /// A procedure of the text, which stands earlier.
    Own(usize),
}

#[derive(Clone, Debug)]
enum Expr {
    Const(Value),
    Variable(usize),
    List(Vec<Expr>),
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `v[i]`: a word of a message, from 0.
    Word(Box<Expr>, Box<Expr>),
    Function(Function, Vec<Expr>),
    /// `x.part[i]`, or `mine.part[i]` without a location.
    Part(Option<Box<Expr>>, u32, Option<Box<Expr>>),
    /// `x@n`.
    At(Box<Expr>, Box<Expr>),
    /// `_`.
    NoWork,
}

/// `stamp submit aCW = last write_sv(x.head);`: the subevent that stands for a stamp of a call (`g` of LOCO'26 Def. 3.13).
#[derive(Clone, Debug)]
struct Choice {
    of: Method,
    stamp: StampKind,
    last: bool,
    method: Method,
    part: Option<u32>,
}

/// The most elements of a part: `x.cell[1023]` is the last.
const ELEMENTS_MAX: u32 = 1024;

/// Returns the number of an element of the text's `part`-th part. Part 0 of an object is the object itself.
const fn element(part: u32, index: u32) -> u32 {
    1 + part * ELEMENTS_MAX + index
}

impl Text {
    /// Returns the text after the header.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }
}

impl Implementation for Text {
    fn name(&self) -> &str {
        &self.name
    }

    fn library(&self) -> Library {
        self.library
    }

    fn run(&self, caller: &mut Caller<'_>, method: Method, args: &[Arg]) -> Run<Value> {
        run::method(self, caller, method, args)
    }

    fn concretise(
        &self,
        _: &Client,
        call: &Event,
        stamp: Stamp,
        events: &[usize],
        g: &Graph<'_>,
    ) -> Option<usize> {
        let choice = self
            .choices
            .iter()
            .find(|c| c.of == call.method && c.stamp == stamp.kind);
        let Some(choice) = choice else {
            return events.iter().find_map(|&e| g.subevent(e, stamp));
        };
        let fits = |e: &usize| {
            let event = &g.events[*e];
            let is_part = |part: u32| {
                let (Some(of), Some(x)) = (event.loc(0), call.loc(0)) else {
                    return false;
                };
                of.object == x.object && of.part >= element(part, 0) && of.part < element(part + 1, 0)
            };
            event.method.plain() == choice.method && choice.part.is_none_or(is_part)
        };
        let mut fitting = events.iter().copied().filter(fits);
        let event = match choice.last {
            true => fitting.next_back(),
            false => fitting.next(),
        }?;
        g.subevent(event, stamp).or_else(|| g.of_event(event).last())
    }
}
