//! Mistakes in a model file are reported with place and remedy: one test for each kind of mistake.

use mowgli::cat::limits::{DEPTH_MAX, NESTING_MAX, OPERATORS_MAX, SOURCE_BYTES_MAX};
use mowgli::cat::{Embedded, Included, Includes, ModelFile};
use mowgli::syntax::{Kind, Located};

/// Files for includes, beside the embedded ones.
struct Files(&'static [(&'static str, &'static str)]);

impl Includes for Files {
    fn read(&self, includer: &str, path: &str) -> Result<Included, String> {
        match self.0.iter().find(|f| f.0 == path) {
            Some((name, text)) => Ok(Included {
                name: (*name).to_owned(),
                text: (*text).to_owned(),
            }),
            None => Embedded.read(includer, path),
        }
    }
}

fn errors(text: &str, files: &'static [(&'static str, &'static str)]) -> Vec<Located> {
    ModelFile::parse("t.cat", text, &Files(files)).expect_err(text)
}

/// Asserts that the first error has this kind, marks this text, and says these words in its message, label or help.
#[track_caller]
fn refused(text: &str, kind: Kind, marked: &str, words: &[&str]) {
    let errors = errors(text, &[]);
    let first = &errors[0];
    assert_eq!(first.kind, kind, "{errors:?}");
    assert_eq!(&first.source.text[first.span.clone()], marked, "{first}");
    let help = first.help.as_deref().unwrap_or_default();
    let said = format!("{} {} {help}", first.message, first.label);
    for words in words {
        assert!(said.contains(words), "{words} not in {said}");
    }
}

#[test]
fn an_undefined_name_suggests_the_nearest() {
    refused(
        "acyclic po | fre | mpo as x",
        Kind::UndefinedName,
        "mpo",
        &["nothing defines `mpo`", "`po`"],
    );
    refused(
        "let a = b let b = po acyclic a as x",
        Kind::UndefinedName,
        "b",
        &[],
    );
    refused(
        "acyclic quidproquo",
        Kind::UndefinedName,
        "quidproquo",
        &["docs/models.md"],
    );
}

#[test]
fn a_set_where_a_relation_is_due() {
    refused(
        "acyclic R as x",
        Kind::WrongType,
        "R",
        &["a set where a relation is needed", "`[S]`"],
    );
    refused("acyclic po ; W as x", Kind::WrongType, "W", &["this is a set"]);
    refused("acyclic R+ as x", Kind::WrongType, "R", &["closures"]);
    refused(
        "acyclic po | W as x",
        Kind::WrongType,
        "W",
        &["`|` joins a relation and a set"],
    );
    refused(
        "let rec a = R acyclic a as x",
        Kind::WrongType,
        "R",
        &["a recursive definition is a relation"],
    );
    refused(
        "show R acyclic po",
        Kind::WrongType,
        "R",
        &["`show` draws relations"],
    );
}

#[test]
fn a_relation_where_a_set_is_due() {
    refused(
        "acyclic [po] as x",
        Kind::WrongType,
        "po",
        &["a relation where a set is needed", "`domain(r)`"],
    );
    refused("acyclic R * po as x", Kind::WrongType, "po", &["product"]);
    refused(
        "empty R & rf as x",
        Kind::WrongType,
        "rf",
        &["`&` joins a set and a relation"],
    );
}

#[test]
fn functions_and_values_are_not_mixed_up() {
    refused(
        "acyclic WW as x",
        Kind::WrongType,
        "WW",
        &["is a function", "1 argument"],
    );
    refused(
        "acyclic po rf as x",
        Kind::WrongType,
        "po",
        &["not a function", "operator"],
    );
    refused(
        "acyclic WW(po, rf) as x",
        Kind::WrongArity,
        "WW(po, rf)",
        &["takes 1 argument, not 2"],
    );
    refused(
        "empty domain() as x",
        Kind::WrongArity,
        "domain()",
        &["takes 1 argument, not 0"],
    );
}

#[test]
fn an_error_in_a_function_says_where_it_was_called() {
    let errors = errors("let f(S) = [S] ; po\nacyclic f(rf) as x", &[]);
    assert_eq!(errors[0].kind, Kind::WrongType);
    assert_eq!(errors[0].position(), (1, 13));
    assert!(
        errors[0].label.contains("in the call of `f` at t.cat:2:9"),
        "{:?}",
        errors[0]
    );
}

#[test]
fn an_include_that_is_missing() {
    refused(
        "include \"rdma-tso.kat\" acyclic po",
        Kind::MissingInclude,
        "\"rdma-tso.kat\"",
        &["did you mean \"rdma-tso.cat\"?"],
    );
    refused(
        "include \"quidproquo\" acyclic po",
        Kind::MissingInclude,
        "\"quidproquo\"",
        &["relative to the file"],
    );
}

#[test]
fn includes_in_a_circle() {
    const CIRCLE: &[(&str, &str)] = &[
        ("t.cat", "include \"t.cat\""),
        ("a.cat", "include \"b.cat\""),
        ("b.cat", "let q = po include \"a.cat\""),
    ];
    let own = errors("include \"t.cat\" acyclic po", CIRCLE);
    assert_eq!(own[0].kind, Kind::CyclicInclude);
    assert_eq!(own[0].message, "t.cat includes itself");
    let longer = errors("include \"a.cat\" acyclic po", CIRCLE);
    assert_eq!(longer[0].kind, Kind::CyclicInclude);
    assert_eq!(
        longer[0].message,
        "a.cat includes itself: a.cat -> b.cat -> a.cat"
    );
    assert_eq!(longer[0].source.name, "b.cat");
    assert_eq!(longer[0].position(), (1, 20));
}

#[test]
fn an_error_in_an_included_file_is_shown_there() {
    const BROKEN: &[(&str, &str)] = &[("broken.cat", "let a = po\nlet b = nowhere")];
    let found = errors("include \"broken.cat\" acyclic a as x", BROKEN);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (found[0].source.name.as_str(), found[0].position()),
        ("broken.cat", (2, 9))
    );
}

