//! Field paths as upstream writes them: `spec.ports[0].name`, `metadata.annotations[a/b]`.
//!
//! Owns nothing but the text; it never looks into an object.

use std::fmt;

use crate::cut::cut;

/// The path of a field inside an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path(String);

impl Path {
    /// A path of one element at the object's root, such as `spec`.
    pub fn root(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The field `name` below this one.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        Self(format!("{}.{name}", self.0))
    }

    /// The element `i` of this list.
    #[must_use]
    pub fn index(&self, i: usize) -> Self {
        Self(format!("{}[{i}]", self.0))
    }

    /// The entry `key` of this map.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{}]", self.0, cut(key)))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Path> for String {
    fn from(path: Path) -> Self {
        path.0
    }
}

impl From<&Path> for String {
    fn from(path: &Path) -> Self {
        path.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_joined_as_upstream_does() {
        let path = Path::root("spec").child("ports").index(2).child("name");
        assert_eq!(path.to_string(), "spec.ports[2].name");
        let path = Path::root("metadata").child("annotations").key("a.b/c");
        assert_eq!(path.to_string(), "metadata.annotations[a.b/c]");
    }
}
