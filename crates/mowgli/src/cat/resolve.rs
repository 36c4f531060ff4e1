//! Gives names a meaning: from the syntax trees of a file and its includes to a graph with axioms.
//!
//! Names are resolved in the order of the text, an included file where it is included. So a file can define what a file that it
//! includes later refers to. A function is put in place of each call, and its types are checked there.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use super::ast::{Binding, Check, Expr, Item, Test};
use super::diagnostic::{Diagnostic, Kind, Source, position};
use super::embedded::Includes;
use super::graph::{Graph, NodeId, Op, Type};
use super::limits::{FILES_MAX, NESTING_MAX};
use super::parser;
use super::predefined::{RELATIONS, SETS};
use crate::litmus::syntax::nearest;
use crate::litmus::{Severity, Span};

/// An axiom, or a requirement on programs.
#[derive(Clone, Debug)]
pub struct Axiom {
    /// The property stated.
    pub test: Test,
    /// Whether the property must fail.
    pub negated: bool,
    /// The expression of which it is stated.
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
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// Resolves a file and all that it includes; with `without`, axioms of that name are left out and definitions of that name are
/// empty.
pub(super) fn resolve(
    source: &Arc<Source>,
    prelude: &Arc<Source>,
    includes: &dyn Includes,
    without: Option<&str>,
) -> Resolved {
    let mut resolver = Resolver {
        includes,
        prelude: prelude.clone(),
        without,
        out: Resolved::default(),
        scope: Vec::new(),
        files: Vec::new(),
        files_read: 0,
        operators: 0,
        calls: 0,
        depth: 0,
    };
    resolver.predefine(prelude);
    resolver.file(prelude);
    resolver.files_read = 0;
    resolver.file(source);
    resolver.finish(source);
    resolver.out
}

/// A name and its meaning.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) def: Def,
    pub(super) source: Arc<Source>,
    pub(super) span: Span,
    pub(super) used: bool,
}

#[derive(Clone)]
pub(super) enum Def {
    Value(NodeId),
    Function(Rc<Function>),
    /// A definition with an error, which has been reported.
    Broken,
}

pub(super) struct Function {
    pub(super) params: Vec<(String, Span)>,
    pub(super) body: Expr,
    /// Definitions that the body sees.
    pub(super) scope: usize,
    pub(super) source: Arc<Source>,
}

