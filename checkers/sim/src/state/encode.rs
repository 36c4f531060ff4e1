//! Encodes states exactly. The keys of the visited set are made from the encodings.

use super::{State, Status};

impl State {
    /// Returns true if a thread is parked after an evaluation that only read.
    pub(crate) fn stutters(&self) -> bool {
        self.threads
            .iter()
            .any(|t| t.status == Status::Parked && t.wait.as_ref().is_some_and(|w| w.failed.is_some()))
    }

    /// Appends an exact encoding: equal states have equal encodings. With `awake`, threads that are parked after an
    /// evaluation that only read are encoded as being about to evaluate.
    pub(crate) fn encode(&self, out: &mut Vec<u8>, awake: bool) {
        self.machine.encode(out);
        for t in &self.threads {
            out.extend_from_slice(&t.past.0.to_le_bytes());
            let failed_purely = t.wait.as_ref().is_some_and(|wait| wait.failed.is_some());
            let status = if awake && t.status == Status::Parked && failed_purely {
                Status::Ready
            } else {
                t.status
            };
            out.push(status as u8);
            out.extend_from_slice(&t.finished.to_le_bytes());
            // An evaluation under way is part of the past, and so is the deadline of its wait. A parked
            // evaluation is described by what it looked at.
            if let (Status::Parked, Some(wait)) = (status, &t.wait) {
                out.push(u8::from(wait.polled));
                if let Some((clock, lost)) = wait.looked {
                    out.extend_from_slice(&clock.to_le_bytes());
                    out.extend_from_slice(&lost.bits().to_le_bytes());
                }
                out.push(wait.reads.len() as u8);
                for (word, value) in &wait.reads {
                    out.extend_from_slice(&word.0.to_le_bytes());
                    out.extend_from_slice(&value.to_le_bytes());
                }
            }
        }
        self.losses.encode(out);
        for lock in &self.locks {
            out.extend_from_slice(&lock.writer.map_or(u16::MAX, |w| w).to_le_bytes());
            out.extend_from_slice(&lock.readers.to_le_bytes());
            out.extend_from_slice(&lock.version.to_le_bytes());
        }
        for mailbox in self.mail.iter() {
            out.push(u8::from(mailbox.closed));
            out.extend_from_slice(&(mailbox.messages.len() as u32).to_le_bytes());
            for (from, payload) in &mailbox.messages {
                out.extend_from_slice(&from.to_le_bytes());
                out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
                out.extend_from_slice(payload);
            }
        }
    }
}
