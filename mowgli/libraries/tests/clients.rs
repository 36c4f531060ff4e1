//! Tests the language of clients: the texts that are read, those that are refused with their messages, and
//! that printing loses nothing.

use mowgli_libraries::client::{Client, Library, Method, ObjectKind, Stmt, parse};

fn client(source: &str) -> Client {
    match parse(source) {
        Ok(parsed) => parsed.client,
        Err(error) => panic!("{error}\n{source}"),
    }
}

const FIG_23: &str = r#"RDMA LOCO-23
"LOCO'26 Fig. 23: ring buffer and barrier"
{ }
objects { ring x: P0 -> P1 size 4; barrier z: P0, P1; }
 P0@1              | P1@2            ;
 a := submit(x, 1) | barrier(z)      ;
 barrier(z)        | b := receive(x) ;

exists (0:a=true /\ 1:b=bot)
forbidden [spec;]

exists (0:a=true /\ 1:b=1)
allowed [spec;]
"#;

/// A call of every method, loops, branches and every kind of object.
const EVERYTHING: &str = r#"RDMA everything
"all of it, \"quoted\""
{ x@1=0; y@2=3; z@1=-1; 0:late; }
objects { sv s; barrier b: P0, P1; ring q: P0 -> P0, P1 size 8; mixed m@1 size 2; mixed n@2 size 2; msv v size 2; owned o@1; sst t;
          atomic c@2=7; lock l@1; queue w@1 size 2; store k; nodes 3; }
 P0@1 | P1@2 ;
 write(x, 1 + 2 * 3) | a := read(y) ;
 r := read(x) | r1 := cas(y, a, (a + 1) * 2) ;
 mfence() | rfence(1) ;
 get(x, y, d) | put(x, y, e) ;
 rfaa(z, y, 1, d) | rcas(y, x, 0, 1, e) ;
 strong get(x, y, d) | strong put(x, y, e) ;
 strong rfaa(z, y, 1, d) | strong rcas(y, x, 0, 1, e) ;
 wait(d) | wait(e) ;
 write_sv(s, 1) | r2 := read_sv(s) ;
 bcast_sv(s, f, {1, 2, 3}) | gf_sv({1}) ;
 strong bcast_sv(s, f, {2}) | ;
 wait_sv(f) | ;
 barrier(b) | barrier(b) ;
 barrier_unfenced(b) | barrier_unfenced(b) ;
 r3 := submit(q, [1, r]) | r4 := receive(q) ;
 submit(q, 5) | r5 := receive(q) ;
 write_msw(m, [1, 2]) | r6 := try_read_msw(n) ;
 put_msw(n, m, g) | get_msw(n, m, g) ;
 wait_msw(g) | wait_msw(g) ;
 write_msv(v, [1, 2]) | r21 := try_read_msv(v) ;
 bcast_msv(v, j, {1, 2}) | ;
 wait_msv(j) | ;
 store_owned(o, 1) | r7 := load_owned(o) ;
 push_owned(o, _) | pulled := pull_owned(o) ;
 push_owned(o, _) | wait_owned(h) ;
 store_sst(t, 4) | r8 := load_sst(t, 1) ;
 push_sst(t, i) | ;
 wait_sst(i) | ;
 r9 := read_atomic(c) | write_atomic(c, 1) ;
 r10 := swap_atomic(c, 2) | r11 := cas_atomic(c, 1, 2) ;
 r12 := faa_atomic(c, -1) | ;
 lock(l) | r13 := try_lock(l) ;
 unlock(l) | if (r13) { unlock_unfenced(l) } else { r13 := false } ;
 r14 := push_queue(w, 3) | r15 := pop_queue(w) ;
 close_queue(w) | r16 := delete_kv(k, 1) ;
 r17 := insert_kv(k, 1, 2) | r18 := get_kv(k, 1) ;
 r19 := update_kv(k, 1, 2) | loop { r4 := receive(q); if (r4 != bot) { break }; loop { break 2 } } ;
 fence_pair(2) | fence_thread() ;
 fence_node() | r20 := [1, r1] ;
 late := !r3 && (r9 < 2) | ;

locations [z;]

~exists (0:late=true \/ (1:r4=[1, 2] /\ ~1:r20!=bot) /\ [x]=1)
allowed [weak-ring; I_RBL;]
forbidden [spec;]
"#;

#[test]
fn a_client_of_two_libraries_is_read() {
    let client = client(FIG_23);
    assert_eq!(client.libraries(), [Library::Barrier, Library::RingBuffer]);
    assert_eq!((client.nodes, client.calls()), (2, 4));
    assert!(matches!(
        &client.objects[0].kind,
        ObjectKind::Ring { size: 4, .. }
    ));
    let Stmt::Call {
        result: Some(_),
        call,
    } = &client.threads[0].body[0]
    else {
        panic!("a call with a result");
    };
    assert_eq!(call.method, Method::Submit);
    assert_eq!(client.print(), FIG_23);
}

#[test]
fn printing_loses_nothing() {
    let all = client(EVERYTHING);
    let of_clients = Method::ALL.iter().copied().filter(|m| m.is_of_clients());
    let mut missing: Vec<Method> = of_clients.collect();
    all.for_each_call(&mut |_, call| missing.retain(|m| *m != call.method));
    assert!(missing.is_empty(), "methods without a call here: {missing:?}");
    let text = all.print();
    assert_eq!(client(&text), all, "{text}");
    assert_eq!(client(&text).print(), text);
}

#[test]
fn a_client_survives_json() {
    let all = client(EVERYTHING);
    let json = serde_json::to_string(&all).expect("a client is JSON");
    assert_eq!(
        serde_json::from_str::<Client>(&json).expect("it is one again"),
        all
    );
}

