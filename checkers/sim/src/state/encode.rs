//! Encodes states exactly. The keys of the visited set are made from the encodings.

use super::{State, Status, Thread};

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
            t.encode(out, awake);
        }
        self.encode_rest(out, |writer| writer);
    }

    /// Appends an encoding that all states have in common which are permutations of one another
    /// ([symmetric threads](super::symmetry)). `awake` is that of [`encode`](State::encode).
    pub(crate) fn encode_up_to_symmetry(&self, out: &mut Vec<u8>, awake: bool) {
        if !self.has_symmetric() {
            return self.encode(out, awake);
        }
        self.machine.encode_words(out);
        out.extend_from_slice(&(self.locks.len() as u32).to_le_bytes());
        let encoded = |(number, t): (u16, &Thread)| {
            let mut out = Vec::new();
            self.machine.encode_thread(number, &mut out);
            t.encode(&mut out, awake);
            let held = self
                .locks
                .iter()
                .map(|lock| u8::from(lock.writer == Some(number)));
            out.extend(held);
            out
        };
        let mut encodings: Vec<Vec<u8>> = (0..).zip(&self.threads).map(encoded).collect();
        self.sort_interchangeable(&mut encodings);
        encodings
            .iter()
            .for_each(|encoding| out.extend_from_slice(encoding));
        // The encoding of each thread says which locks it holds, so the locks do not name their holders.
        self.encode_rest(out, |writer| writer.map(|_| 0));
    }

    /// Appends the encoding of what belongs to no thread. `named` returns how the encoding names the holder of a lock.
    fn encode_rest(&self, out: &mut Vec<u8>, named: impl Fn(Option<u16>) -> Option<u16>) {
        self.losses.encode(out);
        for lock in &self.locks {
            let writer = named(lock.writer).unwrap_or(u16::MAX);
            out.extend_from_slice(&writer.to_le_bytes());
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

impl Thread {
    fn encode(&self, out: &mut Vec<u8>, awake: bool) {
        out.extend_from_slice(&self.past.0.to_le_bytes());
        let failed_purely = self.wait.as_ref().is_some_and(|wait| wait.failed.is_some());
        let status = if awake && self.status == Status::Parked && failed_purely {
            Status::Ready
        } else {
            self.status
        };
        out.push(status as u8);
        out.extend_from_slice(&self.finished.to_le_bytes());
        // An evaluation under way is part of the past, and so is the deadline of its wait. A parked
        // evaluation is described by what it looked at.
        if let (Status::Parked, Some(wait)) = (status, &self.wait) {
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
}
