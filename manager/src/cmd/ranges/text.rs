//! A report on ranges as text.
//!
//! Owns the columns and sentences.

use std::fmt::Write as _;

use service_allocators::ranges::{Band, Outlook, Report, Shown};

/// A table whose columns are as wide as their widest cell.
fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |i: usize| {
        let cells = rows.iter().map(|row| row[i].chars().count());
        cells.chain([head[i].len()]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut out = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> =
            cells.zip(&widths).map(|(cell, width)| format!("{cell:width$}", width = *width)).collect();
        let _ = writeln!(out, "{}", padded.join("  ").trim_end());
    };
    line(&mut head.iter().copied());
    for row in rows {
        line(&mut row.iter().map(String::as_str));
    }
    out
}

fn of_both(band: Band) -> String {
    format!("{}/{}", band.used, u128::from(band.used) + u128::from(band.free))
}

/// The report for people.
pub(super) fn render(report: &Report) -> String {
    let mut out = String::new();
    let cidrs: Vec<Vec<String>> = report
        .service_cidrs
        .iter()
        .map(|r| vec![r.name.clone(), r.cidr.clone(), r.state.clone(), of_both(r.lower), of_both(r.upper)])
        .collect();
    let _ = writeln!(out, "{}", table(&["SERVICECIDR", "CIDR", "STATE", "LOWER USED", "UPPER USED"], &cidrs));
    let ports: Vec<Vec<String>> = report
        .node_port_ranges
        .iter()
        .map(|r| {
            vec![r.name.clone(), r.ports.clone(), format!("{:?}", r.role), of_both(r.lower), of_both(r.upper)]
        })
        .collect();
    let _ =
        writeln!(out, "{}", table(&["NODEPORTRANGE", "PORTS", "ROLE", "LOWER USED", "UPPER USED"], &ports));
    if !report.pools.is_empty() {
        let row = |name: &str, kind: &str, bands: &[Band; 2]| {
            vec![name.to_owned(), kind.to_owned(), of_both(bands[0]), of_both(bands[1])]
        };
        let pools = report.pools.iter().flat_map(|p| p.kinds.iter().map(|(kind, b)| row(&p.name, kind, b)));
        let pools: Vec<Vec<String>> = pools.collect();
        let _ = writeln!(out, "{}", table(&["SERVICEPOOL", "VALUES", "LOWER USED", "UPPER USED"], &pools));
    }
    sentences(report, &mut out);
    out
}

fn sentences(report: &Report, out: &mut String) {
    for range in &report.service_cidrs {
        let name = format!("ServiceCIDR {} ({})", range.name, range.cidr);
        for clash in &range.clashes {
            let _ = writeln!(out, "{name} {clash}.");
        }
        if range.blockers.count > 0 {
            let _ = writeln!(out, "{name} can not go because of {}.", Shown(&range.blockers));
        }
    }
    for range in &report.node_port_ranges {
        let name = format!("NodePortRange {} ({})", range.name, range.ports);
        for clash in &range.clashes {
            let _ = writeln!(out, "{name} {clash}.");
        }
        if range.blockers.count > 0 {
            let _ = writeln!(out, "{name} can not go because of {}.", Shown(&range.blockers));
        }
    }
    for pool in &report.pools {
        for fault in &pool.faults {
            let _ = writeln!(out, "ServicePool {}: {fault}.", pool.name);
        }
    }
    if report.outside.count > 0 {
        let _ = writeln!(out, "In no range: {}.", Shown(&report.outside));
    }
    for outlook in &report.outlook {
        of_outlook(outlook, out);
    }
    for note in &report.notes {
        let _ = writeln!(out, "Note: {note}.");
    }
}

fn of_outlook(outlook: &Outlook, out: &mut String) {
    let range = &outlook.range;
    if let Some(fault) = &outlook.fault {
        let end = if fault.ends_with('?') { "" } else { "." };
        let _ = writeln!(out, "{range} can not be a range: {fault}{end}");
    } else {
        let (lower, upper) = (of_both(outlook.lower), of_both(outlook.upper));
        let _ =
            writeln!(out, "With {range}: {lower} of the lower band and {upper} of the upper band are used.");
        if outlook.moves.count == 0 {
            let _ = writeln!(out, "With {range}: every Service keeps what it has.");
        } else {
            let (count, moves) = (outlook.moves.count, Shown(&outlook.moves));
            let _ = writeln!(out, "With {range}: {count} would be in no range: {moves}.");
        }
    }
    for clash in &outlook.clashes {
        let _ = writeln!(out, "{range} {clash}.");
    }
}

#[cfg(test)]
mod tests {
    use service_allocators::ranges::{Objects, Questions, survey};

    use super::*;

    #[test]
    fn a_small_cluster() {
        let objects = Objects {
            services: vec![
                serde_json::from_value(serde_json::json!({
                    "metadata": {"name": "web", "namespace": "shop"},
                    "spec": {"type": "NodePort", "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"],
                        "ports": [{"port": 80, "nodePort": 30080}]},
                }))
                .unwrap(),
            ],
            cidrs: vec![
                serde_json::from_value(
                    serde_json::json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/24"]}}),
                )
                .unwrap(),
            ],
            ..Objects::default()
        };
        let questions =
            Questions { if_cidrs: vec!["10.100.0.0/16".parse().unwrap()], ..Questions::default() };
        let expected = "\
SERVICECIDR  CIDR          STATE  LOWER USED  UPPER USED
kubernetes   10.96.0.0/24  Ready  1/16        0/238

NODEPORTRANGE  PORTS        ROLE     LOWER USED  UPPER USED
kubernetes     30000-32767  Dynamic  1/86        0/2682

ServiceCIDR kubernetes (10.96.0.0/24) can not go because of shop/web (10.96.0.9).
NodePortRange kubernetes (30000-32767) can not go because of shop/web (30080).
With 10.100.0.0/16: 0/256 of the lower band and 0/65278 of the upper band are used.
With 10.100.0.0/16: 1 would be in no range: shop/web (10.96.0.9).
Note: no IPAddresses are known: the addresses of Services count.
Note: no NodePortRange is known: the node ports are taken to be 30000-32767.
Note: no Nodes are known: clashes with their networks can not be seen.
";
        assert_eq!(render(&survey(&objects, &questions)), expected);
    }
}
