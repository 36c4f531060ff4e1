//! The ring buffer as a stream of messages and as a sink for them.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_core::stream::FusedStream;
use futures_sink::Sink;
use loco_fabric::{Fabric, Lock, Platform};

use crate::asynchronous::call::Call;
use crate::asynchronous::thread::{AsyncThread, as_long_as_wanted, unless_it_waits};
use crate::fabric::AnyFabric;
use crate::{Error, Result, RingReader, RingWriter, Thread};

/// One end of a ring buffer, which the calls of one thread use one at a time.
type Shared<T, F> = Arc<<<F as Fabric>::Platform as Platform>::Mutex<T>>;

/// The messages of a ring buffer, as a [`Stream`]. It waits for the next message as long as it is polled, without a
/// deadline.
///
/// It ends after its first error: [`PeerLost`](crate::ErrorKind::PeerLost) when the writer is gone and all its
/// messages are read.
///
/// No message is lost when a future of [`next`](RingStream::next) is dropped: the next future returns it.
pub struct RingStream<F: Fabric = AnyFabric> {
    /// One call at a time uses it, because the calls have one thread.
    reader: Shared<RingReader<F>, F>,
    thread: AsyncThread<F>,
    receiving: Option<Call<Vec<u8>, F::Platform>>,
    ended: bool,
}

impl<F: Fabric> RingStream<F> {
    /// Makes a stream of the messages that `reader` receives, by calls of `thread`.
    pub fn new(reader: RingReader<F>, thread: &AsyncThread<F>) -> RingStream<F> {
        RingStream {
            reader: Arc::new(Lock::new(reader)),
            thread: thread.clone(),
            receiving: None,
            ended: false,
        }
    }

    /// Returns the next message, or `None` after the stream has ended.
    ///
    /// # Errors
    /// Returns the errors of [`RingReader::receive`], except that there is no timeout.
    pub async fn next(&mut self) -> Option<Result<Vec<u8>>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    fn receive(&self) -> Call<Vec<u8>, F::Platform> {
        let (reader, at_once) = (self.reader.clone(), self.reader.clone());
        let receive = move |thread: &Thread<F>| {
            let mut reader = reader.lock();
            as_long_as_wanted(thread, || reader.receive(thread))
        };
        let try_receive = |_: &_, thread: &Thread<F>| {
            let (mut reader, mut message) = (at_once.lock(), Vec::new());
            match unless_it_waits(thread, |thread| reader.try_receive(thread, &mut message)) {
                Some(Ok(true)) => Some(Ok(message)),
                Some(Ok(false)) | None => None,
                Some(Err(error)) => Some(Err(error)),
            }
        };
        self.thread.begin(receive, try_receive, true)
    }
}

impl<F: Fabric> Stream for RingStream<F> {
    type Item = Result<Vec<u8>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let mut receiving = match self.receiving.take() {
            Some(receiving) => receiving,
            None => self.receive(),
        };
        match Pin::new(&mut receiving).poll(context) {
            Poll::Pending => {
                self.receiving = Some(receiving);
                Poll::Pending
            }
            Poll::Ready(received) => {
                self.ended = received.is_err();
                Poll::Ready(Some(received))
            }
        }
    }
}

// Nothing in it is pinned: it owns handles.
impl<F: Fabric> Unpin for RingStream<F> {}

impl<F: Fabric> FusedStream for RingStream<F> {
    fn is_terminated(&self) -> bool {
        self.ended
    }
}

/// The writer of a ring buffer, as a [`Sink`] of messages. It waits for room as long as it is polled, without a
/// deadline.
///
/// A message is submitted as soon as it is sent into the sink, if there is room, and then reaches the readers.
/// Flushing waits until the message has been submitted. Closing does the same, and waits for no reader.
///
/// A message that was sent into the sink and not flushed when the sink is dropped may have been submitted or not.
pub struct RingSink<F: Fabric = AnyFabric> {
    /// One call at a time uses it, because the calls have one thread.
    writer: Shared<RingWriter<F>, F>,
    thread: AsyncThread<F>,
    /// The message that waits for room.
    submitting: Option<Call<(), F::Platform>>,
}

