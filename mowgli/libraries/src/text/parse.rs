//! The grammar of implementations as texts, and what their names mean.
//!
//! Names are resolved as they are read: a procedure stands before its callers, a register before what reads it.

use mowgli::program::{BinaryOp, UnaryOp};
use mowgli::syntax::{Diagnostic, Kind as Code, Name, Parser, Span, Step, Token, nearest};

use super::builtin::Function;
use super::{Callee, Choice, Expr, Kind, Procedure, Stmt, Text};
use crate::client::{Library, Method, Param};
use crate::event::StampKind;
use crate::value::{BOTTOM, Value};

/// The first word of a text.
pub(super) const DIALECT: &str = "IMPLEMENTATION";

const STAMPS: [StampKind; 13] = [
    StampKind::Cr,
    StampKind::Cw,
    StampKind::Cas,
    StampKind::Mf,
    StampKind::Wt,
    StampKind::Nlr,
    StampKind::Nrw,
    StampKind::Nrr,
    StampKind::Nlw,
    StampKind::Rf,
    StampKind::Gf,
    StampKind::Nar,
    StampKind::Pf,
];

/// Binary operators, the loosest first.
const LEVELS: [&[BinaryOp]; 5] = [
    &[BinaryOp::Or],
    &[BinaryOp::And],
    &[
        BinaryOp::Eq,
        BinaryOp::Ne,
        BinaryOp::Le,
        BinaryOp::Ge,
        BinaryOp::Lt,
        BinaryOp::Gt,
    ],
    &[BinaryOp::Add, BinaryOp::Sub],
    &[BinaryOp::Mul],
];

/// Reads a text behind its header.
pub(super) fn file(p: &mut Parser, name: String) -> Step<Text> {
    let description = p.description();
    let mut reader = Reader::default();
    while *p.peek() != Token::End {
        if is_word(p, "stamp") {
            let choice = reader.choice(p)?;
            reader.choices.push(choice);
        } else {
            let procedure = reader.procedure(p)?;
            reader.procedures.push(procedure);
        }
    }
    let Some(library) = reader.library else {
        return Err(p
            .unexpected("a method")
            .help("write the methods of one library as programs: `write_sv(x, v) { write(x@here(), v); }`"));
    };
    Ok(Text {
        name,
        description,
        library,
        procedures: reader.procedures,
        choices: reader.choices,
    })
}

/// The parts of the text that were read so far.
#[derive(Default)]
struct Reader {
    library: Option<Library>,
    procedures: Vec<Procedure>,
    choices: Vec<Choice>,
    /// The names after `.`, whose places are those of the parts.
    parts: Vec<String>,
    /// Variables of the procedure that is being read.
    variables: Vec<(String, Kind)>,
}

fn is_word(p: &Parser, word: &str) -> bool {
    matches!(p.peek(), Token::Name(found) if found == word)
}

fn wrong(span: &Span, message: impl Into<String>, help: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::WrongOperand, span.clone(), message).help(help)
}

/// Returns the method called `name`, those for implementations only among them.
fn method_named(name: &str) -> Option<Method> {
    Method::ALL.iter().copied().find(|m| m.name() == name)
}

fn kind_of(param: Param) -> Kind {
    match param {
        Param::Object(_) => Kind::Location,
        Param::Work => Kind::Work,
        Param::Number | Param::Message | Param::Node | Param::Nodes => Kind::Value,
    }
}

fn word_for(kind: Kind) -> &'static str {
    match kind {
        Kind::Value => "a value",
        Kind::Location => "a location",
        Kind::Work => "a work identifier",
    }
}

