//! The common language: translations undo one another, and the two models agree and differ where the papers say so.

use mowgli::check::{self, Engine};
use mowgli::litmus::Setting;
use mowgli::model::{Model as Rdma, RmwAtomicity};
use mowgli::outcome::Budget;
use mowgli_corerma::common::{from_rdma, outcomes, to_rdma};
use mowgli_corerma::litmus::{parse, program_text};
use mowgli_corerma::switches::Model;

fn rdma(text: &str) -> mowgli::program::Program {
    mowgli::litmus::parse(text)
        .unwrap_or_else(|e| panic!("{e}"))
        .litmus
        .program
}

#[test]
fn translations_undo_one_another() {
    let mut translated = 0;
    for entry in mowgli::catalogue::entries() {
        let program = entry.parse().unwrap().program;
        if let Some(core) = from_rdma(&program) {
            let back = to_rdma(&core).unwrap();
            assert_eq!(from_rdma(&back), Some(core), "{}", entry.path());
            translated += 1;
        }
    }
    assert!(
        translated >= 10,
        "{translated} tests of the catalogue are in the common language"
    );
    let mut of_corerma = 0;
    for entry in mowgli_corerma::catalogue::entries() {
        let program = entry.parse().unwrap().program;
        if let Some(rdma) = to_rdma(&program) {
            assert_eq!(from_rdma(&rdma), Some(program), "{}", entry.path());
            of_corerma += 1;
        }
    }
    assert!(of_corerma >= 6, "{of_corerma}");
}

#[test]
fn what_is_in_one_language_only_is_not_translated() {
    let head = "{ x@1=0; y@2=0; z@2=0; w@1=0; }";
    for code in [
        "mfence",
        "y^2 := 1",
        "rfence(2)",
        "w := rfaa(y^2, 1)",
        "y^2 :=[d] x",
        "r := 1",
        "cas(x, 0, 1)",
    ] {
        let text = format!("RDMA t\n{head}\nP0@1 ;\n{code} ;\nexists (true)\n");
        assert_eq!(from_rdma(&rdma(&text)), None, "{code}");
    }
    // A poll with another operation still unpolled waits for less than any flush.
    let one = "RDMA t\n{ x@1=0; y@2=0; z@2=0; }\nP0@1 ;\ny^2 := x ;\nz^2 := x ;\npoll(2) ;\nexists (true)\n";
    assert_eq!(from_rdma(&rdma(one)), None);
    let both = one.replace("poll(2) ;", "poll(2) ;\npoll(2) ;");
    assert!(from_rdma(&rdma(&both)).is_some());
    let two = "RDMA t\n{ x@1=0; }\nP0@1 | P1@1 ;\nx := 1 | r := x ;\nexists (true)\n";
    assert_eq!(from_rdma(&rdma(two)), None, "two threads on one node");
    let plain = "coreRMA t\n{ x@1=0; y@2=0; }\nP0@1 ;\nput(y^2, x.n) ;\nexists (true)\n";
    assert_eq!(to_rdma(&parse(plain).unwrap().litmus.program), None);
}

/// SB3: after a poll of a put, the put's value may still be on its way; after a flush it is not. MP4: see the catalogue.
#[test]
fn the_models_differ_where_the_papers_say() {
    let compare = |name: &str, model: Model| {
        let program = if name == "SB3" {
            rdma(
                "RDMA SB3\n{ y@1=0; u@1=1; x@2=0; v@2=1; }\nP0@1 | P1@2 ;\nx^2 := u | y^1 := v ;\npoll(2) | poll(1) ;\n\
                 a := y | b := x ;\nexists (0:a=0 /\\ 1:b=0)\n",
            )
        } else {
            rdma(mowgli::catalogue::find(name).unwrap().source)
        };
        let core = from_rdma(&program).unwrap();
        let setting = Setting {
            model: Rdma::RdmaTso,
            rmw: RmwAtomicity::Hca,
        };
        let of_rdma = check::run(&program, setting, Engine::Both, &Budget::default()).unwrap();
        assert_eq!(of_rdma.disagreement, None);
        let of_core = outcomes(&core, &model.switches()).unwrap();
        assert!(!of_core.is_empty(), "{}", program_text(&core));
        let extra = of_rdma.search.outcomes.difference(&of_core).count();
        let missing = of_core.difference(&of_rdma.search.outcomes).count();
        (extra, missing)
    };
    assert_eq!(compare("SB3", Model::STOCK), (1, 0));
    let (extra, _) = compare("MP4", Model::STOCK);
    assert!(extra > 0);
    let (extra, _) = compare("MP4", Model::UNORDERED);
    assert_eq!(extra, 0);
}
