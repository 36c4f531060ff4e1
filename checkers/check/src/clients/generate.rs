//! Generates the clients that an object is checked with.
//!
//! Clients are those of `mowgli_libraries::enumerate`, each once up to symmetry, or drawn at random. A generated
//! client is *fair*: every thread gives back the locks that it takes, calls no barrier while it holds one, and calls
//! a barrier as often as the other participants. Threads that wait for ever are therefore a fault of the object and
//! not of the client.

use std::ops::ControlFlow;
use std::str::FromStr;

use mowgli_libraries::client::{
    Arg, Call, Client, Expr, Library, Method, ObjectId, ObjectKind, Stmt, ThreadId,
};
use mowgli_libraries::enumerate::{
    Bounds, CALLS_MAX, NODES_MAX, OBJECTS_MAX, RandomClients, Stop, THREADS_MAX, for_each_client_until,
};

use crate::Object;

/// The size of the clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// The maximum number of threads.
    pub threads: usize,
    /// The maximum number of calls of each thread.
    pub calls: usize,
    /// The maximum number of calls of all threads together.
    pub total: usize,
    /// The maximum number of nodes.
    pub nodes: u8,
    /// The maximum number of objects of each library, unless its kind has roles that determine it.
    pub objects: usize,
    /// The libraries whose methods are called besides the object's.
    pub with: Vec<Library>,
}

impl Default for Size {
    /// Returns the size of two threads of two calls each, on two nodes.
    fn default() -> Size {
        Size {
            threads: 2,
            calls: 2,
            total: TOTAL_MAX,
            nodes: 2,
            objects: 1,
            with: Vec::new(),
        }
    }
}

/// The maximum number of calls of all threads.
const TOTAL_MAX: usize = THREADS_MAX * CALLS_MAX;

/// The reason that a text is no size.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotASize {
    /// A part that gives no size.
    #[error(
        "`{0}` says no size; write for example `threads<=3,calls<=2`: the parts are threads<=N, calls<=N (of each thread), \
         total<=N (calls of all threads), nodes<=N, objects<=N, with=LIBRARY"
    )]
    Part(String),
    /// A number is out of range.
    #[error("`{part}` is out of range: {name} is a whole number from 1 to {most}")]
    Range {
        /// The part.
        part: String,
        /// The name of the number.
        name: String,
        /// The largest value.
        most: usize,
    },
    /// A library that does not exist.
    #[error("no library `{0}`; the libraries are {names}", names = Library::ALL.map(Library::word).join(", "))]
    Library(String),
}

impl std::fmt::Debug for NotASize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl FromStr for Size {
    type Err = NotASize;

    fn from_str(text: &str) -> Result<Size, NotASize> {
        let mut size = Size::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            if let Some(name) = part.strip_prefix("with=") {
                let known = Library::by_word(name);
                size.with
                    .push(known.ok_or_else(|| NotASize::Library(name.to_owned()))?);
                continue;
            }
            let not_a_part = || NotASize::Part(part.to_owned());
            let (name, number) = part.split_once("<=").ok_or_else(not_a_part)?;
            let (name, number) = (name.trim(), number.trim());
            let most = match name {
                "threads" => THREADS_MAX,
                "nodes" => NODES_MAX.into(),
                "calls" => CALLS_MAX,
                "total" => TOTAL_MAX,
                "objects" => OBJECTS_MAX,
                _ => return Err(not_a_part()),
            };
            let read = number.parse().ok().filter(|n| (1..=most).contains(n));
            let Some(number) = read else {
                return Err(NotASize::Range {
                    part: part.to_owned(),
                    name: name.to_owned(),
                    most,
                });
            };
            match name {
                "threads" => size.threads = number,
                "calls" => size.calls = number,
                "total" => size.total = number,
                "objects" => size.objects = number,
                // At most `NODES_MAX`.
                _ => size.nodes = number as u8,
            }
        }
        Ok(size)
    }
}

/// Returns the library that an object implements, or `None` if no library of `mowgli` describes it.
pub fn library(object: Object) -> Option<Library> {
    Some(match object {
        Object::Fence => Library::Fence,
        Object::Region => Library::RdmaWait,
        Object::SharedVar => Library::SharedVariable,
        Object::OwnedVar | Object::WideOwnedVar => Library::Owned,
        Object::Sst => Library::Sst,
        Object::Msw => Library::MixedSize,
        Object::Barrier => Library::Barrier,
        Object::RingBuffer => Library::RingBuffer,
        Object::Atomic => Library::Atomic,
        Object::TicketLock | Object::TasLock => Library::Lock,
        Object::Queue => Library::Queue,
        Object::Kv => Library::Store,
        Object::Collective | Object::Log => return None,
    })
}

