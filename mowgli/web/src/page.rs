//! The files of the page, embedded, so that the command needs no other file and the page nothing from the network.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../page/", $name)))),*]
    };
}

/// The files that films have too.
const SHARED: &[(&str, &[u8])] = &[
    ("boxes.css", film::BOXES_STYLE.as_bytes()),
    ("boxes.js", film::BOXES_SCRIPT.as_bytes()),
];

/// Every other file by its path below the page.
const FILES: &[(&str, &[u8])] = files![
    "index.html",
    "style.css",
    "app.js",
    "api.js",
    "catalogue.js",
    "dom.js",
    "editor.js",
    "explain.js",
    "graph.js",
    "languages.js",
    "machine.js",
    "picture.js",
    "robust.js",
    "share.js",
    "verdicts.js",
    "vendor/codemirror.js",
    "vendor/LICENSE",
];

/// Answers with the page.
pub(crate) async fn index() -> Response {
    answer("index.html")
}

/// Answers with a file of the page.
pub(crate) async fn file(Path(path): Path<String>) -> Response {
    answer(&path)
}

fn files() -> impl Iterator<Item = &'static (&'static str, &'static [u8])> {
    SHARED.iter().chain(FILES)
}

fn answer(path: &str) -> Response {
    let Some((name, bytes)) = files().find(|(name, _)| *name == path) else {
        return (StatusCode::NOT_FOUND, "the page has no such file\n").into_response();
    };
    let kind = match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        _ => "text/plain; charset=utf-8",
    };
    ([(header::CONTENT_TYPE, kind)], *bytes).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small() {
        let bytes: usize = files().map(|(_, bytes)| bytes.len()).sum();
        assert!(bytes < 1 << 20, "{bytes} bytes");
    }

    #[test]
    fn every_file_of_the_folder_is_embedded_and_loads_nothing_from_elsewhere() {
        let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/page"));
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                assert!(files().any(|(n, _)| *n == name), "{name}");
                let text = std::fs::read_to_string(&path).unwrap();
                let urls = text.split("http").skip(1).filter(|rest| rest.contains("://"));
                let known = |rest: &&str| !rest.starts_with("://www.w3.org/");
                let foreign = urls.filter(|rest| rest.starts_with("://") || rest.starts_with("s://"));
                assert_eq!(foreign.filter(known).count(), 0, "{name}");
            }
        }
    }
}
