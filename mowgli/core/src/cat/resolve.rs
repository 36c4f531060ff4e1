//! Gives names a meaning: from the syntax trees of a file and its includes to a graph with axioms.
//!
//! Names are resolved in the order of the text, an included file where it is included. So a file can define what a file that it
//! includes later refers to. A function is put in place of each call, and its types are checked there.

use std::rc::Rc;
use std::sync::Arc;

use super::ast::{Binding, Check, Expr, ExprKind, Item, Test};
use super::embedded::Includes;
use super::graph::{NodeId, Op, Type};
use super::limits::{FILES_MAX, NESTING_MAX};
use super::parser;
use super::parser::foreign;
use super::predefined::{Rel, Set};
use super::resolver::{Axiom, Def, Function, Place, Resolved, Resolver};
use crate::syntax::{Diagnostic, Kind, Located, Name, Severity, Source, Span, nearest};

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

impl Resolver<'_> {
    fn file(&mut self, source: &Arc<Source>) {
        self.files_read += 1;
        match parser::parse(&source.text) {
            Err(error) => self.report(source, error),
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
            Item::Flag { span } => {
                if self.is_own() {
                    let message = "a flag rules no execution out, and reports do not show it";
                    let help = "remove the statement, or drop the word if it is to be an axiom";
                    let warning = Diagnostic::new(Kind::Unused, span.clone(), message).help(help);
                    self.report(source, warning);
                }
            }
            Item::Call { span } => self.report(source, foreign(span.clone(), "call")),
            Item::Coherence { name, pairs } => self.coherence(source, name, pairs),
            Item::Show { expr, name } => {
                let place = self.place(source);
                let before = self.out.diagnostics.len();
                let found = self.expr(expr, place);
                // A library may ask to draw a relation that this language does not have; it is left out.
                let missing = |d: &Located| d.kind == Kind::Unsupported;
                if !self.is_own() && self.out.diagnostics[before..].iter().any(missing) {
                    self.out.diagnostics.truncate(before);
                }
                if let Some(id) = found {
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

    /// Returns whether the text read is the model itself and not a file that it includes.
    fn is_own(&self) -> bool {
        self.files.len() == 1
    }

    /// Resolves `with co from generate_cos(pairs)`. A candidate execution has one coherence order, so the name means it, and the model
    /// rules out the executions whose order lacks one of the pairs.
    fn coherence(&mut self, source: &Arc<Source>, name: &Name, pairs: &Expr) {
        let place = self.place(source);
        let Some(pairs_id) = self.relation(pairs, place, "coherence orders have the pairs of a relation")
        else {
            return;
        };
        let graph = &mut self.out.graph;
        let order = graph.add(Op::Rel(Rel::Mo));
        let writes = graph.add(Op::Set(Set::Write));
        let of_writes = graph.add(Op::Product(writes, writes));
        let pairs_id = graph.add(Op::Intersection(pairs_id, of_writes));
        let lacking = graph.add(Op::Difference(pairs_id, order));
        self.define(&name.text, source, &name.span, Def::Value(order));
        let axiom = Axiom {
            test: Test::Empty,
            negated: false,
            expr: lacking,
            name: format!("{} from generate_cos", name.text),
            file: source.name.clone(),
            line: source.position(pairs.span.start).0,
        };
        if self.without != Some(axiom.name.as_str()) {
            self.out.axioms.push(axiom);
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
        let error = |kind, message: String| Diagnostic::new(kind, span.clone(), message);
        let included = match self.includes.read(&source.name, path) {
            Ok(included) => included,
            Err(reason) => {
                let names = super::embedded::FILES.iter().map(|f| f.0);
                let help = match nearest(path, names) {
                    Some(near) => format!("did you mean \"{near}\"?"),
                    None => "a path is relative to the file that includes it".to_owned(),
                };
                let message = format!("cannot include \"{path}\": {reason}");
                return self.report(source, error(Kind::MissingInclude, message).help(help));
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
            return self.report(
                source,
                error(Kind::CyclicInclude, message).help("drop one of the includes"),
            );
        }
        if self.files.len() >= NESTING_MAX || self.files_read >= FILES_MAX {
            let message = format!(
                "more than FILES_MAX ({FILES_MAX}) includes, or deeper than NESTING_MAX ({NESTING_MAX})"
            );
            return self.report(source, error(Kind::LimitExceeded, message));
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
                    None => self.value_of(&binding.body, place),
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

    /// Resolves the value that a name is given. A library may define what this language does not have, as long as nothing uses it.
    fn value_of(&mut self, body: &Expr, place: Place<'_>) -> Def {
        match &body.kind {
            ExprKind::Foreign(word) if !self.is_own() => Def::Missing(word),
            ExprKind::Name(name) => match self.lookup(name, place) {
                Some(Def::Missing(what)) => Def::Missing(what),
                _ => self.expr(body, place).map_or(Def::Broken, Def::Value),
            },
            _ => self.expr(body, place).map_or(Def::Broken, Def::Value),
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
        for (at, param) in params.iter().enumerate() {
            if let Some(first) = params[..at].iter().find(|p| p.text == param.text) {
                self.duplicate(source, &param.text, &param.span, first.span.clone());
            }
        }
    }

    fn duplicate(&mut self, source: &Arc<Source>, name: &str, span: &Span, first: Span) {
        let message = format!("`{name}` is defined twice in this file");
        self.report(source, Diagnostic::new(Kind::Duplicate, span.clone(), message)
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
                source,
                Diagnostic::new(Kind::Unsupported, function.span.clone(), message)
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
            line: source.position(check.span.start).0,
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
                source,
                Diagnostic::new(Kind::DynamicRequirement, check.expr.span.clone(), message).help(
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
        let warnings: Vec<Located> = unused
            .map(|e| {
                let message = format!("nothing uses `{}`", e.name);
                let unused = Diagnostic::new(Kind::Unused, e.span.clone(), message);
                Located {
                    source: source.clone(),
                    diagnostic: unused.help("state an axiom of it, or remove it"),
                }
            })
            .collect();
        // A file without axioms and without `show` is a library of definitions.
        if self.out.axioms.is_empty() {
            let message = "the model has no axiom, so it accepts every execution";
            self.report(
                source,
                Diagnostic::new(Kind::NoAxiom, 0..0, message)
                    .help("state one, as in `acyclic po | rf | mo | rb as sc`"),
            );
        } else {
            self.out.diagnostics.extend(warnings);
        }
    }
}
