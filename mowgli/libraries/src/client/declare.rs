//! Reads declarations of objects, and checks that each has the parameters that its kind needs.

use mowgli::litmus::Kind;
use mowgli::litmus::syntax::Name;
use mowgli::program::{Node, ThreadId};

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
        let keyword = d.library.keyword().unwrap_or_default();
        let takes = |library: &[Library]| library.contains(&d.library);
        for (given, allowed, what) in [
            (
                d.node.is_some(),
                takes(&[
                    Library::MixedSize,
                    Library::Owned,
                    Library::Atomic,
                    Library::Lock,
                    Library::Queue,
                ]),
                "a node",
            ),
            (d.init.is_some(), takes(&[Library::Atomic]), "an initial value"),
            (
                !d.threads.is_empty(),
                takes(&[Library::Barrier, Library::RingBuffer]),
                "threads",
            ),
            (!d.readers.is_empty(), takes(&[Library::RingBuffer]), "readers"),
            (
                d.size.is_some(),
                takes(&[Library::RingBuffer, Library::MixedSize, Library::Queue]),
                "a size",
            ),
        ] {
            if given && !allowed {
                let message = format!(
                    "{keyword} `{}` takes no {}",
                    d.name.text,
                    &what[what.find(' ').map_or(0, |n| n + 1)..]
                );
                self.error(
                    Kind::Syntax,
                    &d.span,
                    message,
                    "docs/clients.md has the form of each declaration",
                );
                return None;
            }
        }
        Some(match d.library {
            Library::RdmaWait | Library::Fence => return None,
            Library::SharedVariable => ObjectKind::SharedVariable,
            Library::Sst => ObjectKind::Sst,
            Library::Store => ObjectKind::Store,
            Library::Barrier => {
                if d.threads.is_empty() {
                    let message = format!("barrier `{}` has no participants", d.name.text);
                    let help = format!("name them: `barrier {}: P0, P1`", d.name.text);
                    self.error(Kind::Syntax, &d.span, message, help);
                    return None;
                }
                ObjectKind::Barrier {
                    participants: self.thread_set(&d.threads),
                }
            }
            Library::RingBuffer => {
                let (1, false) = (d.threads.len(), d.readers.is_empty()) else {
                    let message = format!("ring `{}` needs one writer and some readers", d.name.text);
                    let help = format!("write `ring {}: P0 -> P1, P2 size 4`", d.name.text);
                    self.error(Kind::Syntax, &d.span, message, help);
                    return None;
                };
                let writer = self.thread(&d.threads[0]);
                let readers = self.thread_set(&d.readers);
                let size = self.size(d, 1);
                ObjectKind::Ring {
                    writer: writer?,
                    readers,
                    size: size?,
                }
            }
            Library::MixedSize => {
                let node = self.placed(d);
                let size = self.size(d, 1);
                ObjectKind::MixedSize {
                    node: node?,
                    size: size?,
                }
            }
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
}
