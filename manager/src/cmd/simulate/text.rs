//! A simulation as text for people.
//!
//! Owns the order on the page.

use std::fmt::Write as _;

use service_controllers::simulate::Simulation;
use service_controllers::simulate::report::{Step, Totals, Write};

use crate::paint::{Look, Paint};

/// The page.
pub(super) fn render(found: &Simulation, paint: Paint, show: usize) -> String {
    let mut out = String::new();
    for (number, step) in found.steps.iter().enumerate() {
        if number > 0 {
            out += "\n";
        }
        of_step(&mut out, step, paint, show);
    }
    if !found.unknown.is_empty() {
        let _ = writeln!(out, "\n{}", paint.text(Look::Bold, "NOT KNOWN"));
        for unknown in &found.unknown {
            let _ = writeln!(out, "  {}: {}; {}", unknown.kind, unknown.why, unknown.means);
        }
    }
    out
}

fn of_step(out: &mut String, step: &Step, paint: Paint, show: usize) {
    let _ = writeln!(out, "{}: {}", paint.text(Look::Bold, &step.name), totals(&step.totals));
    for write in step.writes.iter().take(show) {
        of_write(out, write, paint, show);
    }
    if let Some(more) = step.writes.len().checked_sub(show).filter(|more| *more > 0) {
        let _ = writeln!(out, "  and {more} more; --show {} shows all", step.writes.len());
    }
    for note in &step.notes {
        let _ = writeln!(out, "  {}", paint.text(Look::Yellow, &format!("note: {note}")));
    }
}

fn of_write(out: &mut String, write: &Write, paint: Paint, show: usize) {
    let look = match write.verb {
        "Create" => Look::Green,
        "Delete" => Look::Red,
        _ => Look::Yellow,
    };
    let place = if write.namespace.is_empty() { String::new() } else { format!("{}/", write.namespace) };
    let cost = match (write.bytes, write.nodes) {
        (0, _) => String::new(),
        (bytes, 0) => format!(" ({})", size(bytes)),
        (bytes, nodes) => format!(" ({}; {} to each of {nodes} nodes)", size(bytes), size(write.event_bytes)),
    };
    let verb = paint.text(look, write.verb);
    let _ = writeln!(out, "  {verb} {} {place}{}: {}{cost}", write.kind, write.name, write.message);
    for line in write.lines.iter().take(show) {
        let look = match line.as_bytes().first() {
            Some(b'+') => Look::Green,
            Some(b'-') => Look::Red,
            _ => Look::Yellow,
        };
        let _ = writeln!(out, "    {}", paint.text(look, line));
    }
    if let Some(more) = write.lines.len().checked_sub(show).filter(|more| *more > 0) {
        let _ = writeln!(out, "    and {more} more");
    }
}

fn totals(totals: &Totals) -> String {
    if totals.writes == 0 {
        return "nothing to write".to_owned();
    }
    let kinds: Vec<String> = totals.by_kind.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let nodes = if totals.events_to_nodes == 0 {
        "nothing for nodes".to_owned()
    } else {
        format!("{} events to nodes, {}", totals.events_to_nodes, size(totals.bytes_to_nodes))
    };
    let writes = if totals.writes == 1 { "write" } else { "writes" };
    format!("{} {writes} ({}), {}; {nodes}", totals.writes, kinds.join(", "), size(totals.bytes))
}

/// A number of bytes, as people read it.
fn size(bytes: usize) -> String {
    const STEPS: [(usize, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match STEPS.into_iter().find(|(step, _)| bytes >= *step) {
        #[allow(clippy::cast_precision_loss)] // to one digit
        Some((step, unit)) => format!("{:.1} {unit}", bytes as f64 / step as f64),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_by_people() {
        for (bytes, text) in [(7, "7 bytes"), (1536, "1.5 KiB"), (3 << 20, "3.0 MiB")] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn a_step_says_what_it_writes_and_what_that_costs() {
        let write = Write {
            verb: "Update",
            kind: "EndpointSlice",
            namespace: "demo".into(),
            name: "hello-x".into(),
            service: "demo/hello".into(),
            message: "1 endpoint added".into(),
            lines: vec!["+ 10.0.0.1 hello-1 on n1, ready".into()],
            bytes: 700,
            event_bytes: 700,
            nodes: 3,
        };
        let step = Step {
            name: "as it is".into(),
            totals: Totals::of(std::slice::from_ref(&write)),
            writes: vec![write],
            notes: vec!["no Node is known".into()],
        };
        let mut out = String::new();
        of_step(&mut out, &step, Paint::plain(), 5);
        let expected = "\
as it is: 1 write (1 EndpointSlice), 700 bytes; 3 events to nodes, 2.1 KiB
  Update EndpointSlice demo/hello-x: 1 endpoint added (700 bytes; 700 bytes to each of 3 nodes)
    + 10.0.0.1 hello-1 on n1, ready
  note: no Node is known
";
        assert_eq!(out, expected);
    }
}
