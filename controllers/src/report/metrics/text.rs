//! The registry as text, in the format that Kubernetes' components answer scrapes with (Prometheus text format 0.0.4).
//!
//! The library writes OpenMetrics only, in which a counter's name ends with `_total`. Upstream has counters without it, and
//! dashboards ask for those.

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// What the answer to a scrape says it is.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How upstream's counters end that have no `_total`.
const WITHOUT_TOTAL: [&str; 2] = ["_controller_changes", "_controller_syncs"];

/// All series, with upstream's names.
///
/// # Errors
/// If a metric cannot be written.
pub fn exposition(registry: &Registry) -> Result<String, std::fmt::Error> {
    let mut open = String::new();
    encode(&mut open, registry)?;
    Ok(plain(&open))
}

/// OpenMetrics text in the older form.
fn plain(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    let mut put = |parts: &[&str]| {
        for part in parts {
            text.push_str(part);
        }
        text.push('\n');
    };
    let mut lines = open.lines().peekable();
    // The family whose lines these are, if it is a counter, and its name from here on.
    let mut counter: Option<(String, String)> = None;
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let name = help.split(' ').next().unwrap_or_default();
            let is_counter = lines.peek().is_some_and(|next| *next == format!("# TYPE {name} counter"));
            counter = is_counter.then(|| (name.to_owned(), name_of_counter(name)));
            let named = counter.as_ref().map_or(name, |(_, named)| named);
            put(&["# HELP ", named, &help[name.len()..]]);
        } else if line.starts_with("# TYPE ") {
            match &counter {
                Some((_, named)) => put(&["# TYPE ", named, " counter"]),
                None => put(&[line]),
            }
        } else if line.starts_with('#') {
            // Units and the end have no place in this form.
        } else if let Some((name, named)) = &counter
            && let Some(rest) = line.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix("_total"))
        {
            put(&[named, rest]);
        } else {
            put(&[line]);
        }
    }
    text
}

fn name_of_counter(name: &str) -> String {
    let bare = WITHOUT_TOTAL.iter().any(|end| name.ends_with(end));
    if bare { name.to_owned() } else { format!("{name}_total") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_the_names_that_upstream_gives_them() {
        let open = "# HELP endpoint_slice_controller_changes Writes.\n# TYPE endpoint_slice_controller_changes counter\nendpoint_slice_controller_changes_total{operation=\"create\"} 3\n\
            # HELP workqueue_adds Keys.\n# TYPE workqueue_adds counter\nworkqueue_adds_total{name=\"endpoint\"} 4\n\
            # HELP workqueue_depth Keys.\n# TYPE workqueue_depth gauge\n# UNIT workqueue_depth keys\nworkqueue_depth{name=\"a_total\"} 1\n# EOF\n";
        assert_eq!(
            plain(open),
            "# HELP endpoint_slice_controller_changes Writes.\n# TYPE endpoint_slice_controller_changes counter\nendpoint_slice_controller_changes{operation=\"create\"} 3\n\
            # HELP workqueue_adds_total Keys.\n# TYPE workqueue_adds_total counter\nworkqueue_adds_total{name=\"endpoint\"} 4\n\
            # HELP workqueue_depth Keys.\n# TYPE workqueue_depth gauge\nworkqueue_depth{name=\"a_total\"} 1\n"
        );
    }
}
