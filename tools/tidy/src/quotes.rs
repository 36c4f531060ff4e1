//! Texts of programs that documents quote, compared with the sources.
//!
//! A document quotes a text, such as an error, as code: `node 1 was missed by node 0`. [`quoted`] finds such quotes by what they look
//! like, and [`Texts`] knows the strings of the sources. A quote is right if it consists of pieces of these strings and of values. A
//! piece is three or more words of a string, or fewer that stand between two values of it; these count only beside a value or at an
//! end of the quote, as any sentence consists of words. A value has a digit, is a node with its number, or stands in quotation marks.

use std::collections::HashSet;

use crate::text::strings;

/// The fewest words of a quote. Shorter pieces of code are names, options and calls.
const WORDS_MIN: usize = 4;

/// The fewest words of a part of a piece of text. Any two words stand side by side somewhere.
const PIECE_MIN: usize = 3;

/// The most words of a piece that is looked up at once.
const PIECE_MAX: usize = 12;

/// Words by which a command begins.
const COMMANDS: [&str; 22] = [
    "apt",
    "bash",
    "cargo",
    "cc",
    "export",
    "fi_pingpong",
    "git",
    "ip",
    "kill",
    "kv",
    "loco",
    "maturin",
    "mowgli",
    "mpiexec",
    "mpirun",
    "openssl",
    "perf",
    "pip",
    "python3",
    "srun",
    "sudo",
    "tc",
];

/// A quote in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quote {
    /// The line at which it begins, from 1.
    pub line: usize,
    /// What is quoted, on one line.
    pub text: String,
}

/// The texts of the sources.
#[derive(Default)]
pub struct Texts {
    /// Runs of words that stand beside one another, and the whole pieces between two values.
    pieces: HashSet<Vec<String>>,
}

/// Returns words, numbers and marks.
fn tokens(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut is_open = false;
    for c in text.chars() {
        let goes_on = c.is_alphanumeric() || c == '_' || c == '\'';
        match found.last_mut().filter(|_| goes_on && is_open) {
            Some(word) => word.push(c),
            None if !c.is_whitespace() => found.push(c.to_string()),
            None => {}
        }
        is_open = goes_on;
    }
    found
}

fn has_digit(token: &str) -> bool {
    token.contains(|c: char| c.is_ascii_digit())
}

fn is_word(token: &str) -> bool {
    token.chars().all(|c| c.is_alphabetic() || c == '\'')
}

/// Returns true for a word of a sentence: not a name of code, and no letter that stands for something.
fn is_plain(token: &str) -> bool {
    token.len() > 1 && token.chars().skip(1).all(|c| c.is_lowercase() || c == '\'') && is_word(token)
}

impl Texts {
    /// Adds the strings of a source in Rust.
    pub fn add_rust(&mut self, source: &str) {
        for string in strings(source) {
            self.add(string);
        }
    }

    /// Adds a source of another language, whose every line may be a text.
    pub fn add_lines(&mut self, source: &str) {
        source.lines().for_each(|line| self.add(line));
    }

    /// Adds the programs that a document shows.
    pub fn add_blocks(&mut self, document: &str) {
        for block in document.split("```").skip(1).step_by(2) {
            let (language, program) = block.split_once('\n').unwrap_or_default();
            match language.split(',').next() {
                Some("rust") => self.add_rust(program),
                Some("c" | "python") => self.add_lines(program),
                _ => {}
            }
        }
    }

    /// Adds a text, as a source has it: with the escapes of Rust, and values as in `{name}` or `%d`.
    fn add(&mut self, written: &str) {
        let mut text = String::new();
        let mut chars = written.chars().peekable();
        let mut inside = 0_usize;
        while let Some(c) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some('\n') => while chars.next_if(|c| c.is_whitespace()).is_some() {},
                    Some('n' | 't') => text.push('\n'),
                    Some(escaped) => text.push(escaped),
                    None => {}
                },
                '{' if chars.next_if_eq(&'{').is_some() => text.push('{'),
                '}' if inside == 0 => text.push('}'),
                '{' => inside += 1,
                '}' => {
                    inside -= 1;
                    text.push('\u{0}');
                }
                '%' if chars.peek().is_some_and(|c| "dsuz".contains(*c)) => {
                    chars.next();
                    text.push('\u{0}');
                }
                _ if inside == 0 => text.push(c),
                _ => {}
            }
        }
        for piece in text.split(['\u{0}', '\n']) {
            let words = tokens(piece);
            for start in 0..words.len() {
                for end in start + PIECE_MIN..=words.len().min(start + PIECE_MAX) {
                    self.pieces.insert(words[start..end].to_vec());
                }
            }
            self.pieces.insert(words);
        }
    }

    /// Returns true if the sources may print this text, or its parts around `...`.
    pub fn have(&self, quote: &str) -> bool {
        quote
            .replace('…', "...")
            .split("...")
            .all(|part| self.have_part(part))
    }

    fn have_part(&self, part: &str) -> bool {
        let words = tokens(part);
        // What is in quotation marks is a value.
        let mut quoted = false;
        let is_value: Vec<bool> = words
            .iter()
            .enumerate()
            .map(|(at, word)| {
                let is_mark = ["`", "\""].contains(&word.as_str());
                quoted ^= is_mark;
                // A node is shown with its number.
                let is_node = word == "node" && words.get(at + 1).is_some_and(|next| has_digit(next));
                quoted || is_mark || is_node || has_digit(word) || !is_word(word)
            })
            .collect();
        // Whether the words up to here are those of texts.
        let mut reached = vec![false; words.len() + 1];
        reached[0] = true;
        for start in 0..words.len() {
            if !reached[start] {
                continue;
            }
            reached[start + 1] |= is_value[start];
            for end in start + 1..=words.len().min(start + PIECE_MAX) {
                let begins = start == 0 || is_value[start - 1];
                let ends = end == words.len() || is_value[end];
                let may_be = end - start >= PIECE_MIN || begins || ends;
                reached[end] |= may_be && self.pieces.contains(&words[start..end]);
            }
        }
        reached[words.len()]
    }
}

