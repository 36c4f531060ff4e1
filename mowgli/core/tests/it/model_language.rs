//! The language of model files: what its operators mean, and models in the style of herd7.

use mowgli::cat::{self, Embedded, ModelFile, RELATIONS, SETS};
use mowgli::generate::{self, Shape};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::{Budget, Outcome};
use mowgli::program::Program;
use mowgli::{catalogue, check, declarative};

fn model(text: &str) -> ModelFile {
    ModelFile::parse("t.cat", text, &Embedded).unwrap_or_else(|e| panic!("{}\n{text}", e[0]))
}

fn program(name: &str) -> Program {
    catalogue::find(name).unwrap().parse().unwrap().program
}

fn outcomes(program: &Program, model: &ModelFile) -> std::collections::BTreeSet<Outcome> {
    let search = cat::outcomes(program, model, RmwAtomicity::Hca, &Budget::default());
    assert!(search.is_complete(), "{:?}", search.completeness);
    search.outcomes
}

/// Asserts that two relations are equal in every execution of some programs: an axiom that they differ leaves no outcome.
#[track_caller]
fn equal(a: &str, b: &str) {
    let differ = model(&format!("~empty (({a}) \\ ({b})) | (({b}) \\ ({a})) as differ"));
    for name in ["SB3", "MP1", "TSO-1b", "RCAS-fail", "LOCO-2b"] {
        assert!(
            outcomes(&program(name), &differ).is_empty(),
            "{a} is not {b} in {name}"
        );
    }
}

#[test]
fn operators_bind_as_in_herd7() {
    equal("po | rf ; mo", "po | (rf ; mo)");
    equal("po ; rf \\ mo", "po ; (rf \\ mo)");
    equal("po \\ loc & rf", "po \\ (loc & rf)");
    equal("po & R * W", "po & (R * W)");
    equal("~po & loc", "(~po) & loc");
    equal("~rf^-1", "~(rf^-1)");
    equal("po \\ rf \\ mo", "(po \\ rf) \\ mo");
    equal("rf*", "id | rf+");
    equal("rf* ; mo", "mo | rf+ ; mo");
    equal("rf? ; mo", "mo | rf ; mo");
    equal("po^+", "po+");
    // A closure at the end of an expression, and a product.
    let both = model("let a = po* ~empty a & ~a as some let b = R * ~R acyclic [domain(b)] ; a as c");
    assert_eq!(both.axioms().len(), 2);
}

#[test]
fn laws_of_the_operators() {
    equal("(rf ; mo)^-1", "mo^-1 ; rf^-1");
    equal("[R] ; po ; [W]", "po & R * W");
    equal("[domain(rf)] ; rf ; [range(rf)]", "rf");
    equal("rf & 0", "0");
    equal("[{}]", "0");
    equal("_ * _", "~0");
    equal("rb", "(rf^-1 ; mo) \\ id");
    equal("fr", "rb");
    equal("co", "mo");
    equal("int | ext", "_ * _");
    equal("rfe | rfi", "rf");
    equal("WR(po)", "[W] ; po ; [R]");
    equal("fencerel(MFENCE)", "po & (_ * MFENCE) ; po");
    equal("[R | W]", "[M]");
    equal("[CPU | NIC | IW]", "id");
    equal("rf \\ (rf & loc)", "0");
}

#[test]
fn recursive_definitions_have_their_least_solution() {
    let closures = model(
        "let rec a = rf | po | mo | (a ; a)\nlet rec b = (rf | po | mo) | (c ; b) and c = b\n\
         let plus = (rf | po | mo)+\n~empty (a \\ plus) | (plus \\ a) | (b \\ plus) | (plus \\ b) as differ",
    );
    let empty = model("let rec a = a & po\n~empty a as some");
    for name in ["SB3", "MP1"] {
        assert!(outcomes(&program(name), &closures).is_empty(), "{name}");
        assert!(outcomes(&program(name), &empty).is_empty(), "{name}");
    }
}