/// The clients of an object.
#[derive(Clone, Debug)]
pub struct Clients {
    libraries: Vec<Library>,
    bounds: Bounds,
}

impl Clients {
    /// Returns the clients of this size, with calls of the object's library and of each of `size.with`. Fences
    /// concern the operations of other objects, so their clients also use words.
    pub fn new(object: Object, size: &Size) -> Clients {
        let mut libraries: Vec<Library> = library(object).into_iter().collect();
        if object == Object::Fence && size.with.is_empty() {
            libraries.push(Library::RdmaWait);
        }
        libraries.extend(&size.with);
        libraries.sort_unstable();
        libraries.dedup();
        let bounds = Bounds {
            threads_max: size.threads,
            calls_each_max: size.calls,
            nodes_max: size.nodes,
            objects_max: size.objects,
            // Clients without results are kept, because every execution must also end without an error.
            results: false,
            ..Bounds::of(&libraries, size.total.min(size.threads * size.calls))
        };
        Clients { libraries, bounds }
    }

    /// Calls `visit` with each client, small ones first, until it breaks or `stop` says so.
    pub fn each(&self, stop: Stop<'_>, visit: &mut dyn FnMut(Client) -> ControlFlow<()>) {
        let _ = for_each_client_until(&self.bounds, stop, &mut |client| match self.admit(client) {
            Some(client) => visit(client),
            None => ControlFlow::Continue(()),
        });
    }

    /// Draws `count` clients of the size, with as many calls as it allows, until `visit` breaks or `stop` says so.
    /// `random(n)` returns a number below `n`.
    pub fn draw(
        &self,
        count: u64,
        stop: Stop<'_>,
        random: &mut dyn FnMut(usize) -> usize,
        visit: &mut dyn FnMut(Client) -> ControlFlow<()>,
    ) {
        let Some(clients) = RandomClients::until(&self.bounds, stop) else {
            return;
        };
        let mut drawn = 0;
        // A draw that is not admitted is repeated. The number of draws is limited, in case few are admitted.
        for _ in 0..count.saturating_mul(1_000) {
            if drawn == count || stop() {
                return;
            }
            let Some(mut client) = self.admit(clients.draw(random)) else {
                continue;
            };
            drawn += 1;
            client.name = format!("random-{drawn}");
            if visit(client).is_break() {
                return;
            }
        }
    }

    /// Returns the client, made fair. Returns `None` if that is impossible, or if it does not call every library and
    /// so belongs to a smaller set.
    fn admit(&self, mut client: Client) -> Option<Client> {
        let mut called = Vec::new();
        client.for_each_call(&mut |_, call| called.push(call.method.library()));
        let all = self.libraries.iter().all(|library| called.contains(library));
        (all && calls_barriers_equally(&client) && give_back(&mut client)).then_some(client)
    }
}

/// Returns true if the participants of each barrier call it equally often.
fn calls_barriers_equally(client: &Client) -> bool {
    client.objects.iter().enumerate().all(|(id, object)| {
        let ObjectKind::Barrier { participants } = &object.kind else {
            return true;
        };
        let id = ObjectId(id as u16);
        let calls = |thread: ThreadId| {
            let mut calls = 0;
            client.for_each_call(&mut |of, call| {
                calls += u32::from(of == thread && call.objects().any(|o| o == id))
            });
            calls
        };
        let mut counts = participants.iter().map(|&thread| calls(thread));
        let first = counts.next();
        counts.all(|count| Some(count) == first)
    })
}

/// The state of a lock in a thread, as far as its text shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Has {
    Nothing,
    TheLock,
    /// The thread has the lock if this register is true.
    Perhaps(mowgli_libraries::client::Reg),
}

