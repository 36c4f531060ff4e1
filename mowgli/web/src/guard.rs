//! Turns away requests that do not come from the page.
//!
//! Any program of this machine, and any page in the user's browser, can send requests to a local port. Three things keep them out: a
//! random token in the path, the `Host` header, which a rebound name does not match, and the `Origin` header, which browsers send with
//! every request that a page of another origin makes.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// The policy of the page: it loads its own files, and nothing from elsewhere. The editor writes its styles into the document.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The demands on a request.
#[derive(Debug)]
pub(crate) struct Guard {
    token: String,
    address: SocketAddr,
}

impl Guard {
    /// Makes a guard with a new token of 128 bits.
    pub(crate) fn new(address: SocketAddr) -> Guard {
        let token: u128 = rand::random();
        Guard {
            token: format!("{token:032x}"),
            address,
        }
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns why a request is refused, if it is.
    fn refusal(&self, uri: &Uri, headers: &HeaderMap) -> Option<(StatusCode, &'static str)> {
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let host = text(header::HOST).unwrap_or_default();
        if !self.is_own_host(host) {
            return Some((
                StatusCode::FORBIDDEN,
                "this server answers under its own address only\n",
            ));
        }
        let foreign = |origin: &str| origin != format!("http://{host}");
        if text(header::ORIGIN).is_some_and(foreign) {
            return Some((StatusCode::FORBIDDEN, "requests of other origins are refused\n"));
        }
        let given = uri.path().split('/').nth(1).unwrap_or_default();
        if !same(given.as_bytes(), self.token.as_bytes()) {
            let help = "the address lacks its token: copy the whole address that `mowgli serve` printed\n";
            return Some((StatusCode::FORBIDDEN, help));
        }
        None
    }

    /// Returns whether `host` is an address of this server. A name other than localhost may have been pointed here by somebody else.
    fn is_own_host(&self, host: &str) -> bool {
        if host == format!("localhost:{}", self.address.port()) {
            return self.address.ip().is_loopback() || self.address.ip().is_unspecified();
        }
        // Port 80 is left out by browsers.
        let bare = |ip: IpAddr| SocketAddr::new(ip, 80);
        let parsed = host.parse::<SocketAddr>().ok().or_else(|| {
            let ip = host.trim_start_matches('[').trim_end_matches(']');
            ip.parse().ok().map(bare)
        });
        parsed.is_some_and(|a| {
            a.port() == self.address.port()
                && (self.address.ip().is_unspecified() || a.ip() == self.address.ip())
        })
    }
}

/// Compares in a time that does not depend on where two texts differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (x, y)| differ | (x ^ y)) == 0
}

/// Passes requests of the page on, and marks answers so that browsers keep them to themselves.
pub(crate) async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut response = match guard.refusal(request.uri(), request.headers()) {
        Some(refusal) => refusal.into_response(),
        None => next.run(request).await,
    };
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(guard: &Guard, path: &str, host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        guard.refusal(&path.parse().unwrap(), &headers).is_some()
    }

    #[test]
    fn only_the_own_page_is_let_in() {
        let guard = Guard::new("127.0.0.1:7000".parse().unwrap());
        let path = format!("/{}/", guard.token());
        let (own, page) = ("127.0.0.1:7000", Some("http://127.0.0.1:7000"));
        assert!(!refused(&guard, &path, own, None));
        assert!(!refused(&guard, &path, own, page));
        assert!(!refused(
            &guard,
            &path,
            "localhost:7000",
            Some("http://localhost:7000")
        ));
        assert!(refused(&guard, "/", own, page));
        assert!(refused(&guard, &format!("/{}0/", guard.token()), own, page));
        assert!(refused(&guard, &path, "127.0.0.1:7001", None));
        assert!(refused(&guard, &path, "127.0.0.2:7000", None));
        assert!(refused(&guard, &path, "elsewhere.example:7000", None));
        assert!(refused(&guard, &path, own, Some("http://elsewhere.example")));
        assert!(refused(&guard, &path, own, Some("null")));
        assert!(refused(&guard, &path, own, Some("http://127.0.0.1:8000")));
    }

    #[test]
    fn on_all_addresses_any_address_will_do_and_no_name() {
        let guard = Guard::new("0.0.0.0:7000".parse().unwrap());
        let path = format!("/{}/", guard.token());
        assert!(!refused(&guard, &path, "192.0.2.7:7000", None));
        assert!(refused(&guard, &path, "elsewhere.example:7000", None));
    }

    #[test]
    fn tokens_differ() {
        let address = "127.0.0.1:7000".parse().unwrap();
        assert_ne!(Guard::new(address).token(), Guard::new(address).token());
    }
}
