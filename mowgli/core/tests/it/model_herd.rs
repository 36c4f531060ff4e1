//! Model files in herd7's own style: `try`, `if`, `with .. from`, `flag`, local definitions, and libraries with more than this language
//! has. The texts are written for these tests; `docs/evidence/herd7.md` says how herd7's files were compared.

use mowgli::cat::{self, Embedded, Included, Includes, ModelFile};
use mowgli::catalogue;
use mowgli::check::applicable;
use mowgli::declarative;
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::Budget;
use mowgli::syntax::Kind;

/// A library as herd7's are: names of other architectures, coherence orders from sets of sets, procedures.
const LIBRARY: &[(&str, &str)] = &[
    (
        "orders.cat",
        "\"Generate co's\"\n\
         let locs (pco,wss) =\n  let rec walk wss = match wss with\n  || {} -> {}\n  || ws ++ wss -> linearisations(ws,pco) ++ walk(wss)\n\
         \x20 end in walk(wss)\n\
         let cross = let rec go (k,ys,oss) = match oss with || {} -> ys ++ k || os ++ oss -> go (k, os | ys, oss) end in\n\
         \x20 fun oss -> go ({},0,oss)\n\
         let generate_cos(pco) = cross (locs (pco, partition W))\n\
         let partition = classes-loc\n",
    ),
    (
        "co.cat",
        "Orders\nif \"fast\" && not \"slow\"\n include \"nowhere.cat\"\nelse\n include \"orders.cat\"\nend\n\
         let invrf = rf^-1\nlet base = let ww = po-loc & (W * W) and r = co0 in r | ww\n\
         with co from generate_cos(base)\nlet coi = co & int\nlet coe = co \\ coi\nlet fr = (invrf ; co) \\ id\nlet fri = fr & int\n\
         let fre = fr \\ fri\nshow co,fr\n",
    ),
    (
        "barriers.cat",
        "Barriers\nlet mfence = try fencerel(MFENCE) with 0\nlet dmb.st = try fencerel(DMB.ST) with 0\n\
         let isb = try ctrlcfence(ctrl,ISB) with 0\nshow data,addr,ctrl\nshow ctrl \\ isb as ctrl\n\
         let Q = try Q & (Exp & M) with emptyset\nflag ~empty Q as old-instruction\n\
         procedure inclusion(r1, r2) =\n  empty r1 \\ r2\nend\n\
         procedure total(r,E) =\n  let rt = (r | r^-1)\n  call inclusion((E*E),rt)\nend\n",
    ),
];

struct Files;

impl Includes for Files {
    fn read(&self, includer: &str, path: &str) -> Result<Included, String> {
        match LIBRARY.iter().find(|f| f.0 == path) {
            Some((name, text)) => Ok(Included {
                name: (*name).to_owned(),
                text: (*text).to_owned(),
            }),
            None => Embedded.read(includer, path),
        }
    }
}

fn parse(text: &str) -> ModelFile {
    ModelFile::parse("t.cat", text, &Files).unwrap_or_else(|e| panic!("{}\n{text}", e[0]))
}

/// Asserts that a model has the outcomes of a built-in one on every test of the catalogue without remote operations.
fn same_as(built_in: Model, text: &str) {
    let model = parse(text);
    let budget = Budget::default();
    let mut compared = 0;
    for entry in catalogue::entries() {
        let litmus = entry.parse().unwrap();
        let program = &litmus.program;
        if applicable(program, built_in).is_err() || applicable(program, Model::Tso).is_err() {
            continue;
        }
        let theirs = cat::outcomes(program, &model, RmwAtomicity::Hca, &budget);
        let ours = declarative::outcomes(program, built_in, RmwAtomicity::Hca, &budget);
        if theirs.is_complete() && ours.is_complete() {
            assert_eq!(theirs.outcomes, ours.outcomes, "{} under\n{text}", entry.name);
            compared += 1;
        }
    }
    assert!(compared > 15, "{compared}");
}

