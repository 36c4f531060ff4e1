//! Figures of documents that the sources have, too: the list `ci/claims.txt`, and what has become false of it.

use std::fs;

use crate::root;

/// A figure that stands in two files.
pub struct Claim {
    /// The document and the words around the figure.
    pub said: Place,
    /// The source and the words around the figure.
    pub is: Place,
    /// What the figure of the source is multiplied with.
    factor: f64,
}

/// A figure in a file: between the words before it and those after it.
pub struct Place {
    /// The file, from the root of the repository.
    pub file: String,
    before: String,
    after: String,
}

/// Reads the list: for each claim a line for the document and an indented one for the source. Each has the file, a colon, and the
/// words around the figure, which is `{}`. A source may end in `* N`. Empty lines and those that begin with `#` say nothing.
///
/// # Errors
/// Returns a line that cannot be read.
pub fn parse(text: &str) -> Result<Vec<Claim>, String> {
    let mut lines = text
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let mut claims = Vec::new();
    while let Some(said) = lines.next() {
        let is = lines.next().filter(|line| line.starts_with(' '));
        let is = is.ok_or_else(|| format!("no source is below: {said}"))?;
        let factor = is
            .rsplit_once(" * ")
            .and_then(|(is, factor)| Some((is, factor.parse().ok()?)));
        let (is, factor) = factor.unwrap_or((is, 1.0));
        claims.push(Claim {
            said: Place::parse(said)?,
            is: Place::parse(is)?,
            factor,
        });
    }
    Ok(claims)
}

impl Claim {
    /// Returns what is wrong with the claim, if something is.
    pub fn fault(&self) -> Option<String> {
        let (said, is) = match (self.said.figures(), self.is.figures()) {
            (Err(fault), _) | (_, Err(fault)) => return Some(fault),
            (Ok(said), Ok(is)) => (said, is),
        };
        let is: Vec<f64> = is.iter().map(|figure| figure * self.factor).collect();
        let differs = said.iter().chain(&is).any(|figure| *figure != is[0]);
        differs.then(|| {
            format!(
                "{}: `{}{{}}{}` says {said:?}, and by {} it is {is:?}",
                self.said.file, self.said.before, self.said.after, self.is.file
            )
        })
    }
}

impl Place {
    fn parse(line: &str) -> Result<Place, String> {
        let parts = line.trim().split_once(": ");
        let around = parts.and_then(|(file, words)| Some((file, words.split_once("{}")?)));
        let (file, (before, after)) =
            around.ok_or_else(|| format!("no file with words around {{}}: {line}"))?;
        Ok(Place {
            file: file.to_owned(),
            before: before.to_owned(),
            after: after.to_owned(),
        })
    }

    /// Returns the figures that stand between the words, which need not be in one line.
    fn figures(&self) -> Result<Vec<f64>, String> {
        let text =
            fs::read_to_string(root().join(&self.file)).map_err(|error| format!("{}: {error}", self.file))?;
        let found = figures(&text, &self.before, &self.after);
        match found.is_empty() {
            false => Ok(found),
            true => Err(format!(
                "{} has no figure in `{}{{}}{}` any more",
                self.file, self.before, self.after
            )),
        }
    }
}

/// Returns the figures between these words.
fn figures(text: &str, before: &str, after: &str) -> Vec<f64> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut found = Vec::new();
    for (at, _) in text.match_indices(before) {
        let rest = &text[at + before.len()..];
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || ",._-".contains(c)))
            .unwrap_or(rest.len());
        // Marks at the end are those of the sentence.
        let word = rest[..end].trim_end_matches([',', '.']);
        if rest[word.len()..].starts_with(after) {
            found.extend(number(word));
        }
    }
    found
}

/// Reads a number in figures, or one up to ninety-nine in words.
fn number(word: &str) -> Option<f64> {
    const SMALL: [&str; 20] = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
    ];
    const TENS: [&str; 8] = [
        "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
    ];
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        return word.replace([',', '_'], "").parse().ok();
    }
    let (tens, ones) = word.split_once('-').unwrap_or((word, ""));
    let small = |word: &str| SMALL.iter().position(|small| *small == word);
    let value = match TENS.iter().position(|name| *name == tens) {
        Some(index) if ones.is_empty() => 20 + 10 * index,
        Some(index) => 20 + 10 * index + small(ones)?,
        None => small(word)?,
    };
    u32::try_from(value).ok().map(f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_figures_or_words() {
        for (word, value) in [
            ("1,024", 1024.0),
            ("10_000", 10_000.0),
            ("1.88", 1.88),
            ("twenty-six", 26.0),
        ] {
            assert_eq!(number(word), Some(value), "{word}");
        }
        assert_eq!(
            (number("ninety"), number("eight"), number("many")),
            (Some(90.0), Some(8.0), None)
        );
    }

    #[test]
    fn figures_are_found_across_lines_and_before_marks() {
        let text = "room for 1,024\nevents, and at most\n256 MiB, at most 10.";
        assert_eq!(figures(text, "room for ", " events"), [1024.0]);
        assert_eq!(figures(text, "at most ", " MiB"), [256.0]);
        assert_eq!(figures(text, "at most ", "."), [10.0]);
        assert_eq!(figures(text, "room of ", " events"), [0.0; 0]);
    }

    #[test]
    fn a_list_that_cannot_be_read_is_refused() {
        assert!(parse("# nothing\n\n").is_ok_and(|claims| claims.is_empty()));
        for text in [
            "a: {} b\n",
            "a: {} b\nc: {} d\n",
            "a {} b\n  c: {}\n",
            "a: b\n  c: {}\n",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