/// RDMA-TSO'24 Def. C.4 is recursive, and equivalent to Def. 4.4 (Thms. C.5 and C.6).
#[test]
fn the_recursive_definition_of_rdma_tso_is_equivalent() {
    let recursive = model(
        "include \"rdma-tables.cat\"\nlet Inst = _ \\ (lW | nlW | nrW)\n\
         let rf_b = rf & same-thread & (lW * lR)\nlet rb_b = rb & same-thread & (lR * lW)\n\
         let rec ib = (ippo | rf | pf | nfo | rb_b | rao-apart | ob;[Inst])+\n\
         and ob = (oppo | (rf \\ rf_b) | [nlW];pf | nfo | rb | mo | rao-apart | [Inst];ib)+\n\
         irreflexive ib as ib irreflexive ob as ob",
    );
    let file = ModelFile::of(Model::RdmaTso);
    for entry in catalogue::entries() {
        let program = entry.parse().unwrap().program;
        if check::applicable(&program, Model::RdmaTso).is_ok() {
            let search =
                |m: &ModelFile| cat::outcomes(&program, m, RmwAtomicity::Hca, &Budget::default()).outcomes;
            assert_eq!(search(&recursive), search(&file), "{}", entry.path());
        }
    }
}

/// An axiom that can become true again waits for complete executions.
#[test]
fn axioms_that_are_not_monotone_are_decided_at_the_end() {
    let stale = model("acyclic po | rf | rb | mo as sc ~empty rb & ~mo as stale");
    let shape = Shape {
        instructions: 5,
        ..Shape::CPU
    };
    for seed in 1..=60 {
        let program = generate::program(seed, &shape);
        let plain = cat::outcomes_by_enumeration(&program, &stale, RmwAtomicity::Hca, &Budget::default());
        assert_eq!(outcomes(&program, &stale), plain.outcomes, "seed {seed}");
    }
}

/// Models as a user of herd7 has them: the title in bare words, comments of three kinds, herd7's files of fences and filters included, axioms
/// without names.
const AS_IN_HERD7: [(&str, Model); 2] = [
    (
        "SC\ninclude \"fences.cat\"\ninclude \"cos.cat\"\n(* atomicity *)\nempty rmw & (fre;coe) as atom\n\
         #order\nlet com = rf | fr | co // communication\nacyclic po | com\n",
        Model::Sc,
    ),
    (
        "X86 TSO again\ninclude \"x86fences.cat\"\ninclude \"filters.cat\"\ninclude \"cos.cat\"\n\
         acyclic po-loc | amo | rf | fr | co\nempty rmw & (fre;coe)\n#preserved\nlet kept = WW(po) | RM(po)\n\
         #locked\ninclude \"x86fences.cat\"\nlet poWR = WR(po)\nlet locked = MA(poWR) | AM(poWR)\n\
         let global = mfence | locked | kept | rfe | fr | co\nshow mfence,locked\nacyclic global as tso",
        Model::Tso,
    ),
];

#[test]
fn models_in_the_style_of_herd7_are_sc_and_tso() {
    let file = |name: &str| ModelFile::parse(name, cat::find(name).unwrap(), &Embedded).unwrap();
    let mut pairs = vec![(file("sc-herd.cat"), Model::Sc), (file("x86tso.cat"), Model::Tso)];
    for (text, of) in AS_IN_HERD7 {
        let file = model(text);
        assert_eq!(file.warnings(), [], "{text}");
        pairs.push((file, of));
    }
    assert_eq!(pairs[3].0.title(), Some("X86 TSO again"));
    // What x86-TSO promises holds on AArch64, and nothing more may be relied on.
    pairs.push((file("aarch64-words.cat"), Model::Tso));
    let catalogue = catalogue::entries().iter().map(|e| e.parse().unwrap().program);
    let wide = Shape {
        locations: 3,
        instructions: 9,
        ..Shape::CPU
    };
    let random = (1..=150).flat_map(|seed| {
        [
            generate::program(seed, &Shape::CPU),
            generate::program(seed, &wide),
        ]
    });
    let mut compared = 0;
    for program in catalogue
        .chain(random)
        .filter(|p| check::applicable(p, Model::Tso).is_ok())
    {
        for (file, model) in &pairs {
            let built_in = declarative::outcomes(&program, *model, RmwAtomicity::Hca, &Budget::default());
            assert!(built_in.is_complete());
            assert_eq!(
                outcomes(&program, file),
                built_in.outcomes,
                "{model}: {program:?}"
            );
            compared += 1;
        }
    }
    assert!(compared > 1_500, "{compared}");
}