impl Reader {
    /// Reads `write_sv(x, v) { .. }`, a method or a procedure of the text's own.
    fn procedure(&mut self, p: &mut Parser) -> Step<Procedure> {
        let is_strong = p.eat_word("strong");
        let mut name = p.name("a method")?;
        if is_strong {
            name.text = format!("strong {}", name.text);
        }
        let method = method_named(&name.text);
        if let Some(method) = method {
            let library = *self.library.get_or_insert(method.library());
            if library != method.library() {
                let message = format!(
                    "`{}` is of {}, and the methods before it of {}",
                    name.text,
                    method.library().name(),
                    library.name()
                );
                return Err(wrong(&name.span, message, "a text implements one library"));
            }
        }
        if self.procedures.iter().any(|known| known.name == name.text) {
            let message = format!("`{}` stands twice", name.text);
            return Err(
                Diagnostic::new(Code::Duplicate, name.span, message).help("remove or rename one of them")
            );
        }
        self.variables.clear();
        let mut params: Vec<Name> = Vec::new();
        p.expect("(", "parameters stand in parentheses: `write_sv(x, v)`")?;
        while !p.eat(")") {
            if !params.is_empty() {
                p.expect(",", "parameters are separated by `,`")?;
            }
            params.push(p.name("a parameter")?);
        }
        let wanted: Vec<Kind> = match method {
            Some(method) => method.signature().params.iter().map(|p| kind_of(*p)).collect(),
            // A procedure of one's own computes with values.
            None => vec![Kind::Value; params.len()],
        };
        if wanted.len() != params.len() {
            let message = format!(
                "`{}` has {} parameters, not {}",
                name.text,
                wanted.len(),
                params.len()
            );
            let about = method.map_or("", |m| m.signature().about);
            return Err(wrong(&name.span, message, about.trim()));
        }
        for (param, kind) in params.iter().zip(&wanted) {
            if self.variables.iter().any(|v| v.0 == param.text) {
                let message = format!("two parameters are called `{}`", param.text);
                return Err(
                    Diagnostic::new(Code::Duplicate, param.span.clone(), message).help("rename one of them")
                );
            }
            self.variables.push((param.text.clone(), *kind));
        }
        let body = self.block(p)?;
        Ok(Procedure {
            name: name.text,
            method,
            params: params.len(),
            variables: std::mem::take(&mut self.variables),
            body,
        })
    }

    /// Reads `stamp submit aCW = last write_sv(x.head);`.
    fn choice(&mut self, p: &mut Parser) -> Step<Choice> {
        p.eat_word("stamp");
        let of = self.method(p)?;
        let stamp = p.name("a stamp, as `aCW`")?;
        let Some(kind) = STAMPS.into_iter().find(|k| k.label() == stamp.text) else {
            let labels = STAMPS.map(StampKind::label).join(", ");
            let message = format!("there is no stamp `{}`", stamp.text);
            return Err(wrong(&stamp.span, message, format!("stamps are {labels}")));
        };
        p.expect("=", "as in `stamp gf_sv aGF = last wait;`")?;
        let last = match (p.eat_word("first"), p.eat_word("last")) {
            (false, false) => return Err(p.unexpected("`first` or `last`")),
            (_, last) => last,
        };
        let method = self.method(p)?;
        let mut part = None;
        if p.eat("(") {
            p.name("the object")?;
            p.expect(".", "a part of the object, as in `write_sv(x.head)`")?;
            let name = p.name("a part")?;
            part = Some(self.part(&name.text));
            p.expect(")", "close the parenthesis")?;
        }
        p.expect(";", "a stamp ends with `;`")?;
        Ok(Choice {
            of,
            stamp: kind,
            last,
            method,
            part,
        })
    }

    fn method(&self, p: &mut Parser) -> Step<Method> {
        let name = p.name("a method")?;
        method_named(&name.text).ok_or_else(|| self.unknown(&name))
    }

    /// Says that nothing has this name.
    fn unknown(&self, name: &Name) -> Diagnostic {
        let message = format!("there is no method, procedure or function `{}`", name.text);
        let error = Diagnostic::new(Code::UnknownInstruction, name.span.clone(), message);
        let methods = Method::ALL.iter().map(|m| m.name());
        let functions = Function::ALL.iter().map(|f| f.form().0);
        let own = self.procedures.iter().map(|p| p.name.as_str());
        match nearest(&name.text, methods.chain(functions).chain(own)) {
            Some(near) => error.help(format!("did you mean `{near}`?")),
            None => error.help("docs/clients.md lists them; a procedure stands before its callers"),
        }
    }

    /// Returns the number of a part.
    fn part(&mut self, name: &str) -> u32 {
        let at = self.parts.iter().position(|p| p == name);
        // A text has fewer bytes than u32 has values.
        at.unwrap_or_else(|| {
            self.parts.push(name.to_owned());
            self.parts.len() - 1
        }) as u32
    }

