//! Colours on terminals, and tables.
//!
//! Owns when there are colours and how columns are aligned.

use std::io::IsTerminal as _;

use crate::args::ColorMode;

/// How a piece of text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// As it is.
    Plain,
    /// A heading.
    Bold,
    /// Good.
    Green,
    /// Worth a look.
    Yellow,
    /// Bad.
    Red,
    /// Beside the point.
    Faint,
}

/// Whether text is painted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint(bool);

impl Paint {
    /// As the flag says; `auto` asks whether the standard output is a terminal, and for `NO_COLOR` (no-color.org).
    pub(crate) fn of(mode: ColorMode) -> Self {
        let off = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self(match mode {
            ColorMode::Always => true,
            ColorMode::Never => false,
            ColorMode::Auto => !off && std::io::stdout().is_terminal(),
        })
    }

    /// Without colours.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self(false)
    }

    /// A piece of text in a look.
    pub(crate) fn text(self, look: Look, text: &str) -> String {
        let code = match look {
            Look::Bold => "1",
            Look::Green => "32",
            Look::Yellow => "33",
            Look::Red => "31",
            Look::Faint => "2",
            Look::Plain => return text.to_owned(),
        };
        if self.0 && !text.is_empty() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Rows in columns that are as wide as their widest cell, indented; the last one is not padded.
    pub(crate) fn table(self, rows: &[Vec<(Look, String)>]) -> String {
        let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|(_, text)| text.chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut out = String::new();
        for row in rows {
            out += " ";
            for (column, (look, text)) in row.iter().enumerate() {
                out += " ";
                out += &self.text(*look, text);
                if column + 1 < row.len() {
                    out += &" ".repeat(widths[column] - text.chars().count() + 1);
                }
            }
            out.truncate(out.trim_end().len());
            out += "\n";
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_do_not_shift_columns() {
        let rows = [
            vec![
                (Look::Green, "a".to_owned()),
                (Look::Plain, "long".to_owned()),
                (Look::Plain, "x".to_owned()),
            ],
            vec![(Look::Red, "bbb".to_owned()), (Look::Plain, "s".to_owned()), (Look::Plain, "y".to_owned())],
        ];
        assert_eq!(Paint(false).table(&rows), "  a    long  x\n  bbb  s     y\n");
        assert_eq!(Paint(true).text(Look::Red, "no"), "\u{1b}[31mno\u{1b}[0m");
    }
}
