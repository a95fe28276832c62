//! Tables as kubectl prints them on a terminal.

use jiff::Timestamp;
use serde_json::Value;

use super::table_of;

/// What `kubectl get` shows of these objects, header and final line break included; with `wide` also the columns of
/// `-o wide`. Empty when there are no objects.
pub fn text(kind: &str, objects: &[Value], wide: bool, now: Timestamp) -> String {
    if objects.is_empty() {
        return String::new();
    }
    let table = table_of(kind);
    let columns: Vec<(usize, String)> = (table.columns)()
        .iter()
        .enumerate()
        .filter(|(_, column)| wide || column.priority == 0)
        .map(|(at, column)| (at, column.name.to_uppercase()))
        .collect();
    let mut lines: Vec<Vec<String>> = vec![columns.iter().map(|(_, name)| name.clone()).collect()];
    for object in objects {
        let row = (table.row)(object, now);
        lines.push(columns.iter().map(|(at, _)| row.cells.get(*at).map(cell).unwrap_or_default()).collect());
    }
    // The shortest column is six wide, and three blanks stand between two.
    let widths: Vec<usize> = (0..columns.len())
        .map(|at| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or_default() + 3)
        .map(|width| width.max(6))
        .collect();
    let mut out = String::new();
    for line in &lines {
        for (at, cell) in line.iter().enumerate() {
            out.push_str(cell);
            if at + 1 < line.len() {
                out.extend(std::iter::repeat_n(' ', widths[at] - cell.chars().count()));
            }
        }
        out.push('\n');
    }
    out
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_stand_below_each_other() {
        let service = |name: &str, address: &str| {
            json!({
                "metadata": {"name": name, "creationTimestamp": "1969-12-31T23:59:55Z"},
                "spec": {"type": "ClusterIP", "clusterIPs": [address], "ports": [{"port": 80, "protocol": "TCP"}]},
            })
        };
        let objects = [service("hello", "10.105.101.118"), service("hello-headless", "None")];
        assert_eq!(
            text("Service", &objects, false, Timestamp::UNIX_EPOCH),
            "NAME             TYPE        CLUSTER-IP       EXTERNAL-IP   PORT(S)   AGE\n\
             hello            ClusterIP   10.105.101.118   <none>        80/TCP    5s\n\
             hello-headless   ClusterIP   None             <none>        80/TCP    5s\n"
        );
        assert_eq!(text("Service", &[], false, Timestamp::UNIX_EPOCH), "");
    }
}
