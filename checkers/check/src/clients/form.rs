//! Chooses the shipped object that stands for a library if several do.

use super::channel::Own;
use crate::Object;

/// The owned variable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnedForm {
    /// `OwnedVar`, of a word.
    #[default]
    Word,
    /// `WideOwnedVar`, of two words.
    Wide,
}

/// The lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockForm {
    /// `TicketLock`.
    #[default]
    Ticket,
    /// `TasLock`.
    Tas,
}

/// The configuration of the ring buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RingForm {
    /// Puts records and heads inline, which is the default.
    #[default]
    Usual,
    /// Puts records and heads from registered memory and acknowledges every message, as in LOCO'26 Fig. 14.
    FromMemory,
}

/// The shipped objects that a client runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Form {
    /// The form of owned variables.
    pub owned: OwnedForm,
    /// The form of locks.
    pub lock: LockForm,
    /// The form of ring buffers.
    pub ring: RingForm,
    /// A channel of the caller's own that replaces a library's object.
    pub own: Option<Own>,
}

impl Form {
    /// Returns every form in which clients of an object run.
    pub fn of(object: Object) -> Vec<Form> {
        let usual = Form::default();
        match object {
            Object::WideOwnedVar => vec![Form {
                owned: OwnedForm::Wide,
                ..usual
            }],
            Object::TasLock => vec![Form {
                lock: LockForm::Tas,
                ..usual
            }],
            Object::RingBuffer => vec![
                usual,
                Form {
                    ring: RingForm::FromMemory,
                    ..usual
                },
            ],
            _ => vec![usual],
        }
    }

    /// Describes the unusual parts of the form, for reports. The text is empty if there are none.
    pub fn about(&self) -> String {
        let mut about = Vec::new();
        if self.owned == OwnedForm::Wide {
            about.push("wide owned variables");
        }
        if self.lock == LockForm::Tas {
            about.push("test-and-set locks");
        }
        if self.ring == RingForm::FromMemory {
            about.push("ring buffers from registered memory");
        }
        about.join(", ")
    }
}
