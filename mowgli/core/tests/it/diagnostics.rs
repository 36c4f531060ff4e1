//! Every diagnostic of the litmus language: the text that causes it, the words that it marks, and the remedy it names.

use mowgli::litmus::{Diagnostic, Kind, limits, parse};

/// Returns a test of one thread on node 1 with locations x on node 1 and z on node 2.
fn one_thread(code: &str) -> String {
    format!("RDMA t\n{{ x@1=0; z@2=0; }}\nP0@1 ;\n{code}\nexists (x=0 /\\ z=0)\n")
}

/// Returns a test of two threads on nodes 1 and 2.
fn two_threads(rows: &str) -> String {
    format!("RDMA t\n{{ x@1=0; z@2=0; }}\nP0@1 | P1@2 ;\n{rows}\nexists (x=0 /\\ z=0)\n")
}

fn diagnostics(source: &str) -> Vec<Diagnostic> {
    match parse(source) {
        Ok(parsed) => parsed.warnings,
        Err(error) => error.diagnostics,
    }
}

/// Returns the only diagnostic of `source`, which must mark `marked` and name `remedy` in its help or
/// message.
#[track_caller]
fn only(source: &str, kind: Kind, marked: &str, remedy: &str) -> Diagnostic {
    let found = diagnostics(source);
    assert_eq!(found.len(), 1, "{found:#?}");
    let diagnostic = found[0].clone();
    assert_eq!(diagnostic.kind, kind, "{diagnostic:?}");
    assert_eq!(&source[diagnostic.span.clone()], marked, "{diagnostic:?}");
    assert!(diagnostic.to_string().contains(remedy), "{diagnostic}");
    diagnostic
}