    fn block(&mut self, p: &mut Parser) -> Step<Vec<Stmt>> {
        p.expect("{", "a block stands in braces: `{ r := read_sv(x); return r; }`")?;
        p.enter()?;
        let mut block = Vec::new();
        while !p.eat("}") {
            if p.eat(";") {
                continue;
            }
            p.count_instruction()?;
            let stmt = self.stmt(p)?;
            let ends_in_brace = matches!(stmt, Stmt::If(..) | Stmt::While(..) | Stmt::For(..));
            block.push(stmt);
            if !ends_in_brace && !p.is("}") {
                p.expect(";", "statements are separated by `;`")?;
            }
        }
        p.leave();
        Ok(block)
    }

    fn stmt(&mut self, p: &mut Parser) -> Step<Stmt> {
        if p.eat_word("if") {
            let cond = self.in_parentheses(p)?;
            let then = self.block(p)?;
            let otherwise = match p.eat_word("else") {
                true => self.block(p)?,
                false => Vec::new(),
            };
            return Ok(Stmt::If(cond, then, otherwise));
        }
        if p.eat_word("while") {
            let cond = self.in_parentheses(p)?;
            return Ok(Stmt::While(cond, self.block(p)?));
        }
        if p.eat_word("for") {
            let name = p.name("a register")?;
            if !p.eat_word("in") {
                return Err(p.unexpected("`in`").help("as in `for n in nodes() { poll(n); }`"));
            }
            let list = self.of_kind(p, Kind::Value)?;
            let to = self.assigned(&name, Kind::Value)?;
            return Ok(Stmt::For(to, list, self.block(p)?));
        }
        if p.eat_word("return") {
            return match self.call(p)? {
                Some((callee, args, _)) => Ok(Stmt::Forward(callee, args)),
                None => Ok(Stmt::Return(self.of_kind(p, Kind::Value)?)),
            };
        }
        if p.eat_word("await") {
            return Ok(Stmt::Await(self.in_parentheses(p)?));
        }
        let assigns = matches!(p.peek(), Token::Name(_)) && *p.peek_at(1) == Token::Symbol(":=");
        if !assigns {
            return match self.call(p)? {
                Some((callee, args, _)) => Ok(Stmt::Call {
                    result: None,
                    callee,
                    args,
                }),
                None => Err(p.unexpected("a statement").help(
                    "statements are calls, assignments, if, while, for, return and await (docs/clients.md)",
                )),
            };
        }
        let name = p.name("a register")?;
        p.eat(":=");
        if let Some((callee, args, span)) = self.call(p)? {
            if let Callee::Method(method) = callee
                && !method.signature().returns
            {
                let message = format!("`{}` returns nothing", method.name());
                return Err(wrong(&span, message, "leave the register out"));
            }
            let to = self.assigned(&name, Kind::Value)?;
            return Ok(Stmt::Call {
                result: Some(to),
                callee,
                args,
            });
        }
        let (value, kind, _) = self.expr(p)?;
        Ok(Stmt::Assign(self.assigned(&name, kind)?, value))
    }

    /// Reads a call of a method or a procedure, if one stands here.
    fn call(&mut self, p: &mut Parser) -> Step<Option<(Callee, Vec<Expr>, Span)>> {
        let is_strong = is_word(p, "strong") && matches!(p.peek_at(1), Token::Name(_));
        let Token::Name(word) = p.peek_at(usize::from(is_strong)).clone() else {
            return Ok(None);
        };
        if *p.peek_at(1 + usize::from(is_strong)) != Token::Symbol("(") {
            return Ok(None);
        }
        let text = if is_strong { format!("strong {word}") } else { word };
        if Function::ALL.iter().any(|f| f.form().0 == text) {
            return Ok(None);
        }
        p.eat_word("strong");
        let name = Name {
            text,
            span: p.name("a method")?.span,
        };
        let (callee, kinds): (Callee, Vec<Kind>) = match method_named(&name.text) {
            Some(method) => {
                let kinds = method.signature().params.iter().map(|p| kind_of(*p));
                (Callee::Method(method), kinds.collect())
            }
            None => {
                let own = self.procedures.iter().position(|p| p.name == name.text);
                let own = own.ok_or_else(|| self.unknown(&name))?;
                let params = self.procedures[own].params;
                (Callee::Own(own), vec![Kind::Value; params])
            }
        };
        let args = self.arguments(p, &name, &kinds)?;
        Ok(Some((callee, args, p.span_from(&name.span))))
    }

