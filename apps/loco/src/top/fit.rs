//! Fits a report to the window of a terminal: lines end between words, and go on below their text.

/// The columns by which the rest of a line stands to the right of its beginning.
const HANGING: usize = 2;
/// The fewest columns in which words are kept whole.
const COLUMNS_MIN: usize = 20;

/// Returns `text` in lines of at most `columns`, and at most `rows` of them. The last ones then say how many are left out.
pub fn fitted(text: &str, columns: usize, rows: usize) -> String {
    let mut lines: Vec<String> = text.lines().flat_map(|line| wrapped(line, columns)).collect();
    if lines.len() > rows && rows > 0 {
        let all = lines.len();
        let notice = |kept: usize| {
            let left_out = all - kept;
            let text =
                format!("... and {left_out} lines more: make the window larger, or choose a job with --job");
            wrapped(&text, columns)
        };
        // In a narrow window the notice takes several lines.
        let fits = |&kept: &usize| kept + notice(kept).len() <= rows;
        let kept = (0..rows).rev().find(fits).unwrap_or(0);
        lines.truncate(kept);
        lines.extend(notice(kept).into_iter().take(rows));
    }
    lines.join("\n")
}

/// Returns the columns that a text takes, if its letters are not wider than most.
fn width(text: &str) -> usize {
    text.chars().count()
}

/// Returns the lines of one line of text.
fn wrapped(line: &str, columns: usize) -> Vec<String> {
    if width(line) <= columns || columns < COLUMNS_MIN {
        return vec![line.to_owned()];
    }
    let begin = line.len() - line.trim_start().len();
    let mut lines = Vec::new();
    let mut last = " ".repeat(begin);
    for (number, word) in line.split_whitespace().enumerate() {
        if number > 0 && width(&last) + 1 + width(word) > columns {
            let next = " ".repeat(begin + HANGING);
            lines.push(std::mem::replace(&mut last, next));
        } else if number > 0 {
            last.push(' ');
        }
        last.push_str(word);
    }
    lines.push(last);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_words_and_go_on_below_their_text() {
        let text = "job a: program\n  main: waits 3.6 s for lock accounts_b, which node 1 holds";
        assert_eq!(
            fitted(text, 34, 10),
            "job a: program\n  main: waits 3.6 s for lock\n    accounts_b, which node 1 holds"
        );
        assert_eq!(fitted(text, 80, 10), text);
    }

    #[test]
    fn a_word_that_is_too_long_has_a_line_of_its_own() {
        let name = "a".repeat(40);
        let text = format!("waits for {name} now");
        assert_eq!(fitted(&text, 20, 10), format!("waits for\n  {name}\n  now"));
    }

    #[test]
    fn what_has_no_room_is_counted() {
        assert_eq!(
            fitted("a\nb\nc\nd", 80, 3),
            "a\nb\n... and 2 lines more: make the window larger, or choose a job with --job"
        );
    }

    #[test]
    fn what_is_said_of_the_rest_fits_the_window() {
        assert_eq!(
            fitted("a\nb\nc\nd\ne", 60, 4),
            "a\nb\n... and 3 lines more: make the window larger, or choose a\n  job with --job"
        );
        for (columns, rows) in [(20, 1), (20, 3), (40, 2), (60, 1), (69, 5)] {
            let text = fitted(&"text\n".repeat(10), columns, rows);
            assert!(text.lines().count() <= rows, "{text}");
            assert!(text.lines().all(|line| width(line) <= columns), "{text}");
            assert!(text.contains("... and"), "{text}");
        }
    }
}