#[test]
fn poll_and_wait_leave_only_one_model() {
    let text =
        "RDMA t\n{ x@1=0; z@2=0; }\nP0@1 ;\nz^2 :=[d] x ;\npoll(2) ;\nwait(d) ;\nexists (x=0 /\\ z=0)\n";
    only(text, Kind::PollAndWait, "poll(2)", "only `sc`");
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_header() {
    assert_eq!(diagnostics(&format!("\u{feff}{}", one_thread("z^2 := x ;"))), []);
}

#[test]
fn unknown_instruction_names_the_nearest() {
    only(
        &one_thread("mfnece ;"),
        Kind::UnknownInstruction,
        "mfnece",
        "did you mean `mfence`?",
    );
    only(
        &one_thread("pol(2) ;"),
        Kind::UnknownInstruction,
        "pol",
        "did you mean `poll`?",
    );
    only(
        &one_thread("x := CAS(x, 0, 1) ;"),
        Kind::UnknownInstruction,
        "CAS",
        "did you mean `cas`?",
    );
    only(
        &one_thread("broadcast(x) ;"),
        Kind::UnknownInstruction,
        "broadcast",
        "instructions are",
    );
}

#[test]
fn every_bad_cell_is_reported() {
    let found = diagnostics(&two_threads("mfnece | x^ := 1 ;\n x := 1 | barrier ;"));
    let kinds: Vec<Kind> = found.iter().map(|d| d.kind).collect();
    assert_eq!(
        kinds,
        [Kind::UnknownInstruction, Kind::Syntax, Kind::UnknownInstruction]
    );
}

#[test]
fn location_on_the_wrong_node_is_explained() {
    let d = only(
        &one_thread("z := 1 ;"),
        Kind::WrongNode,
        "z",
        "the NIC reaches the location as `z^2`",
    );
    assert!(
        d.message.contains("`z` is on node 2, but P0 runs on node 1"),
        "{}",
        d.message
    );
    assert_eq!(d.related.len(), 1, "the declaration is shown");
    only(
        &one_thread("a := z ;"),
        Kind::WrongNode,
        "z",
        "a CPU load reaches only",
    );
    only(&one_thread("z^3 := x ;"), Kind::WrongNode, "3", "write `z^2`");
    only(
        &one_thread("z := z^2 ;"),
        Kind::WrongNode,
        "z",
        "a get lands on the thread's own node",
    );
    only(
        &one_thread("z^2 := z ;"),
        Kind::WrongNode,
        "z",
        "a put reads its source",
    );
    only(
        &one_thread("a := cas(z, 0, 1) ;"),
        Kind::WrongNode,
        "z",
        "compare-and-swap reaches only",
    );
}

#[test]
fn unknown_location_names_the_nearest_or_the_init_block() {
    let source = "RDMA t\n{ flag@2=0; }\nP0@1 ;\nflga^2 := 1 ;\nexists (flag=0)\n";
    only(source, Kind::UnknownLocation, "flga", "did you mean `flag`?");
    only(
        &one_thread("payload^2 := 1 ;"),
        Kind::UnknownLocation,
        "payload",
        "place it in the init block",
    );
    let source = one_thread("a := x ;").replace("x=0 /\\ z=0", "a=0 /\\ x=0 /\\ z=0");
    only(
        &source,
        Kind::UnknownLocation,
        "a",
        "a register of thread P0 is written `0:a`",
    );
}

#[test]
fn unknown_register() {
    only(
        &one_thread("x := value ;"),
        Kind::UnknownRegister,
        "value",
        "registers are private",
    );
    only(
        &two_threads("aa := x | z := aa ;"),
        Kind::UnknownRegister,
        "aa",
        "P1 has assigned",
    );
    let source = one_thread("value := x ;").replace("x=0 /\\ z=0", "0:valeu=0 /\\ x=0 /\\ z=0");
    only(&source, Kind::UnknownRegister, "valeu", "did you mean `0:value`?");
}

#[test]
fn remote_operations_land_in_memory() {
    only(
        &one_thread("a := z^2 ;"),
        Kind::WrongOperand,
        "a",
        "place it in the init block: `a@1=0;`",
    );
    only(
        &one_thread("a := rfaa(z^2, 1) ;"),
        Kind::WrongOperand,
        "a",
        "lands in memory",
    );
    only(
        &one_thread("rfaa(z^2, 1) ;"),
        Kind::WrongOperand,
        "rfaa",
        "needs a local location",
    );
}

#[test]
fn one_memory_access_an_instruction() {
    let source = "RDMA t\n{ x@1=0; y@1=0; }\nP0@1 ;\nx := y ;\nexists (x=0)\n";
    only(source, Kind::WrongOperand, "y", "`r := y`, then `x := r`");
    only(
        &one_thread("a := x + 1 ;"),
        Kind::WrongOperand,
        "x",
        "load it first",
    );
    only(
        &one_thread("z^2 := x + 1 ;"),
        Kind::WrongOperand,
        "x",
        "load it first",
    );
    only(
        &one_thread("x := z^2 + 1 ;"),
        Kind::Syntax,
        "+",
        "after the instruction",
    );
    only(
        &one_thread("x := 1 + z^2 ;"),
        Kind::WrongOperand,
        "z",
        "get it into a local location first",
    );
    only(
        &one_thread("x := cas(x, 0, 1) ;"),
        Kind::WrongOperand,
        "x",
        "to a register",
    );
    only(
        &one_thread("a := cas(z^2, 0, 1) ;"),
        Kind::WrongOperand,
        "2",
        "`v := rcas(x^2, e1, e2)`",
    );
    only(
        &one_thread("z^2 := z^2 ;"),
        Kind::WrongOperand,
        "z^2 := z^2",
        "one remote side",
    );
    only(
        &one_thread("x := rcas(z, 0, 1) ;"),
        Kind::WrongOperand,
        "z",
        "`z^2`",
    );
}

#[test]
fn uninitialised_location_is_warned() {
    let source = "RDMA t\n{ x@1; }\nP0@1 ;\nx := 1 ;\nexists (x=1)\n";
    only(source, Kind::UninitialisedLocation, "x", "write `x@1=0;`");
    assert!(parse(source).is_ok(), "a warning does not refuse");
}

#[test]
fn register_shared_between_threads_is_warned() {
    let d = only(
        &two_threads("a := x | a := z ;"),
        Kind::SharedRegister,
        "a",
        "private to a thread",
    );
    assert_eq!(d.related.len(), 1, "the first owner is shown");
    assert_eq!(
        diagnostics(&two_threads("r0 := x | r0 := z ;")),
        [],
        "names like r0 are conventional"
    );
}

#[test]
fn poll_that_never_succeeds_is_warned() {
    let warned = |code: &str, marked: &str| {
        only(
            &one_thread(code),
            Kind::PollNeverSucceeds,
            marked,
            "each poll takes one earlier",
        );
    };
    warned("poll(2) ;", "poll(2)");
    warned("z^2 := x ; poll(2) ; poll(2) ;", "poll(2)");
    warned("z^2 := x ; poll(1) ;", "poll(1)");
    warned(
        "a := x ; if (a) { mfence } else { rfence(2) } ; poll(2) ;",
        "poll(2)",
    );
    warned("a := x ; while (a) bound 3 { poll(2) } ;", "poll(2)");
    let quiet = |code: &str| assert_eq!(diagnostics(&one_thread(code)), [], "{code}");
    quiet("z^2 := x ; poll(2) ;");
    quiet("choose { z^2 := x } or { mfence } ; poll(2) ;");
    quiet("a := x ; while (a) bound 3 { z^2 := x } ; poll(2) ; poll(2) ; poll(2) ;");
}

#[test]
fn wait_for_nothing_is_warned() {
    only(
        &one_thread("z^2 :=[d] x ; wait(e) ;"),
        Kind::WaitForNothing,
        "e",
        "carries `e`",
    );
    assert_eq!(diagnostics(&one_thread("z^2 :=[d] x ; wait(d) ;")), []);
}

#[test]
fn unused_location_is_warned() {
    let source = "RDMA t\n{ x@1=0; y@1=0; }\nP0@1 ;\nx := 1 ;\nexists (x=1)\n";
    only(source, Kind::UnusedLocation, "y", "nothing uses location `y`");
}

#[test]
fn row_length_mismatch() {
    only(
        &two_threads("x := 1 ;"),
        Kind::RowLength,
        "x := 1",
        "this row has 1 cell, but there are 2 threads",
    );
    only(
        &one_thread("x := 1 | mfence ;"),
        Kind::RowLength,
        "x := 1 | mfence",
        "2 cells, but there is 1 thread",
    );
}

#[test]
fn row_without_its_end() {
    only(
        &one_thread("x := 1"),
        Kind::Syntax,
        "exists",
        "expected `|` or `;`",
    );
}

#[test]
fn header_mistakes() {
    only(
        "X86 SB\n{ }\n",
        Kind::BadHeader,
        "X86 SB",
        "the test is for `X86`",
    );
    only("RDMA\n{ }\n", Kind::BadHeader, "RDMA", "the test has no name");
    only("RDMA a b\n{ }\n", Kind::BadHeader, "a b", "letters, digits");
    assert_eq!(diagnostics("")[0].kind, Kind::BadHeader);
    assert_eq!(diagnostics("(* only a comment *)")[0].kind, Kind::BadHeader);
}

#[test]
fn tokens_that_do_not_exist_or_do_not_end() {
    only(
        &one_thread("x := 1 $ ;"),
        Kind::BadToken,
        "$",
        "unexpected character",
    );
    only(
        &one_thread("x := 1 ; (* open"),
        Kind::BadToken,
        "(*",
        "comments nest",
    );
    let source = "RDMA t\n\"open\n{ }\n";
    only(source, Kind::BadToken, "\"", "never closed");
}

#[test]
fn names_given_twice_and_keywords_as_names() {
    let source = "RDMA t\n{ x@1=0; x@2=0; }\nP0@1 ;\nx := 1 ;\nexists (x=1)\n";
    only(source, Kind::Duplicate, "x", "rename one of the two");
    let source = "RDMA t\n{ x@1=0; 0:x; }\nP0@1 ;\nx := 1 ;\nexists (x=1)\n";
    only(source, Kind::Duplicate, "x", "both a location and a register");
    let source = "RDMA t\n{ poll@1=0; }\nP0@1 ;\nmfence ;\nexists (true)\n";
    only(source, Kind::Syntax, "poll", "choose another name");
}

#[test]
fn numbers_out_of_range() {
    only(
        &one_thread("poll(0) ;"),
        Kind::OutOfRange,
        "0",
        "nodes are numbered from 1 to NODES_MAX",
    );
    only(
        &one_thread("x := 99999999999999999999 ;"),
        Kind::OutOfRange,
        "99999999999999999999",
        "64 bits",
    );
    let source = one_thread("a := x ;").replace("x=0 /\\", "3:a=0 /\\ x=0 /\\");
    only(&source, Kind::OutOfRange, "3", "there is no thread 3");
    let source = "RDMA t\n{ 0:r=1; }\nP0@1 ;\nmfence ;\nexists (true)\n";
    only(
        source,
        Kind::OutOfRange,
        "r",
        "assign it in the thread's first row",
    );
}

#[test]
fn threads_are_numbered_in_order() {
    let source = "RDMA t\n{ x@1=0; }\nP1@1 ;\nx := 1 ;\nexists (x=1)\n";
    only(source, Kind::Syntax, "P1", "from left to right");
    let source = "RDMA t\n{ x@1=0; }\nP0 ;\nx := 1 ;\nexists (x=1)\n";
    only(source, Kind::Syntax, ";", "say on which node `P0` runs");
    let source = "RDMA t\n{ x=0; }\nP0@1 ;\nx := 1 ;\nexists (x=1)\n";
    only(source, Kind::Syntax, "=", "say on which node `x` lives");
}

#[test]
fn loops_state_their_bound_and_equality_is_doubled() {
    only(
        &one_thread("a := x ; while (a) { mfence } ;"),
        Kind::Syntax,
        "{",
        "bound 3",
    );
    only(
        &one_thread("a := x ; assume(a = 1) ;"),
        Kind::Syntax,
        "=",
        "equality in expressions is `==`",
    );
}

#[test]
fn work_identifiers_belong_to_remote_operations() {
    only(
        &one_thread("x :=[d] 1 ;"),
        Kind::Syntax,
        "d",
        "only remote operations",
    );
}

#[test]
fn expected_verdicts() {
    let with = |verdicts: &str| format!("{}{verdicts}\n", one_thread("x := 1 ;"));
    only(
        &with("allowed [rmda-tso;]"),
        Kind::UnknownModel,
        "rmda-tso",
        "did you mean `rdma-tso`?",
    );
    only(
        &with("allowed [rdma-tso/half;]"),
        Kind::UnknownModel,
        "rdma-tso/half",
        "hca, glob",
    );
    only(
        &with("allowed [sc;] forbidden [sc;]"),
        Kind::BadExpectation,
        "sc",
        "two different verdicts",
    );
    let source = "RDMA t\n{ x@1=0; }\nP0@1 ;\nx := 1 ;\nallowed [sc;]\n";
    only(source, Kind::BadExpectation, "allowed", "follows the condition");
    let source = "RDMA t\n{ x@1=0; }\nP0@1 ;\nx := 1 ;\n";
    only(source, Kind::Syntax, "", "`exists (true)` lists every state");
}

#[test]
fn statements_about_robustness_are_checked() {
    let with =
        |statements: &str| format!("RDMA t\n{{ x@1=0; }}\nP0@1 ;\nx := 1 ;\nexists (x=1)\n{statements}\n");
    only(
        &with("robust [tso;]"),
        Kind::BadExpectation,
        "tso",
        "robustness is not defined for `tso`",
    );
    only(
        &with("ldrf [rdma-sc;] ~ldrf [rdma-sc;]"),
        Kind::BadExpectation,
        "rdma-sc",
        "stated and denied",
    );
    only(
        &with("fenced [rdma-so;]"),
        Kind::UnknownModel,
        "rdma-so",
        "rdma-sc",
    );
    only(
        &with("tree-robust [rdma-sc;]"),
        Kind::Syntax,
        "robust",
        "the property is called `tree-fenced`",
    );
    only(
        &with("robust [rdma-sc;] exists (x=1)"),
        Kind::Syntax,
        "exists",
        "statements about robustness come last",
    );
    only(
        &with("robust rdma-sc"),
        Kind::Syntax,
        "rdma",
        "models stand in brackets",
    );
}

#[test]
fn limits_are_named() {
    let named = |source: &str, limit: &str| {
        let found = diagnostics(source);
        let last = found.last().unwrap();
        assert_eq!(last.kind, Kind::LimitExceeded, "{last}");
        assert!(last.message.contains(limit), "{last}");
    };
    named(&" ".repeat(limits::SOURCE_BYTES_MAX + 1), "SOURCE_BYTES_MAX");
    named(
        &one_thread(&"mfence ;".repeat(limits::INSTRUCTIONS_MAX + 1)),
        "INSTRUCTIONS_MAX",
    );
    named(
        &one_thread(&format!("x := {}1 ;", "-(".repeat(1000))),
        "NESTING_MAX",
    );
    named(
        &one_thread(&format!("x := 1{} ;", " + 1".repeat(1000))),
        "NESTING_MAX",
    );
    named(&one_thread(&"if (1) {".repeat(1000)), "NESTING_MAX");
    named(&one_thread(&"(*".repeat(1000)), "NESTING_MAX");
    named(
        &one_thread("mfence ;").replace("exists (", &format!("exists {}", "(".repeat(1000))),
        "NESTING_MAX",
    );
    named(
        &one_thread("while (1) bound 1000000 { mfence } ;"),
        "LOOP_BOUND_MAX",
    );
    named(
        &format!("RDMA {}\n", "n".repeat(limits::NAME_BYTES_MAX + 1)),
        "NAME_BYTES_MAX",
    );
    named(
        &one_thread(&format!("{} := 1 ;", "n".repeat(limits::NAME_BYTES_MAX + 1))),
        "NAME_BYTES_MAX",
    );
    let columns: Vec<String> = (0..=limits::THREADS_MAX).map(|t| format!("P{t}@1")).collect();
    named(
        &format!("RDMA t\n{{ }}\n{} ;\nexists (true)", columns.join("|")),
        "THREADS_MAX",
    );
    let places: String = (0..=limits::LOCATIONS_MAX)
        .map(|n| format!("x{n}@1=0;"))
        .collect();
    named(
        &format!("RDMA t\n{{ {places} }}\nP0@1;\nexists (true)"),
        "LOCATIONS_MAX",
    );
    let registers: String = (0..=limits::REGISTERS_MAX)
        .map(|n| format!("r{n} := 1;\n"))
        .collect();
    named(&one_thread(&registers), "REGISTERS_MAX");
    named(
        &one_thread("mfence ;\n").replace("exists", &"exists (true)\n".repeat(limits::QUERIES_MAX + 1)),
        "QUERIES_MAX",
    );
    let atoms = "x=0 /\\ ".repeat(limits::ATOMS_MAX + 1);
    named(
        &one_thread("mfence ;").replace("exists (", &format!("exists ({atoms}")),
        "ATOMS_MAX",
    );
}

#[test]
fn positions_are_lines_and_columns_in_characters() {
    let source = "RDMA t\n\"é\" { x@1=0; }\nP0@1 ;\n(* é *) mfnece ;\nexists (x=0)\n";
    let found = diagnostics(source);
    assert_eq!(found[0].position(source), (4, 9));
}
