//! Reads declarations of objects, and checks that each has the parameters that its kind needs.

use mowgli::program::{Node, ThreadId};
use mowgli::syntax::{Kind, Name};

use super::ObjectKind;
use super::method::Library;
use super::parse::Declaration;
use super::resolve::Resolver;

/// The most cells of a ring, words of a mixed-size location, or values of a queue.
const SIZE_MAX: i64 = 1024;

impl Resolver {
    fn thread_set(&mut self, names: &[Name]) -> Vec<ThreadId> {
        let mut out: Vec<ThreadId> = names.iter().filter_map(|n| self.thread(n)).collect();
        out.sort_unstable();
        let before = out.len();
        out.dedup();
        if out.len() != before {
            let span = names.first().map_or(0..0, |n| n.span.clone());
            self.error(
                Kind::Duplicate,
                &span,
                "a thread is named twice",
                "name each thread once",
            );
        }
        out
    }

    fn size(&mut self, d: &Declaration, least: i64) -> Option<u32> {
        let keyword = d.library.keyword().unwrap_or_default();
        let Some(size) = &d.size else {
            let message = format!("{keyword} `{}` has no size", d.name.text);
            self.error(Kind::Syntax, &d.span, message, "state it at the end: `size 4`");
            return None;
        };
        if !(least..=SIZE_MAX).contains(&size.value) {
            let message = format!("the size of `{}` cannot be {}", d.name.text, size.value);
            self.error(
                Kind::OutOfRange,
                &size.span,
                message,
                format!("{least} to {SIZE_MAX}"),
            );
            return None;
        }
        u32::try_from(size.value).ok()
    }

    fn placed(&mut self, d: &Declaration) -> Option<Node> {
        let keyword = d.library.keyword().unwrap_or_default();
        match &d.node {
            Some(node) => Some(self.node(node)),
            None => {
                let message = format!("{keyword} `{}` has no node", d.name.text);
                self.error(
                    Kind::Syntax,
                    &d.span,
                    message,
                    format!("write `{keyword} {}@1`", d.name.text),
                );
                None
            }
        }
    }

    /// Returns the kind of object that a declaration declares.
    pub(super) fn kind(&mut self, d: &Declaration) -> Option<ObjectKind> {
        if let Some(what) = superfluous(d) {
            let keyword = d.library.keyword().unwrap_or_default();
            let message = format!("{keyword} `{}` takes no {what}", d.name.text);
            let help = "docs/clients.md has the form of each declaration";
            self.error(Kind::Syntax, &d.span, message, help);
            return None;
        }
        Some(match d.library {
            Library::RdmaWait | Library::Fence => return None,
            Library::SharedVariable => ObjectKind::SharedVariable,
            Library::Sst => ObjectKind::Sst,
            Library::Store => ObjectKind::Store,
            Library::Barrier => return self.barrier(d),
            Library::RingBuffer => return self.ring(d),
            Library::MixedSize => {
                let node = self.placed(d);
                let size = self.size(d, 1);
                ObjectKind::MixedSize {
                    node: node?,
                    size: size?,
                }
            }
            Library::MixedVariable => ObjectKind::MixedVariable {
                size: self.size(d, 1)?,
            },
            Library::Owned => ObjectKind::Owned {
                owner: self.placed(d)?,
            },
            Library::Atomic => ObjectKind::Atomic {
                node: self.placed(d)?,
                init: d.init.as_ref().map_or(0, |n| n.value),
            },
            Library::Lock => ObjectKind::Lock {
                node: self.placed(d)?,
            },
            Library::Queue => {
                let node = self.placed(d);
                let size = self.size(d, 1);
                ObjectKind::Queue {
                    node: node?,
                    size: size?,
                }
            }
        })
    }

    fn barrier(&mut self, d: &Declaration) -> Option<ObjectKind> {
        if d.threads.is_empty() {
            let message = format!("barrier `{}` has no participants", d.name.text);
            let help = format!("name them: `barrier {}: P0, P1`", d.name.text);
            self.error(Kind::Syntax, &d.span, message, help);
            return None;
        }
        Some(ObjectKind::Barrier {
            participants: self.thread_set(&d.threads),
        })
    }

    fn ring(&mut self, d: &Declaration) -> Option<ObjectKind> {
        let (1, false) = (d.threads.len(), d.readers.is_empty()) else {
            let message = format!("ring `{}` needs one writer and some readers", d.name.text);
            let help = format!("write `ring {}: P0 -> P1, P2 size 4`", d.name.text);
            self.error(Kind::Syntax, &d.span, message, help);
            return None;
        };
        let writer = self.thread(&d.threads[0]);
        let readers = self.thread_set(&d.readers);
        let size = self.size(d, 1);
        Some(ObjectKind::Ring {
            writer: writer?,
            readers,
            size: size?,
        })
    }
}

/// Returns the first part that a declaration gives and its library does not take.
fn superfluous(d: &Declaration) -> Option<&'static str> {
    use Library::{Atomic, Barrier, Lock, MixedSize, MixedVariable, Owned, Queue, RingBuffer};
    let parts: [(bool, &[Library], &str); 5] = [
        (d.node.is_some(), &[MixedSize, Owned, Atomic, Lock, Queue], "node"),
        (d.init.is_some(), &[Atomic], "initial value"),
        (!d.threads.is_empty(), &[Barrier, RingBuffer], "threads"),
        (!d.readers.is_empty(), &[RingBuffer], "readers"),
        (
            d.size.is_some(),
            &[RingBuffer, MixedSize, MixedVariable, Queue],
            "size",
        ),
    ];
    let refused = |&&(given, takers, _): &&(bool, &[Library], &str)| given && !takers.contains(&d.library);
    parts.iter().find(refused).map(|&(_, _, what)| what)
}
