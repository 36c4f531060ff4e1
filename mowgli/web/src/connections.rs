//! Connections: a bounded number at once, each closed when its peer keeps the server waiting.
//!
//! A peer may open connections and send nothing, or half of a request, or read nothing of an answer. Each of these ends after a time that
//! no browser on a working network needs. A search may take longer: while the server works, no time is counted.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep, timeout};

/// Most bytes of a request's body: a test and a model file of the largest size that the parsers take, escaped as JSON.
pub(crate) const BODY_BYTES_MAX: usize = 5 << 20;
/// Most connections at once. Further ones wait in the system's queue.
const CONNECTIONS_MAX: usize = 256;

/// The longest time in which the head of a request arrives, counted from the connection or the answer before.
const HEAD_TIME: Duration = Duration::from_secs(5);

/// The longest time in which the body of a request arrives.
const BODY_TIME: Duration = Duration::from_secs(10);

/// The longest time in which a peer takes nothing of an answer.
const STALL_TIME: Duration = Duration::from_secs(10);

/// Time after which a connection is accepted again when the system had no means for one, such as a file descriptor.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections and answers on them for ever. When the future is dropped, all connections end.
pub(crate) async fn serve(listener: TcpListener, routes: Router) -> Infallible {
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= CONNECTIONS_MAX {
            connections.join_next().await;
        }
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(answer(stream, routes.clone()));
                }
                // The listener stays ready, so trying again at once would take the processor until a connection ends.
                Err(_) => sleep(PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Answers the requests of one connection.
async fn answer(stream: TcpStream, routes: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .serve_connection(TokioIo::new(Timed::new(stream)), TowerToHyperService::new(routes));
    // A mistake of the peer ends its connection and concerns nobody else.
    let _ = connection.await;
}

/// Waits for the body of a request before anything else is done with it, but not for ever.
pub(crate) async fn whole_body(request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    match timeout(BODY_TIME, to_bytes(body, BODY_BYTES_MAX)).await {
        Ok(Ok(bytes)) => next.run(Request::from_parts(head, Body::from(bytes))).await,
        Ok(Err(_)) => {
            let help = format!("the body broke off, or has more than {BODY_BYTES_MAX} bytes\n");
            (StatusCode::PAYLOAD_TOO_LARGE, help).into_response()
        }
        Err(_) => {
            let help = format!("the body did not arrive within {} s\n", BODY_TIME.as_secs());
            (StatusCode::REQUEST_TIMEOUT, help).into_response()
        }
    }
}

/// A stream whose writes fail when the peer takes nothing for [`STALL_TIME`].
struct Timed {
    stream: TcpStream,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Timed {
    fn new(stream: TcpStream) -> Timed {
        let stalled = None;
        Timed { stream, stalled }
    }

    /// Passes the result of a write on, or fails if the peer has stalled.
    fn timed<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(STALL_TIME)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Timed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Timed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.timed(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.timed(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.timed(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.timed(cx, shut)
    }
}
