//! Prints a [`Litmus`] as text.
//!
//! `parse(litmus.print())` gives back the same test if the test has the form that the parser makes: registers and work identifiers
//! in the order of their first appearance, as many nodes as the text mentions, and conjunctions of two parts or more. Another order of
//! registers is kept by declaring them in the init block.

use std::fmt::Write;

use super::layout::{self, Assigned, Column};
use super::{Dialect, Litmus};
use crate::program::{Expr, Instr, Loc, Message, Node, Program, PutSrc, Reg, Thread, ThreadId, WorkId};

impl Litmus {
    /// Returns the test as text, with the comments that `note` gives for a thread and the index of an instruction.
    pub fn print_with(&self, note: &dyn Fn(usize, usize) -> Option<String>) -> String {
        self.around(&print_program(&self.program, note))
    }
}

impl<P: Dialect> Litmus<P> {
    /// Returns the test as text.
    pub fn print(&self) -> String {
        self.around(&self.program.text())
    }

    /// Returns the test as text, given that of its program.
    fn around(&self, program: &str) -> String {
        let mut out = format!("{} {}\n", P::WORD, self.name);
        if let Some(description) = &self.description {
            let escaped = description.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = writeln!(out, "\"{escaped}\"");
        }
        out.push_str(program);
        if !self.observed.is_empty() {
            let names: Vec<String> = self
                .observed
                .iter()
                .map(|o| format!("{};", o.display(&self.program)))
                .collect();
            let _ = writeln!(out, "locations [{}]", names.join(" "));
        }
        for query in &self.queries {
            let _ = write!(out, "\n{}", query.print(&self.program));
        }
        out.push_str(&super::statement::print(&self.stated));
        out
    }
}

/// Computes a fingerprint of a program and its conditions for the `Hash=` line of reports: 128 bits of FNV-1a over the printed text, in
/// hexadecimal. It ignores layout, comments, description and everything stated.
pub fn fingerprint<P: Dialect>(litmus: &Litmus<P>) -> String {
    let mut text = litmus.program.text();
    for query in &litmus.queries {
        text.push_str(&query.condition.display(&litmus.program));
    }
    fingerprint_of(&text)
}

/// Computes the fingerprint of a text: 128 bits of FNV-1a in hexadecimal.
pub fn fingerprint_of(text: &str) -> String {
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in text.bytes() {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013B);
    }
    format!("{hash:032x}")
}

/// Prints init block, columns and rows, with comments.
pub(super) fn print_program(program: &Program, note: &dyn Fn(usize, usize) -> Option<String>) -> String {
    let column = |(t, thread): (usize, &Thread)| {
        let printer = ThreadPrinter { program, thread };
        let mut cells = vec![format!("{}@{}", thread.name, thread.node)];
        cells.extend(thread.code.iter().enumerate().map(|(index, instr)| {
            let comment = note(t, index).map_or(String::new(), |text| format!(" (* {text} *)"));
            printer.instr(instr) + &comment
        }));
        let mut assigned = Assigned::default();
        Column {
            cells,
            registers: &program.threads[t].registers,
            registers_follow: block_follows(&thread.code, &mut assigned)
                && assigned.is_all(thread.registers.len()),
        }
    };
    let columns: Vec<Column<'_>> = program.threads.iter().enumerate().map(column).collect();
    layout::program(&program.locations, &columns)
}

/// Prints one instruction of a thread in the language's syntax.
pub(crate) fn instruction(program: &Program, thread: &Thread, instr: &Instr) -> String {
    ThreadPrinter { program, thread }.instr(instr)
}

/// Prints one thread's code.
struct ThreadPrinter<'a> {
    program: &'a Program,
    thread: &'a Thread,
}

