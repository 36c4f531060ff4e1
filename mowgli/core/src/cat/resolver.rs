//! The state of a resolution: the names that have a meaning so far, and what came of the text. [`super::resolve`] reads the items of
//! files, [`super::resolve_expr`] their expressions.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use super::ast::{Expr, Test};
use super::embedded::Includes;
use super::graph::{Graph, NodeId, Op};
use super::predefined::{RELATIONS, SETS};
use crate::syntax::{Diagnostic, Located, Name, Source, Span};

/// An axiom, or a requirement on programs.
#[derive(Clone, Debug)]
pub struct Axiom {
    /// The property stated.
    pub test: Test,
    /// Whether the property must fail.
    pub negated: bool,
    /// The expression that the property is about.
    pub(super) expr: NodeId,
    /// The name after `as`, or the text of the axiom.
    pub name: String,
    /// The file that states it.
    pub file: String,
    /// Its line in that file, from 1.
    pub line: usize,
}

impl fmt::Display for Axiom {
    /// Writes the property, its name and its place: `acyclic "sc" (sc.cat, line 6)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not = if self.negated { "~" } else { "" };
        let (test, name) = (self.test.keyword(), &self.name);
        write!(f, "{not}{test} \"{name}\" ({}, line {})", self.file, self.line)
    }
}

/// The meaning of a file.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    pub(super) title: Option<String>,
    pub(super) graph: Graph,
    pub(super) axioms: Vec<Axiom>,
    /// Names of the sets and relations that the file and its includes define.
    pub(super) terms: Vec<String>,
    pub(super) requirements: Vec<Axiom>,
    pub(super) shows: Vec<(String, NodeId)>,
    pub(super) diagnostics: Vec<Located>,
}

/// A name and its meaning.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) def: Def,
    pub(super) source: Arc<Source>,
    pub(super) span: Span,
    pub(super) used: bool,
}

/// The meaning of a name.
#[derive(Clone)]
pub(super) enum Def {
    Value(NodeId),
    Function(Rc<Function>),
    /// A definition with an error, which has been reported.
    Broken,
    /// Something of herd7's language that this one does not have, by its name there.
    Missing(&'static str),
}

/// A function: it is put in place of each call.
pub(super) struct Function {
    pub(super) params: Vec<Name>,
    pub(super) body: Expr,
    /// Definitions that the body sees.
    pub(super) scope: usize,
    pub(super) source: Arc<Source>,
}

/// Names of herd7's that libraries mention and that mean nothing here. Registers carry no dependencies, and there are no sets of sets.
const MISSING: [&str; 7] = ["data", "addr", "ctrl", "ADDR", "B", "classes-loc", "tag2events"];

/// Names bound in the body of a function or of a recursive definition, innermost last.
pub(super) type Locals<'l> = &'l [(String, NodeId)];

/// A resolution that has come so far.
pub(super) struct Resolver<'i> {
    pub(super) includes: &'i dyn Includes,
    pub(super) prelude: Arc<Source>,
    /// The rule that is left out.
    pub(super) without: Option<&'i str>,
    pub(super) out: Resolved,
    /// Later definitions hide earlier ones.
    pub(super) scope: Vec<Entry>,
    /// The files being read, outermost first.
    pub(super) files: Vec<Arc<Source>>,
    pub(super) files_read: usize,
    pub(super) operators: usize,
    pub(super) calls: usize,
    /// Nesting of expressions, through calls.
    pub(super) depth: usize,
}

/// The place at which an expression is resolved.
#[derive(Clone, Copy)]
pub(super) struct Place<'l> {
    pub(super) source: &'l Arc<Source>,
    /// Definitions that count.
    pub(super) scope: usize,
    pub(super) locals: Locals<'l>,
}

impl Resolver<'_> {
    /// Gives the predefined names their meaning.
    pub(super) fn predefine(&mut self, prelude: &Arc<Source>) {
        let sets = SETS.map(|(name, set)| (name, Op::Set(set)));
        let relations = RELATIONS.map(|(name, rel)| (name, Op::Rel(rel)));
        for (name, op) in sets.into_iter().chain(relations) {
            let id = self.out.graph.add(op);
            self.define(name, prelude, &(0..0), Def::Value(id));
        }
        for name in MISSING {
            self.define(name, prelude, &(0..0), Def::Missing(name));
        }
    }

    /// Gives a name a meaning from here on.
    pub(super) fn define(&mut self, name: &str, source: &Arc<Source>, span: &Span, def: Def) {
        self.scope.push(Entry {
            name: name.to_owned(),
            def,
            source: source.clone(),
            span: span.clone(),
            used: false,
        });
    }

    pub(super) fn report(&mut self, source: &Arc<Source>, diagnostic: Diagnostic) {
        self.out.diagnostics.push(Located {
            source: source.clone(),
            diagnostic,
        });
    }

    /// Returns whether the text read is the prelude or included by it.
    pub(super) fn in_prelude(&self) -> bool {
        self.files.first().is_none_or(|f| Arc::ptr_eq(f, &self.prelude))
    }
}