/// Returns the messages for a text, with line and column and remedy.
fn refused(rows: &str) -> String {
    let source = format!(
        "RDMA t\n{{ x@1=0; y@2=0; }}\nobjects {{ sv s; ring q: P0 -> P1 size 4; barrier b: P0; mixed m@1 size 2; }}\n{rows}"
    );
    let error = parse(&source).expect_err("the text has a mistake");
    let lines: Vec<_> = error
        .diagnostics
        .iter()
        .filter(|d| d.severity() == mowgli::litmus::Severity::Error)
        .map(|d| format!("{:?} {d}", d.position(&source)))
        .collect();
    lines.join("\n")
}

#[test]
fn mistakes_are_named_with_their_place_and_remedy() {
    let cases = [
        (
            "P0@1 | P1@2 ;\n braodcast(s) | ;",
            "(5, 2) error[unknown-instruction]: unknown method `braodcast`",
        ),
        ("P0@1 | P1@2 ;\n recieve(q) | ;", "did you mean `receive`?"),
        (
            "P0@1 | P1@2 ;\n write(y, 1) | ;",
            "`y` is on node 2, but thread P0 runs on node 1",
        ),
        (
            "P0@1 | P1@2 ;\n | submit(q, 1) ;",
            "thread P1 is not the writer of ring `q`",
        ),
        (
            "P0@1 | P1@2 ;\n r := receive(q) | ;",
            "thread P0 is not a reader of ring `q`",
        ),
        (
            "P0@1 | P1@2 ;\n | barrier(b) ;",
            "thread P1 does not take part in barrier `b`",
        ),
        (
            "P0@1 | P1@2 ;\n read_sv(x) | ;",
            "`x` belongs to RDMA^WAIT, not to shared variable",
        ),
        ("P0@1 | P1@2 ;\n r := mfence() | ;", "`mfence` returns nothing"),
        (
            "P0@1 | P1@2 ;\n strong write(x, 1) | ;",
            "(5, 2) error[wrong-operand]: `write` cannot ask for strong order",
        ),
        (
            "P0@1 | P1@2 ;\n strong wait(d) | ;",
            "leave `strong` out; it stands before put, get, rfaa, rcas, bcast_sv",
        ),
        (
            "P0@1 | P1@2 ;\n strong putt(y, x, d) | ;",
            "(5, 9) error[unknown-instruction]: unknown method `putt`",
        ),
        ("P0@1 | P1@2 ;\n write(x) | ;", "`write` takes 2 arguments, not 1"),
        (
            "P0@1 | P1@2 ;\n write(x, read(x)) | ;",
            "a call cannot stand inside another",
        ),
        ("P0@1 | P1@2 ;\n write(x, r) | ;", "thread P0 has no register `r`"),
        ("P0@1 | P1@2 ;\n write(x, [1, 2]) | ;", "expected a number"),
        (
            "P0@1 | P1@2 ;\n write_msw(m, 1) | ;",
            "`m` has 2 words, the value 1",
        ),
        ("P0@1 | P1@2 ;\n break | ;", "`break 1` stands in 0 loops"),
        (
            "P0@1 | P1@2 ;\n poll(2) | wait(d) ;",
            "this client polls, and calls `wait`",
        ),
        (
            "P0@1 | P1@2 ;\n write_msw(m, [1, 2]) | ;\n poll(2) | ;",
            "this client polls, and calls `write_msw`",
        ),
        (
            "P0@1 | P1@2 ;\n r := read(x) | ;\nexists (0:r=1)\nallowed [specs;]",
            "did you mean `spec`?",
        ),
        (
            "P0@1 | P1@2 ;\n r := read(x) | ;\nexists (1:r=1)",
            "thread P1 has no register `r`",
        ),
    ];
    for (rows, wanted) in cases {
        let found = refused(rows);
        assert!(
            found.contains(wanted),
            "wanted {wanted:?} for\n{rows}\nfound\n{found}"
        );
    }
}

#[test]
fn declarations_are_checked() {
    let cases = [
        (
            "objects { ring q: P0 size 4; }",
            "needs one writer and some readers",
        ),
        ("objects { ring q: P0 -> P1; }", "has no size"),
        ("objects { barrier b; }", "has no participants"),
        ("objects { barrier b: P0, P0; }", "a thread is named twice"),
        ("objects { barrier b: P0, P7; }", "there is no thread `P7`"),
        ("objects { lock l; }", "lock `l` has no node"),
        ("objects { sv s size 4; }", "sv `s` takes no size"),
        ("objects { sv s; sv s; }", "`s` is declared twice"),
        ("objects { shared s; }", "unknown kind of object `shared`"),
        ("objects { mixed m@1 size 0; }", "the size of `m` cannot be 0"),
        ("objects { msv v@1 size 2; }", "msv `v` takes no node"),
    ];
    for (objects, wanted) in cases {
        let source = format!("RDMA t\n{{ }}\n{objects}\nP0@1 | P1@2 ;\n mfence() | ;\n");
        let error = parse(&source).expect_err(objects);
        let found: Vec<_> = error.diagnostics.iter().map(ToString::to_string).collect();
        assert!(
            found.iter().any(|m| m.contains(wanted)),
            "wanted {wanted:?} for {objects}\nfound {found:?}"
        );
    }
}

#[test]
fn objects_that_nothing_uses_are_warned_about() {
    let parsed = parse("RDMA t\n{ x@1=0; }\nobjects { sv s; }\nP0@1 ;\n mfence() ;\n").expect("accepted");
    let messages: Vec<_> = parsed.warnings.iter().map(|d| d.message.clone()).collect();
    assert_eq!(messages, ["`x` is not used", "`s` is not used"]);
}
