//! The server against hostile and heavy use, by requests over a socket as any program could send them.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use mowgli_web::{Limits, Options, Server};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// A server on a thread of its own, until it is dropped.
struct Running {
    address: SocketAddr,
    /// `/TOKEN/`.
    root: String,
    stop: Option<oneshot::Sender<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }
}

fn start(time: Duration) -> Running {
    start_with(time, None)
}

fn start_with(time: Duration, states: Option<u64>) -> Running {
    let (send, receive) = mpsc::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("the server runs");
        runtime.block_on(async move {
            let options = Options {
                address: "127.0.0.1:0".parse().expect("the server runs"),
                limits: Limits {
                    time,
                    memory: None,
                    states,
                },
            };
            let server = Server::listen(options).await.expect("the server runs");
            send.send(server.url()).expect("the server runs");
            let stopped = async {
                let _ = stopped.await;
            };
            server.run(stopped).await.expect("the server runs");
        });
        runtime.shutdown_background();
    });
    let url = receive.recv().expect("the server runs");
    let (host, path) = url
        .strip_prefix("http://")
        .expect("the server runs")
        .split_once('/')
        .expect("the server runs");
    Running {
        address: host.parse().expect("the server runs"),
        root: format!("/{path}"),
        stop: Some(stop),
    }
}

impl Running {
    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).expect("the server runs")
    }

    fn head(&self, method: &str, path: &str, more: &str) -> String {
        let host = self.address;
        format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{more}\r\n")
    }

    fn request(&self, question: &str, body: &Value) -> TcpStream {
        let body = body.to_string();
        let more = format!(
            "content-type: application/json\r\ncontent-length: {}\r\n",
            body.len()
        );
        let path = format!("{}api/{question}", self.root);
        let mut stream = self.connect();
        stream
            .write_all((self.head("POST", &path, &more) + &body).as_bytes())
            .expect("the server runs");
        stream
    }

    /// Asks a question of the page. Returns the status and the answer.
    fn ask(&self, question: &str, body: &Value) -> (u16, Value) {
        let (status, body) = read(self.request(question, body));
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }

    fn get(&self, path: &str, more: &str) -> (u16, String) {
        let mut stream = self.connect();
        stream
            .write_all(self.head("GET", path, more).as_bytes())
            .expect("the server runs");
        read(stream)
    }
}

/// Reads an answer to its end.
fn read(mut stream: TcpStream) -> (u16, String) {
    let mut bytes = Vec::new();
    // A server that refuses a body may close the connection while the rest is still on its way.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
    (status, body.to_owned())
}

const SB: &str = "RDMA SB\n{ x@1=0; y@1=0; }\n P0@1 | P1@1 ;\n x := 1 | y := 1 ;\n a := y | b := x ;\nexists (0:a=0 /\\ 1:b=0)\n";

/// A test whose outcomes are too many for any time: threads that count up and read one another.
fn endless() -> String {
    let threads = 8;
    let all =
        |cell: &dyn Fn(usize) -> String| (0..threads).map(cell).collect::<Vec<_>>().join(" | ") + " ;\n";
    let mut text = "RDMA endless\n{ ".to_owned();
    for t in 0..threads {
        text.push_str(&format!("x{t}@1=0; "));
    }
    text.push_str("}\n");
    text.push_str(&all(&|t| format!("P{t}@1")));
    for row in 0..6 {
        text.push_str(&all(&|t| format!("x{t} := {}", row + 1)));
        text.push_str(&all(&|t| format!("a{t}{row} := x{}", (t + row + 1) % threads)));
    }
    let shown: Vec<String> = (0..threads)
        .flat_map(|t| (0..6).map(move |row| format!("{t}:a{t}{row};")))
        .collect();
    text + &format!("locations [{}]\nexists (x0=9)\n", shown.join(" "))
}

const LONG: Duration = Duration::from_secs(600);

