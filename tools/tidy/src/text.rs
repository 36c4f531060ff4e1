//! Separates code from comments and strings, and from items that only tests have. What is left out becomes spaces, so that
//! positions and lines stay the same.

/// Returns true for what names are made of.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns `text` with spaces for its comments and for what is inside of its strings and characters.
pub fn blanked(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let blank = blank_at(rest, code.chars().next_back());
        let length = blank.unwrap_or_else(|| rest.chars().next().map_or(1, char::len_utf8));
        for &byte in &rest.as_bytes()[..length] {
            let kept = byte == b'\n' || blank.is_none() && byte.is_ascii();
            code.push(if kept { byte as char } else { ' ' });
        }
        at += length;
    }
    code
}

/// Returns what is inside of the strings of `text`, as it is written: with its escapes, and with line ends where it is continued.
pub fn strings(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut at = 0;
    let mut before = None;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let length = blank_at(rest, before);
        if let Some(length) = length
            && (c == '"' || c == 'r')
        {
            let written = rest[..length].trim_start_matches('r').trim_matches('#');
            found.push(written.trim_matches('"'));
        }
        before = Some(c);
        at += length.unwrap_or(c.len_utf8());
    }
    found
}

/// Returns the length of the comment, string or character that `rest` begins with, if it does.
fn blank_at(rest: &str, before: Option<char>) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(rest.find("*/").map_or(rest.len(), |end| end + 2));
    }
    if let Some(inside) = rest.strip_prefix('"') {
        let mut escaped = false;
        let end = inside.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        return Some(end.map_or(rest.len(), |end| end + 2));
    }
    let is_raw = rest.starts_with('r') && !before.is_some_and(|c| is_word(c) && c != 'b' && c != 'c');
    if let Some(after) = rest.strip_prefix('r').filter(|_| is_raw) {
        let hashes = after.bytes().take_while(|&byte| byte == b'#').count();
        let inside = after[hashes..].strip_prefix('"')?;
        let end = format!("\"{}", &after[..hashes]);
        let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
        return Some(1 + hashes + 1 + length);
    }
    // A character, not a lifetime.
    let inside = rest.strip_prefix('\'')?;
    let first = inside.chars().next()?;
    if first == '\\' {
        let end = inside[2..].find('\'')?;
        return Some(1 + 2 + end + 1);
    }
    let length = first.len_utf8();
    inside[length..].starts_with('\'').then_some(1 + length + 1)
}

/// Returns code without the items that only tests have, and the names of the modules among them that are files.
pub fn without_tests(mut code: String) -> (String, Vec<String>) {
    let mut modules = Vec::new();
    for start in ["#[cfg(test)]", "#[cfg(all(test,"] {
        while let Some(at) = code.find(start) {
            let attribute = at + code[at..].find(']').map_or(start.len(), |end| end + 1);
            let end = end_of_item(&code, attribute);
            let item = &code[attribute..end];
            let mut words = item.split(|c| !is_word(c)).skip_while(|&word| word != "mod");
            if item.ends_with(';')
                && let Some(name) = words.nth(1)
            {
                modules.push(name.to_owned());
            }
            let blank: String = code[at..end]
                .chars()
                .map(|c| if c == '\n' { c } else { ' ' })
                .collect();
            code.replace_range(at..end, &blank);
        }
    }
    (code, modules)
}

/// Returns the end of the item that begins at `start`: its semicolon or its last brace.
pub fn end_of_item(code: &str, start: usize) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code[start..].char_indices() {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && c == '}' {
                    return start + at + 1;
                }
            }
            ';' if depth == 0 => return start + at + 1,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_blank() {
        let code = blanked("a // b\nc \"d\\\"{\" 'x' '\\'' <'l> r#\"e\"f\"# g /* h\n */ i");
        let words: Vec<_> = code.split_whitespace().collect();
        assert_eq!(words, ["a", "c", "<'l>", "g", "i"]);
        assert_eq!(code.matches('\n').count(), 2);
    }

    #[test]
    fn strings_are_found() {
        let text = "f(\"a {b} \\\"c\\\"\", 'x', r#\"d \"e\"#); // \"not this\"\ng(\"h\")";
        assert_eq!(strings(text), ["a {b} \\\"c\\", "d \"e", "h"]);
    }

    #[test]
    fn items_of_tests_are_blank() {
        let (code, modules) = without_tests(
            "a #[cfg(test)] mod tests { { } } b #[cfg(test)]\nmod files;\nc #[cfg(test)] #[path(x)] fn f(x: [u8; 2]) {} d"
                .to_owned(),
        );
        assert_eq!(code.split_whitespace().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        assert_eq!(modules, ["files"]);
    }
}
