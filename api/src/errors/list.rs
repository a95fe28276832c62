//! A list of field errors that does not grow without end: a body of a megabyte may have a hundred thousand faults, and
//! nobody reads more than a few of them.

use std::ops::Deref;

use super::FieldError;

/// Most errors that an answer lists. One more is kept, as the sign that there are more.
pub const MAX_ERRORS: usize = 100;

/// Errors in the order upstream finds them; those beyond [`MAX_ERRORS`] are dropped as they come.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FieldErrors(Vec<FieldError>);

impl FieldErrors {
    /// No error.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds an error, if there is room for it.
    pub fn push(&mut self, error: FieldError) {
        if self.0.len() <= MAX_ERRORS {
            self.0.push(error);
        }
    }

    /// Were there more errors than an answer lists?
    pub fn is_cut(&self) -> bool {
        self.0.len() > MAX_ERRORS
    }

    /// The errors that an answer lists.
    pub fn listed(&self) -> &[FieldError] {
        &self.0[..self.0.len().min(MAX_ERRORS)]
    }
}

impl Deref for FieldErrors {
    type Target = [FieldError];

    fn deref(&self) -> &[FieldError] {
        &self.0
    }
}

impl Extend<FieldError> for FieldErrors {
    fn extend<T: IntoIterator<Item = FieldError>>(&mut self, errors: T) {
        let room = (MAX_ERRORS + 1).saturating_sub(self.0.len());
        self.0.extend(errors.into_iter().take(room));
    }
}

impl FromIterator<FieldError> for FieldErrors {
    fn from_iter<T: IntoIterator<Item = FieldError>>(errors: T) -> Self {
        let mut list = Self::new();
        list.extend(errors);
        list
    }
}

impl IntoIterator for FieldErrors {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a FieldErrors {
    type Item = &'a FieldError;
    type IntoIter = std::slice::Iter<'a, FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl From<FieldError> for FieldErrors {
    fn from(error: FieldError) -> Self {
        Self(vec![error])
    }
}

impl From<Vec<FieldError>> for FieldErrors {
    fn from(errors: Vec<FieldError>) -> Self {
        errors.into_iter().collect()
    }
}

impl<const N: usize> From<[FieldError; N]> for FieldErrors {
    fn from(errors: [FieldError; N]) -> Self {
        errors.into_iter().collect()
    }
}

impl PartialEq<Vec<FieldError>> for FieldErrors {
    fn eq(&self, other: &Vec<FieldError>) -> bool {
        self.0 == *other
    }
}

impl<const N: usize> PartialEq<[FieldError; N]> for FieldErrors {
    fn eq(&self, other: &[FieldError; N]) -> bool {
        self.0 == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::required;

    #[test]
    fn a_list_keeps_one_more_than_it_shows() {
        let many = |count: usize| (0..count).map(|at| required(format!("f[{at}]"), ""));
        let mut list: FieldErrors = many(MAX_ERRORS).collect();
        assert!(!list.is_cut());
        list.push(required("x", ""));
        list.push(required("y", ""));
        list.extend(many(50));
        assert!(list.is_cut());
        assert_eq!((list.len(), list.listed().len()), (MAX_ERRORS + 1, MAX_ERRORS));
        // A list that was cut stays so when it becomes part of another.
        let whole: FieldErrors = many(1).chain(list).collect();
        assert!(whole.is_cut());
    }

    #[test]
    fn what_is_beyond_the_bound_is_not_even_made() {
        let mut made = 0;
        let list: FieldErrors = (0..1_000_000)
            .map(|_| {
                made += 1;
                required("x", "")
            })
            .collect();
        assert!(list.is_cut());
        assert_eq!(made, MAX_ERRORS + 1);
    }
}