    fn arguments(&mut self, p: &mut Parser, of: &Name, kinds: &[Kind]) -> Step<Vec<Expr>> {
        p.expect("(", "arguments stand in parentheses")?;
        let mut args = Vec::new();
        while !p.eat(")") {
            if !args.is_empty() {
                p.expect(",", "arguments are separated by `,`")?;
            }
            let kind = kinds.get(args.len()).copied();
            args.push(self.of_kind(p, kind.unwrap_or(Kind::Value))?);
        }
        if args.len() != kinds.len() {
            let message = format!(
                "`{}` takes {} arguments, not {}",
                of.text,
                kinds.len(),
                args.len()
            );
            let about = method_named(&of.text).map_or("", |m| m.signature().about);
            return Err(wrong(&of.span, message, about.trim()));
        }
        Ok(args)
    }

    /// Returns the variable that a statement assigns.
    fn assigned(&mut self, name: &Name, kind: Kind) -> Step<usize> {
        let known = self.variables.iter().position(|v| v.0 == name.text);
        let Some(at) = known else {
            self.variables.push((name.text.clone(), kind));
            return Ok(self.variables.len() - 1);
        };
        if self.variables[at].1 == kind {
            return Ok(at);
        }
        let (was, is) = (word_for(self.variables[at].1), word_for(kind));
        let message = format!("`{}` holds {was}, and this is {is}", name.text);
        Err(wrong(&name.span, message, "use another register"))
    }

    fn in_parentheses(&mut self, p: &mut Parser) -> Step<Expr> {
        p.expect("(", "a condition stands in parentheses")?;
        let cond = self.of_kind(p, Kind::Value)?;
        p.expect(")", "close the parenthesis")?;
        Ok(cond)
    }

    fn of_kind(&mut self, p: &mut Parser, wanted: Kind) -> Step<Expr> {
        let (expr, kind, span) = self.expr(p)?;
        if kind == wanted {
            return Ok(expr);
        }
        let message = format!("this is {}, and {} is due", word_for(kind), word_for(wanted));
        let help = match wanted {
            Kind::Value => "numbers, messages, nodes, threads and sets are values",
            Kind::Location => "locations are objects and their parts: `x`, `x.head`, `x.cell[i]`, `x@n`",
            Kind::Work => "identifiers are parameters, `id(x)` and `_`",
        };
        Err(wrong(&span, message, help))
    }

    fn expr(&mut self, p: &mut Parser) -> Step<(Expr, Kind, Span)> {
        p.enter()?;
        let read = self.level(p, 0);
        p.leave();
        read
    }

    fn level(&mut self, p: &mut Parser, level: usize) -> Step<(Expr, Kind, Span)> {
        let Some(ops) = LEVELS.get(level) else {
            return self.unary(p);
        };
        let (mut left, mut kind, mut span) = self.level(p, level + 1)?;
        while let Some(op) = ops.iter().copied().find(|op| p.is(op.symbol())) {
            p.eat(op.symbol());
            let (right, of_right, end) = self.level(p, level + 1)?;
            for (kind, span) in [(kind, &span), (of_right, &end)] {
                if kind != Kind::Value {
                    let message = format!("`{}` is of values, and this is {}", op.symbol(), word_for(kind));
                    return Err(wrong(span, message, "only values are computed with"));
                }
            }
            left = Expr::Binary(op, Box::new(left), Box::new(right));
            kind = Kind::Value;
            span = span.start..end.end;
        }
        Ok((left, kind, span))
    }

    fn unary(&mut self, p: &mut Parser) -> Step<(Expr, Kind, Span)> {
        let start = p.span();
        let op = match (p.eat("!"), p.is("-") && !matches!(p.peek_at(1), Token::Number(_))) {
            (true, _) => UnaryOp::Not,
            (false, true) => {
                p.eat("-");
                UnaryOp::Neg
            }
            (false, false) => return self.postfix(p),
        };
        p.enter()?;
        let (inner, kind, span) = self.unary(p)?;
        p.leave();
        if kind != Kind::Value {
            return Err(wrong(&span, "this is no value", "only values are computed with"));
        }
        let span = p.span_from(&start);
        Ok((Expr::Unary(op, Box::new(inner)), Kind::Value, span))
    }

