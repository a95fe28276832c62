//! Shows mismatches to a person: path, expected and got, each on its line.

use std::fmt::Write as _;

use serde_json::Value;

use crate::matcher::Mismatch;

const MOST_MISMATCHES: usize = 12;
const LONGEST_VALUE: usize = 600;

/// Mismatches as text, `-` expected and `+` got.
pub fn render(mismatches: &[Mismatch]) -> String {
    let mut out = String::new();
    for mismatch in mismatches.iter().take(MOST_MISMATCHES) {
        let path = if mismatch.path.is_empty() { "(whole)" } else { &mismatch.path };
        let note = if mismatch.note.is_empty() { String::new() } else { format!("   ({})", mismatch.note) };
        // Writing to a string does not fail.
        let _ = writeln!(out, "    {path}{note}");
        let _ = writeln!(out, "      - {}", shown(mismatch.expected.as_ref()));
        let _ = writeln!(out, "      + {}", shown(mismatch.got.as_ref()));
    }
    if mismatches.len() > MOST_MISMATCHES {
        let _ = writeln!(out, "    and {} more", mismatches.len() - MOST_MISMATCHES);
    }
    out
}

fn shown(value: Option<&Value>) -> String {
    let text = value.map_or_else(|| "(absent)".to_owned(), Value::to_string);
    match text.char_indices().nth(LONGEST_VALUE) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_is_three_lines() {
        let mismatch =
            Mismatch { path: "spec.type".into(), expected: Some(json!("A")), got: None, note: "hm".into() };
        assert_eq!(render(&[mismatch]), "    spec.type   (hm)\n      - \"A\"\n      + (absent)\n");
    }
}
