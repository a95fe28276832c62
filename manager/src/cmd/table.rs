//! Shows a `meta.k8s.io/v1` Table as kubectl does: columns of priority 0, aligned, three blanks apart.

use serde::Deserialize;
use serde_json::Value;

/// The parts of a Table that are shown.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Table {
    column_definitions: Vec<Column>,
    #[serde(default)]
    rows: Vec<Row>,
}

#[derive(Debug, Clone, Deserialize)]
struct Column {
    name: String,
    #[serde(default)]
    priority: i64,
}

#[derive(Debug, Clone, Deserialize)]
struct Row {
    cells: Vec<Value>,
}

impl Table {
    /// The table as lines of text.
    pub(super) fn render(&self) -> String {
        let shown: Vec<usize> = (0..self.column_definitions.len())
            .filter(|index| self.column_definitions[*index].priority == 0)
            .collect();
        let head = shown.iter().map(|index| self.column_definitions[*index].name.to_uppercase()).collect();
        let rows =
            self.rows.iter().map(|row| shown.iter().map(|index| text(row.cells.get(*index))).collect());
        align(&std::iter::once(head).chain(rows).collect::<Vec<Vec<String>>>())
    }
}

fn text(cell: Option<&Value>) -> String {
    match cell {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => "<none>".to_owned(),
        Some(value) => value.to_string(),
    }
}

fn align(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or_default();
    let cell_width =
        |line: &Vec<String>, column: usize| line.get(column).map_or(0, |cell| cell.chars().count());
    let widths: Vec<usize> = (0..columns)
        .map(|column| lines.iter().map(|line| cell_width(line, column)).max().unwrap_or_default())
        .collect();
    let mut out = String::new();
    for line in lines {
        let padded: Vec<String> =
            line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        out.push_str(padded.join("   ").trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_is_shown_as_kubectl_shows_it() {
        let table: Table = serde_json::from_value(json!({
            "columnDefinitions": [{"name": "Name", "priority": 0}, {"name": "Port(s)"}, {"name": "Selector", "priority": 1}],
            "rows": [{"cells": ["a-long-name", "80/TCP", "x"]}, {"cells": ["b", null, "y"]}, {"cells": ["c", 3, ""]}],
        }))
        .unwrap();
        assert_eq!(
            table.render(),
            "NAME          PORT(S)\na-long-name   80/TCP\nb             <none>\nc             3\n"
        );
    }
}
