//! Gives names a meaning: from the syntax trees of a file and its includes to a graph with axioms.
//!
//! Names are resolved in the order of the text, an included file where it is included. So a file can define what a file that it
//! includes later refers to. A function is put in place of each call, and its types are checked there.

use std::rc::Rc;
use std::sync::Arc;

use super::ast::{Binary, Binding, Check, Expr, ExprKind, Item, Test, Unary};
use super::diagnostic::{Diagnostic, Kind, Source, position};
use super::embedded::Includes;
use super::graph::{Graph, NodeId, Op, Type};
use super::limits::{DEPTH_MAX, FILES_MAX, NESTING_MAX, OPERATORS_MAX};
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
struct Entry {
    name: String,
    def: Def,
    source: Arc<Source>,
    span: Span,
    used: bool,
}

#[derive(Clone)]
enum Def {
    Value(NodeId),
    Function(Rc<Function>),
    /// A definition with an error, which has been reported.
    Broken,
}

struct Function {
    params: Vec<(String, Span)>,
    body: Expr,
    /// Definitions that the body sees.
    scope: usize,
    source: Arc<Source>,
}

/// Names bound in the body of a function or of a recursive definition, innermost last.
type Locals<'l> = &'l [(String, NodeId)];

struct Resolver<'i> {
    includes: &'i dyn Includes,
    /// The rule that is left out.
    without: Option<&'i str>,
    out: Resolved,
    /// Later definitions hide earlier ones.
    scope: Vec<Entry>,
    /// The files being read, outermost first.
    files: Vec<Arc<Source>>,
    files_read: usize,
    operators: usize,
    calls: usize,
    /// Nesting of expressions, through calls.
    depth: usize,
}