#[test]
fn a_name_defined_twice() {
    let found = errors("let a = po\nlet a = rf\nacyclic a as x", &[]);
    assert_eq!(found[0].kind, Kind::Duplicate);
    assert_eq!(found[0].position(), (2, 5));
    assert_eq!(found[0].related[0].0, 4..5);
    refused(
        "let a = po and a = rf acyclic a as x",
        Kind::Duplicate,
        "a",
        &["defined twice"],
    );
    refused(
        "let f(x, x) = x acyclic f(po, rf) as x",
        Kind::Duplicate,
        "x",
        &[],
    );
}

/// herd7's models redefine predefined names, and a variant redefines what it includes.
#[test]
fn predefined_and_included_names_may_be_redefined() {
    const TABLES: &[(&str, &str)] = &[("tables.cat", "let table = po")];
    let text =
        "include \"tables.cat\" let com = rf | co let table = table \\ (W * R) acyclic com | table as x";
    assert_eq!(
        ModelFile::parse("t.cat", text, &Files(TABLES))
            .unwrap()
            .warnings(),
        []
    );
}

#[test]
fn recursion_through_negation() {
    refused(
        "let rec a = po \\ a acyclic a as x",
        Kind::NotMonotone,
        "a",
        &["on the right of `\\`", "least solution"],
    );
    refused(
        "let rec a = po & b and b = ~(rf ; a) acyclic a | b as x",
        Kind::NotMonotone,
        "(rf ; a)",
        &["below `~`"],
    );
    let fine = "let rec a = po | (a ; b) and b = (rf \\ po) | b^-1 | (a & loc) acyclic a as x";
    assert!(ModelFile::parse("t.cat", fine, &Embedded).is_ok());
    refused(
        "let rec f(x) = f(x) acyclic f(po) as x",
        Kind::Unsupported,
        "f",
        &["only relations"],
    );
}

#[test]
fn comments_and_texts_that_do_not_end() {
    refused(
        "acyclic po (* (* *)",
        Kind::BadToken,
        "(*",
        &["never closed", "comments nest"],
    );
    refused(
        "include \"sc.cat",
        Kind::BadToken,
        "\"",
        &["not closed on its line"],
    );
}

#[test]
fn characters_that_start_no_token() {
    refused("acyclic po ∪ rf", Kind::BadToken, "∪", &["union is written `|`"]);
    refused("acyclic po ^ rf", Kind::BadToken, "^", &["`^-1`"]);
    refused(
        "acyclic po - rf",
        Kind::BadToken,
        "-",
        &["difference is written `\\`"],
    );
    refused("acyclic po % all", Kind::BadToken, "%", &["(* ... *)"]);
    refused("acyclic po $", Kind::BadToken, "$", &["'$'"]);
}

