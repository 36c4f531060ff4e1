//! Runs implementations that were read from texts.

use super::builtin::{Item, node};
use super::{Callee, Expr, Procedure, Stmt, Text, element};
use crate::client::{Method, Node, NodeSet, Param};
use crate::event::{Arg, Loc, Wid};
use crate::implementation::{Caller, Cut, Run};
use crate::value::Value;

/// The most iterations of a loop.
const ITERATIONS_MAX: u32 = 10_000;

/// Runs a method. A method that the text does not implement has no execution.
pub(super) fn method(text: &Text, c: &mut Caller<'_>, method: Method, args: &[Arg]) -> Run<Value> {
    let items = args.iter().map(|arg| match arg {
        Arg::Loc(x) => Item::Location(*x),
        Arg::Value(v) => Item::Value(v.clone()),
        Arg::Work(d) => Item::Work(*d),
        Arg::Node(n) => Item::Value(Value::Int(super::builtin::number(*n))),
        Arg::Nodes(nodes) => {
            let numbers: Vec<i64> = nodes.iter().map(super::builtin::number).collect();
            Item::Value(Value::message(&numbers))
        }
    });
    let found = text.procedures.iter().find(|p| p.method == Some(method));
    match found {
        Some(procedure) => Frame::run(text, procedure, c, items.collect()),
        None => Err(Cut::Blocked),
    }
}

/// A procedure at work.
struct Frame<'t> {
    text: &'t Text,
    variables: Vec<Item>,
}

impl<'t> Frame<'t> {
    fn run(text: &'t Text, procedure: &'t Procedure, c: &mut Caller<'_>, args: Vec<Item>) -> Run<Value> {
        let mut variables = args;
        variables.resize(procedure.variables.len(), Item::Value(Value::Int(0)));
        let mut frame = Frame { text, variables };
        Ok(frame.block(&procedure.body, c)?.unwrap_or(Value::Unit))
    }

    /// Runs statements until one returns.
    fn block(&mut self, block: &'t [Stmt], c: &mut Caller<'_>) -> Run<Option<Value>> {
        for stmt in block {
            if let Some(returned) = self.stmt(stmt, c)? {
                return Ok(Some(returned));
            }
        }
        Ok(None)
    }

    fn stmt(&mut self, stmt: &'t Stmt, c: &mut Caller<'_>) -> Run<Option<Value>> {
        match stmt {
            Stmt::Assign(to, e) => self.variables[*to] = self.eval(e, c)?,
            Stmt::Call { result, callee, args } => {
                let value = self.call(*callee, args, c)?;
                if let Some(to) = result {
                    self.variables[*to] = Item::Value(value);
                }
            }
            Stmt::If(cond, then, otherwise) => {
                let taken = match self.eval(cond, c)?.value().truth() {
                    true => then,
                    false => otherwise,
                };
                return self.block(taken, c);
            }
            Stmt::While(cond, body) => {
                let mut rounds = 0;
                while self.eval(cond, c)?.value().truth() {
                    if rounds == ITERATIONS_MAX {
                        return Err(Cut::Bound);
                    }
                    rounds += 1;
                    if let Some(returned) = self.block(body, c)? {
                        return Ok(Some(returned));
                    }
                }
            }
            Stmt::For(to, list, body) => {
                for word in self.eval(list, c)?.value().words() {
                    self.variables[*to] = Item::Value(Value::Int(word));
                    if let Some(returned) = self.block(body, c)? {
                        return Ok(Some(returned));
                    }
                }
            }
            Stmt::Forward(callee, args) => return self.call(*callee, args, c).map(Some),
            Stmt::Return(e) => return Ok(Some(self.eval(e, c)?.value())),
            Stmt::Await(cond) => {
                if !self.eval(cond, c)?.value().truth() {
                    return Err(Cut::Blocked);
                }
            }
        }
        Ok(None)
    }

    fn call(&self, callee: Callee, args: &[Expr], c: &mut Caller<'_>) -> Run<Value> {
        let args = args.iter().map(|e| self.eval(e, c)).collect::<Run<Vec<Item>>>()?;
        match callee {
            Callee::Method(method) => call(method, &args, c),
            Callee::Own(at) => Frame::run(self.text, &self.text.procedures[at], c, args),
        }
    }