#[test]
fn x86_tso_in_its_three_styles() {
    same_as(
        Model::Tso,
        "X86 TSO\ninclude \"barriers.cat\"\ninclude \"co.cat\"\nlet A = (try X with {})|(try A with {})\n\
         let ca = fr | co\nlet com = rf | fr | co\nacyclic po-loc | amo | com\nempty rmw & (fre;coe)\n#ppo\n\
         let po_ghb = WW(po) | RM(po)\nlet implied = (WR(po) & (A * _)) | (WR(po) & (_ * A))\n\
         acyclic mfence | implied | po_ghb | rfe | fr | co as tso\nshow implied\n",
    );
    same_as(
        Model::Tso,
        "TSO\ninclude \"co.cat\"\nacyclic po-loc | rf | fr | co\nempty rmw & (fre;coe)\n\
         let implied = [W];po;[R];[X] | [X];[W];po;[R]\n\
         let ppo = [R];po;[R] | [M];po;[W] | [M];po;[MFENCE];po;[M] | implied\n\
         show sm\\id as si\nacyclic ppo | ((rfe | fr | co);sm) as tso\n",
    );
    same_as(
        Model::Tso,
        "\"x86 TSO, locally ordered\"\ninclude \"co.cat\"\nlet obs = rfe | fre | coe\n\
         let rec lob = po \\ ([W]; po; [R]) | [W]; po; [MFENCE]; po; [R] | [W]; po; [R & X] | [W & X]; po; [R] | lob; lob\n\
         let rec ob = obs; si | lob | ob; ob\nacyclic po-loc | amo | fr | co | rf as internal\n\
         empty rmw & (fre;coe) as atomic\nirreflexive ob as external\n",
    );
}

#[test]
fn sequential_consistency() {
    same_as(
        Model::Sc,
        "SC\ninclude \"barriers.cat\"\ninclude \"co.cat\"\nempty rmw & (fre;coe) as atom\nshow sm\\id as si\n\
         acyclic po | ((fr | rf | co);sm) as sc\n",
    );
}

/// `with co from` rules out the orders without the pairs that it is given: here, all in which a thread's writes change places.
#[test]
fn generated_orders_have_the_pairs_that_are_asked_for() {
    let orders = |base: &str| {
        let model = parse(&format!(
            "M\nwith co from generate_cos({base})\nacyclic co as c\n"
        ));
        let program =
            mowgli::litmus::parse("RDMA t\n{ x@1=0; }\n P0@1 ;\n x := 1 ;\n x := 2 ;\nexists (x=1)\n");
        let program = program.unwrap().litmus.program;
        cat::outcomes(&program, &model, RmwAtomicity::Hca, &Budget::default())
            .outcomes
            .len()
    };
    assert_eq!(orders("co0"), 2);
    assert_eq!(orders("co0 | po-loc"), 1);
    assert_eq!(orders("co0 | po-loc | (W * W)"), 0);
}

/// A definition of a library that this language does not have is refused where it is used, with its place.
#[test]
fn what_is_missing_is_refused_when_it_is_used() {
    for (text, kind, words) in [
        ("M\nacyclic po | addr as x", Kind::Unsupported, "dependencies"),
        (
            "M\nlet d = data\nacyclic po | d as x",
            Kind::Unsupported,
            "dependencies",
        ),
        ("M\nshow ctrl\nacyclic po as x", Kind::Unsupported, "dependencies"),
        (
            "M\ninclude \"orders.cat\"\nacyclic generate_cos(po) as x",
            Kind::Unsupported,
            "",
        ),
        (
            "M\ninclude \"orders.cat\"\nempty locs(po, W) as x",
            Kind::Unsupported,
            "let .. in",
        ),
        (
            "M\ninclude \"barriers.cat\"\ncall total(po, W)\nacyclic po as x",
            Kind::Unsupported,
            "call",
        ),
        (
            "M\nlet f = match W with || {} -> 0 end\nacyclic po as x",
            Kind::Unsupported,
            "match",
        ),
        (
            "M\nwith co from linearisations(W, po)\nacyclic co as x",
            Kind::Unsupported,
            "coherence",
        ),
        ("M\nlet a = try po with\nacyclic a as x", Kind::Syntax, ""),
        (
            "M\nlet a = try [po] with 0\nacyclic a as x",
            Kind::WrongType,
            "a relation where a set",
        ),
        (
            "M\nif \"v\" include \"nowhere.cat\" else acyclic po as x",
            Kind::Syntax,
            "",
        ),
    ] {
        let errors = ModelFile::parse("t.cat", text, &Files).expect_err(text);
        let first = &errors[0];
        let help = first.help.as_deref().unwrap_or_default();
        let said = format!("{} {help}", first.message);
        assert!(
            first.kind == kind && said.contains(words),
            "{text}: {first} {help}"
        );
    }
    let flagged = parse("M\nflag ~empty W as w\nacyclic po as x\n");
    assert!(
        flagged.warnings().iter().any(|w| w.message.contains("flag")),
        "{:?}",
        flagged.warnings()
    );
}
