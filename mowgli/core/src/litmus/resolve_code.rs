//! Resolves one thread's instructions.

use std::collections::BTreeMap;

use super::ast::{CasArgs, Place, Rhs, Stmt, StmtKind, SwapArgs};
use super::receive_queues::Queue;
use super::symbols::{Globals, Registers, node, too_many_registers, unknown_location};
use crate::program::{Expr, Instr, Loc, Message, Node, PutSrc, Reg, ThreadId, WorkId};
use crate::syntax::limits::LOOP_BOUND_MAX;
use crate::syntax::{Column, Diagnostic, Expr as Ast, Kind, Name, Number, nearest};

/// A thread being resolved. A register exists from its first assignment on, in textual order.
pub(super) struct ThreadScope<'a> {
    globals: &'a mut Globals,
    diagnostics: &'a mut Vec<Diagnostic>,
    index: usize,
    node: Node,
    thread: &'a str,
    registers: Registers,
    work_ids: Vec<String>,
    work_index: BTreeMap<String, WorkId>,
}

impl<'a> ThreadScope<'a> {
    pub(super) fn new(
        globals: &'a mut Globals,
        diagnostics: &'a mut Vec<Diagnostic>,
        (index, node): (usize, Node),
        column: &'a Column,
        registers: Registers,
    ) -> ThreadScope<'a> {
        let thread = column.name.text.as_str();
        ThreadScope {
            globals,
            diagnostics,
            index,
            node,
            thread,
            registers,
            work_ids: Vec::new(),
            work_index: BTreeMap::new(),
        }
    }

    /// Returns the registers and work identifiers that the thread turned out to have.
    pub(super) fn finish(self) -> (Registers, Vec<String>) {
        (self.registers, self.work_ids)
    }

    /// Resolves a statement. Returns `None` if it was refused.
    pub(super) fn stmt(&mut self, stmt: &Stmt) -> Option<Instr> {
        let mut instr = self.without_request(stmt)?;
        if let Some(immediate) = &stmt.immediate {
            instr = self.with_immediate(stmt, instr, immediate)?;
        }
        if stmt.unsignaled {
            if !instr.can_be_strong() {
                let message = "only puts, gets and remote read-modify-writes have completions";
                return self.refuse(
                    Diagnostic::new(Kind::WrongOperand, stmt.span.clone(), message)
                        .help("leave `unsignaled` out"),
                );
            }
            instr = Instr::Unsignaled(Box::new(instr));
        }
        if !stmt.strong {
            return Some(instr);
        }
        if instr.can_be_strong() {
            return Some(Instr::Strong(Box::new(instr)));
        }
        let message = "only puts, gets and remote read-modify-writes are placed after the earlier writes of their queue pair";
        self.refuse(
            Diagnostic::new(Kind::WrongOperand, stmt.span.clone(), message)
                .help("leave `strong` out; `rfence(n)`, `poll(n)` and `wait(d)` order on their own"),
        )
    }

    fn without_request(&mut self, stmt: &Stmt) -> Option<Instr> {
        Some(match &stmt.kind {
            StmtKind::Mfence => Instr::Mfence,
            StmtKind::Swap(args) => self.swap(None, args)?,
            StmtKind::Send { node: n, data } => self.send(stmt, n, data.as_ref())?,
            StmtKind::Recv { from, buffer } => self.receive(from, buffer.as_ref())?,
            StmtKind::PollRecv(from) => self.poll_receive(None, from)?,
            StmtKind::Poll(n) => Instr::Poll {
                node: node(n, self.globals, self.diagnostics),
            },
            StmtKind::Rfence(n) => Instr::Rfence {
                node: node(n, self.globals, self.diagnostics),
            },
            StmtKind::Wait(name) => Instr::Wait {
                work: self.work(name),
            },
            StmtKind::Assume(e) => Instr::Assume(self.expr(e)?),
            StmtKind::Cas(args) => self.cas(None, args)?,
            StmtKind::If {
                cond,
                then,
                otherwise,
            } => {
                let cond = self.expr(cond);
                let then = self.block(then);
                let otherwise = self.block(otherwise);
                Instr::If {
                    cond: cond?,
                    then,
                    otherwise,
                }
            }
            StmtKind::While { cond, bound, body } => {
                // The condition may read a register that the body assigns, so the body is resolved first.
                let body = self.block(body);
                let cond = self.expr(cond);
                let in_range = u32::try_from(bound.value).ok().filter(|&b| b <= LOOP_BOUND_MAX);
                let Some(iterations) = in_range else {
                    let message = format!(
                        "a loop bound of {} exceeds LOOP_BOUND_MAX ({LOOP_BOUND_MAX})",
                        bound.value
                    );
                    return self.refuse(Diagnostic::new(Kind::LimitExceeded, bound.span.clone(), message));
                };
                Instr::While {
                    cond: cond?,
                    body,
                    bound: iterations,
                }
            }
            StmtKind::Words(_) => unreachable!("each word is a statement of its own"),
            StmtKind::Choose(blocks) => Instr::Choose(blocks.iter().map(|b| self.block(b)).collect()),
            StmtKind::Assign { dst, work, rhs } => self.assign(stmt, dst, work.as_ref(), rhs)?,
        })
    }

    fn block(&mut self, block: &[Stmt]) -> Vec<Instr> {
        let all = block.iter().flat_map(Stmt::each);
        all.filter_map(|stmt| self.stmt(stmt)).collect()
    }

    fn assign(&mut self, stmt: &Stmt, dst: &Place, work: Option<&Name>, rhs: &Rhs) -> Option<Instr> {
        let is_remote = dst.node.is_some()
            || matches!(
                rhs,
                Rhs::Remote(_) | Rhs::Rcas(_) | Rhs::Rfaa { .. } | Rhs::Rswap(_)
            );
        if let Some(work) = work.filter(|_| !is_remote) {
            let message = "only remote operations carry work identifiers";
            return self.refuse(Diagnostic::new(Kind::Syntax, work.span.clone(), message).help("remove it"));
        }
        if dst.node.is_some() {
            return self.put(stmt, dst, work, rhs);
        }
        match rhs {
            Rhs::Swap(args) => self.swap(Some(&dst.name), args),
            Rhs::PollRecv(from) => {
                let reg = self.result(&dst.name, "pollrecv")?;
                self.poll_receive(Some(reg), from)
            }
            Rhs::Expr(expr) => self.cpu_assign(dst, expr),
            Rhs::Inline(_) => {
                let message = "`inline` is for the data of puts";
                self.refuse(
                    Diagnostic::new(Kind::WrongOperand, stmt.span.clone(), message)
                        .help("a put names the node: `x^2 := inline(e)`"),
                )
            }
            Rhs::Cas(args) => self.cas(Some(&dst.name), args),
            Rhs::Remote(src) => {
                let src = self.remote(src);
                let dst = self.landing(&dst.name, "a get");
                let work = work.map(|w| self.work(w));
                Some(Instr::Get {
                    dst: dst?,
                    src: src?,
                    work,
                })
            }
            Rhs::Rcas(args) => {
                let (target, expected, new) = (
                    self.remote(&args.target),
                    self.expr(&args.expected),
                    self.expr(&args.new),
                );
                let dst = self.landing(&dst.name, "a remote compare-and-swap");
                let work = work.map(|w| self.work(w));
                Some(Instr::RemoteCas {
                    dst: dst?,
                    target: target?,
                    expected: expected?,
                    new: new?,
                    work,
                })
            }
            Rhs::Rfaa { target, add } => {
                let (target, add) = (self.remote(target), self.expr(add));
                let dst = self.landing(&dst.name, "a remote fetch-and-add");
                let work = work.map(|w| self.work(w));
                Some(Instr::RemoteFaa {
                    dst: dst?,
                    target: target?,
                    add: add?,
                    work,
                })
            }
            Rhs::Rswap(args) => {
                let (target, new) = (self.remote(&args.target), self.expr(&args.new));
                let dst = self.landing(&dst.name, "a remote exchange");
                let work = work.map(|w| self.work(w));
                Some(Instr::RemoteSwap {
                    dst: dst?,
                    target: target?,
                    new: new?,
                    work,
                })
            }
        }
    }

    /// Returns the register that gets the result of an instruction.
    fn result(&mut self, name: &Name, what: &str) -> Option<Reg> {
        if self.globals.find(&name.text).is_some() {
            let message = format!(
                "`{}` is a location, but `{what}` gives its {} to a register",
                name.text,
                if what == "pollrecv" {
                    "immediate data"
                } else {
                    "old value"
                }
            );
            return self.refuse(Diagnostic::new(Kind::WrongOperand, name.span.clone(), message));
        }
        self.assigned(name)
    }

    fn swap(&mut self, dst: Option<&Name>, args: &SwapArgs) -> Option<Instr> {
        let loc = self.of_cpu(&args.target, "swap", "a CPU exchange", "v := rswap(x^2, e)");
        let new = self.expr(&args.new);
        let (loc, new) = (loc?, new?);
        let reg = match dst {
            Some(name) => Some(self.result(name, "swap")?),
            None => None,
        };
        Some(Instr::Swap { reg, loc, new })
    }

    /// Returns the location on which the CPU makes a read-modify-write.
    fn of_cpu(&mut self, target: &Place, word: &str, what: &str, of_card: &str) -> Option<Loc> {
        if let Some(number) = &target.node {
            let message = format!("`{word}` is the CPU's: it takes a local location");
            let diagnostic = Diagnostic::new(Kind::WrongOperand, number.span.clone(), message);
            let help = format!("the NIC's is `{of_card}` with a local location `v`");
            return self.refuse(diagnostic.help(help));
        }
        self.local(
            &target.name,
            &format!("{what} reaches only its thread's own node"),
        )
    }

    fn send(&mut self, stmt: &Stmt, n: &Number, data: Option<&Rhs>) -> Option<Instr> {
        let peer = node(n, self.globals, self.diagnostics);
        let src = match data {
            Some(data) => Some(self.source(stmt, data)?),
            None => None,
        };
        let (entry, done, at) = self.taken(stmt, peer)?;
        let buffer = self.queue(self.index, peer).buffers.get(at).cloned().flatten();
        let put = match (src, buffer) {
            (None, _) => None,
            (Some(src), Some(buffer)) => {
                // A name without a place, or one on another node, is reported where the receive is posted.
                let dst = self.globals.find(&buffer.text).filter(|(_, l)| l.node == peer)?.0;
                Some(Instr::Put { dst, src, work: None })
            }
            (Some(_), None) => {
                let message = "the receive that this send takes has no buffer for its data";
                return self.refuse(
                    Diagnostic::new(Kind::WrongOperand, stmt.span.clone(), message)
                        .help("give the receive a buffer, as in `recv(P0, x)`"),
                );
            }
        };
        Some(Instr::Message(Box::new(Message {
            put,
            send: true,
            immediate: Expr::Const(0),
            entry,
            done,
        })))
    }

    /// Adds immediate data to a put or a send.
    fn with_immediate(&mut self, stmt: &Stmt, instr: Instr, immediate: &Ast) -> Option<Instr> {
        let immediate = self.expr(immediate)?;
        match instr {
            Instr::Message(mut message) => {
                message.immediate = immediate;
                Some(Instr::Message(message))
            }
            Instr::Put { dst, .. } => {
                let peer = self.globals.locations[usize::from(dst.0)].node;
                let (entry, done, _) = self.taken(stmt, peer)?;
                Some(Instr::Message(Box::new(Message {
                    put: Some(instr),
                    send: false,
                    immediate,
                    entry,
                    done,
                })))
            }
            _ => self.refuse(
                Diagnostic::new(
                    Kind::WrongOperand,
                    stmt.span.clone(),
                    "only puts and sends carry immediate data",
                )
                .help("leave `imm` out"),
            ),
        }
    }

    fn queue(&mut self, sender: usize, node: Node) -> &mut Queue {
        self.globals.queues.entry((sender, node)).or_default()
    }

    /// Returns the words of the receive that a message takes, and its number.
    fn taken(&mut self, stmt: &Stmt, peer: Node) -> Option<(Loc, Loc, usize)> {
        if let Some(taken) = self.queue(self.index, peer).send() {
            return Some(taken);
        }
        let message = format!("no receive is left for this message at node {peer}: it would wait for ever");
        let help = format!(
            "post a receive there, as in `recv({}, x)`, for each message of the queue pair",
            self.thread
        );
        self.refuse(Diagnostic::new(Kind::WrongOperand, stmt.span.clone(), message).help(help))
    }

    /// Returns the thread that a receive names.
    fn sender(&self, from: &Name) -> Option<ThreadId> {
        // Another name has been reported.
        from.text.strip_prefix('P')?.parse().ok().map(ThreadId)
    }

    fn receive(&mut self, from: &Name, buffer: Option<&Name>) -> Option<Instr> {
        let buffer = match buffer {
            Some(name) => Some(self.local(name, "a receive has its buffer on the thread's own node")?),
            None => None,
        };
        let from = self.sender(from)?;
        let here = self.node;
        let entry = self.queue(usize::from(from.0), here).receive()?;
        Some(Instr::Recv { from, buffer, entry })
    }

    fn poll_receive(&mut self, reg: Option<Reg>, from: &Name) -> Option<Instr> {
        let sender = self.sender(from)?;
        let here = self.node;
        if let Some(done) = self.queue(usize::from(sender.0), here).poll() {
            return Some(Instr::PollRecv {
                reg,
                from: sender,
                done,
            });
        }
        let message = format!("this poll never succeeds: no message of {} is left", from.text);
        self.refuse(
            Diagnostic::new(Kind::WrongOperand, from.span.clone(), message)
                .help("each `pollrecv` takes one receive that a message takes"),
        )
    }

    fn put(&mut self, stmt: &Stmt, dst: &Place, work: Option<&Name>, rhs: &Rhs) -> Option<Instr> {
        let target = self.remote(dst);
        let src = self.source(stmt, rhs)?;
        let work = work.map(|w| self.work(w));
        Some(Instr::Put {
            dst: target?,
            src,
            work,
        })
    }

    /// Returns the source of a put or a send.
    fn source(&mut self, stmt: &Stmt, rhs: &Rhs) -> Option<PutSrc> {
        Some(match rhs {
            Rhs::Expr(Ast::Name(name)) if self.globals.find(&name.text).is_some() => {
                PutSrc::Loc(self.local(name, "a put reads its source from the thread's own node")?)
            }
            Rhs::Expr(expr) => PutSrc::Value(self.expr(expr)?),
            Rhs::Inline(expr) => PutSrc::Inline(self.expr(expr)?),
            _ => {
                let message = "the source of a put is a local location or an expression";
                return self.refuse(
                    Diagnostic::new(Kind::WrongOperand, stmt.span.clone(), message).help(
                        "one remote operation has one remote side: get into a local location, then put",
                    ),
                );
            }
        })
    }

    /// Resolves `dst := expr` by the CPU: a store, a load or a register assignment.
    fn cpu_assign(&mut self, dst: &Place, expr: &Ast) -> Option<Instr> {
        let source = match expr {
            Ast::Name(name) if self.globals.find(&name.text).is_some() => Some(name),
            _ => None,
        };
        if self.globals.find(&dst.name.text).is_some() {
            let loc = self.local(&dst.name, "a CPU store reaches only its thread's own node");
            if let Some(source) = source {
                let message = format!("`{}` and `{}` are both locations", dst.name.text, source.text);
                return self.refuse(
                    Diagnostic::new(Kind::WrongOperand, source.span.clone(), message)
                        .label("a second memory access")
                        .help(format!(
                            "a CPU instruction makes one access: `r := {}`, then `{} := r`",
                            source.text, dst.name.text
                        )),
                );
            }
            let value = self.expr(expr);
            return Some(Instr::Store {
                loc: loc?,
                value: value?,
            });
        }
        if let Some(source) = source {
            let loc = self.local(source, "a CPU load reaches only its thread's own node")?;
            return Some(Instr::Load {
                reg: self.assigned(&dst.name)?,
                loc,
            });
        }
        let value = self.expr(expr);
        let reg = self.assigned(&dst.name)?;
        Some(Instr::Assign { reg, value: value? })
    }

    fn cas(&mut self, dst: Option<&Name>, args: &CasArgs) -> Option<Instr> {
        let of_card = "v := rcas(x^2, e1, e2)";
        let loc = self.of_cpu(&args.target, "cas", "a CPU compare-and-swap", of_card);
        let (expected, new) = (self.expr(&args.expected), self.expr(&args.new));
        let (loc, expected, new) = (loc?, expected?, new?);
        let reg = match dst {
            Some(name) => Some(self.result(name, "cas")?),
            None => None,
        };
        Some(Instr::Cas {
            reg,
            loc,
            expected,
            new,
        })
    }

    /// Returns a location of the thread's own node.
    fn local(&mut self, name: &Name, rule: &str) -> Option<Loc> {
        let Some((loc, location)) = self.globals.find(&name.text) else {
            return self.refuse(unknown_location(self.globals, name));
        };
        if location.node == self.node {
            return Some(loc);
        }
        let (there, here) = (location.node.0 + 1, self.node.0 + 1);
        let message = format!(
            "`{}` is on node {there}, but {} runs on node {here}",
            name.text, self.thread
        );
        let declared = self.globals.declaration(loc).span.clone();
        self.refuse(
            Diagnostic::new(Kind::WrongNode, name.span.clone(), message)
                .label("not local")
                .related(declared, "placed here")
                .help(format!(
                    "{rule}; the NIC reaches the location as `{}^{there}`",
                    name.text
                )),
        )
    }

    /// Returns a location named with its node.
    fn remote(&mut self, place: &Place) -> Option<Loc> {
        let name = &place.name;
        let Some((loc, location)) = self.globals.find(&name.text) else {
            return self.refuse(unknown_location(self.globals, name));
        };
        let there = location.node;
        let Some(number) = &place.node else {
            let message = format!("`{}` needs its node", name.text);
            return self.refuse(
                Diagnostic::new(Kind::WrongOperand, name.span.clone(), message).help(format!(
                    "a remote operation names the node it goes to: `{}^{}`",
                    name.text,
                    there.0 + 1
                )),
            );
        };
        if node(number, self.globals, self.diagnostics) == there {
            return Some(loc);
        }
        let message = format!(
            "`{}` is on node {}, not on node {}",
            name.text,
            there.0 + 1,
            number.value
        );
        let declared = self.globals.declaration(loc).span.clone();
        self.refuse(
            Diagnostic::new(Kind::WrongNode, number.span.clone(), message)
                .related(declared, "placed here")
                .help(format!("write `{}^{}`", name.text, there.0 + 1)),
        )
    }

    /// Returns the local location in which a remote operation's result lands.
    fn landing(&mut self, name: &Name, what: &str) -> Option<Loc> {
        if self.globals.find(&name.text).is_some() {
            return self.local(name, &format!("{what} lands on the thread's own node"));
        }
        let message = format!("{what} lands in memory, but `{}` is no location", name.text);
        self.refuse(
            Diagnostic::new(Kind::WrongOperand, name.span.clone(), message)
                .label("taken for a register")
                .help(format!(
                    "place it in the init block: `{}@{}=0;`",
                    name.text,
                    self.node.0 + 1
                )),
        )
    }

    fn expr(&mut self, expr: &Ast) -> Option<Expr> {
        Some(match expr {
            Ast::Const(v) => Expr::Const(*v),
            Ast::Name(name) => Expr::Reg(self.used(name)?),
            Ast::Unary(op, e) => Expr::Unary(*op, Box::new(self.expr(e)?)),
            Ast::Binary(op, a, b) => {
                let (a, b) = (self.expr(a), self.expr(b));
                Expr::Binary(*op, Box::new(a?), Box::new(b?))
            }
        })
    }

    /// Returns the register that an instruction assigns.
    fn assigned(&mut self, name: &Name) -> Option<Reg> {
        match self.registers.add(name) {
            Ok(reg) => Some(reg),
            Err(_) => self.refuse(too_many_registers(name)),
        }
    }

    /// Returns a register that an expression reads.
    fn used(&mut self, name: &Name) -> Option<Reg> {
        if let Some(&reg) = self.registers.index.get(&name.text) {
            return Some(reg);
        }
        if self.globals.find(&name.text).is_some() {
            let message = format!("`{}` is a location; expressions compute on registers", name.text);
            return self.refuse(
                Diagnostic::new(Kind::WrongOperand, name.span.clone(), message)
                    .help(format!("load it first: `r := {}`", name.text)),
            );
        }
        let message = format!(
            "`{}` is neither a location nor a register that {} has assigned",
            name.text, self.thread
        );
        let known = self
            .registers
            .names
            .iter()
            .chain(self.globals.index.keys())
            .map(String::as_str);
        let help = match nearest(&name.text, known) {
            Some(known) => format!("did you mean `{known}`?"),
            None => "place locations in the init block; registers are private to a thread and start with an assignment"
                .to_owned(),
        };
        self.refuse(Diagnostic::new(Kind::UnknownRegister, name.span.clone(), message).help(help))
    }

    fn work(&mut self, name: &Name) -> WorkId {
        if let Some(&work) = self.work_index.get(&name.text) {
            return work;
        }
        // Instructions are bounded by INSTRUCTIONS_MAX, below u16::MAX.
        let work = WorkId(self.work_ids.len() as u16);
        self.work_index.insert(name.text.clone(), work);
        self.work_ids.push(name.text.clone());
        work
    }

    fn refuse<T>(&mut self, diagnostic: Diagnostic) -> Option<T> {
        self.diagnostics.push(diagnostic);
        None
    }
}
