//! The catalogue: tests of RDMA and of coreRMA, and clients, by paper and family, and the embedded model files.

use axum::Json;
use mowgli::{cat, catalogue};
use mowgli_corerma::catalogue as corerma;
use mowgli_libraries::{catalogue as clients, client};
use serde::{Deserialize, Serialize};

use crate::jobs::Refusal;

/// An entry of the list.
#[derive(Serialize)]
pub(crate) struct Listed {
    name: &'static str,
    /// The folder, which names the paper or the theme.
    folder: &'static str,
    /// `litmus`, `corerma`, `client` or `model`.
    kind: &'static str,
    description: String,
}

/// The name of an entry.
#[derive(Deserialize)]
pub(crate) struct Wanted {
    kind: String,
    name: String,
}

/// The text of an entry.
#[derive(Serialize)]
pub(crate) struct Text {
    text: &'static str,
}

/// Lists every text that is built in.
pub(crate) async fn list() -> Json<Vec<Listed>> {
    let tests = catalogue::entries().iter().map(|entry| Listed {
        name: entry.name,
        folder: entry.folder,
        kind: "litmus",
        description: entry.parse().ok().and_then(|l| l.description).unwrap_or_default(),
    });
    let corerma = corerma::entries().iter().map(|entry| Listed {
        name: entry.name,
        folder: corerma::Entry::FOLDER,
        kind: "corerma",
        description: entry.parse().ok().and_then(|l| l.description).unwrap_or_default(),
    });
    let clients = clients::CLIENTS.iter().map(|(name, text)| Listed {
        name,
        folder: "clients",
        kind: "client",
        description: client::parse(text)
            .ok()
            .and_then(|p| p.client.description)
            .unwrap_or_default(),
    });
    let models = cat::FILES.iter().map(|(name, text)| Listed {
        name,
        folder: "models",
        kind: "model",
        description: cat::ModelFile::parse(name, text, &cat::Embedded)
            .ok()
            .and_then(|file| file.title().map(str::to_owned))
            .unwrap_or_default(),
    });
    Json(tests.chain(corerma).chain(clients).chain(models).collect())
}

/// Answers with the text of an entry.
pub(crate) async fn source(Json(wanted): Json<Wanted>) -> Result<Json<Text>, Refusal> {
    let text = match wanted.kind.as_str() {
        "litmus" => catalogue::find(&wanted.name).map(|entry| entry.source),
        "corerma" => corerma::find(&wanted.name).map(|entry| entry.source),
        "client" => clients::find(&wanted.name),
        "model" => cat::find(&wanted.name),
        _ => None,
    };
    match text {
        Some(text) => Ok(Json(Text { text })),
        None => Err(Refusal::Wrong(format!(
            "nothing built in is called {}",
            wanted.name
        ))),
    }
}