/// Makes every thread give back the locks that it got: a lock that a try got only if the try succeeded, and at the
/// end the locks that are still held. Returns false if a thread takes a lock that it has, gives back one that it has
/// not, or calls a barrier with a lock.
fn give_back(client: &mut Client) -> bool {
    let locks: Vec<ObjectId> = (0..client.objects.len())
        .filter(|&id| matches!(client.objects[id].kind, ObjectKind::Lock { .. }))
        .map(|id| ObjectId(id as u16))
        .collect();
    for thread in &mut client.threads {
        for &lock in &locks {
            let mut has = Has::Nothing;
            let mut body = Vec::new();
            for stmt in std::mem::take(&mut thread.body) {
                let (method, result) = match &stmt {
                    Stmt::Call { result, call } if call.objects().any(|o| o == lock) => {
                        (call.method, *result)
                    }
                    Stmt::Call { call, .. }
                        if call.method.library() == Library::Barrier && has != Has::Nothing =>
                    {
                        return false;
                    }
                    _ => {
                        body.push(stmt);
                        continue;
                    }
                };
                let takes = matches!(method, Method::Lock | Method::TryLock);
                match (has, takes) {
                    (Has::Nothing, true) => {
                        has = match result {
                            Some(reg) if method == Method::TryLock => Has::Perhaps(reg),
                            _ => Has::TheLock,
                        };
                        body.push(stmt);
                    }
                    (Has::TheLock, false) => {
                        has = Has::Nothing;
                        body.push(stmt);
                    }
                    (Has::Perhaps(reg), false) => {
                        has = Has::Nothing;
                        body.push(only_if(reg, stmt));
                    }
                    _ => return false,
                }
            }
            let unlock = Stmt::Call {
                result: None,
                call: Call {
                    method: Method::Unlock,
                    args: vec![Arg::Object(lock)],
                },
            };
            match has {
                Has::Nothing => {}
                Has::TheLock => body.push(unlock),
                Has::Perhaps(reg) => body.push(only_if(reg, unlock)),
            }
            thread.body = body;
        }
    }
    true
}

fn only_if(reg: mowgli_libraries::client::Reg, stmt: Stmt) -> Stmt {
    Stmt::If {
        cond: Expr::Reg(reg),
        then: vec![stmt],
        otherwise: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(object: Object, size: &str) -> Vec<Client> {
        let mut out = Vec::new();
        Clients::new(object, &size.parse().expect("a size")).each(&|| false, &mut |client| {
            out.push(client);
            ControlFlow::Continue(())
        });
        out
    }

    #[test]
    fn sizes_are_read_or_refused() {
        let size: Size = "threads<=3, calls<=2,with=sv".parse().expect("a size");
        assert_eq!((size.threads, size.calls, size.nodes), (3, 2, 2));
        assert_eq!(size.with, [Library::SharedVariable]);
        for bad in [
            "threads",
            "threads<=0",
            "threads<=9",
            "with=tv",
            "calls<=x",
            "lines<=3",
        ] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused_with_the_range() {
        for (name, most) in [
            ("threads", THREADS_MAX),
            ("nodes", NODES_MAX.into()),
            ("calls", CALLS_MAX),
            ("total", TOTAL_MAX),
            ("objects", OBJECTS_MAX),
        ] {
            let more = (most + 1).to_string();
            for number in ["0", "-1", &more, "18446744073709551615", "18446744073709551616"] {
                let part = format!("{name}<={number}");
                let error = part.parse::<Size>().expect_err("it is out of range").to_string();
                let range = format!("{name} is a whole number from 1 to {most}");
                assert!(error.contains(&part) && error.contains(&range), "{error}");
            }
        }
    }

    /// The largest size has more shapes than can be listed. Clients end when they are told to.
    #[test]
    fn the_largest_size_ends_when_it_is_told_to() {
        let with = "with=words,with=sv,with=ring,with=mixed,with=sst,with=queue";
        let size = format!("threads<=4,nodes<=4,calls<=32,objects<=4,{with}");
        let clients = Clients::new(Object::Barrier, &size.parse().expect("a size"));
        for random in [false, true] {
            let asked = std::cell::Cell::new(0);
            let stop = || {
                asked.set(asked.get() + 1);
                asked.get() > 1_000
            };
            let mut visit = |_| ControlFlow::Continue(());
            match random {
                false => clients.each(&stop, &mut visit),
                true => clients.draw(u64::MAX, &stop, &mut |_| 0, &mut visit),
            }
            assert!(asked.get() > 1_000);
        }
    }

    #[test]
    fn participants_call_a_barrier_equally_often() {
        for client in all(Object::Barrier, "threads<=2,calls<=2") {
            assert!(calls_barriers_equally(&client), "{}", client.print());
        }
    }

    #[test]
    fn locks_are_given_back() {
        let clients = all(Object::TicketLock, "threads<=2,calls<=2");
        assert!(clients.len() > 10, "{}", clients.len());
        for client in clients {
            for thread in &client.threads {
                let mut taken = 0;
                for stmt in &thread.body {
                    match stmt {
                        Stmt::Call { call, .. } if matches!(call.method, Method::Lock | Method::TryLock) => {
                            taken += 1
                        }
                        _ => taken -= 1,
                    }
                }
                assert_eq!(taken, 0, "{}", client.print());
            }
        }
    }
}