/// Names bound in the body of a function or of a recursive definition, innermost last.
pub(super) type Locals<'l> = &'l [(String, NodeId)];

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
    fn predefine(&mut self, prelude: &Arc<Source>) {
        let sets = SETS.map(|(name, set)| (name, Op::Set(set)));
        let relations = RELATIONS.map(|(name, rel)| (name, Op::Rel(rel)));
        for (name, op) in sets.into_iter().chain(relations) {
            let id = self.out.graph.add(op);
            self.define(name, prelude, &(0..0), Def::Value(id));
        }
    }

    fn define(&mut self, name: &str, source: &Arc<Source>, span: &Span, def: Def) {
        self.scope.push(Entry {
            name: name.to_owned(),
            def,
            source: source.clone(),
            span: span.clone(),
            used: false,
        });
    }

    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        self.out.diagnostics.push(diagnostic);
    }

    /// Returns whether the text read is the prelude or included by it.
    pub(super) fn in_prelude(&self) -> bool {
        self.files.first().is_none_or(|f| Arc::ptr_eq(f, &self.prelude))
    }

    fn file(&mut self, source: &Arc<Source>) {
        self.files_read += 1;
        match parser::parse(source) {
            Err(error) => self.report(error),
            Ok(file) => {
                if self.files.is_empty() {
                    self.out.title = file.title;
                }
                self.files.push(source.clone());
                for item in &file.items {
                    self.item(source, item);
                }
                self.files.pop();
            }
        }
    }

    fn item(&mut self, source: &Arc<Source>, item: &Item) {
        match item {
            Item::Let { recursive, bindings } => self.bindings(source, *recursive, bindings),
            Item::Check(check) => self.check(source, check),
            Item::Include { path, span } => self.include(source, path, span),
            Item::Show { expr, name } => {
                let place = self.place(source);
                if let Some(id) = self.expr(expr, place) {
                    match self.out.graph.type_of(id) {
                        Type::Relation => self.out.shows.push((name.clone(), id)),
                        Type::Set => {
                            self.wrong_type(source, &expr.span, Type::Relation, "`show` draws relations")
                        }
                    }
                }
            }
        }
    }

    fn place<'l>(&self, source: &'l Arc<Source>) -> Place<'l> {
        Place {
            source,
            scope: self.scope.len(),
            locals: &[],
        }
    }

    fn include(&mut self, source: &Arc<Source>, path: &str, span: &Span) {
        let error = |kind, message: String| Diagnostic::new(kind, source, span.clone(), message);
        let included = match self.includes.read(&source.name, path) {
            Ok(included) => included,
            Err(reason) => {
                let names = super::embedded::FILES.iter().map(|f| f.0);
                let help = match nearest(path, names) {
                    Some(near) => format!("did you mean \"{near}\"?"),
                    None => "a path is relative to the file that includes it".to_owned(),
                };
                let message = format!("cannot include \"{path}\": {reason}");
                return self.report(error(Kind::MissingInclude, message).help(help));
            }
        };
        if let Some(at) = self.files.iter().position(|f| f.name == included.name) {
            let circle: Vec<&str> = self.files[at..].iter().map(|f| f.name.as_str()).collect();
            let message = match circle.len() {
                1 => format!("{} includes itself", included.name),
                _ => format!(
                    "{} includes itself: {} -> {0}",
                    included.name,
                    circle.join(" -> ")
                ),
            };
            return self.report(error(Kind::CyclicInclude, message).help("drop one of the includes"));
        }
        if self.files.len() >= NESTING_MAX || self.files_read >= FILES_MAX {
            let message = format!(
                "more than FILES_MAX ({FILES_MAX}) includes, or deeper than NESTING_MAX ({NESTING_MAX})"
            );
            return self.report(error(Kind::LimitExceeded, message));
        }
        self.file(&Arc::new(Source {
            name: included.name,
            text: included.text,
        }));
    }

    fn bindings(&mut self, source: &Arc<Source>, recursive: bool, bindings: &[Binding]) {
        for binding in bindings {
            self.refuse_duplicates(source, binding);
        }
        let defs = match recursive {
            true => self.recursive(source, bindings),
            false => {
                let place = self.place(source);
                let define = |binding: &Binding| match &binding.params {
                    Some(params) => Def::Function(Rc::new(Function {
                        params: params.clone(),
                        body: binding.body.clone(),
                        scope: place.scope,
                        source: source.clone(),
                    })),
                    None => self.expr(&binding.body, place).map_or(Def::Broken, Def::Value),
                };
                bindings.iter().map(define).collect()
            }
        };
        for (binding, def) in bindings.iter().zip(defs) {
            let def = match def {
                Def::Value(id) if !self.in_prelude() => Def::Value(self.term(id, &binding.name)),
                def => def,
            };
            self.define(&binding.name, source, &binding.span, def);
        }
        // Two bindings of one `let` see each other only after both are defined.
        for (at, binding) in bindings.iter().enumerate() {
            if let Some(other) = bindings[..at].iter().find(|o| o.name == binding.name) {
                self.duplicate(source, &binding.name, &binding.span, other.span.clone());
            }
        }
    }

    /// Notes a named set or relation of the file, and returns what the name stands for.
    fn term(&mut self, id: NodeId, name: &str) -> NodeId {
        if !self.out.terms.iter().any(|known| known == name) {
            self.out.terms.push(name.to_owned());
        }
        if self.without == Some(name) {
            let nothing = Op::Nothing(self.out.graph.type_of(id));
            return self.out.graph.add(nothing);
        }
        self.out.graph.name(id, name);
        id
    }

    fn refuse_duplicates(&mut self, source: &Arc<Source>, binding: &Binding) {
        let earlier = self
            .scope
            .iter()
            .find(|e| e.name == binding.name && Arc::ptr_eq(&e.source, source));
        if let Some(earlier) = earlier {
            let span = earlier.span.clone();
            self.duplicate(source, &binding.name, &binding.span, span);
        }
        let params = binding.params.as_deref().unwrap_or_default();
        for (at, (name, span)) in params.iter().enumerate() {
            if let Some((_, first)) = params[..at].iter().find(|p| p.0 == *name) {
                self.duplicate(source, name, span, first.clone());
            }
        }
    }

    fn duplicate(&mut self, source: &Arc<Source>, name: &str, span: &Span, first: Span) {
        let message = format!("`{name}` is defined twice in this file");
        self.report(
            Diagnostic::new(Kind::Duplicate, source, span.clone(), message)
                .label("defined again here")
                .related(first, "first defined here")
                .help("give one of them another name; a predefined name or one of an included file may be redefined"),
        );
    }

    /// Resolves `let rec`, whose names are relations.
    fn recursive(&mut self, source: &Arc<Source>, bindings: &[Binding]) -> Vec<Def> {
        if let Some(function) = bindings.iter().find(|b| b.params.is_some()) {
            let message = format!("`{}` is a recursive function", function.name);
            self.report(
                Diagnostic::new(Kind::Unsupported, source, function.span.clone(), message)
                    .help("only relations can be recursive"),
            );
            return vec![Def::Broken; bindings.len()];
        }
        let (group, ids) = self.out.graph.open_group(bindings.len());
        let locals: Vec<(String, NodeId)> = bindings
            .iter()
            .map(|b| b.name.clone())
            .zip(ids.iter().copied())
            .collect();
        for (name, id) in &locals {
            self.out.graph.name(*id, name);
        }
        let mut bodies = Vec::new();
        for binding in bindings {
            let place = Place {
                locals: &locals,
                ..self.place(source)
            };
            let body = self.relation(&binding.body, place, "a recursive definition is a relation");
            bodies.extend(body);
        }
        if bodies.len() < bindings.len() {
            // The group needs bodies all the same.
            let bodies = ids.clone();
            self.out.graph.close_group(group, bodies);
            return vec![Def::Broken; bindings.len()];
        }
        let solution = self.out.graph.close_group(group, bodies);
        solution.into_iter().map(Def::Value).collect()
    }

    fn check(&mut self, source: &Arc<Source>, check: &Check) {
        let place = self.place(source);
        let expr = match check.test {
            Test::Empty => self.expr(&check.expr, place),
            test => {
                let why = format!("`{}` is a property of relations", test.keyword());
                self.relation(&check.expr, place, &why)
            }
        };
        let Some(expr) = expr else {
            return;
        };
        let text = source.text[check.span.clone()]
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        let axiom = Axiom {
            test: check.test,
            negated: check.negated,
            expr,
            name: check.name.clone().unwrap_or(text),
            file: source.name.clone(),
            line: position(&source.text, check.span.start).0,
        };
        if !check.requires {
            if self.without != Some(axiom.name.as_str()) {
                self.out.axioms.push(axiom);
            }
            return;
        }
        if !self.out.graph.flags().fixed[expr.index()] {
            let message = "a requirement is on programs, and this depends on the execution";
            self.report(
                Diagnostic::new(Kind::DynamicRequirement, source, check.expr.span.clone(), message).help(
                    "leave out `rf`, `mo`, `rb`, `nfo`, `rao` and what is made of them, or drop `requires`",
                ),
            );
        }
        self.out.requirements.push(axiom);
    }

    /// Adds the warnings, which concern the file itself and not what it includes.
    fn finish(&mut self, source: &Arc<Source>) {
        let broken = self
            .out
            .diagnostics
            .iter()
            .any(|d| d.severity() == Severity::Error);
        if broken {
            return;
        }
        let unused = self
            .scope
            .iter()
            .filter(|e| !e.used && Arc::ptr_eq(&e.source, source));
        let warnings: Vec<Diagnostic> = unused
            .map(|e| {
                let message = format!("nothing uses `{}`", e.name);
                Diagnostic::new(Kind::Unused, source, e.span.clone(), message)
                    .help("state an axiom of it, or remove it")
            })
            .collect();
        // A file without axioms and without `show` is a library of definitions.
        if self.out.axioms.is_empty() {
            let message = "the model has no axiom, so it accepts every execution";
            self.report(
                Diagnostic::new(Kind::NoAxiom, source, 0..0, message)
                    .help("state one, as in `acyclic po | rf | mo | rb as sc`"),
            );
        } else {
            self.out.diagnostics.extend(warnings);
        }
    }
}