#[test]
fn the_page_and_its_answers_need_the_token() {
    let server = start(LONG);
    let (status, page) = server.get(&server.root, "");
    assert_eq!(status, 200);
    assert!(page.contains("<title>mowgli</title>"));
    assert_eq!(
        server.get(&format!("{}vendor/codemirror.js", server.root), "").0,
        200
    );
    assert_eq!(server.get(&format!("{}no-such-file", server.root), "").0, 404);
    assert_eq!(server.get(&format!("{}../../Cargo.toml", server.root), "").0, 404);
    for path in [
        "/",
        "/index.html",
        "/api/catalogue",
        "/00000000000000000000000000000000/",
    ] {
        let (status, body) = server.get(path, "");
        assert_eq!(status, 403, "{path}");
        assert!(body.contains("token"), "{path}: {body}");
    }
}

#[test]
fn models_and_clients_stand_on_networks_that_order_less() {
    let server = start(LONG);
    let puts = "RDMA t\n{ x@2=0; y@2=0; }\n P0@1 | P1@2 ;\n x^2 := 1 | a := y ;\n y^2 := 1 | b := x ;\nexists (1:a=1 /\\ 1:b=0)\n";
    let (_, parsed) = server.ask("parse", &json!({ "text": puts }));
    let offered = |name: &str| {
        let settings = parsed["settings"].as_array().expect("a list");
        settings.iter().find(|s| s["name"] == name).cloned().expect(name)
    };
    assert_eq!(offered("rdma-tso+ooo-rw")["tier"], "ooo-rw");
    assert_eq!(offered("rdma-tso")["tier"], Value::Null);
    let verdict = |text: &str, setting: &str| {
        let (status, found) = server.ask("check", &json!({ "text": text, "setting": setting }));
        assert_eq!(status, 200, "{found}");
        found["conditions"][0]["verdict"].clone()
    };
    assert_eq!(verdict(puts, "rdma-tso"), "forbidden");
    assert_eq!(verdict(puts, "rdma-tso+ooo-rw"), "allowed");
    let asking = puts.replace("y^2 := 1", "strong y^2 := 1");
    assert_eq!(verdict(&asking, "rdma-tso+ooo-rw"), "forbidden");
    let (status, found) = server.ask(
        "robust",
        &json!({ "text": puts, "setting": "rdma-tso+unordered" }),
    );
    assert_eq!(status, 200, "{found}");
    assert!(
        found["fix"]["text"]
            .as_str()
            .is_some_and(|t| t.contains("strong y^2 := 1")),
        "{found}"
    );
    assert_eq!(found["fix"]["minimal"], false, "{found}");
    let client = "RDMA t\n{ }\nobjects { sv x; sv y; }\n P0@1 | P1@2 ;\n write_sv(x, 1) | a := read_sv(y) ;\n bcast_sv(x, _, {2}) | b := read_sv(x) ;\n \
        write_sv(y, 1) | ;\n bcast_sv(y, _, {2}) | ;\nexists (1:a=1 /\\ 1:b=0)\n";
    assert_eq!(verdict(client, "spec"), "forbidden");
    assert_eq!(verdict(client, "spec+ooo-rw"), "allowed");
    assert_eq!(
        verdict(&client.replace("bcast_sv(y", "strong bcast_sv(y"), "spec+ooo-rw"),
        "forbidden"
    );
    for text in [puts, client] {
        let setting = if text == puts { "rdma-tso+ooo" } else { "spec+ooo" };
        let (status, refused) = server.ask("check", &json!({ "text": text, "setting": setting }));
        assert_ne!(status, 200);
        let known = "ibta, ooo-rw, ooo-all, pcie-relaxed, unordered";
        assert!(refused.to_string().contains(known), "{refused}");
    }
}

