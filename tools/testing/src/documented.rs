//! Parses every call of a command that README and docs show, so that a document does not keep an option that is gone. Relies on
//! `clap`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Command;
use clap::error::ErrorKind;

/// Checks that the command takes each of its calls in the blocks of the documents.
pub fn are_parsed(command: &Command) {
    let name = command.get_name().to_owned();
    let mut count = 0;
    let mut wrong = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for line in lines(&text) {
            for call in calls(&line, &name) {
                count += 1;
                let parsed = command.clone().try_get_matches_from(&call);
                let shows = |kind| matches!(kind, ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
                if let Err(error) = parsed
                    && !shows(error.kind())
                {
                    wrong.push(format!("{}: {line}\n{error}", page.display()));
                }
            }
        }
    }
    assert!(count > 20, "the documents show {count} calls of {name}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns README, the guides, and the pages of the halls.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let is_page = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "md");
    let folder = |path: PathBuf| {
        let entries = fs::read_dir(path).unwrap();
        entries.map(|entry| entry.unwrap().path()).filter(is_page)
    };
    let halls = ["loco", "mowgli", "checkers", "apps", "tools"];
    let mut pages: Vec<_> = halls
        .iter()
        .map(|hall| root.join(hall).join("README.md"))
        .collect();
    pages.push(root.join("README.md"));
    pages.extend(folder(root.join("docs")));
    pages.extend(folder(root.join("docs/evidence")));
    pages
}

/// Returns the lines of the blocks of commands. One that ends in a backslash goes on in the next.
fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    // Inside a block: whether it is one of commands.
    let mut block = None;
    let mut continues = false;
    for line in text.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            block = match block {
                None => Some(["", "sh", "console"].contains(&language)),
                Some(_) => None,
            };
            continues = false;
            continue;
        }
        if block != Some(true) {
            continue;
        }
        let (part, more) = match line.strip_suffix('\\') {
            Some(part) => (part, true),
            None => (line, false),
        };
        match lines.last_mut().filter(|_| continues) {
            Some(last) => last.push_str(part),
            None => lines.push(part.to_owned()),
        }
        continues = more;
    }
    lines
}

/// Returns the calls of a command in a line, each as words: at the beginning of the line or after a pipe and the like, or as the
/// program of another call.
fn calls(line: &str, name: &str) -> Vec<Vec<String>> {
    let is_command = |word: &str| word == name || word.ends_with(&format!("/{name}"));
    let mut calls = Vec::new();
    for words in commands(line) {
        let is_setting = |word: &&String| {
            word.split_once('=')
                .is_some_and(|(variable, _)| variable.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
        };
        let begin = words
            .iter()
            .take_while(|word| *word == "$" || is_setting(word))
            .count();
        for at in begin..words.len() {
            // A message of the command begins with its name, too.
            let is_message = words.get(at + 1).is_some_and(|word| word.ends_with(':'));
            if is_command(&words[at]) && !is_message && (at == begin || words[at - 1] == "--") {
                calls.push(words[at..].to_vec());
            }
        }
    }
    calls
}

/// Splits a line as a shell does, into commands and these into words. Redirections and comments are left out.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let (mut quote, mut redirects) = (None, false);
    // The blank at the end ends the last word.
    let mut characters = line.chars().chain([' ']);
    while let Some(c) = characters.next() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('\\', None) => word.get_or_insert_default().extend(characters.next()),
            ('#', None) if word.is_none() => break,
            // Of `2>&1`.
            ('&', None) if redirects && word.is_none() => word = Some(String::new()),
            (' ' | '|' | ';' | '&' | '(' | ')' | '<' | '>', None) => {
                let is_stream = c == '>' && word.as_ref().is_some_and(|word| word.parse::<u8>().is_ok());
                if let Some(word) = word.take()
                    && !std::mem::take(&mut redirects)
                    && !is_stream
                    && let Some(last) = commands.last_mut()
                {
                    last.push(word);
                }
                match c {
                    ' ' => {}
                    '<' | '>' => redirects = true,
                    _ => commands.push(Vec::new()),
                }
            }
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_as_a_shell_would_see_them() {
        let found = |line: &str| {
            let calls = calls(line, "loco");
            calls.iter().map(|call| call.join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(
            found("loco run -n 3 -- kv 'a b'  # three"),
            ["loco run -n 3 -- kv a b"]
        );
        assert_eq!(
            found("$ A_B=1 target/debug/loco doctor >x 2>&1"),
            ["target/debug/loco doctor"]
        );
        assert_eq!(
            found("cd loco && echo x | loco run -n 2 -- loco litmus run"),
            ["loco run -n 2 -- loco litmus run", "loco litmus run"]
        );
        assert!(found("cargo new loco").is_empty());
    }

    #[test]
    fn a_line_goes_on_after_a_backslash() {
        let text = "a\n```\nloco run \\\n  -n 2\nb\n```\nloco\n```toml\nloco\n```\nloco\n```\nc\n```\n";
        assert_eq!(lines(text), ["loco run   -n 2", "b", "c"]);
    }
}
