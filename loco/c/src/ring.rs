//! The ring buffer: `loco_ring`, `loco_ring_writer`, `loco_ring_reader`.

use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use loco::fabric::NodeId;
use loco::{RingBuffer, RingConfig};

use crate::border::{Need, New, Out, bytes, bytes_mut, call, free, handle, hold, node_ids, run};
use crate::status::{AGAIN, BUFFER_TOO_SMALL, Failure, OK, Status};
use crate::thread::{Access, Thread};

/// A ring buffer's endpoint, as C holds it.
pub struct Ring(Arc<RingBuffer>);

/// Its writer, and the ring buffer to which it is returned.
pub struct RingWriter(Mutex<loco::RingWriter>, Arc<RingBuffer>);

/// One of its readers.
pub struct RingReader(Mutex<Reading>);

/// A reader and the message that it has received last.
struct Reading {
    /// `None` when it has left.
    reader: Option<loco::RingReader>,
    message: Vec<u8>,
    /// Set if the caller had no room for the message.
    kept: bool,
}

handle! {
    new loco_ring_new(writer: u16, capacity_bytes: usize) -> ring: Ring
        = |parent, name| Ring(Arc::new(RingBuffer::new(parent, name, NodeId(writer), capacity_bytes)?));
    new loco_ring_new_readers(writer: u16, capacity_bytes: usize, readers: *const u16, count: usize) -> ring: Ring
        = |parent, name| {
            // SAFETY: the caller's promise.
            let readers = unsafe { node_ids(readers, count, "readers") }?;
            let config = RingConfig::new(capacity_bytes).readers(readers);
            Ring(Arc::new(RingBuffer::with_config(parent, name, NodeId(writer), &config)?))
        };
    free loco_ring_free;
}

/// Implements `loco_ring_message_bytes_max` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_ring_message_bytes_max(ring: Option<&Ring>) -> usize {
    ring.map_or(0, |ring| ring.0.message_bytes_max())
}

/// Implements `loco_ring_take_writer` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_ring_take_writer(ring: Option<&Ring>, writer: New<'_, RingWriter>) -> Status {
    run(|| {
        let out = writer.need("writer")?;
        let ring = &ring.need("ring")?.0;
        let writer = Mutex::new(ring.writer()?);
        out.write(Box::new(RingWriter(writer, ring.clone())));
        Ok(())
    })
}

/// Implements `loco_ring_take_reader` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_ring_take_reader(ring: Option<&Ring>, reader: New<'_, RingReader>) -> Status {
    run(|| {
        let out = reader.need("reader")?;
        let reading = Reading {
            reader: Some(ring.need("ring")?.0.reader()?),
            message: Vec::new(),
            kept: false,
        };
        out.write(Box::new(RingReader(Mutex::new(reading))));
        Ok(())
    })
}

/// Implements `loco_ring_writer_free` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_ring_writer_free(writer: Option<Box<RingWriter>>) -> Status {
    run(|| {
        let Some(writer) = writer else { return Ok(()) };
        let RingWriter(writer, ring) = *writer;
        // A writer that a panic may have left half done is not used again.
        if let Ok(writer) = writer.into_inner() {
            ring.return_writer(writer)?;
        }
        Ok(())
    })
}

/// Implements `loco_ring_reader_free` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_ring_reader_free(reader: Option<Box<RingReader>>) -> Status {
    free(reader)
}

/// Implements `loco_ring_submit` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_ring_submit(
    writer: Option<&RingWriter>,
    thread: Option<&Thread>,
    message: *const c_void,
    len: usize,
) -> Status {
    run(|| {
        let (writer, access) = (writer.need("writer")?, thread.need("thread")?.enter()?);
        // SAFETY: the caller's promise.
        let message = unsafe { bytes(message, len, "message") }?;
        Ok(hold(&writer.0)?.submit(access.thread(), message)?)
    })
}

/// Implements `loco_ring_try_submit` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_ring_try_submit(
    writer: Option<&RingWriter>,
    thread: Option<&Thread>,
    message: *const c_void,
    len: usize,
) -> Status {
    call(|| {
        let (writer, access) = (writer.need("writer")?, thread.need("thread")?.enter()?);
        // SAFETY: the caller's promise.
        let message = unsafe { bytes(message, len, "message") }?;
        let submitted = hold(&writer.0)?.try_submit(access.thread(), message)?;
        Ok(if submitted { OK } else { AGAIN })
    })
}

/// Implements `loco_ring_wait_until_read` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_ring_wait_until_read(writer: Option<&RingWriter>, thread: Option<&Thread>) -> Status {
    run(|| {
        let (writer, access) = (writer.need("writer")?, thread.need("thread")?.enter()?);
        Ok(hold(&writer.0)?.wait_until_read(access.thread())?)
    })
}

/// Implements `loco_ring_exclude` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_ring_exclude(writer: Option<&RingWriter>, node: u16) -> Status {
    run(|| {
        hold(&writer.need("writer")?.0)?.exclude(NodeId(node));
        Ok(())
    })
}

/// Implements `loco_ring_receive` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_ring_receive(
    reader: Option<&RingReader>,
    thread: Option<&Thread>,
    message: *mut c_void,
    capacity: usize,
    len: Out<'_, usize>,
) -> Status {
    call(|| {
        // SAFETY: the caller's promise.
        let to = unsafe { bytes_mut(message, capacity, "message") }?;
        receive(reader, thread, to, len, |reader, access, message| {
            reader.receive_into(access.thread(), message).map(|()| true)
        })
    })
}

/// Implements `loco_ring_try_receive` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_ring_try_receive(
    reader: Option<&RingReader>,
    thread: Option<&Thread>,
    message: *mut c_void,
    capacity: usize,
    len: Out<'_, usize>,
) -> Status {
    call(|| {
        // SAFETY: the caller's promise.
        let to = unsafe { bytes_mut(message, capacity, "message") }?;
        receive(reader, thread, to, len, |reader, access, message| {
            reader.try_receive(access.thread(), message)
        })
    })
}

/// Receives a message with `next` unless one is kept, and copies it to where the caller wants it.
fn receive(
    reader: Option<&RingReader>,
    thread: Option<&Thread>,
    to: &mut [u8],
    len: Out<'_, usize>,
    next: impl FnOnce(&mut loco::RingReader, &Access, &mut Vec<u8>) -> loco::Result<bool>,
) -> Result<Status, Failure> {
    let (reader, access) = (reader.need("reader")?, thread.need("thread")?.enter()?);
    let len = len.need("len")?;
    let mut reading = hold(&reader.0)?;
    let Reading {
        reader,
        message,
        kept,
    } = &mut *reading;
    let reader = reader.as_mut().ok_or_else(left)?;
    if !*kept && !next(reader, access, message)? {
        return Ok(AGAIN);
    }
    len.write(message.len());
    *kept = message.len() > to.len();
    if *kept {
        return Err(Failure::new(
            BUFFER_TOO_SMALL,
            format!(
                "the message has {} bytes, and there is room for {}: it is kept for the next call",
                message.len(),
                to.len()
            ),
        ));
    }
    to[..message.len()].copy_from_slice(message);
    Ok(OK)
}

fn left() -> Failure {
    Failure::usage("this reader has left its ring buffer")
}

/// Implements `loco_ring_leave` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_ring_leave(reader: Option<&RingReader>, thread: Option<&Thread>) -> Status {
    run(|| {
        let (reader, access) = (reader.need("reader")?, thread.need("thread")?.enter()?);
        let reader = hold(&reader.0)?.reader.take().ok_or_else(left)?;
        Ok(reader.leave(access.thread())?)
    })
}
