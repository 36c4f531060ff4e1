//! The litmus language: what a test means, and that printing and parsing are inverse.

use mowgli::litmus::{
    Condition, Expected, Formula, Litmus, Operand, Property, Quantifier, Query, Relation, Setting, Statement,
    Verdict, parse,
};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::Outcome;
use mowgli::program::*;
use mowgli::robust::MODELS;
use proptest::prelude::*;

const EVERYTHING: &str = r#"
(* Comments (* nest *). *)
RDMA Every+thing
"One of each \"instruction\""
{ x@1=0; y@1=-3; z@2=7; w@2=0; 1:unused; }
 P0@1                                      | P1@2               ;
 x := 1 + 2 * 3                            | a := z             ;
 a := x                                    | b := a == 0 || !(a < 2) ;
 b := cas(x, a, -(a))                      | mfence             ;
 cas(x, 1, 2)                              |                    ;
 z^2 :=[d] x                               | x^1 := a           ;
 y := z^2                                  | poll(1)            ;
 x :=[e] rfaa(z^2, 1)                      | assume(a != 5)     ;
 y := rcas(w^2, a, a + 1)                  |                    ;
 rfence(2)                                 | rfence(1)          ;
 wait(d)                                   |                    ;
 if (a) { y := 2; y := 3 } else { mfence } | choose { } or { w := 1 } or { w := 2; } ;
 while (b == 0) bound 4 { b := y }         |                    ;
locations [y; 0:a;]
forall (x=1 \/ ~(0:a=2 /\ 1:b!=3) /\ [w]<>4)
required [sc; tso;]
~exists (false)
forbidden [rdma-tso; rdma-tso/glob;] allowed [rdma-wait/glob;]
"#;

#[test]
fn every_construct_parses_to_what_it_says() {
    let litmus = parse(EVERYTHING).unwrap().litmus;
    assert_eq!(litmus.name, "Every+thing");
    assert_eq!(litmus.description.as_deref(), Some("One of each \"instruction\""));
    let p = &litmus.program;
    assert_eq!(p.nodes, 2);
    assert_eq!(
        (
            p.locations[1].name.as_str(),
            p.locations[1].node,
            p.locations[1].init
        ),
        ("y", Node(0), -3)
    );
    assert_eq!(p.threads[0].registers, ["a", "b"]);
    assert_eq!(p.threads[1].registers, ["unused", "a", "b"]);
    assert_eq!(p.threads[0].work_ids, ["d", "e"]);
    let code = &p.threads[0].code;
    let constant = |v| Box::new(Expr::Const(v));
    let product = Box::new(Expr::Binary(BinaryOp::Mul, constant(2), constant(3)));
    assert_eq!(
        code[0],
        Instr::Store {
            loc: Loc(0),
            value: Expr::Binary(BinaryOp::Add, constant(1), product)
        }
    );
    assert_eq!(
        code[1],
        Instr::Load {
            reg: Reg(0),
            loc: Loc(0)
        }
    );
    assert_eq!(
        code[4],
        Instr::Put {
            dst: Loc(2),
            src: PutSrc::Loc(Loc(0)),
            work: Some(WorkId(0))
        }
    );
    assert_eq!(
        code[5],
        Instr::Get {
            dst: Loc(1),
            src: Loc(2),
            work: None
        }
    );
    let add = Expr::Const(1);
    assert_eq!(
        code[6],
        Instr::RemoteFaa {
            dst: Loc(0),
            target: Loc(2),
            add,
            work: Some(WorkId(1))
        }
    );
    assert_eq!(code[9], Instr::Wait { work: WorkId(0) });
    assert!(matches!(&code[11], Instr::While { bound: 4, body, .. } if body.len() == 1));
    assert_eq!(
        p.threads[1].code[3],
        Instr::Put {
            dst: Loc(0),
            src: PutSrc::Value(Expr::Reg(Reg(1))),
            work: None
        }
    );
    assert!(
        matches!(&p.threads[1].code[7], Instr::Choose(blocks) if blocks.len() == 3 && blocks[0].is_empty())
    );
    assert_eq!(
        litmus.observed,
        [Operand::Loc(Loc(1)), Operand::Reg(ThreadId(0), Reg(0))]
    );
    assert_eq!(litmus.queries[0].condition.quantifier, Quantifier::Forall);
    let glob = Setting {
        model: Model::RdmaWait,
        rmw: RmwAtomicity::Glob,
    };
    assert_eq!(litmus.queries[1].expected[&glob], Verdict::Allowed);
    assert_eq!(litmus.queries[1].expected.len(), 3);
}

