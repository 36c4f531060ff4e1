//! Resolves the expressions of a model file: names, types, calls.

use std::sync::Arc;

use super::ast::{Binary, Expr, ExprKind, Unary};
use super::graph::{NodeId, Op, Type};
use super::limits::{DEPTH_MAX, NESTING_MAX, OPERATORS_MAX};
use super::parser::foreign;
use super::resolver::{Def, Place, Resolver};
use crate::syntax::{Diagnostic, Kind, Located, Source, Span, nearest};

impl Resolver<'_> {
    /// Resolves an expression that must be a relation.
    pub(super) fn relation(&mut self, expr: &Expr, place: Place<'_>, why: &str) -> Option<NodeId> {
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

    pub(super) fn wrong_type(&mut self, source: &Arc<Source>, span: &Span, wanted: Type, why: &str) {
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
            source,
            Diagnostic::new(Kind::WrongType, span.clone(), message)
                .label(format!("this is a {found}"))
                .help(help),
        );
    }

    /// Resolves an expression; `None` if it has an error, which is reported.
    pub(super) fn expr(&mut self, expr: &Expr, place: Place<'_>) -> Option<NodeId> {
        self.operators += 1;
        if self.operators > OPERATORS_MAX {
            // Reported once.
            if self.operators == OPERATORS_MAX + 1 {
                let message = format!("the model has more than OPERATORS_MAX ({OPERATORS_MAX}) operators");
                self.report(
                    place.source,
                    Diagnostic::new(Kind::LimitExceeded, expr.span.clone(), message),
                );
            }
            return None;
        }
        if self.depth >= DEPTH_MAX {
            let message = format!("expressions and calls nest deeper than DEPTH_MAX ({DEPTH_MAX})");
            self.report(
                place.source,
                Diagnostic::new(Kind::LimitExceeded, expr.span.clone(), message),
            );
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
            ExprKind::Try(first, second) => {
                let before = self.out.diagnostics.len();
                let found = self.expr(first, place);
                let undefined = |d: &Located| d.kind == Kind::UndefinedName;
                if found.is_some() || !self.out.diagnostics[before..].iter().any(undefined) {
                    return found;
                }
                self.out.diagnostics.truncate(before);
                self.expr(second, place)
            }
            ExprKind::Let(bindings, body) => {
                let values: Vec<(String, Option<NodeId>)> = bindings
                    .iter()
                    .map(|b| (b.name.clone(), self.expr(&b.body, place)))
                    .collect();
                let mut locals = place.locals.to_vec();
                for (name, value) in values {
                    locals.push((name, value?));
                }
                let locals = &locals;
                self.expr(body, Place { locals, ..place })
            }
            ExprKind::Foreign(word) => {
                self.report(place.source, foreign(expr.span.clone(), word));
                None
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
            self.report(place.source, Diagnostic::new(Kind::WrongType, operand.span.clone(), message)
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
            place.source,
            Diagnostic::new(Kind::NotMonotone, expr.span.clone(), message)
                .label("depends on the definition itself")
                .help("a `let rec` may use its names only where more pairs give more pairs"),
        );
        None
    }

    /// Returns the definition of a name, if it has one.
    pub(super) fn lookup(&self, name: &str, place: Place<'_>) -> Option<&Def> {
        let is_local = place.locals.iter().any(|l| l.0 == name);
        let entry = self.scope[..place.scope].iter().rev().find(|e| e.name == name);
        entry.filter(|_| !is_local).map(|e| &e.def)
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
        let message = format!("nothing defines `{name}`");
        let error = Diagnostic::new(Kind::UndefinedName, span.clone(), message);
        let error = match near {
            Some(near) => error.help(format!("did you mean `{near}`?")),
            None => error.help("docs/models.md lists the predefined names"),
        };
        self.report(place.source, error);
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
            Def::Missing(what) => self.missing(what, span, place),
            Def::Function(function) => {
                let message = format!("`{name}` is a function, and a set or relation is needed");
                self.report(
                    place.source,
                    Diagnostic::new(Kind::WrongType, span.clone(), message)
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
            Def::Missing(what) => return self.missing(what, name_span, place),
            Def::Value(_) => {
                let message = format!("`{name}` is not a function");
                self.report(
                    place.source,
                    Diagnostic::new(Kind::WrongType, name_span.clone(), message)
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
            self.report(
                place.source,
                Diagnostic::new(Kind::LimitExceeded, span.clone(), message),
            );
            return None;
        }
        self.calls += 1;
        let names = function.params.iter().map(|p| p.text.clone());
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
        let (line, column) = place.source.position(span.start);
        let from = format!("in the call of `{name}` at {}:{line}:{column}", place.source.name);
        for error in &mut self.out.diagnostics[errors..] {
            let label = &mut error.diagnostic.label;
            if !label.contains("in the call of") {
                let comma = if label.is_empty() { "" } else { ", " };
                label.push_str(&format!("{comma}{from}"));
            }
        }
        result
    }

    /// Refuses a use of what this language does not have.
    fn missing(&mut self, what: &str, span: &Span, place: Place<'_>) -> Option<NodeId> {
        let error = match what {
            "data" | "addr" | "ctrl" | "ADDR" | "B" => {
                let message = format!("`{what}` is about dependencies, which are not followed here");
                let help = "x86 and RDMA order nothing by dependencies: leave it out";
                Diagnostic::new(Kind::Unsupported, span.clone(), message).help(help)
            }
            word => foreign(span.clone(), word),
        };
        self.report(place.source, error);
        None
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
        self.report(
            place.source,
            Diagnostic::new(Kind::WrongArity, span.clone(), message),
        );
        None
    }
}
