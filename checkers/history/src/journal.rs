//! Records calls into a file that survives the process, for tests that kill nodes. Relies on a clock and a writer; used by one
//! thread at a time.

use std::io::{self, BufRead, Read as _, Write};
use std::marker::PhantomData;

use rustc_hash::FxHashMap;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Clock, History, HistoryError, Invocation, Operation, Response, Result, ThreadId};

/// The longest record that is read. A device gives bytes without end.
const RECORD_BYTES_MAX: u64 = 64 << 20;

/// Records the calls of one thread as lines of JSON. Each line is written before the call goes on, so that after the process is
/// killed, the operation that it was in is in the file as pending.
///
/// The writer must be unbuffered (a `File`, say), because only what has reached the kernel survives the process. An
/// operation costs a system call at each end; a [`Recorder`](crate::Recorder) is cheaper.
#[derive(Debug)]
pub struct Journal<C, R, K, W> {
    thread: ThreadId,
    clock: K,
    out: W,
    invocations: usize,
    line: Vec<u8>,
    types: PhantomData<fn(C, R)>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Record<C, R> {
    Invoke {
        id: u64,
        thread: ThreadId,
        at: u64,
        call: C,
    },
    Respond {
        id: u64,
        at: u64,
        result: R,
    },
}

impl<C: Serialize, R: Serialize, K: Clock, W: Write> Journal<C, R, K, W> {
    /// Makes a journal of `thread` that appends to `out`.
    pub fn new(thread: ThreadId, clock: K, out: W) -> Self {
        Journal {
            thread,
            clock,
            out,
            invocations: 0,
            line: Vec::new(),
            types: PhantomData,
        }
    }

    /// Records that `call` is about to begin.
    ///
    /// # Errors
    /// Fails if the writer failed. The call should not be made, because the history would miss it.
    pub fn invoke(&mut self, call: C) -> Result<Invocation> {
        let id = self.invocations;
        let (thread, at) = (self.thread, self.clock.now());
        self.append(&Record::<C, R>::Invoke {
            id: id as u64,
            thread,
            at,
            call,
        })?;
        self.invocations += 1;
        Ok(Invocation(id))
    }

    /// Records that the call ended with `result`.
    ///
    /// # Errors
    /// Fails if the writer failed; the operation counts as pending.
    pub fn respond(&mut self, invocation: Invocation, result: R) -> Result<()> {
        let at = self.clock.now();
        self.append(&Record::<C, R>::Respond {
            id: invocation.0 as u64,
            at,
            result,
        })
    }

    fn append(&mut self, record: &Record<C, R>) -> Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, record).map_err(io::Error::from)?;
        self.line.push(b'\n');
        // Each line is one write, so a kill cuts at most the last line.
        self.out.write_all(&self.line)?;
        self.out.flush()?;
        Ok(())
    }
}

/// Reads back the journal of one thread. A last line without its end is dropped, because the process died while it wrote it.
///
/// # Errors
/// Fails if the reader failed, if a line is longer than 64 MiB or not a record of these types, or if a response answers no open
/// invocation.
pub fn read_journal<C: DeserializeOwned, R: DeserializeOwned>(
    mut input: impl BufRead,
) -> Result<History<C, R>> {
    let mut operations: Vec<Operation<C, R>> = Vec::new();
    let mut open: FxHashMap<u64, usize> = FxHashMap::default();
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        (&mut input)
            .take(RECORD_BYTES_MAX)
            .read_until(b'\n', &mut bytes)?;
        if bytes.len() as u64 == RECORD_BYTES_MAX && bytes.last() != Some(&b'\n') {
            let text = format!(
                "line {line} has more than {} MiB, and is no record",
                RECORD_BYTES_MAX >> 20
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, text).into());
        }
        if bytes.last() != Some(&b'\n') {
            break;
        }
        let record =
            serde_json::from_slice(&bytes).map_err(|source| HistoryError::Malformed { line, source })?;
        match record {
            Record::Invoke { id, thread, at, call } => {
                open.insert(id, operations.len());
                operations.push(Operation::pending(thread, call, at));
            }
            Record::Respond { id, at, result } => {
                let index = open.remove(&id).ok_or(HistoryError::Unmatched { line, id })?;
                operations[index].response = Some(Response { result, at });
            }
        }
    }
    Ok(History { operations })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_without_an_end_is_refused() {
        let endless = io::BufReader::with_capacity(1 << 20, io::repeat(b'x'));
        let error = read_journal::<u64, u64>(endless).unwrap_err();
        assert!(
            error.to_string().contains("line 1 has more than 64 MiB"),
            "{error}"
        );
        // As a main that returns it prints it.
        assert_eq!(format!("{error:?}"), error.to_string());
    }
}