impl ThreadPrinter<'_> {
    fn loc(&self, loc: Loc) -> &str {
        self.program
            .locations
            .get(usize::from(loc.0))
            .map_or("?", |l| l.name.as_str())
    }

    /// Prints a remote location: `x^2`.
    fn remote(&self, loc: Loc) -> String {
        let node = self
            .program
            .locations
            .get(usize::from(loc.0))
            .map_or(0, |l| l.node.0);
        format!("{}^{}", self.loc(loc), node + 1)
    }

    fn reg(&self, reg: Reg) -> &str {
        layout::register(&self.thread.registers, reg)
    }

    fn work_name(&self, work: WorkId) -> &str {
        self.thread
            .work_ids
            .get(usize::from(work.0))
            .map_or("?", String::as_str)
    }

    /// Prints the assignment sign: `:=` or `:=[d]`.
    fn becomes(&self, work: Option<WorkId>) -> String {
        work.map_or_else(|| ":=".to_owned(), |w| format!(":=[{}]", self.work_name(w)))
    }

    fn thread_name(&self, thread: ThreadId) -> &str {
        let thread = self.program.threads.get(usize::from(thread.0));
        thread.map_or("?", |t| t.name.as_str())
    }

    fn source(&self, src: &PutSrc) -> String {
        match src {
            PutSrc::Loc(loc) => self.loc(*loc).to_owned(),
            PutSrc::Value(value) => self.expr(value),
            PutSrc::Inline(value) => format!("inline({})", self.expr(value)),
        }
    }

    fn message(&self, message: &Message) -> String {
        let text = match &message.put {
            Some(put) if !message.send => self.instr(put),
            put => {
                let node = self.program.locations.get(usize::from(message.entry.0));
                let node = node.map_or(1, |l| u32::from(l.node.0) + 1);
                match put {
                    Some(Instr::Put { src, .. }) => format!("send({node}, {})", self.source(src)),
                    _ => format!("send({node})"),
                }
            }
        };
        match &message.immediate {
            Expr::Const(0) if message.send => text,
            Expr::Const(0) => format!("imm {text}"),
            immediate => format!("imm({}) {text}", self.expr(immediate)),
        }
    }

    fn instr(&self, instr: &Instr) -> String {
        let node = |n: &Node| n.0 + 1;
        match instr {
            Instr::Store { loc, value } => format!("{} := {}", self.loc(*loc), self.expr(value)),
            Instr::Load { reg, loc } => format!("{} := {}", self.reg(*reg), self.loc(*loc)),
            Instr::Assign { reg, value } => format!("{} := {}", self.reg(*reg), self.expr(value)),
            Instr::Cas {
                reg,
                loc,
                expected,
                new,
            } => {
                let target = reg.map_or_else(String::new, |r| format!("{} := ", self.reg(r)));
                format!(
                    "{target}cas({}, {}, {})",
                    self.loc(*loc),
                    self.expr(expected),
                    self.expr(new)
                )
            }
            Instr::Mfence => "mfence".to_owned(),
            Instr::Swap { reg, loc, new } => {
                let target = reg.map_or_else(String::new, |r| format!("{} := ", self.reg(r)));
                format!("{target}swap({}, {})", self.loc(*loc), self.expr(new))
            }
            Instr::Recv { from, buffer, .. } => {
                let buffer = buffer.map_or_else(String::new, |b| format!(", {}", self.loc(b)));
                format!("recv({}{buffer})", self.thread_name(*from))
            }
            Instr::PollRecv { reg, from, .. } => {
                let target = reg.map_or_else(String::new, |r| format!("{} := ", self.reg(r)));
                format!("{target}pollrecv({})", self.thread_name(*from))
            }
            Instr::Message(message) => self.message(message),
            Instr::Put { dst, src, work } => {
                let src = self.source(src);
                format!("{} {} {src}", self.remote(*dst), self.becomes(*work))
            }
            Instr::Get { dst, src, work } => {
                format!("{} {} {}", self.loc(*dst), self.becomes(*work), self.remote(*src))
            }
            Instr::RemoteFaa {
                dst,
                target,
                add,
                work,
            } => {
                let call = format!("rfaa({}, {})", self.remote(*target), self.expr(add));
                format!("{} {} {call}", self.loc(*dst), self.becomes(*work))
            }
            Instr::RemoteCas {
                dst,
                target,
                expected,
                new,
                work,
            } => {
                let (expected, new) = (self.expr(expected), self.expr(new));
                let call = format!("rcas({}, {expected}, {new})", self.remote(*target));
                format!("{} {} {call}", self.loc(*dst), self.becomes(*work))
            }
            Instr::RemoteSwap {
                dst,
                target,
                new,
                work,
            } => {
                let call = format!("rswap({}, {})", self.remote(*target), self.expr(new));
                format!("{} {} {call}", self.loc(*dst), self.becomes(*work))
            }
            Instr::Poll { node: n } => format!("poll({})", node(n)),
            Instr::Rfence { node: n } => format!("rfence({})", node(n)),
            Instr::Strong(operation) => format!("strong {}", self.instr(operation)),
            Instr::Unsignaled(operation) => format!("unsignaled {}", self.instr(operation)),
            Instr::Wait { work } => format!("wait({})", self.work_name(*work)),
            Instr::Assume(e) => format!("assume({})", self.expr(e)),
            Instr::If {
                cond,
                then,
                otherwise,
            } => {
                let mut text = format!("if ({}) {}", self.expr(cond), self.block(then));
                if !otherwise.is_empty() {
                    let _ = write!(text, " else {}", self.block(otherwise));
                }
                text
            }
            Instr::While { cond, body, bound } => {
                format!("while ({}) bound {bound} {}", self.expr(cond), self.block(body))
            }
            Instr::Choose(blocks) => {
                let blocks: Vec<String> = blocks.iter().map(|b| self.block(b)).collect();
                format!("choose {}", blocks.join(" or "))
            }
        }
    }

    fn block(&self, block: &[Instr]) -> String {
        let code: Vec<String> = block.iter().map(|i| self.instr(i)).collect();
        if code.is_empty() {
            "{ }".to_owned()
        } else {
            format!("{{ {} }}", code.join("; "))
        }
    }

    fn expr(&self, expr: &Expr) -> String {
        layout::expr(&self.thread.registers, expr)
    }
}

