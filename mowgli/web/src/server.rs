//! The server: its address, its routes, and its life.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{get, post};
use tokio::net::TcpListener;

use crate::connections;
use crate::guard::{self, Guard};
use crate::jobs::{Jobs, Limits};
use crate::{api, page};

/// The choices of the caller.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The address to listen on. Port 0 takes a free one.
    pub address: SocketAddr,
    /// Limits of each search.
    pub limits: Limits,
}

/// A server that listens and does not yet answer.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    guard: Arc<Guard>,
    limits: Limits,
}

impl Server {
    /// Begins to listen. Needs a runtime of `tokio`.
    ///
    /// # Errors
    /// Returns the system's error, for instance if the port is taken.
    pub async fn listen(options: Options) -> io::Result<Server> {
        let listener = TcpListener::bind(options.address).await?;
        let guard = Guard::new(listener.local_addr()?);
        Ok(Server {
            listener,
            guard: Arc::new(guard),
            limits: options.limits,
        })
    }

    /// Returns the address of the page, with the token without which the server answers nothing.
    pub fn url(&self) -> String {
        let address = self.guard.address();
        let host = match address.ip() {
            ip if ip.is_unspecified() => SocketAddr::new(IpAddr::from([127, 0, 0, 1]), address.port()),
            _ => address,
        };
        format!("http://{host}/{}/", self.guard.token())
    }

    /// Answers until `stop` is ready. Searches under way are then cancelled.
    ///
    /// # Errors
    /// None so far: what goes wrong with a connection ends that connection.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> io::Result<()> {
        let routes = routes(self.guard, Jobs::new(self.limits));
        tokio::select! {
            never = connections::serve(self.listener, routes) => match never {},
            () = stop => Ok(()),
        }
    }
}

fn routes(guard: Arc<Guard>, jobs: Jobs) -> Router {
    let below = |path: &str| format!("/{}/{path}", guard.token());
    Router::new()
        .route(&below(""), get(page::index))
        .route(&below("{*path}"), get(page::file))
        .route(&below("api/catalogue"), get(api::catalogue::list))
        .route(&below("api/source"), post(api::catalogue::source))
        .route(&below("api/parse"), post(api::parse::parse))
        .route(&below("api/check"), post(api::check::check))
        .route(&below("api/explain"), post(api::explain::explain))
        .route(&below("api/robust"), post(api::robust::robust))
        .route(&below("api/machine"), post(api::machine::machine))
        .route(&below("api/replay"), post(api::machine::replay))
        .with_state(jobs)
        .layer(DefaultBodyLimit::max(connections::BODY_BYTES_MAX))
        .layer(middleware::from_fn(connections::whole_body))
        .layer(middleware::from_fn_with_state(guard, guard::check))
}
