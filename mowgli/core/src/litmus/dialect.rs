//! The common parts of the dialects of the litmus language: a test, its names and its text.
//!
//! A dialect has programs of its own, and with them values and models. Everything else about a test is the same in all of them, so that
//! verdicts ([`crate::check::judge`]) and reports ([`crate::report`]) are written once. Implemented for the
//! programs of RDMA by [`super`], and for those of coreRMA by `mowgli-corerma`.

use std::fmt;

use super::{Litmus, ParseError};
use crate::condition::{Formula, Names, Operand, Query, State};
use crate::program::{Loc, Reg, ThreadId};

/// A program of a dialect of the litmus language.
pub trait Dialect: Names<Operand> + Clone {
    /// The values of registers and locations.
    type Value: Copy + Ord + fmt::Display;

    /// A final state.
    type Outcome: Ord + State<Operand, Value = Self::Value>;

    /// The model for which a test states a verdict.
    type Setting: Copy + Ord + fmt::Display;

    /// The first word of its tests.
    const WORD: &'static str;

    /// Parses and checks a test.
    ///
    /// # Errors
    ///
    /// Returns every mistake found, with its place and remedy.
    fn parse(source: &str) -> Result<Litmus<Self>, ParseError>;

    /// Prints init block, columns and rows.
    fn text(&self) -> String;

    /// Returns the number of registers of each thread.
    fn registers(&self) -> Vec<usize>;

    /// Returns the number of locations.
    fn locations(&self) -> usize;

    /// Lists every register and every location: what a final state consists of.
    fn operands(&self) -> Vec<Operand> {
        // The parsers bound threads, registers and locations far below these types.
        let of_thread = |(t, count): (usize, usize)| {
            let thread = ThreadId(t as u8);
            (0..count).map(move |r| Operand::Reg(thread, Reg(r as u16)))
        };
        let registers = self.registers().into_iter().enumerate().flat_map(of_thread);
        let locations = (0..self.locations()).map(|l| Operand::Loc(Loc(l as u16)));
        registers.chain(locations).collect()
    }
}

/// A query of a test in the dialect of `P`.
pub type QueryOf<P> = Query<Operand, <P as Dialect>::Value, <P as Dialect>::Setting>;

impl<P: Dialect> Litmus<P> {
    /// Returns the name of query `index` in reports: `NAME` for the first, `NAME#2` for the second.
    pub fn query_name(&self, index: usize) -> String {
        match index {
            0 => self.name.clone(),
            n => format!("{}#{}", self.name, n + 1),
        }
    }

    /// Returns the test with `exists (formula)` as its only condition.
    ///
    /// # Errors
    /// Returns everything that is wrong with the formula. Spans are those of a text that the caller does not have.
    pub fn asking(&self, formula: &str) -> Result<Litmus<P>, ParseError> {
        let bare = Litmus {
            queries: Vec::new(),
            stated: Vec::new(),
            ..self.clone()
        };
        P::parse(&format!("{}\nexists ({formula})\n", bare.print()))
    }

    /// Lists the operands that a state of query `index` shows: those of its formula, then the `locations` list.
    pub fn shown(&self, index: usize) -> Vec<Operand> {
        let formula = self.queries.get(index).map(|q| &q.condition.formula);
        let mut out = formula.map(Formula::operands).unwrap_or_default();
        out.extend(&self.observed);
        out.sort_unstable();
        out.dedup();
        out
    }

    /// Lists the operands that the states of all queries show.
    pub fn all_shown(&self) -> Vec<Operand> {
        let mut out: Vec<Operand> = (0..self.queries.len()).flat_map(|i| self.shown(i)).collect();
        out.sort_unstable();
        out.dedup();
        out
    }
}
