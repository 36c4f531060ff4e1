//! Standard output that does not panic when its reader goes away.

use std::io::{self, Write};

/// Writes a text to standard output.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes a value as JSON to standard output.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), crate::Error> {
    let text = serde_json::to_string_pretty(value)?;
    print(&text)?;
    print("\n")?;
    Ok(())
}