#[test]
fn a_requirement_that_is_not_met_is_no_verdict() {
    let tso = ModelFile::of(Model::Tso);
    let error = cat::decide(&program("SB3"), &tso, RmwAtomicity::Hca, None, &Budget::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tso.cat does not apply: it requires no-remote-operations"
    );
    let refused = cat::outcomes(&program("SB3"), &tso, RmwAtomicity::Hca, &Budget::default());
    assert!(!refused.is_complete() && refused.outcomes.is_empty());
}

#[test]
fn an_include_sees_what_was_defined_before_it() {
    let variant = model(
        "include \"rdma-tables.cat\"\nlet oppo = oppo \\ (nrW * nrW)\nlet buffer = same-thread & (lW * lR)\n\
         let flush = nfo\ninclude \"rdma-axioms.cat\"",
    );
    let strict = ModelFile::of(Model::RdmaTso);
    let mut weaker = 0;
    for entry in catalogue::entries() {
        let program = entry.parse().unwrap().program;
        if check::applicable(&program, Model::RdmaTso).is_ok() {
            let (a, b) = (outcomes(&program, &strict), outcomes(&program, &variant));
            assert!(a.is_subset(&b), "{}", entry.path());
            weaker += usize::from(a != b);
        }
    }
    assert!(weaker > 0, "some test of the catalogue is about this cell");
}

#[test]
fn an_explanation_names_the_axiom_and_the_edges() {
    let litmus = catalogue::find("MP1").unwrap().parse().unwrap();
    let file = ModelFile::of(Model::RdmaTso);
    let formula = &litmus.queries[0].condition.formula;
    let reason = cat::explain::forbidden(
        &litmus.program,
        &file,
        RmwAtomicity::Hca,
        formula,
        &Budget::default(),
    );
    assert!(reason.limit.is_none() && !reason.cases.is_empty());
    for case in &reason.cases {
        assert!(
            ["ib", "ob", "joint"].contains(&case.axiom.name.as_str()),
            "{}",
            case.axiom
        );
        let links = &case.links;
        for (at, link) in links.iter().enumerate() {
            assert_eq!(
                link.to,
                links[(at + 1) % links.len()].from,
                "the links form a cycle"
            );
        }
    }
    let text = reason.render(&litmus.program, 0..1);
    assert!(
        text.contains("It violates irreflexive \"ob\" (rdma-axioms.cat, line"),
        "{text}"
    );
    assert!(
        text.contains("-> oppo") && text.contains("-> rf \\ rf_b") && text.contains("-> rb"),
        "{text}"
    );
}

#[test]
fn shown_relations_are_drawn() {
    let litmus = catalogue::find("MP1").unwrap().parse().unwrap();
    let file = model("acyclic po | rf | rb | mo as sc show po;[R] as before-reads");
    let wanted = |_: &Outcome| true;
    let found = cat::witness(
        &litmus.program,
        &file,
        RmwAtomicity::Hca,
        &wanted,
        &Budget::default(),
    );
    let execution = found.unwrap().unwrap().unwrap();
    let shown = file.shown(&execution);
    assert_eq!(shown[0].0, "before-reads");
    let drawing = mowgli::explain::Drawing::marked(&litmus.program, &execution, None, &shown);
    assert!(drawing.svg("t").contains("before-reads") && drawing.dot("t").contains("before-reads"));
}

/// The tables of `docs/models.md` list every predefined name.
#[test]
fn the_documentation_lists_every_predefined_name() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/models.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows: Vec<&str> = page.lines().filter_map(|l| l.split('|').nth(1)).collect();
    let names = SETS.iter().map(|s| s.0).chain(RELATIONS.iter().map(|r| r.0));
    for name in names {
        let cell = format!("`{name}`");
        assert!(
            rows.iter().any(|r| r.contains(&cell)),
            "{name} is in no table of docs/models.md"
        );
    }
}