impl<F: Fabric> RingSink<F> {
    /// Makes a sink of `writer`, which submits by calls of `thread`.
    pub fn new(writer: RingWriter<F>, thread: &AsyncThread<F>) -> RingSink<F> {
        RingSink {
            writer: Arc::new(Lock::new(writer)),
            thread: thread.clone(),
            submitting: None,
        }
    }

    /// Submits a message to every reader, waiting for room.
    ///
    /// # Errors
    /// Returns the errors of [`RingWriter::submit`], except that there is no timeout, and the error of an earlier
    /// message that was sent into the sink and not flushed.
    pub async fn submit(&mut self, message: impl Into<Vec<u8>>) -> Result<()> {
        poll_fn(|context| self.finish(context)).await?;
        self.submitting = Some(self.begin(message.into()));
        poll_fn(|context| self.finish(context)).await
    }

    /// Waits until every reader has read every message: [`RingWriter::wait_until_read`], without a deadline.
    ///
    /// # Errors
    /// Returns the errors of [`RingWriter::wait_until_read`], and the error of an earlier message that was not
    /// flushed.
    pub async fn wait_until_read(&mut self) -> Result<()> {
        poll_fn(|context| self.finish(context)).await?;
        let writer = self.writer.clone();
        let wait = move |thread: &Thread<F>| {
            let mut writer = writer.lock();
            as_long_as_wanted(thread, || writer.wait_until_read(thread))
        };
        self.thread.begin(wait, |_, _| None, true).await
    }

    /// Runs `step` on the writer, for example to go on without a lost reader ([`RingWriter::exclude`]). `step` must
    /// not wait.
    ///
    /// # Errors
    /// Returns the errors of `step`, and the error of an earlier message that was not flushed.
    pub async fn with_writer<T: Send + 'static>(
        &mut self,
        step: impl FnOnce(&mut RingWriter<F>, &Thread<F>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        poll_fn(|context| self.finish(context)).await?;
        let writer = self.writer.clone();
        self.thread
            .with(move |thread| step(&mut writer.lock(), thread))
            .await
    }

    fn begin(&self, message: Vec<u8>) -> Call<(), F::Platform> {
        let (writer, at_once) = (self.writer.clone(), self.writer.clone());
        let message = Arc::new(message);
        let its = message.clone();
        let submit = move |thread: &Thread<F>| {
            let mut writer = writer.lock();
            as_long_as_wanted(thread, || writer.submit(thread, &its))
        };
        let try_submit = |_: &_, thread: &Thread<F>| {
            let mut writer = at_once.lock();
            match unless_it_waits(thread, |thread| writer.try_submit(thread, &message)) {
                Some(Ok(true)) => Some(Ok(())),
                Some(Ok(false)) | None => None,
                Some(Err(error)) => Some(Err(error)),
            }
        };
        self.thread.begin(submit, try_submit, true)
    }

    /// Waits until the message that was sent last has been submitted.
    fn finish(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        let Some(submitting) = &mut self.submitting else {
            return Poll::Ready(Ok(()));
        };
        let outcome = Pin::new(submitting).poll(context);
        if outcome.is_ready() {
            self.submitting = None;
        }
        outcome
    }
}

// Nothing in it is pinned: it owns handles.
impl<F: Fabric> Unpin for RingSink<F> {}

impl<F: Fabric, M: Into<Vec<u8>>> Sink<M> for RingSink<F> {
    type Error = Error;

    fn poll_ready(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.finish(context)
    }

    fn start_send(mut self: Pin<&mut Self>, message: M) -> Result<()> {
        if self.submitting.is_some() {
            return Err(Error::Config(
                "a message was sent into a ring buffer's sink that was not ready: poll it until it is ready first"
                    .to_owned(),
            ));
        }
        self.submitting = Some(self.begin(message.into()));
        Ok(())
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.finish(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.finish(context)
    }
}