    /// Evaluates an expression. A location that does not exist, such as that on a node that is none, ends the run.
    fn eval(&self, e: &Expr, c: &Caller<'_>) -> Run<Item> {
        let value = |e: &Expr| Ok(self.eval(e, c)?.value());
        Ok(Item::Value(match e {
            Expr::Const(value) => value.clone(),
            Expr::Variable(at) => return Ok(self.variables[*at].clone()),
            Expr::List(parts) => {
                let words = parts.iter().map(|e| Ok(value(e)?.number()));
                Value::message(&words.collect::<Run<Vec<i64>>>()?)
            }
            Expr::Unary(..) | Expr::Binary(..) => self.operator(e, c)?,
            Expr::Word(list, at) => {
                let (words, at) = (value(list)?.words(), value(at)?.number());
                let word = usize::try_from(at).ok().and_then(|at| words.get(at));
                Value::Int(*word.ok_or(Cut::Blocked)?)
            }
            Expr::Function(function, args) => {
                let args = args.iter().map(|e| self.eval(e, c)).collect::<Run<Vec<Item>>>()?;
                return Ok(function.apply(c, &args));
            }
            Expr::Part(of, part, index) => {
                let index = match index {
                    Some(e) => u32::try_from(value(e)?.number()).map_err(|_| Cut::Blocked)?,
                    None => 0,
                };
                if index >= super::ELEMENTS_MAX {
                    return Err(Cut::Blocked);
                }
                let of = match of {
                    Some(e) => self.location(e, c)?,
                    None => Loc {
                        object: Loc::SHARED,
                        part: 0,
                        node: Loc::EVERYWHERE,
                    },
                };
                return Ok(Item::Location(of.part(element(*part, index), of.node)));
            }
            Expr::At(of, at) => {
                let at: Node = node(value(at)?.number())
                    .filter(|n| n.0 < c.client().nodes)
                    .ok_or(Cut::Blocked)?;
                return Ok(Item::Location(self.location(of, c)?.at(at)));
            }
            Expr::NoWork => return Ok(Item::Work(Wid::NONE)),
        }))
    }

    /// Evaluates operators as clients do.
    fn operator(&self, e: &Expr, c: &Caller<'_>) -> Run<Value> {
        use crate::client::Expr as Plain;
        let plain = |e: &Expr| Ok(Box::new(Plain::Const(self.eval(e, c)?.value())));
        let whole = match e {
            Expr::Unary(op, e) => Plain::Unary(*op, plain(e)?),
            Expr::Binary(op, a, b) => Plain::Binary(*op, plain(a)?, plain(b)?),
            _ => return Err(Cut::Blocked),
        };
        Ok(whole.eval(&[]))
    }

    fn location(&self, e: &Expr, c: &Caller<'_>) -> Run<Loc> {
        match self.eval(e, c)? {
            Item::Location(x) => Ok(x),
            Item::Value(_) | Item::Work(_) => Err(Cut::Blocked),
        }
    }
}

/// Calls a method. A broadcast to no node and a fence of none are no calls, since they have no stamp (LOCO'26 Def. 3.3).
fn call(method: Method, args: &[Item], c: &mut Caller<'_>) -> Run<Value> {
    let mut made: Vec<Arg> = Vec::new();
    for (param, item) in method.signature().params.iter().zip(args) {
        made.push(match (param, item) {
            (Param::Object(_), Item::Location(x)) => Arg::Loc(*x),
            (Param::Work, Item::Work(d)) => Arg::Work(*d),
            (Param::Node, item) => Arg::Node(node(item.number()).ok_or(Cut::Blocked)?),
            (Param::Nodes, item) => {
                let nodes = item.value().words().into_iter().map(node);
                let nodes = nodes.collect::<Option<NodeSet>>().ok_or(Cut::Blocked)?;
                if nodes.is_empty() {
                    return Ok(Value::Unit);
                }
                Arg::Nodes(nodes)
            }
            (Param::Number, item) => Arg::Value(Value::Int(item.number())),
            (_, item) => Arg::Value(item.value()),
        });
    }
    c.call(method, &made)
}