#[test]
fn everything_prints_back() {
    let litmus = parse(EVERYTHING).unwrap().litmus;
    assert_eq!(
        parse(&litmus.print()).unwrap().litmus,
        litmus,
        "{}",
        litmus.print()
    );
}

#[test]
fn statements_about_robustness_parse_and_print_back() {
    let source = "RDMA t\n{ x@1=0; }\n P0@1 ;\n x := 1 ;\nexists (x=1)\nallowed [sc;]\n~tree-fenced [rdma-tso/glob;]\n\
         fenced [rdma-sc; rdma-wait;] robust [rdma-sc;]\n";
    let litmus = parse(source).unwrap().litmus;
    let stated: Vec<String> = litmus
        .stated
        .iter()
        .map(|s| format!("{}{} {}", if s.holds { "" } else { "~" }, s.property, s.setting))
        .collect();
    assert_eq!(
        stated,
        [
            "robust rdma-sc",
            "fenced rdma-sc",
            "fenced rdma-wait",
            "~tree-fenced rdma-tso/glob"
        ]
    );
    let again = parse(&litmus.print()).unwrap().litmus;
    assert_eq!(again, litmus);
}

#[test]
fn conjunction_binds_tighter_than_disjunction() {
    let source = |f: &str| format!("RDMA t\n{{ x@1=0; y@1=0; }}\nP0@1 ;\nx := 1 ;\nexists ({f})");
    let holds = |f: &str, x: i64, y: i64| {
        let litmus = parse(&source(f)).unwrap().litmus;
        let outcome = Outcome {
            registers: vec![vec![]],
            memory: vec![x, y],
        };
        litmus.queries[0].condition.formula.holds(&outcome)
    };
    assert!(holds("x=1 \\/ y=1 /\\ false", 1, 0));
    assert!(!holds("(x=1 \\/ y=1) /\\ false", 1, 0));
    assert!(holds("~x=1 \\/ y=2", 0, 0), "~ binds tightest");
    assert!(holds("~(x=1 /\\ y=1) /\\ x<>0", 1, 0));
}

#[test]
fn the_fingerprint_ignores_layout_and_words_but_not_meaning() {
    let base = "RDMA t\n{ x@1=0; }\nP0@1 ;\nx := 1 ;\nexists (x=1)";
    let print = |s: &str| mowgli::litmus::fingerprint(&parse(s).unwrap().litmus);
    assert_eq!(
        print(base),
        print("RDMA other\n\"words\" {x@1=0;} P0@1; (* c *) x:=1; exists (x=1) allowed [sc;]")
    );
    assert_ne!(print(base), print(&base.replace(":= 1", ":= 2")));
    assert_ne!(print(base), print(&base.replace("x=1", "x=2")));
    assert_ne!(print(base), print(&base.replace('1', "2")));
}

#[test]
fn the_manual_shows_a_test_that_parses() {
    let manual = include_str!("../../../../docs/litmus.md");
    let example = manual.split("```").nth(1).unwrap();
    let parsed = parse(example).unwrap();
    assert_eq!(parsed.warnings, []);
    assert_eq!(
        parsed.litmus.program,
        mowgli::catalogue::find("SB3").unwrap().parse().unwrap().program
    );
}

/// Random tests in the parser's own form: see `print`.
mod random {
    use super::*;