/// Returns what a document quotes: pieces of code that read as sentences, and lines of blocks that begin as errors do. Blocks with
/// commands (`$ `) are run by `ci/claims`.
pub fn quoted(document: &str) -> Vec<Quote> {
    let mut found = Vec::new();
    let mut prose = String::new();
    let mut is_block = false;
    for (line, text) in (1..).zip(document.lines()) {
        let is_mark = text.trim_start().starts_with("```");
        is_block ^= is_mark;
        if is_block && begins_as_error(text) {
            found.push(Quote {
                line,
                text: text.trim().to_owned(),
            });
        }
        // Lines stay, for their numbers. An empty one ends a paragraph, and with it a piece of code that has no end.
        prose.push_str(if is_block || is_mark { "" } else { text });
        prose.push('\n');
    }
    let mut line = 1;
    for paragraph in prose.split_inclusive("\n\n") {
        let mut at = line;
        for (number, piece) in paragraph.split('`').enumerate() {
            if number % 2 == 1 && reads_as_sentence(piece) {
                let text = piece.split_whitespace().collect::<Vec<_>>().join(" ");
                found.push(Quote { line: at, text });
            }
            at += piece.matches('\n').count();
        }
        line += paragraph.matches('\n').count();
    }
    found
}

fn begins_as_error(line: &str) -> bool {
    let said = match line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((node, said)) if node.bytes().all(|c| c.is_ascii_digit()) => said,
        _ => line,
    };
    ["error", "warning", "loco: ", "mowgli: "]
        .iter()
        .any(|begin| said.starts_with(begin))
}

fn reads_as_sentence(code: &str) -> bool {
    let is_code = |c: char| ";{}=<>|()[]^~\\$@&*+#_/∪".contains(c);
    let words = tokens(code);
    let is_command = words
        .first()
        .is_some_and(|first| COMMANDS.contains(&first.as_str()));
    let has_option = code.starts_with('-') || code.contains(" -");
    let plain = words.iter().filter(|word| is_plain(word)).count();
    let is_name = !code.trim().contains(char::is_whitespace);
    !code.contains(is_code) && !is_name && !is_command && !has_option && plain >= WORDS_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts() -> Texts {
        let mut texts = Texts::default();
        texts.add_rust(
            "fn f() { say(\"{} was missed by {}, which ended with \\\n        {how}\"); say(\"exit code {code}\") }\n\
             #[error(\"{node} already has a channel `{channel}`: drop it first, or take another name\")]\n\
             // \"the comment says otherwise\"\n fn node() { format!(\"node {id}\") }",
        );
        texts
    }

    #[test]
    fn a_quote_may_join_texts_and_have_values() {
        let texts = texts();
        for quote in [
            "node 1 was missed by node 0, which ended with exit code 1",
            "node 1 already has a channel `bar`: drop it first",
            "already has a channel ... take another name",
        ] {
            assert!(texts.have(quote), "{quote}");
        }
    }

    #[test]
    fn programs_in_documents_are_sources() {
        let mut texts = Texts::default();
        texts.add_blocks(
            "`x`\n\n```rust,no_run\nsay(\"{} hears {:?}\");\n```\n\n```text\nnobody said this\n```\n",
        );
        assert!(texts.have("1 hears \"rain tomorrow\""));
        assert!(!texts.have("nobody said this"));
    }

    #[test]
    fn a_quote_with_another_word_is_wrong() {
        let texts = texts();
        for quote in [
            "node 1 was skipped by node 0, which ended with exit code 1",
            "node 1 was missed by node 0, and ended with exit code 1",
            "node 1 already has a channel `bar`: remove it first",
            "the comment says otherwise",
            "already has another channel",
        ] {
            assert!(!texts.have(quote), "{quote}");
        }
    }

    #[test]
    fn words_by_themselves_do_not_make_a_quote() {
        let mut texts = Texts::default();
        let words = ["the", "node", "has", "gone", "away", "exit code"];
        texts.add_rust(&words.map(|word| format!("say(\"{{}} {word} {{}}\");")).join("\n"));
        for quote in [
            "the node has gone away",
            "node 1: the node has gone away",
            "the exit code has gone",
        ] {
            assert!(!texts.have(quote), "{quote}");
        }
        for quote in ["node 1 has 2", "exit code 3", "1 gone"] {
            assert!(texts.have(quote), "{quote}");
        }
    }

    #[test]
    fn quotes_are_found_in_prose_and_blocks() {
        let document = "It says `the name is taken\nalready`, after `cargo run the very thing`.\n\n```\nerror: no such thing\n\
            let this = that;\n[1] loco: node 1 ended\n```\nNot `a <= b`, and `not --this one here at all`.\n";
        let found: Vec<_> = quoted(document)
            .into_iter()
            .map(|quote| (quote.line, quote.text))
            .collect();
        let expected = [
            (5, "error: no such thing"),
            (7, "[1] loco: node 1 ended"),
            (1, "the name is taken already"),
        ];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    }
}
