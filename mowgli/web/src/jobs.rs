//! Runs searches: a limited number at once, each within limits, and cancelled when nobody waits for the answer any
//! more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use mowgli::outcome::{Budget, MemoryLimit};
use serde_json::json;
use tokio::sync::Semaphore;

/// Most requests that wait for a free place. Further ones are refused.
const WAITING_MAX: usize = 64;

/// Limits of each search.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest time.
    pub time: Duration,
    /// The most memory in use, of the whole process.
    pub memory: Option<MemoryLimit>,
    /// The most states or candidate executions.
    pub states: Option<u64>,
}

/// The searches of a server.
#[derive(Clone, Debug)]
pub(crate) struct Jobs {
    limits: Limits,
    running: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

/// Why a request has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// Too much is asked at once.
    #[error("too many requests wait: stop some searches, or ask again later")]
    Busy,
    /// The request makes no sense.
    #[error("{0}")]
    Wrong(String),
    /// The search ended by a mistake of the program.
    #[error("the search failed; what went wrong is in the output of `mowgli serve`")]
    Failed,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match self {
            Refusal::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::Wrong(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Refusal::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, Json(json!({ "error": self.to_string() }))).into_response()
    }
}

/// Cancels a search when it is dropped: axum drops the future of a request whose connection is gone.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        // Relaxed: the flag publishes no other data.
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Jobs {
    pub(crate) fn new(limits: Limits) -> Jobs {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Jobs {
            limits,
            running: Arc::new(Semaphore::new(cores.max(2))),
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
        }
    }

    /// Runs `work` on a thread of its own as soon as there is a place.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Budget<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<Json<T>, Refusal> {
        let waits = self.waiting.try_acquire().map_err(|_| Refusal::Busy)?;
        let place = self.running.clone().acquire_owned().await;
        let place = place.map_err(|_| Refusal::Failed)?;
        drop(waits);
        let cancel = Arc::new(AtomicBool::new(false));
        let _cancel = CancelOnDrop(cancel.clone());
        let limits = self.limits;
        let thread = tokio::task::spawn_blocking(move || {
            // The place is free when the search has ended, not when nobody waits for it any more.
            let _place = place;
            work(&Budget {
                deadline: Instant::now().checked_add(limits.time),
                states_max: limits.states,
                cancel: Some(&cancel),
                memory: limits.memory,
            })
        });
        thread.await.map_err(|_| Refusal::Failed)?.map(Json)
    }
}
