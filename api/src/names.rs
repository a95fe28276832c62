//! The shapes of names, labels and ports: each function returns what is wrong, in upstream's
//! words, or nothing.
//!
//! Rules: <https://kubernetes.io/docs/concepts/overview/working-with-objects/names/>.

const LABEL_FORMAT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_FORMAT: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const QUALIFIED_FORMAT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE_FORMAT: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const CONFIG_MAP_KEY_FORMAT: &str = "[-._a-zA-Z0-9]+";

const QUALIFIED_WORDS: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// A function that names the faults of a name.
pub type NameRule = fn(&str) -> Vec<String>;

fn too_long(length: usize) -> String {
    format!("must be no more than {length} characters")
}

fn too_long_bytes(length: usize) -> String {
    format!("must be no more than {length} bytes")
}

fn mismatch(words: &str, format: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{words} (regex used for validation is '{format}')");
    }
    let examples: Vec<_> = examples.iter().map(|e| format!("'{e}', ")).collect();
    format!("{words} (e.g. {}regex used for validation is '{format}')", examples.join(" or "))
}

fn is_lower_alphanumeric(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

fn is_label(s: &str) -> bool {
    let bytes = s.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    is_lower_alphanumeric(*first)
        && is_lower_alphanumeric(*last)
        && bytes.iter().all(|b| is_lower_alphanumeric(*b) || *b == b'-')
}

fn is_subdomain(s: &str) -> bool {
    s.split('.').all(is_label)
}

fn is_qualified_part(s: &str) -> bool {
    let bytes = s.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    first.is_ascii_alphanumeric()
        && last.is_ascii_alphanumeric()
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// A lowercase RFC 1123 label of at most 63 characters.
pub fn dns_label(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if name.len() > 63 {
        faults.push(too_long(63));
    }
    if !is_label(name) {
        if is_subdomain(name) {
            faults.push("must not contain dots".to_owned());
        } else {
            faults.push(mismatch(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                LABEL_FORMAT,
                &["my-name", "123-abc"],
            ));
        }
    }
    faults
}

/// A lowercase RFC 1123 subdomain of at most 253 characters.
pub fn dns_subdomain(name: &str) -> Vec<String> {
    subdomain(name, too_long(253))
}

fn subdomain(name: &str, length_fault: String) -> Vec<String> {
    let mut faults = Vec::new();
    if name.len() > 253 {
        faults.push(length_fault);
    }
    if !is_subdomain(name) {
        faults.push(mismatch(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            SUBDOMAIN_FORMAT,
            &["example.com"],
        ));
    }
    faults
}

/// A name that can stand in a URL path.
pub fn path_segment(name: &str) -> Vec<String> {
    match name {
        "." => return vec!["may not be '.'".to_owned()],
        ".." => return vec!["may not be '..'".to_owned()],
        _ => {}
    }
    ['/', '%'].into_iter().filter(|c| name.contains(*c)).map(|c| format!("may not contain '{c}'")).collect()
}

/// A fully qualified domain name: at least two labels; a final dot is allowed.
/// Returns the first fault with the part of the name it is about. An empty name is no fault here.
pub fn fully_qualified_domain(name: &str) -> Option<(String, String)> {
    if name.is_empty() {
        return None;
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let fault = |part: &str, faults: &[String]| Some((part.to_owned(), faults.join(",")));
    let faults = dns_subdomain(name);
    if !faults.is_empty() {
        return fault(name, &faults);
    }
    if !name.contains('.') {
        let words = "should be a domain with at least two segments separated by dots";
        return fault(name, &[words.to_owned()]);
    }
    name.split('.')
        .map(|label| (label, dns_label(label)))
        .find(|(_, faults)| !faults.is_empty())
        .and_then(|(label, faults)| fault(label, &faults))
}

/// A label or annotation key: an optional DNS prefix, a slash, a name.
pub fn qualified_name(name: &str) -> Vec<String> {
    let examples = ["MyName", "my.name", "123-abc"];
    let parts: Vec<&str> = name.split('/').collect();
    let mut faults = Vec::new();
    let part = match parts.as_slice() {
        [part] => *part,
        [prefix, part] => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty".to_owned());
            } else {
                let prefixed = subdomain(prefix, too_long_bytes(253));
                faults.extend(prefixed.iter().map(|f| format!("prefix part {f}")));
            }
            *part
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                mismatch(QUALIFIED_WORDS, QUALIFIED_FORMAT, &examples)
            )];
        }
    };
    if part.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if part.len() > 63 {
        faults.push(format!("name part {}", too_long_bytes(63)));
    }
    if !is_qualified_part(part) {
        faults.push(format!("name part {}", mismatch(QUALIFIED_WORDS, QUALIFIED_FORMAT, &examples)));
    }
    faults
}