/// The place at which an expression is resolved.
#[derive(Clone, Copy)]
struct Place<'l> {
    source: &'l Arc<Source>,
    /// Definitions that count.
    scope: usize,
    locals: Locals<'l>,
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

    fn report(&mut self, diagnostic: Diagnostic) {
        self.out.diagnostics.push(diagnostic);
    }

    /// Returns whether the text read is the prelude or included by it.
    fn in_prelude(&self) -> bool {
        self.files.first().is_none_or(|f| f.name == super::PRELUDE)
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

    /// Resolves an expression that must be a relation.
    fn relation(&mut self, expr: &Expr, place: Place<'_>, why: &str) -> Option<NodeId> {
        self.typed(expr, place, Type::Relation, why)
    }

    fn typed(&mut self, expr: &Expr, place: Place<'_>, wanted: Type, why: &str) -> Option<NodeId> {
        let id = self.expr(expr, place)?;
        if self.out.graph.type_of(id) == wanted {
            return Some(id);
        }
        self.wrong_type(place.source, &expr.span, wanted, why);
        None
    }

    fn wrong_type(&mut self, source: &Arc<Source>, span: &Span, wanted: Type, why: &str) {
        let (found, needed, help) = match wanted {
            Type::Relation => (
                "set",
                "relation",
                "`[S]` is the identity on the set S, `S * S` relates all its members",
            ),
            Type::Set => (
                "relation",
                "set",
                "`domain(r)` and `range(r)` are the sets of first and second events of r",
            ),
        };
        let message = format!("a {found} where a {needed} is needed: {why}");
        self.report(
            Diagnostic::new(Kind::WrongType, source, span.clone(), message)
                .label(format!("this is a {found}"))
                .help(help),
        );
    }

    /// Resolves an expression; `None` if it has an error, which is reported.
    fn expr(&mut self, expr: &Expr, place: Place<'_>) -> Option<NodeId> {
        self.operators += 1;
        if self.operators > OPERATORS_MAX {
            // Reported once.
            if self.operators == OPERATORS_MAX + 1 {
                let message = format!("the model has more than OPERATORS_MAX ({OPERATORS_MAX}) operators");
                self.report(Diagnostic::new(
                    Kind::LimitExceeded,
                    place.source,
                    expr.span.clone(),
                    message,
                ));
            }
            return None;
        }
        if self.depth >= DEPTH_MAX {
            let message = format!("expressions and calls nest deeper than DEPTH_MAX ({DEPTH_MAX})");
            self.report(Diagnostic::new(
                Kind::LimitExceeded,
                place.source,
                expr.span.clone(),
                message,
            ));
            return None;
        }
        self.depth += 1;
        let id = self.any_expr(expr, place);
        self.depth -= 1;
        id
    }

    fn any_expr(&mut self, expr: &Expr, place: Place<'_>) -> Option<NodeId> {
        match &expr.kind {
            ExprKind::Zero => Some(self.out.graph.add(Op::Nothing(Type::Relation))),
            ExprKind::Nothing => Some(self.out.graph.add(Op::Nothing(Type::Set))),
            ExprKind::Everything => Some(self.out.graph.add(Op::Everything)),
            ExprKind::Name(name) => self.value(name, &expr.span, place),
            ExprKind::Identity(set) => {
                let set = self.typed(set, place, Type::Set, "`[S]` is the identity on a set")?;
                Some(self.out.graph.add(Op::Identity(set)))
            }
            ExprKind::Unary(op, inner) => self.unary(*op, inner, place),
            ExprKind::Chain(op, operands) => self.chain(*op, operands, place),
            ExprKind::Call {
                name,
                name_span,
                args,
            } => self.call(name, name_span, args, &expr.span, place),
        }
    }

    fn unary(&mut self, op: Unary, inner: &Expr, place: Place<'_>) -> Option<NodeId> {
        if op == Unary::Complement {
            let id = self.expr(inner, place)?;
            self.refuse_recursion(id, inner, place, "below `~`")?;
            return Some(self.out.graph.add(Op::Complement(id)));
        }
        let why = match op {
            Unary::Inverse => "`^-1` turns a relation around",
            _ => "only relations have closures",
        };
        let id = self.relation(inner, place, why)?;
        Some(self.out.graph.add(match op {
            Unary::Inverse => Op::Inverse(id),
            Unary::Plus => Op::Plus(id),
            Unary::Star => Op::Star(id),
            Unary::Optional | Unary::Complement => Op::Optional(id),
        }))
    }

    fn chain(&mut self, op: Binary, operands: &[Expr], place: Place<'_>) -> Option<NodeId> {
        let why = match op {
            Binary::Sequence => "`;` composes relations",
            _ => "`*` is the product of two sets",
        };
        let mut left: Option<NodeId> = None;
        let mut broken = false;
        for operand in operands {
            let right = match op {
                Binary::Sequence => self.relation(operand, place, why),
                Binary::Product => self.typed(operand, place, Type::Set, why),
                _ => self.expr(operand, place),
            };
            let (Some(right), false) = (right, broken) else {
                // The operands that follow may have errors of their own.
                broken = true;
                continue;
            };
            left = match left {
                None => Some(right),
                Some(left) => {
                    let joined = self.join(op, left, right, &operands[0], operand, place);
                    broken |= joined.is_none();
                    joined
                }
            };
        }
        left.filter(|_| !broken)
    }

    fn join(
        &mut self,
        op: Binary,
        left: NodeId,
        right: NodeId,
        first: &Expr,
        operand: &Expr,
        place: Place<'_>,
    ) -> Option<NodeId> {
        let graph = &mut self.out.graph;
        let (a, b) = (graph.type_of(left), graph.type_of(right));
        // A product of three sets has a relation on its left.
        if op == Binary::Product && a != Type::Set {
            self.wrong_type(
                place.source,
                &first.span,
                Type::Set,
                "`*` is the product of two sets",
            );
            return None;
        }
        if op != Binary::Product && a != b {
            let words = |t| match t {
                Type::Set => "a set",
                Type::Relation => "a relation",
            };
            let message = format!("`{}` joins {} and {}", op.symbol(), words(a), words(b));
            self.report(
                Diagnostic::new(Kind::WrongType, place.source, operand.span.clone(), message)
                    .label(format!("this is {}", words(b)))
                    .related(first.span.clone(), format!("this is {}", words(a)))
                    .help("`[S]` and `S * T` make relations of sets, `domain(r)` and `range(r)` sets of relations"),
            );
            return None;
        }
        if op == Binary::Difference {
            self.refuse_recursion(right, operand, place, "on the right of `\\`")?;
        }
        Some(self.out.graph.add(match op {
            Binary::Union => Op::Union(left, right),
            Binary::Sequence => Op::Sequence(left, right),
            Binary::Difference => Op::Difference(left, right),
            Binary::Intersection => Op::Intersection(left, right),
            Binary::Product => Op::Product(left, right),
        }))
    }

    fn refuse_recursion(&mut self, id: NodeId, expr: &Expr, place: Place<'_>, at: &str) -> Option<()> {
        if !self.out.graph.is_recursive(id) {
            return Some(());
        }
        let message = format!("a recursive definition uses itself {at}, so it has no least solution");
        self.report(
            Diagnostic::new(Kind::NotMonotone, place.source, expr.span.clone(), message)
                .label("depends on the definition itself")
                .help("a `let rec` may use its names only where more pairs give more pairs"),
        );
        None
    }

    /// Finds the definition of a name, and marks it as used.
    fn find(&mut self, name: &str, span: &Span, place: Place<'_>) -> Option<Def> {
        if let Some((_, id)) = place.locals.iter().rev().find(|l| l.0 == name) {
            return Some(Def::Value(*id));
        }
        if let Some(entry) = self.scope[..place.scope]
            .iter_mut()
            .rev()
            .find(|e| e.name == name)
        {
            entry.used = true;
            return Some(entry.def.clone());
        }
        let builtin = ["domain", "range"];
        let known = self.scope[..place.scope].iter().map(|e| e.name.as_str());
        let near = nearest(name, known.chain(builtin)).map(str::to_owned);
        let error = Diagnostic::new(
            Kind::UndefinedName,
            place.source,
            span.clone(),
            format!("nothing defines `{name}`"),
        );
        self.report(match near {
            Some(near) => error.help(format!("did you mean `{near}`?")),
            None => error.help("docs/models.md lists the predefined names"),
        });
        None
    }

    fn value(&mut self, name: &str, span: &Span, place: Place<'_>) -> Option<NodeId> {
        let local = place.locals.iter().any(|l| l.0 == name);
        match self.find(name, span, place)? {
            Def::Value(id) => {
                if !local && !self.in_prelude() {
                    self.out.graph.name(id, name);
                }
                Some(id)
            }
            Def::Broken => None,
            Def::Function(function) => {
                let message = format!("`{name}` is a function, and a set or relation is needed");
                self.report(
                    Diagnostic::new(Kind::WrongType, place.source, span.clone(), message)
                        .help(format!("give it its {} arguments", function.params.len())),
                );
                None
            }
        }
    }

    fn call(
        &mut self,
        name: &str,
        name_span: &Span,
        args: &[Expr],
        span: &Span,
        place: Place<'_>,
    ) -> Option<NodeId> {
        let defined = place.locals.iter().any(|l| l.0 == name)
            || self.scope[..place.scope].iter().any(|e| e.name == name);
        if !defined && (name == "domain" || name == "range") {
            let [arg] = args else {
                return self.arity(name, 1, args.len(), span, place);
            };
            let id = self.relation(arg, place, &format!("`{name}` is a property of relations"))?;
            return Some(self.out.graph.add(match name {
                "domain" => Op::Domain(id),
                _ => Op::Range(id),
            }));
        }
        let function = match self.find(name, name_span, place)? {
            Def::Function(function) => function,
            Def::Broken => return None,
            Def::Value(_) => {
                let message = format!("`{name}` is not a function");
                self.report(
                    Diagnostic::new(Kind::WrongType, place.source, name_span.clone(), message)
                        .help("an operator may be missing after it: `;`, `|`, `&` or `\\`"),
                );
                return None;
            }
        };
        if args.len() != function.params.len() {
            return self.arity(name, function.params.len(), args.len(), span, place);
        }
        let values: Vec<Option<NodeId>> = args.iter().map(|a| self.expr(a, place)).collect();
        let values: Vec<NodeId> = values.into_iter().collect::<Option<_>>()?;
        if self.calls >= NESTING_MAX {
            let message = format!("calls nest deeper than NESTING_MAX ({NESTING_MAX})");
            self.report(Diagnostic::new(
                Kind::LimitExceeded,
                place.source,
                span.clone(),
                message,
            ));
            return None;
        }
        self.calls += 1;
        let names = function.params.iter().map(|p| p.0.clone());
        let locals: Vec<(String, NodeId)> = names.zip(values).collect();
        let errors = self.out.diagnostics.len();
        let result = self.expr(
            &function.body,
            Place {
                source: &function.source,
                scope: function.scope,
                locals: &locals,
            },
        );
        self.calls -= 1;
        // An error in the body says where the arguments came from.
        let (line, column) = position(&place.source.text, span.start);
        let from = format!("in the call of `{name}` at {}:{line}:{column}", place.source.name);
        for error in &mut self.out.diagnostics[errors..] {
            if !error.label.contains("in the call of") {
                let comma = if error.label.is_empty() { "" } else { ", " };
                error.label.push_str(&format!("{comma}{from}"));
            }
        }
        result
    }

    fn arity(
        &mut self,
        name: &str,
        wanted: usize,
        found: usize,
        span: &Span,
        place: Place<'_>,
    ) -> Option<NodeId> {
        let s = if wanted == 1 { "" } else { "s" };
        let message = format!("`{name}` takes {wanted} argument{s}, not {found}");
        self.report(Diagnostic::new(
            Kind::WrongArity,
            place.source,
            span.clone(),
            message,
        ));
        None
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
