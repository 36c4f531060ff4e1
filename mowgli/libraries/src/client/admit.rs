//! Checks what libraries demand of the thread that calls them. A call that breaks a demand has no execution
//! in the papers (LOCO'26 F.2 "respects nodes", Defs. 4.1, 5.2, G.11), so a text with such a call is refused.

use mowgli::program::ThreadId;

use super::method::Method;
use super::{Arg, Call, Expr, Object, ObjectKind, Thread};

/// The reason why a call is refused.
pub(super) struct Refusal {
    pub(super) message: String,
    pub(super) help: String,
}

/// Returns why `thread` may not make the call, or `None` if it may.
pub(super) fn refusal(
    call: &Call,
    objects: &[Object],
    threads: &[Thread],
    thread: ThreadId,
) -> Option<Refusal> {
    let object = |at: usize| match call.args.get(at) {
        Some(Arg::Object(id)) => objects.get(usize::from(id.0)),
        _ => None,
    };
    let node = threads.get(usize::from(thread.0))?.node;
    let refuse = |message: String, help: &str| {
        Some(Refusal {
            message,
            help: help.to_owned(),
        })
    };
    // The local location of a call is on the caller's node.
    let local = match call.method.plain() {
        Method::Write | Method::Read | Method::Cas | Method::Get | Method::RemoteFaa | Method::RemoteCas => {
            Some(0)
        }
        Method::WriteMsw | Method::TryReadMsw | Method::GetMsw => Some(0),
        Method::Put | Method::PutMsw => Some(1),
        _ => None,
    };
    if let Some(object) = local.and_then(object)
        && let ObjectKind::Word { node: home, .. } | ObjectKind::MixedSize { node: home, .. } = object.kind
        && home != node
    {
        let message = format!(
            "`{}` is on node {home}, but thread P{} runs on node {node}",
            object.name, thread.0
        );
        return refuse(
            message,
            "the local location of a call is on the thread's own node; use put or get",
        );
    }
    let first = object(0)?;
    match (&first.kind, call.method) {
        (ObjectKind::Barrier { participants }, _) if !participants.contains(&thread) => refuse(
            format!(
                "thread P{} does not take part in barrier `{}`",
                thread.0, first.name
            ),
            "add it to the barrier's threads",
        ),
        (ObjectKind::Ring { writer, .. }, Method::Submit) if *writer != thread => refuse(
            format!("thread P{} is not the writer of ring `{}`", thread.0, first.name),
            "only the thread before `->` submits",
        ),
        (ObjectKind::Ring { readers, .. }, Method::Receive) if !readers.contains(&thread) => refuse(
            format!("thread P{} is not a reader of ring `{}`", thread.0, first.name),
            "add it to the threads after `->`",
        ),
        (ObjectKind::Owned { owner }, Method::StoreOwned | Method::PushOwned) if *owner != node => refuse(
            format!(
                "thread P{} is not on the node that owns `{}`",
                thread.0, first.name
            ),
            "only threads of the owner store and push",
        ),
        (
            ObjectKind::MixedSize { size, .. } | ObjectKind::MixedVariable { size },
            Method::WriteMsw | Method::WriteMsv,
        ) => {
            let words = match call.args.get(1) {
                Some(Arg::Value(Expr::Tuple(parts))) => parts.len(),
                Some(Arg::Value(Expr::Const(value))) => value.words().len(),
                _ => return None,
            };
            let message = format!("`{}` has {size} words, the value {words}", first.name);
            (words != *size as usize).then_some(())?;
            refuse(message, "a value of several words is `[1, 2]`")
        }
        (ObjectKind::MixedSize { size, .. }, Method::GetMsw | Method::PutMsw) => {
            let second = object(1)?;
            let ObjectKind::MixedSize { size: other, .. } = second.kind else {
                return None;
            };
            let message = format!("`{}` has {size} words, `{}` has {other}", first.name, second.name);
            (other != *size).then_some(())?;
            refuse(message, "both locations of a put or get have one size")
        }
        _ => None,
    }
}
