//! Files that are sent to a pod by a form (`/upload` of `agnhost netexec`). Pure, but for the files that are kept.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use parking_lot::Mutex;

/// How much the files of a pod may be together.
pub(crate) const MOST: usize = 32 << 20;

/// The files of a pod, by their names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Uploads(Arc<Mutex<BTreeMap<String, Bytes>>>);

impl Uploads {
    /// Keeps a file; its name.
    ///
    /// # Errors
    /// When there is no room for it.
    pub(crate) fn keep(&self, file: Bytes) -> Result<String, String> {
        let mut files = self.0.lock();
        let there: usize = files.values().map(Bytes::len).sum();
        if there + file.len() > MOST {
            return Err(format!("no room: {there} bytes are there, of at most {MOST}"));
        }
        let name = format!("upload{}", files.len() + 1);
        files.insert(name.clone(), file);
        Ok(name)
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<(String, Bytes)> {
        self.0.lock().iter().map(|(name, file)| (name.clone(), file.clone())).collect()
    }
}

/// The boundary that a content type names (RFC 2046, section 5.1.1).
pub(crate) fn boundary(content_type: &str) -> Option<&str> {
    let mut parts = content_type.split(';').map(str::trim);
    parts.next().filter(|kind| kind.eq_ignore_ascii_case("multipart/form-data"))?;
    let value = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.eq_ignore_ascii_case("boundary").then(|| value.trim_matches('"'))
    })?;
    (!value.is_empty()).then_some(value)
}

/// The content of the form's field (RFC 7578).
pub(crate) fn field(form: &Bytes, boundary: &str, name: &str) -> Option<Bytes> {
    let delimiter = format!("--{boundary}");
    let wanted = format!("name=\"{name}\"");
    let mut at = memchr::memmem::find(form, delimiter.as_bytes())? + delimiter.len();
    let delimiter = format!("\r\n{delimiter}");
    loop {
        let part = form.get(at..).filter(|part| part.starts_with(b"\r\n"))?;
        let length = memchr::memmem::find(part, delimiter.as_bytes())?;
        let head = memchr::memmem::find(part, b"\r\n\r\n").filter(|head| *head < length)?;
        let headers = String::from_utf8_lossy(&part[..head]);
        let mut words = headers.split([';', '\r', '\n']).map(str::trim);
        if words.any(|word| word == wanted) {
            return Some(form.slice(at + head + 4..at + length));
        }
        at += length + delimiter.len();
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("multipart/form-data; boundary=abc", Some("abc"))]
    #[case("multipart/form-data; charset=utf-8; Boundary=\"a b\"", Some("a b"))]
    #[case("multipart/form-data", None)]
    #[case("text/plain; boundary=abc", None)]
    fn boundaries(#[case] content_type: &str, #[case] expected: Option<&str>) {
        assert_eq!(boundary(content_type), expected);
    }

    #[rstest]
    #[case("file", Some("a--x\r\nend"))]
    #[case("other", Some("1"))]
    #[case("fil", None)]
    fn fields_of_a_form(#[case] name: &str, #[case] expected: Option<&str>) {
        let form = "--x\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\n1\r\n--x\r\nContent-Disposition: form-data; \
            name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\na--x\r\nend\r\n--x--\r\n";
        let found = field(&Bytes::from(form), "x", name);
        assert_eq!(found.as_deref(), expected.map(str::as_bytes));
        assert_eq!(field(&Bytes::from("--x\r\nno end"), "x", name), None);
    }

    #[test]
    fn files_are_kept_up_to_a_size() {
        let uploads = Uploads::default();
        assert_eq!(uploads.keep(Bytes::from("a")), Ok("upload1".to_owned()));
        assert_eq!(uploads.keep(Bytes::from("b")), Ok("upload2".to_owned()));
        assert!(uploads.keep(Bytes::from(vec![0; MOST])).is_err());
        assert_eq!(uploads.all().len(), 2);
    }
}