/// The value of a label.
pub fn label_value(value: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if value.len() > 63 {
        faults.push(too_long_bytes(63));
    }
    if !value.is_empty() && !is_qualified_part(value) {
        faults.push(mismatch(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            LABEL_VALUE_FORMAT,
            &["MyValue", "my_value", "12345"],
        ));
    }
    faults
}

/// The name of a port as of RFC 6335 (IANA service names).
pub fn port_name(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if name.len() > 15 {
        faults.push(too_long(15));
    }
    if name.is_empty() || !name.bytes().all(|b| is_lower_alphanumeric(b) || b == b'-') {
        faults.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        faults.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        faults.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        faults.push("must not begin or end with a hyphen".to_owned());
    }
    faults
}

/// A port number, 1 to 65535.
pub fn port_number(port: i32) -> Vec<String> {
    if (1..=65535).contains(&port) {
        Vec::new()
    } else {
        vec!["must be between 1 and 65535, inclusive".to_owned()]
    }
}

/// A key of a ConfigMap.
pub fn config_map_key(key: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if key.len() > 253 {
        faults.push(too_long(253));
    }
    let shape =
        !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    if !shape {
        faults.push(mismatch(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            CONFIG_MAP_KEY_FORMAT,
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    if key == "." {
        faults.push("must not be '.'".to_owned());
    }
    if key == ".." {
        faults.push("must not be '..'".to_owned());
    } else if key.starts_with("..") {
        faults.push("must not start with '..'".to_owned());
    }
    faults
}

/// The part of a generated name that the user wrote, made checkable: the dash it may end with
/// will be followed by the generated part.
pub fn without_trailing_dash(prefix: &str) -> String {
    if prefix.len() > 1 && prefix.ends_with('-') {
        let mut cut: String = prefix.chars().collect();
        cut.pop();
        cut.pop();
        cut.push('a');
        cut
    } else {
        prefix.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("a", true)]
    #[case("a-1", true)]
    #[case("1a", true)]
    #[case("", false)]
    #[case("-a", false)]
    #[case("a-", false)]
    #[case("A", false)]
    #[case("a.b", false)]
    fn labels(#[case] name: &str, #[case] good: bool) {
        assert_eq!(dns_label(name).is_empty(), good, "{:?}", dns_label(name));
    }

    #[test]
    fn a_dot_in_a_label_is_named() {
        assert_eq!(dns_label("a.b"), ["must not contain dots"]);
        assert_eq!(dns_label(&"a".repeat(64)), ["must be no more than 63 characters"]);
        let long = format!("{}.b", "a".repeat(64));
        assert_eq!(dns_label(&long).len(), 2);
    }

    #[rstest]
    #[case("a/b", 0)]
    #[case("/b", 1)]
    #[case("a/", 2)]
    #[case("A_/b", 1)]
    #[case("a/b/c", 1)]
    #[case("", 2)]
    fn qualified_names(#[case] name: &str, #[case] faults: usize) {
        assert_eq!(qualified_name(name).len(), faults, "{:?}", qualified_name(name));
    }

    #[rstest]
    #[case("a-1", 0)]
    #[case("12", 1)]
    #[case("a--b", 1)]
    #[case("", 2)]
    #[case("-", 2)]
    fn port_names(#[case] name: &str, #[case] faults: usize) {
        assert_eq!(port_name(name).len(), faults, "{:?}", port_name(name));
    }

    #[rstest]
    #[case("web-", "wea")]
    #[case("-", "-")]
    #[case("web", "web")]
    fn trailing_dashes_are_masked(#[case] prefix: &str, #[case] masked: &str) {
        assert_eq!(without_trailing_dash(prefix), masked);
    }

    #[rstest]
    #[case("a.b", None)]
    #[case("a.b.", None)]
    #[case("foo.", Some("foo"))]
    #[case("*.b", Some("*.b"))]
    fn domains(#[case] name: &str, #[case] refused: Option<&str>) {
        let part = fully_qualified_domain(name).map(|(part, _)| part);
        assert_eq!(part.as_deref(), refused);
    }

    #[test]
    fn a_long_label_of_a_domain_is_named_alone() {
        let label = "a".repeat(64);
        let found = fully_qualified_domain(&format!("{label}.b"));
        let words = "must be no more than 63 characters".to_owned();
        assert_eq!(found, Some((label, words)));
    }

    #[rstest]
    #[case("a", 0)]
    #[case("..a", 1)]
    #[case(".", 1)]
    #[case("a b", 1)]
    fn config_keys(#[case] key: &str, #[case] faults: usize) {
        assert_eq!(config_map_key(key).len(), faults);
    }
}
