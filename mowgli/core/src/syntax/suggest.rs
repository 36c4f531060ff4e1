//! Finds the known name that is nearest to an unknown one.

/// Returns the candidate closest to `found`, if it is close enough to be a slip of the keyboard.
pub fn nearest<'a>(found: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = found.to_lowercase();
    candidates
        .into_iter()
        .map(|c| (distance(&wanted, &c.to_lowercase()), c))
        .filter(|&(d, c)| d <= c.len().max(wanted.len()).div_ceil(3))
        .min_by_key(|&(d, _)| d)
        .map(|(_, c)| c)
}

/// Computes the Levenshtein distance, in which an exchange of two neighbours counts once.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let substitute = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = substitute.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let known = ["mfence", "poll", "rfence", "wait"];
        assert_eq!(nearest("mfnece", known), Some("mfence"));
        assert_eq!(nearest("POLL", known), Some("poll"));
        assert_eq!(nearest("lfence", known), Some("mfence"));
        assert_eq!(nearest("broadcast", known), None);
    }
}