/// The machine with six buffers: a put passes through those of RDMA-TSO'24 Fig. 7, one after the other.
#[test]
fn the_concrete_machine_is_stepped() {
    let server = start(LONG);
    let put = "RDMA t\n{ x@1=1; y@2=0; }\n P0@1 ;\n y^2 := x ;\n poll(2) ;\nexists ([y]=1)\n";
    let at = |schedule: &[usize], setting: &str| {
        let body = json!({ "text": put, "setting": setting, "concrete": true, "schedule": schedule });
        server.ask("machine", &body)
    };
    let (mut schedule, mut seen) = (Vec::new(), Vec::new());
    loop {
        let (status, state) = at(&schedule, "rdma-tso");
        assert_eq!(status, 200, "{state}");
        let qp = &state["machine"]["threads"][0]["queue_pairs"][0];
        if let Some(parts) = qp["parts"].as_array() {
            let full = parts.iter().filter(|part| part["entries"] != 0);
            let full = full.map(|part| part["name"].as_str().unwrap());
            let writes = [("wb_R", "remote_writes"), ("wb_L", "local_writes")];
            let full = full.chain(writes.into_iter().filter(|w| qp[w.1] != json!([])).map(|w| w.0));
            seen.extend(full.map(str::to_owned));
        }
        if state["enabled"] == json!([]) {
            assert_eq!(state["end"], "final", "{state}");
            break;
        }
        schedule.push(0);
    }
    for buffer in ["req_L", "in_R", "out_R", "rsp_L", "wb_R", "wb_L"] {
        assert!(seen.iter().any(|s| s == buffer), "{buffer}: {seen:?}");
    }
    let (status, refused) = at(&[], "rdma-tso+ooo-rw");
    assert!(
        status == 422 && refused.to_string().contains("papers' network"),
        "{refused}"
    );
    let simplified = json!({ "text": put, "setting": "rdma-tso", "schedule": [0, 0] });
    let (_, state) = server.ask("machine", &simplified);
    assert_eq!(
        state["machine"]["threads"][0]["queue_pairs"][0]["parts"],
        Value::Null,
        "{state}"
    );
}

#[test]
fn other_origins_and_other_names_are_refused() {
    let server = start(LONG);
    let own = format!("origin: http://{}\r\n", server.address);
    let path = format!("{}api/catalogue", server.root);
    assert_eq!(server.get(&path, &own).0, 200);
    assert_eq!(server.get(&path, "origin: http://elsewhere.example\r\n").0, 403);
    assert_eq!(server.get(&path, "origin: null\r\n").0, 403);
    let mut stream = server.connect();
    let foreign = format!("GET {path} HTTP/1.1\r\nhost: elsewhere.example\r\nconnection: close\r\n\r\n");
    stream.write_all(foreign.as_bytes()).unwrap();
    assert_eq!(read(stream).0, 403);
}

#[test]
fn a_large_body_is_refused_before_it_is_read() {
    let server = start(LONG);
    let mut stream = server.connect();
    let length = 100 << 20;
    let more = format!("content-type: application/json\r\ncontent-length: {length}\r\n");
    let head = server.head("POST", &format!("{}api/check", server.root), &more);
    stream.write_all(head.as_bytes()).unwrap();
    // Sends what the server takes; it may close the connection at any time.
    let piece = vec![b' '; 1 << 16];
    let mut sent = 0;
    while sent < length && stream.write_all(&piece).is_ok() {
        sent += piece.len();
    }
    assert_eq!(
        server.ask("check", &json!({ "text": SB, "setting": "tso" })).0,
        200
    );
    let _ = stream.shutdown(Shutdown::Write);
    let (status, _) = read(stream);
    // With the connection reset, the answer may be lost on its way.
    assert!(status == 413 || status == 0, "{status}");
    assert!(sent < length, "the server took everything");
}

#[test]
fn a_vacuous_test_is_called_vacuous_and_not_explained() {
    let server = start(LONG);
    let never = SB
        .replace("a := y | b := x", "assume(0) | b := x")
        .replace("0:a=0 /\\ ", "");
    for setting in ["tso", "x86tso.cat"] {
        let (status, answer) = server.ask("explain", &json!({ "text": never, "setting": setting }));
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["verdict"], "vacuous", "{setting}: {answer}");
        assert_eq!(answer["cycles"], json!([]), "{setting}: {answer}");
    }
}