/// Follows a block in the resolver's order. Returns whether each register is assigned before it is read, in the order of their
/// numbers.
fn block_follows(block: &[Instr], seen: &mut Assigned) -> bool {
    block.iter().all(|instr| match instr {
        Instr::Store { value, .. } => seen.has(value),
        Instr::Load { reg, .. } => seen.assign(*reg),
        Instr::Assign { reg, value } => seen.has(value) && seen.assign(*reg),
        Instr::Cas {
            reg, expected, new, ..
        } => seen.has(expected) && seen.has(new) && reg.is_none_or(|r| seen.assign(r)),
        Instr::Swap { reg, new, .. } => seen.has(new) && reg.is_none_or(|r| seen.assign(r)),
        Instr::PollRecv { reg, .. } => reg.is_none_or(|r| seen.assign(r)),
        Instr::Message(message) => {
            message
                .put
                .iter()
                .all(|put| block_follows(std::slice::from_ref(put), seen))
                && seen.has(&message.immediate)
        }
        Instr::Put {
            src: PutSrc::Value(e) | PutSrc::Inline(e),
            ..
        }
        | Instr::RemoteFaa { add: e, .. }
        | Instr::RemoteSwap { new: e, .. }
        | Instr::Assume(e) => seen.has(e),
        Instr::RemoteCas { expected, new, .. } => seen.has(expected) && seen.has(new),
        Instr::If {
            cond,
            then,
            otherwise,
        } => seen.has(cond) && block_follows(then, seen) && block_follows(otherwise, seen),
        Instr::While { cond, body, .. } => block_follows(body, seen) && seen.has(cond),
        Instr::Choose(blocks) => blocks.iter().all(|b| block_follows(b, seen)),
        Instr::Strong(operation) | Instr::Unsignaled(operation) => {
            block_follows(std::slice::from_ref(operation), seen)
        }
        Instr::Mfence | Instr::Put { .. } | Instr::Get { .. } | Instr::Recv { .. } => true,
        Instr::Poll { .. } | Instr::Rfence { .. } | Instr::Wait { .. } => true,
    })
}
