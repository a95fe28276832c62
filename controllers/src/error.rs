//! Why the controllers stop or do not start.

/// An error of the set of controllers.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process holds the lease now, or may soon; this one must not write any more.
    #[error("the lease {namespace}/{name} was lost: {why}; start again to stand by")]
    LeaseLost {
        /// Namespace of the lease.
        namespace: String,
        /// Name of the lease.
        name: String,
        /// How.
        why: String,
    },
    /// A task of the set ended in a panic.
    #[error("a task of the controllers ended unexpectedly, which is a fault of ours: {0}")]
    Task(#[from] tokio::task::JoinError),
}

impl Error {
    /// A stable name for metrics and Events.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::LeaseLost { .. } => "LeaseLost",
            Self::Task(_) => "Task",
        }
    }
}

/// In bytes; an Event takes 1024 characters of message.
const LONGEST_SAYING: usize = 1024;

/// An error with its causes, each said once: a client's own text mostly ends before the reason.
#[must_use]
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |cause| cause.source()) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Others' words in a form that is part of a line of the log or of an Event: in one line, and no longer than
/// what an Event takes. A proxy's error page may have megabytes.
#[must_use]
pub fn in_a_line(said: &str) -> String {
    let blank = |c: char| if c.is_whitespace() || c.is_control() { ' ' } else { c };
    let mut line = String::new();
    for c in said.chars().map(blank) {
        if line.len() >= LONGEST_SAYING {
            line.push('…');
            break;
        }
        if c != ' ' || !(line.is_empty() || line.ends_with(' ')) {
            line.push(c);
        }
    }
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_say_is_one_line_and_short() {
        assert_eq!(in_a_line(" bad \u{1b}[31m\r\n WARN forged\n"), "bad [31m WARN forged");
        assert_eq!(in_a_line("exceeded quota: q"), "exceeded quota: q");
        let page = in_a_line(&"<p>é</p>\n".repeat(1 << 20));
        assert!(page.len() < 1100 && page.ends_with('…'), "{} bytes", page.len());
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Link {
        text: &'static str,
        source: Option<Box<Link>>,
    }

    #[test]
    fn causes_are_said_once() {
        let link = |text, source: Option<Link>| Link { text, source: source.map(Box::new) };
        let error = link("client: connect", Some(link("connect", Some(link("refused", None)))));
        assert_eq!(with_causes(&error), "client: connect: refused");
    }
}