#[test]
fn nonsense_is_answered_with_words() {
    let server = start(LONG);
    for (question, body) in [
        ("check", json!({})),
        ("check", json!({ "text": "RDMA", "setting": "tso" })),
        ("check", json!({ "text": SB, "setting": "no-such-model" })),
        ("check", json!({ "text": SB, "setting": "nothing.cat" })),
        (
            "check",
            json!({ "text": SB, "setting": "my.cat", "model_text": "acyclic nothing" }),
        ),
        (
            "explain",
            json!({ "text": SB, "setting": "tso", "formula": "0:nobody=1" }),
        ),
        ("explain", json!({ "text": SB, "setting": "tso", "query": 7 })),
        ("robust", json!({ "text": SB, "setting": "tso" })),
        (
            "machine",
            json!({ "text": SB, "setting": "tso", "schedule": [99] }),
        ),
        ("machine", json!({ "text": SB, "setting": "x86tso.cat" })),
        ("source", json!({ "kind": "litmus", "name": "../../etc/passwd" })),
    ] {
        let (status, answer) = server.ask(question, &body);
        assert_eq!(status, 422, "{question} {body}: {answer}");
    }
    let (status, _) = server.get(&format!("{}api/check", server.root), "");
    assert_eq!(status, 405);
}

#[test]
fn a_search_without_end_stops_at_its_limit() {
    let server = start(Duration::from_millis(50));
    let (status, answer) = server.ask("check", &json!({ "text": endless(), "setting": "tso" }));
    assert_eq!(status, 200);
    let limit = answer["limit"].as_str().unwrap();
    assert!(
        limit.starts_with("time limit reached: give it more time"),
        "{answer}"
    );
    assert_eq!(answer["conditions"][0]["verdict"], Value::Null, "{answer}");
}

/// Whether an outcome is forbidden is one search, why is another. A limit of the second says nothing about the sources of reads.
#[test]
fn a_limit_of_the_search_for_a_reason_is_not_a_reason() {
    // A thread of its own multiplies the candidates without changing the outcome asked about.
    let rows = |cell: &dyn Fn(usize) -> String| (0..7).map(cell).collect::<Vec<_>>();
    let left = rows(&|r| {
        if r == 0 {
            "x := 1".to_owned()
        } else {
            format!("s := {r}")
        }
    });
    let right = rows(&|r| format!("s := {}", r + 10));
    let mut text = "RDMA t\n{ x@1=0; s@1=0; }\n P0@1 | P1@1 | P2@1 ;\n".to_owned();
    for r in 0..7 {
        let third = ["a := x", "b := x"].get(r).copied().unwrap_or("");
        text += &format!(" {} | {} | {third} ;\n", left[r], right[r]);
    }
    text += "exists (2:a=1 /\\ 2:b=0)\n";
    for (states, setting) in [(20_000, "tso"), (20_000, "tso.cat")] {
        let server = start_with(LONG, Some(states));
        let (status, answer) = server.ask("explain", &json!({ "text": text, "setting": setting }));
        assert_eq!(status, 200, "{answer}");
        let without = answer["without_cycle"].as_str().unwrap_or("");
        assert!(!without.contains("No choice of sources"), "{setting}: {answer}");
        if answer["verdict"] == "forbidden" && answer["cycles"] == json!([]) {
            assert!(
                without.contains("limit of 20000 states reached"),
                "{setting}: {answer}"
            );
        }
        // The search for cycles of the built-in models does not list candidates, and ends here.
        assert_eq!(
            answer["limit"].is_string(),
            setting == "tso.cat",
            "{setting}: {answer}"
        );
    }
}