    fn postfix(&mut self, p: &mut Parser) -> Step<(Expr, Kind, Span)> {
        let start = p.span();
        let (mut expr, mut kind) = match is_word(p, "mine") && *p.peek_at(1) == Token::Symbol(".") {
            true => {
                p.eat_word("mine");
                (self.part_of(p, None)?, Kind::Location)
            }
            false => self.primary(p)?,
        };
        loop {
            let span = p.span_from(&start);
            let due = |wanted: Kind| match kind == wanted {
                true => Ok(()),
                false => {
                    let message = format!("this is {}, and {} is due", word_for(kind), word_for(wanted));
                    let help =
                        "locations have parts and copies: `x.head`, `x@n`; messages have words: `v[0]`";
                    Err(wrong(&span, message, help))
                }
            };
            if p.is(".") {
                due(Kind::Location)?;
                expr = self.part_of(p, Some(expr))?;
            } else if p.eat("@") {
                due(Kind::Location)?;
                let (node, of_node) = self.primary(p)?;
                if of_node != Kind::Value {
                    return Err(wrong(
                        &p.span_from(&span),
                        "this is no node",
                        "as in `x@n` and `x@here()`",
                    ));
                }
                expr = Expr::At(Box::new(expr), Box::new(node));
            } else if p.eat("[") {
                due(Kind::Value)?;
                let at = self.of_kind(p, Kind::Value)?;
                p.expect("]", "close the bracket")?;
                expr = Expr::Word(Box::new(expr), Box::new(at));
                kind = Kind::Value;
            } else {
                return Ok((expr, kind, span));
            }
        }
    }

    /// Reads `.head` or `.cell[i]`.
    fn part_of(&mut self, p: &mut Parser, of: Option<Expr>) -> Step<Expr> {
        p.eat(".");
        let name = p.name("a part's name")?;
        let part = self.part(&name.text);
        let index = match p.eat("[") {
            true => {
                let index = self.of_kind(p, Kind::Value)?;
                p.expect("]", "close the bracket")?;
                Some(Box::new(index))
            }
            false => None,
        };
        Ok(Expr::Part(of.map(Box::new), part, index))
    }

    fn primary(&mut self, p: &mut Parser) -> Step<(Expr, Kind)> {
        if matches!(p.peek(), Token::Number(_)) || p.is("-") {
            return Ok((Expr::Const(Value::Int(p.signed_value()?)), Kind::Value));
        }
        for (open, close) in [("[", "]"), ("{", "}")] {
            if p.eat(open) {
                let mut parts = Vec::new();
                while !p.eat(close) {
                    if !parts.is_empty() {
                        p.expect(",", "words and members are separated by `,`")?;
                    }
                    parts.push(self.of_kind(p, Kind::Value)?);
                }
                return Ok((Expr::List(parts), Kind::Value));
            }
        }
        if p.eat("(") {
            let (inner, kind, _) = self.expr(p)?;
            p.expect(")", "close the parenthesis")?;
            return Ok((inner, kind));
        }
        let name = p.name("a value, a location or an identifier")?;
        if p.is("(") {
            let found = Function::ALL.iter().copied().find(|f| f.form().0 == name.text);
            let Some(function) = found else {
                if method_named(&name.text).is_some() || self.procedures.iter().any(|p| p.name == name.text) {
                    let message = format!("the call of `{}` stands inside an expression", name.text);
                    let help = "give its result to a register first: `r := ..;`";
                    return Err(wrong(&name.span, message, help));
                }
                return Err(self.unknown(&name));
            };
            let (_, kinds, result) = function.form();
            if function == Function::Id && *p.peek_at(1) == Token::Name("mine".to_owned()) {
                p.eat("(");
                p.eat_word("mine");
                p.expect(")", "close the parenthesis")?;
                return Ok((Expr::Function(function, vec![Expr::Part(None, 0, None)]), result));
            }
            let args = self.arguments(p, &name, kinds)?;
            return Ok((Expr::Function(function, args), result));
        }
        Ok(match name.text.as_str() {
            "true" => (Expr::Const(Value::Bool(true)), Kind::Value),
            "false" => (Expr::Const(Value::Bool(false)), Kind::Value),
            "bot" => (Expr::Const(BOTTOM), Kind::Value),
            "_" => (Expr::NoWork, Kind::Work),
            text => {
                let Some(at) = self.variables.iter().position(|v| v.0 == text) else {
                    let message = format!("`{text}` holds nothing here");
                    let error = Diagnostic::new(Code::UnknownRegister, name.span.clone(), message);
                    let known = self.variables.iter().map(|v| v.0.as_str());
                    return Err(match nearest(text, known) {
                        Some(near) => error.help(format!("did you mean `{near}`?")),
                        None => error.help("assign it first, or make it a parameter"),
                    });
                };
                (Expr::Variable(at), self.variables[at].1)
            }
        })
    }
}
