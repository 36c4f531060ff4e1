//! Films of executions: one document that needs nothing else, with the machine's boxes step by step, the calls of objects above them,
//! and what was outstanding.
//!
//! The boxes are those of the page (`page/boxes.js`). Used by `loco check --html`.

use serde::Serialize;

/// Returns a document that shows a film. `film` is data as `loco_sim::Film` has it, `note` says what was wrong.
///
/// # Errors
/// If the film cannot be written as JSON.
pub fn html(title: &str, note: &str, film: &impl Serialize) -> Result<String, serde_json::Error> {
    // In a script, only `<` could end the data.
    let data = serde_json::to_string(film)?.replace('<', "\\u003c");
    Ok(include_str!("../film/film.html")
        .replace("/*BOXES-STYLE*/", include_str!("../page/boxes.css"))
        .replace("/*FILM-STYLE*/", include_str!("../film/film.css"))
        .replace("/*BOXES*/", include_str!("../page/boxes.js"))
        .replace("/*FILM*/", include_str!("../film/film.js"))
        .replace("TITLE", &escape(title))
        .replace("NOTE", &escape(note))
        .replace("\"DATA\"", &data))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_objects_say_stays_text() {
        let film = serde_json::json!({ "calls": [{ "what": "</script><script>alert(1)" }] });
        let document = html("<b>", "a & b", &film).unwrap();
        assert!(document.contains("&lt;b&gt;") && document.contains("a &amp; b"));
        assert!(!document.contains("</script><script>alert"));
        assert_eq!(document.matches("</script>").count(), 1);
        assert!(
            !document.contains("src=") && !document.contains("href="),
            "it needs no other file"
        );
    }
}
