//! Who asks: the holder of the token, nobody, or whom the holder asks to be taken for (`Impersonate-*` headers).
//!
//! Pure. What a caller may do is the business of [`super::authorize`].

use std::collections::BTreeMap;

use http::HeaderMap;
use serde_json::{Value, json};

use crate::registry::error::ApiError;

use super::params;

/// Members may do everything.
pub(crate) const MASTERS: &str = "system:masters";
/// Everyone who has shown who they are.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// Everyone who has not.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";

/// The user behind the token, as the server names it.
const ADMIN: &str = "kubernetes-admin";
const ANONYMOUS: &str = "system:anonymous";

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";

/// A user as authorization and reviews see one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Name.
    pub(crate) username: String,
    /// Unique id; may be empty.
    pub(crate) uid: String,
    /// Groups, in the order they were given.
    pub(crate) groups: Vec<String>,
    /// Further attributes.
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

impl Caller {
    /// A user with these groups and nothing else.
    pub(crate) fn new(username: &str, groups: &[&str]) -> Self {
        Self {
            username: username.to_owned(),
            uid: String::new(),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
            extra: BTreeMap::new(),
        }
    }

    /// Who holds the token.
    pub(crate) fn admin() -> Self {
        Self::new(ADMIN, &[MASTERS, AUTHENTICATED])
    }

    /// Who shows no token.
    pub(crate) fn anonymous() -> Self {
        Self::new(ANONYMOUS, &[UNAUTHENTICATED])
    }

    /// Is the user in that group?
    pub(crate) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// The user as `UserInfo`; what is empty is left out.
    pub(crate) fn user_info(&self) -> Value {
        let mut info = json!({ "username": self.username });
        if !self.uid.is_empty() {
            info["uid"] = json!(self.uid);
        }
        if !self.groups.is_empty() {
            info["groups"] = json!(self.groups);
        }
        if !self.extra.is_empty() {
            info["extra"] = json!(self.extra);
        }
        info
    }

    /// Whom a request wants to be taken for; `None` if it names nobody.
    ///
    /// # Errors
    /// 400 for a group, uid or attribute without a user name.
    pub(crate) fn impersonated(headers: &HeaderMap) -> Result<Option<Self>, ApiError> {
        let text = |name| headers.get(name).map(|value| lossy(value.as_bytes())).unwrap_or_default();
        let mut wanted = Self { username: text(USER), uid: text(UID), ..Self::new("", &[]) };
        let groups = headers.get_all(GROUP).iter().map(|value| lossy(value.as_bytes()));
        wanted.groups.extend(groups);
        for (name, value) in headers {
            let Some(key) = name.as_str().strip_prefix(EXTRA) else { continue };
            let key = params::decode(key, false).into_owned();
            wanted.extra.entry(key).or_default().push(lossy(value.as_bytes()));
        }
        if wanted.username.is_empty() {
            let named = !(wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty());
            return if named { Err(nameless(&wanted)) } else { Ok(None) };
        }
        wanted.complete_groups();
        Ok(Some(wanted))
    }

    /// The groups that follow from the name where none are given, and the one that says whether the user is known.
    fn complete_groups(&mut self) {
        if self.groups.is_empty()
            && let Some(namespace) = service_account(&self.username)
        {
            self.groups =
                vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        }
        if self.username == ANONYMOUS {
            if !self.is_in(UNAUTHENTICATED) {
                self.groups.push(UNAUTHENTICATED.to_owned());
            }
        } else if !self.is_in(AUTHENTICATED) && !self.is_in(UNAUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn nameless(wanted: &Caller) -> ApiError {
    let Caller { uid, groups, extra, .. } = wanted;
    ApiError::bad_request(format!(
        "requested uid {uid:?}, groups {groups:?}, extra {extra:?} without impersonating a user name: send the header \
         Impersonate-User as well"
    ))
}

/// The namespace of `system:serviceaccount:NAMESPACE:NAME`.
fn service_account(username: &str) -> Option<&str> {
    let (namespace, name) = username.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some(namespace)
}

#[cfg(test)]
mod tests {
    use http::HeaderName;
    use rstest::rstest;

    use super::*;

    fn headers(list: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in list {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        headers
    }

    #[rstest]
    #[case::plain(&[(USER, "bob")], "bob", &[AUTHENTICATED])]
    #[case::groups(&[(USER, "bob"), (GROUP, "dev"), (GROUP, "ops")], "bob", &["dev", "ops", AUTHENTICATED])]
    #[case::known(&[(USER, "bob"), (GROUP, AUTHENTICATED)], "bob", &[AUTHENTICATED])]
    #[case::unknown(&[(USER, "bob"), (GROUP, UNAUTHENTICATED)], "bob", &[UNAUTHENTICATED])]
    #[case::anonymous(&[(USER, ANONYMOUS)], ANONYMOUS, &[UNAUTHENTICATED])]
    #[case::account(
        &[(USER, "system:serviceaccount:shop:web")], "system:serviceaccount:shop:web",
        &["system:serviceaccounts", "system:serviceaccounts:shop", AUTHENTICATED]
    )]
    #[case::account_with_groups(
        &[(USER, "system:serviceaccount:shop:web"), (GROUP, "dev")], "system:serviceaccount:shop:web",
        &["dev", AUTHENTICATED]
    )]
    fn impersonated_users(#[case] sent: &[(&str, &str)], #[case] name: &str, #[case] groups: &[&str]) {
        assert_eq!(Caller::impersonated(&headers(sent)).unwrap().unwrap(), Caller::new(name, groups));
    }

    #[test]
    fn uid_and_further_attributes() {
        let sent = [
            (USER, "bob"),
            (UID, "7"),
            ("Impersonate-Extra-acme.com%2Fproject", "a"),
            ("Impersonate-Extra-Acme.com%2Fproject", "b"),
        ];
        let info = Caller::impersonated(&headers(&sent)).unwrap().unwrap().user_info();
        let expected = json!({
            "username": "bob", "uid": "7", "groups": [AUTHENTICATED], "extra": {"acme.com/project": ["a", "b"]},
        });
        assert_eq!(info, expected);
    }

    #[test]
    fn nobody_is_named() {
        assert_eq!(Caller::impersonated(&headers(&[("accept", "x")])).unwrap(), None);
        for name in [UID, GROUP, "impersonate-extra-x"] {
            let refused = Caller::impersonated(&headers(&[(name, "dev")])).unwrap_err();
            assert_eq!(refused.code(), 400, "{name}");
            assert!(refused.to_string().contains("without impersonating a user name"), "{refused}");
        }
    }
}