#[test]
fn tokens_in_the_wrong_place() {
    refused(
        "acyclc po as x",
        Kind::Syntax,
        "acyclc",
        &["did you mean `acyclic`?"],
    );
    refused("acyclic (po | rf as x", Kind::Syntax, "as", &["expected `)`"]);
    refused("let = po", Kind::Syntax, "=", &["a name to define"]);
    refused("let let = po", Kind::Syntax, "let", &["the keyword `let`"]);
    refused("acyclic po | as x", Kind::Syntax, "as", &["a set or a relation"]);
    refused(
        "acyclic po as",
        Kind::Syntax,
        "",
        &["the axiom's name", "the end of the text"],
    );
    refused(
        "requires po as x",
        Kind::Syntax,
        "po",
        &["`acyclic`, `irreflexive` or `empty`"],
    );
    refused("include sc.cat", Kind::Syntax, "sc.cat", &["quoted file name"]);
    refused(
        "show po ; rf acyclic po",
        Kind::Syntax,
        "acyclic",
        &["`as` and a name"],
    );
}

#[test]
fn what_herd7_has_and_this_language_has_not() {
    refused(
        "let a = po in a",
        Kind::Unsupported,
        "in",
        &["a `let` of its own"],
    );
    refused(
        "with co from cross(S)",
        Kind::Unsupported,
        "cross(S)",
        &["orders of coherence"],
    );
    refused(
        "acyclic po ++ rf",
        Kind::Unsupported,
        "po ++ rf",
        &["sets of sets"],
    );
}

#[test]
fn a_requirement_on_executions() {
    refused(
        "requires empty rf as x acyclic po",
        Kind::DynamicRequirement,
        "rf",
        &["on programs", "drop `requires`"],
    );
}

#[test]
fn warnings_leave_the_model_usable() {
    let file = ModelFile::parse("t.cat", "let a = po\nlet b = rf\nacyclic a as x", &Embedded).unwrap();
    let [unused] = file.warnings() else {
        panic!("{:?}", file.warnings());
    };
    assert_eq!((unused.kind, unused.position()), (Kind::Unused, (2, 5)));
    let file = ModelFile::parse("t.cat", "(* nothing *)", &Embedded).unwrap();
    assert_eq!(file.warnings()[0].kind, Kind::NoAxiom);
}

#[test]
fn bounds_are_named() {
    let limit = |text: &str, name: &str| {
        let found = errors(text, &[]);
        assert_eq!(found[0].kind, Kind::LimitExceeded, "{:?}", found[0]);
        assert!(found[0].message.contains(name), "{}", found[0]);
    };
    limit(&" ".repeat(SOURCE_BYTES_MAX + 1), "SOURCE_BYTES_MAX");
    limit(&format!("acyclic {}po", "(".repeat(NESTING_MAX)), "NESTING_MAX");
    limit(
        &format!("acyclic {}po", "~".repeat(NESTING_MAX + 1)),
        "NESTING_MAX",
    );
    limit(
        &format!("acyclic po{}", "?".repeat(NESTING_MAX + 1)),
        "NESTING_MAX",
    );
    limit(&"(*".repeat(NESTING_MAX + 1), "NESTING_MAX");
    limit(&format!("acyclic {}", "x".repeat(1000)), "NAME_BYTES_MAX");
    limit(
        &format!("acyclic {}po", "po | ".repeat(OPERATORS_MAX)),
        "OPERATORS_MAX",
    );
    // Calls of calls: twice as many operators at each level.
    let doubling: String = (1..30)
        .map(|i| format!("let f{i}(x) = f{}(x) | f{}(x ; x)\n", i - 1, i - 1))
        .collect();
    limit(
        &format!("let f0(x) = x\n{doubling}acyclic f29(po) as x"),
        "OPERATORS_MAX",
    );
    let chain: String = (1..150)
        .map(|i| format!("let f{i}(x) = [R] ; f{}(x)\n", i - 1))
        .collect();
    let found = errors(&format!("let f0(x) = x\n{chain}acyclic f149(po) as x"), &[]);
    assert!(found[0].message.contains("NESTING_MAX") || found[0].message.contains(&format!("{DEPTH_MAX}")));
}

#[test]
fn every_code_is_different() {
    let kinds = [
        Kind::BadToken,
        Kind::Syntax,
        Kind::Unsupported,
        Kind::UndefinedName,
        Kind::WrongType,
        Kind::WrongArity,
        Kind::Duplicate,
        Kind::NotMonotone,
        Kind::CyclicInclude,
        Kind::MissingInclude,
        Kind::DynamicRequirement,
        Kind::LimitExceeded,
        Kind::Unused,
        Kind::NoAxiom,
    ];
    let codes: std::collections::BTreeSet<&str> = kinds.iter().map(|k| k.code()).collect();
    assert_eq!(codes.len(), kinds.len());
}