/// Where the wrong order of two writes of a thread is all that is wrong, it is the reason; the sources are not what is wrong.
#[test]
fn only_contrary_candidates_are_told_from_none() {
    let server = start(LONG);
    let text = "RDMA t\n{ x@1=0; }\n P0@1 ;\n x := 1 ;\n x := 2 ;\nexists (x=1)\n";
    for (setting, formula, has_sources) in [
        ("tso", "x=1", true),
        ("tso.cat", "x=1", true),
        ("tso", "x=7", false),
    ] {
        let question = json!({ "text": text, "setting": setting, "formula": formula });
        let (_, answer) = server.ask("explain", &question);
        assert_eq!(answer["verdict"], "forbidden", "{answer}");
        let cycles = answer["cycles"].as_array().unwrap();
        assert_eq!(!cycles.is_empty(), has_sources, "{setting} {formula}: {answer}");
        let words = answer["without_cycle"].as_str().unwrap_or_default();
        assert_eq!(
            !words.contains("No choice of sources"),
            has_sources,
            "{setting} {formula}: {answer}"
        );
    }
}

#[test]
fn half_open_connections_do_not_keep_others_out() {
    let server = start(LONG);
    // Nothing, half of a head, and half of a body.
    let head = server.head(
        "POST",
        &format!("{}api/check", server.root),
        "content-length: 100\r\n",
    );
    let half_open: Vec<TcpStream> = (0..300)
        .map(|number| {
            let mut stream = server.connect();
            let sent = ["", "GET / HTTP/1.1\r\nhost: ", &head][number % 3];
            stream.write_all(sent.as_bytes()).unwrap();
            stream
        })
        .collect();
    assert_eq!(
        server.ask("check", &json!({ "text": SB, "setting": "tso" })).0,
        200
    );
    // Each of them comes to an end, though its peer does nothing more.
    for (number, mut stream) in half_open.into_iter().enumerate() {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut bytes = Vec::new();
        match stream.read_to_end(&mut bytes) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{number}"),
        }
        let text = String::from_utf8_lossy(&bytes);
        assert!(
            bytes.is_empty() || text.starts_with("HTTP/1.1 408"),
            "{number}: {text}"
        );
    }
}

#[test]
fn a_search_ends_when_nobody_waits_for_it() {
    // More searches without end than can run at once, all given up: had they not stopped, the last request would wait for ever.
    let server = start(LONG);
    let body = json!({ "text": endless(), "setting": "tso" });
    let places = std::thread::available_parallelism().map_or(2, usize::from).max(2);
    for _ in 0..2 * places {
        drop(server.request("check", &body));
    }
    assert_eq!(
        server.ask("check", &json!({ "text": SB, "setting": "tso" })).0,
        200
    );
}

#[test]
fn of_many_searches_at_once_some_are_refused_and_the_rest_wait() {
    let server = start(LONG);
    let body = json!({ "text": endless(), "setting": "tso" });
    let places = std::thread::available_parallelism().map_or(2, usize::from).max(2);
    // Fifty are well within what may wait. Each connection stays open, so nothing is given up.
    let fifty: Vec<TcpStream> = (0..50).map(|_| server.request("check", &body)).collect();
    assert_eq!(
        server.get(&server.root, "").0,
        200,
        "the page itself needs no place"
    );
    let more: Vec<TcpStream> = (0..64 + places).map(|_| server.request("check", &body)).collect();
    let refused = more.into_iter().rev().find_map(|stream| {
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        Some(read(stream)).filter(|(status, _)| *status != 0)
    });
    assert_eq!(refused.map(|(status, _)| status), Some(503));
    drop(fifty);
    // The server notices one after the other that nobody waits for these searches any more. Until then it may refuse.
    let short = json!({ "text": SB, "setting": "tso" });
    let answers = std::iter::repeat_with(|| server.ask("check", &short).0);
    let answer = answers.take(10_000).find(|&status| {
        if status == 503 {
            std::thread::sleep(Duration::from_millis(10));
        }
        status != 503
    });
    assert_eq!(answer, Some(200));
}