    pub fn expr(registers: u16) -> impl Strategy<Value = Expr> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(Expr::Const),
            (0..registers).prop_map(|r| Expr::Reg(Reg(r)))
        ];
        leaf.prop_recursive(3, 12, 2, |inner| {
            let unary = prop_oneof![Just(UnaryOp::Neg), Just(UnaryOp::Not)];
            let binary = prop::sample::select(vec![
                BinaryOp::Add,
                BinaryOp::Sub,
                BinaryOp::Mul,
                BinaryOp::Eq,
                BinaryOp::Ne,
                BinaryOp::Lt,
                BinaryOp::Le,
                BinaryOp::Gt,
                BinaryOp::Ge,
                BinaryOp::And,
                BinaryOp::Or,
            ]);
            prop_oneof![
                (unary, inner.clone()).prop_map(|(op, e)| Expr::Unary(op, Box::new(e))),
                (binary, inner.clone(), inner).prop_map(|(op, a, b)| Expr::Binary(
                    op,
                    Box::new(a),
                    Box::new(b)
                )),
            ]
        })
    }

    /// Returns an instruction of a thread on node `t` of two; locations 0 and 1 are on node 0, 2 and 3 on
    /// node 1.
    fn instr(t: u16) -> impl Strategy<Value = Instr> {
        let local = (0..2u16).prop_map(move |l| Loc(2 * t + l));
        let remote = (0..4u16).prop_map(Loc);
        let reg = (0..2u16).prop_map(Reg);
        let node = (0..2u8).prop_map(Node);
        // Identifiers are numbered by first appearance: one is enough to keep that order.
        let work = prop::option::of(Just(WorkId(0)));
        let e = || expr(2);
        let (swap_reg, swap_loc) = (prop::option::of(reg.clone()), local.clone());
        let (swap_dst, swap_target, swap_work) = (local.clone(), remote.clone(), work.clone());
        let leaf = prop_oneof![
            (local.clone(), e()).prop_map(|(loc, value)| Instr::Store { loc, value }),
            (reg.clone(), local.clone()).prop_map(|(reg, loc)| Instr::Load { reg, loc }),
            (reg.clone(), e()).prop_map(|(reg, value)| Instr::Assign { reg, value }),
            (prop::option::of(reg), local.clone(), e(), e()).prop_map(|(reg, loc, expected, new)| {
                Instr::Cas {
                    reg,
                    loc,
                    expected,
                    new,
                }
            }),
            Just(Instr::Mfence),
            (remote.clone(), local.clone(), work.clone()).prop_map(|(dst, src, work)| Instr::Put {
                dst,
                src: PutSrc::Loc(src),
                work
            }),
            (remote.clone(), e(), work.clone()).prop_map(|(dst, e, work)| Instr::Put {
                dst,
                src: PutSrc::Value(e),
                work
            }),
            (local.clone(), remote.clone(), work.clone()).prop_map(|(dst, src, work)| Instr::Get {
                dst,
                src,
                work
            }),
            (local.clone(), remote.clone(), e(), work.clone()).prop_map(|(dst, target, add, work)| {
                Instr::RemoteFaa {
                    dst,
                    target,
                    add,
                    work,
                }
            }),
            (local, remote, e(), e(), work).prop_map(|(dst, target, expected, new, work)| Instr::RemoteCas {
                dst,
                target,
                expected,
                new,
                work
            }),
            (swap_reg, swap_loc, e()).prop_map(|(reg, loc, new)| Instr::Swap { reg, loc, new }),
            (swap_dst, swap_target, e(), swap_work).prop_map(|(dst, target, new, work)| {
                Instr::RemoteSwap {
                    dst,
                    target,
                    new,
                    work,
                }
            }),
            node.clone().prop_map(|node| Instr::Poll { node }),
            node.prop_map(|node| Instr::Rfence { node }),
            Just(Instr::Wait { work: WorkId(0) }),
            Just(Instr::Strong(Box::new(Instr::Put {
                dst: Loc(2),
                src: PutSrc::Value(Expr::Const(1)),
                work: None,
            }))),
            Just(Instr::Strong(Box::new(Instr::Unsignaled(Box::new(Instr::Put {
                dst: Loc(2),
                src: PutSrc::Value(Expr::Const(2)),
                work: None,
            }))))),
            e().prop_map(Instr::Assume),
        ];
        leaf.prop_recursive(2, 8, 3, move |inner| {
            let block = prop::collection::vec(inner, 0..3);
            prop_oneof![
                (expr(2), block.clone(), block.clone()).prop_map(|(cond, then, otherwise)| Instr::If {
                    cond,
                    then,
                    otherwise
                }),
                (expr(2), block.clone(), 0..5u32).prop_map(|(cond, body, bound)| Instr::While {
                    cond,
                    body,
                    bound
                }),
                prop::collection::vec(block, 1..3).prop_map(Instr::Choose),
            ]
        })
    }

    fn formula() -> impl Strategy<Value = Formula> {
        let operand = prop_oneof![
            (0..2u8, 0..2u16).prop_map(|(t, r)| Operand::Reg(ThreadId(t), Reg(r))),
            (0..4u16).prop_map(|l| Operand::Loc(Loc(l))),
        ];
        let relation = prop_oneof![Just(Relation::Eq), Just(Relation::Ne)];
        let leaf = prop_oneof![
            any::<bool>().prop_map(Formula::Const),
            (operand, relation, any::<i64>()).prop_map(|(o, r, v)| Formula::Atom(o, r, v)),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                inner.clone().prop_map(|f| Formula::Not(Box::new(f))),
                prop::collection::vec(inner.clone(), 2..4).prop_map(Formula::And),
                prop::collection::vec(inner, 2..4).prop_map(Formula::Or),
            ]
        })
    }

    fn query() -> impl Strategy<Value = Query> {
        let quantifier = prop_oneof![
            Just(Quantifier::Exists),
            Just(Quantifier::NotExists),
            Just(Quantifier::Forall)
        ];
        let setting = (
            prop::sample::select(Model::ALL.to_vec()),
            prop::sample::select(RmwAtomicity::ALL.to_vec()),
        )
            .prop_map(|(model, rmw)| Setting { model, rmw });
        let verdict = prop::sample::select(Verdict::ALL.to_vec());
        let expected = prop::collection::btree_map(setting, verdict, 0..4);
        (quantifier, formula(), expected).prop_map(|(quantifier, formula, expected): (_, _, Expected)| {
            Query {
                condition: Condition { quantifier, formula },
                expected,
            }
        })
    }

    /// Statements, sorted, at most one for each property and model.
    fn stated() -> impl Strategy<Value = Vec<Statement>> {
        let setting = (
            prop::sample::select(MODELS.to_vec()),
            prop::sample::select(RmwAtomicity::ALL.to_vec()),
        )
            .prop_map(|(model, rmw)| Setting { model, rmw });
        let key = (prop::sample::select(Property::ALL.to_vec()), setting);
        prop::collection::btree_map(key, any::<bool>(), 0..6).prop_map(|all| {
            let statement = |((property, setting), holds)| Statement {
                property,
                setting,
                holds,
            };
            all.into_iter().map(statement).collect()
        })
    }

    pub fn litmus() -> impl Strategy<Value = Litmus> {
        let code = |t| prop::collection::vec(instr(t), 0..6);
        let description = prop::option::of("[ -~\n]{0,30}");
        let queries = prop::collection::vec(query(), 1..4);
        (
            "[A-Za-z0-9+_.'-]{1,12}",
            description,
            code(0),
            code(1),
            queries,
            stated(),
            any::<[i64; 4]>(),
        )
            .prop_map(|(name, description, code0, code1, queries, stated, init)| {
                let location = |i: usize| Location {
                    name: format!("x{i}"),
                    node: Node(i as u8 / 2),
                    init: init[i],
                    // The second location of each node.
                    relaxed: i % 2 == 1,
                };
                let thread = |t: u8, code: Vec<Instr>| Thread {
                    name: format!("P{t}"),
                    node: Node(t),
                    registers: vec!["r0".to_owned(), "r1".to_owned()],
                    work_ids: if uses_work(&code) {
                        vec!["d".to_owned()]
                    } else {
                        vec![]
                    },
                    code,
                };
                let program = Program {
                    nodes: 2,
                    locations: (0..4).map(location).collect(),
                    threads: vec![thread(0, code0), thread(1, code1)],
                };
                Litmus {
                    name,
                    description,
                    program,
                    observed: vec![Operand::Loc(Loc(0))],
                    queries,
                    stated,
                }
            })
    }

    fn uses_work(code: &[Instr]) -> bool {
        code.iter().any(|instr| match instr {
            Instr::Put { work, .. } | Instr::Get { work, .. } => work.is_some(),
            Instr::RemoteFaa { work, .. }
            | Instr::RemoteCas { work, .. }
            | Instr::RemoteSwap { work, .. } => work.is_some(),
            Instr::Wait { .. } => true,
            Instr::If { then, otherwise, .. } => uses_work(then) || uses_work(otherwise),
            Instr::While { body, .. } => uses_work(body),
            Instr::Choose(blocks) => blocks.iter().any(|b| uses_work(b)),
            _ => false,
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn printing_then_parsing_is_the_identity(litmus in random::litmus()) {
        let text = litmus.print();
        match parse(&text) {
            Ok(parsed) => prop_assert_eq!(parsed.litmus, litmus),
            Err(error) => prop_assert!(false, "{}\n{}", error, text),
        }
    }
}
