//! Models by the names that the page uses: built-in ones, embedded model files, and the file in the page's editor.

use mowgli::cat::{self, Embedded, ModelFile};
use mowgli::litmus::Setting;
use mowgli::model::RmwAtomicity;
use serde::Deserialize;

use crate::jobs::Refusal;

/// The name of the model file in the page's editor.
pub(crate) const OWN: &str = "my.cat";

/// The names of the embedded files that are models of their own, and not parts of others.
pub(crate) const FILES: [&str; 2] = ["sc-herd.cat", "x86tso.cat"];

/// A model by name, with the text of the editor's model file.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Named {
    /// `rdma-tso`, `rdma-tso/glob`, `x86tso.cat`, `my.cat`.
    pub(crate) setting: String,
    /// The text of `my.cat`.
    #[serde(default)]
    pub(crate) model_text: String,
}

/// A model, ready to judge.
pub(crate) enum Model {
    BuiltIn(Setting),
    File(Box<ModelFile>, RmwAtomicity),
}

impl Named {
    /// Reads the model.
    pub(crate) fn load(&self) -> Result<Model, Refusal> {
        let (name, rmw) = match self.setting.rsplit_once('/') {
            Some((name, rmw)) if name.ends_with(".cat") => {
                let rmw = rmw.parse::<RmwAtomicity>();
                (name, rmw.map_err(|e| Refusal::Wrong(e.to_string()))?)
            }
            _ => (self.setting.as_str(), RmwAtomicity::default()),
        };
        if !name.ends_with(".cat") {
            return self.built_in().map(Model::BuiltIn);
        }
        let text = match name {
            OWN => Some(self.model_text.as_str()),
            _ => cat::find(name),
        };
        let text = text.ok_or_else(|| Refusal::Wrong(format!("there is no model file {name} here")))?;
        match ModelFile::parse(name, text, &Embedded) {
            Ok(file) => Ok(Model::File(Box::new(file), rmw)),
            Err(errors) => {
                let first = errors.first().map(ToString::to_string).unwrap_or_default();
                Err(Refusal::Wrong(first))
            }
        }
    }

    /// Reads the name of a built-in model.
    pub(crate) fn built_in(&self) -> Result<Setting, Refusal> {
        self.setting
            .parse()
            .map_err(|e: mowgli::model::UnknownName| Refusal::Wrong(e.to_string()))
    }
}
