//! The receive queues of a test: which message takes which receive.
//!
//! A queue pair delivers its messages in order, and each takes the oldest receive. So the order of the text decides, as long as no branch
//! has a message: the message number `n` of a thread to a node takes the receive number `n` that is posted there for it. Every receive and
//! every completion has a word of its own at the receiver's node ([`crate::program::Message`]).

use super::ast::{self, Rhs, Stmt, StmtKind};
use super::receive_queues::{Queue, Queues};
use super::symbols::Globals;
use crate::program::{Loc, Location, NOT_DONE, Node};
use crate::syntax::limits::LOCATIONS_MAX;
use crate::syntax::{Diagnostic, Kind, Name, Span};

/// The use of a receive queue by a statement.
enum Use<'s> {
    Message(u8),
    Receive(&'s Name, Option<&'s Name>),
    Poll(&'s Name),
}

fn uses(stmt: &Stmt) -> Option<Use<'_>> {
    // Nodes are written from 1. One out of range is refused elsewhere.
    let node = |n: &crate::syntax::Number| u8::try_from(n.value - 1).ok().map(Use::Message);
    match &stmt.kind {
        StmtKind::Send { node: n, .. } => node(n),
        StmtKind::Assign { dst, .. } if stmt.immediate.is_some() => node(dst.node.as_ref()?),
        StmtKind::Recv { from, buffer } => Some(Use::Receive(from, buffer.as_ref())),
        StmtKind::PollRecv(from)
        | StmtKind::Assign {
            rhs: Rhs::PollRecv(from),
            ..
        } => Some(Use::Poll(from)),
        _ => None,
    }
}

/// Finds the receive queues of a test and places their words.
pub(super) fn find(
    file: &ast::File,
    nodes: &[Node],
    globals: &mut Globals,
    diagnostics: &mut Vec<Diagnostic>,
) -> Queues {
    let mut queues = Queues::new();
    let mut refuse = |span: &Span, message: String, help: &str| {
        diagnostics.push(Diagnostic::new(Kind::WrongOperand, span.clone(), message).help(help));
    };
    for (t, &here) in nodes.iter().enumerate() {
        let cells = file.rows.iter().filter_map(|row| row.cells.get(t)?.as_ref());
        for stmt in cells.flat_map(Stmt::each) {
            if let Some(inner) = nested(stmt) {
                let message = "messages and receives stand outside of blocks, so that it is known which message takes which receive";
                refuse(
                    &inner.span,
                    message.to_owned(),
                    "write it before or behind the block",
                );
            }
            let (key, from) = match uses(stmt) {
                None => continue,
                Some(Use::Message(node)) => ((t, Node(node)), None),
                Some(Use::Receive(from, _) | Use::Poll(from)) => {
                    let Some(sender) = file.columns.iter().position(|c| c.name.text == from.text) else {
                        refuse(
                            &from.span,
                            format!("there is no thread `{}`", from.text),
                            "name the thread that sends, as in `recv(P0, x)`",
                        );
                        continue;
                    };
                    ((sender, here), Some(from))
                }
            };
            let queue: &mut Queue = queues.entry(key).or_default();
            if let Some(from) = from
                && *queue.receiver.get_or_insert(t) != t
            {
                let message = format!("two threads take the messages of `{}`", from.text);
                refuse(
                    &from.span,
                    message,
                    "let one thread of the node post and poll the receives of a queue pair",
                );
            }
            match uses(stmt) {
                Some(Use::Message(_)) => queue.messages += 1,
                Some(Use::Receive(_, buffer)) => queue.buffers.push(buffer.cloned()),
                Some(Use::Poll(_)) | None => {}
            }
        }
    }
    for (&(sender, node), queue) in &mut queues {
        let mut place = |what: &str, n: usize, init: i64| {
            // Beyond the limit the statement that needs the word is refused.
            if globals.locations.len() >= LOCATIONS_MAX {
                return None;
            }
            globals.locations.push(Location {
                name: format!("P{sender}>{node}.{what}{}", n + 1),
                node,
                init,
                relaxed: false,
            });
            // Bounded by LOCATIONS_MAX.
            Some(Loc((globals.locations.len() - 1) as u16))
        };
        queue.entries = (0..queue.buffers.len())
            .map_while(|n| place("recv", n, 0))
            .collect();
        let dones = queue.messages.min(queue.buffers.len());
        queue.dones = (0..dones).map_while(|n| place("done", n, NOT_DONE)).collect();
    }
    queues
}

/// Returns a statement in the blocks of another that uses a receive queue.
fn nested(stmt: &Stmt) -> Option<&Stmt> {
    let blocks: Vec<&Vec<Stmt>> = match &stmt.kind {
        StmtKind::If { then, otherwise, .. } => vec![then, otherwise],
        StmtKind::While { body, .. } => vec![body],
        StmtKind::Choose(blocks) => blocks.iter().collect(),
        _ => Vec::new(),
    };
    let inner = blocks.into_iter().flatten().flat_map(Stmt::each);
    inner
        .map(|s| if uses(s).is_some() { Some(s) } else { nested(s) })
        .find_map(|found| found)
}
