//! The model files of `models/` mean what the built-in models mean.
//!
//! Every file parses without a warning, and by outcome sets each agrees with its built-in model on the catalogue and on random programs.
//! `MOWGLI_MODEL_FILES=COUNT[,FIRST_SEED]` runs COUNT random programs of each shape instead of the few of the suite.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

use mowgli::cat::{self, Embedded, ModelFile};
use mowgli::model::Model;

#[test]
fn every_embedded_file_parses_without_a_warning() {
    for (name, text) in cat::FILES {
        match ModelFile::parse(name, text, &Embedded) {
            // Parts of models state no axiom, or use names of the file that includes them.
            Ok(file) => assert!(
                file.warnings().iter().all(|w| w.kind == cat::Kind::NoAxiom),
                "{:?}",
                file.warnings()
            ),
            Err(errors) if name == "rdma-axioms.cat" => {
                assert!(
                    errors.iter().all(|e| e.kind == cat::Kind::UndefinedName),
                    "{errors:?}"
                );
            }
            Err(errors) => panic!("{}", errors[0]),
        }
    }
}

#[test]
fn every_built_in_model_has_a_file() {
    for model in Model::ALL {
        let file = ModelFile::of(model);
        assert!(!file.axioms().is_empty() && file.title().is_some(), "{model}");
        assert_eq!(file.warnings(), [], "{model}");
    }
}
