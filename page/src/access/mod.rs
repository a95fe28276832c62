//! Who may look, as a browser can show it: a link that works once becomes a session, and a session stands for the token
//! that the link was made with.
//!
//! Pure: the time is an argument. Owns links and sessions; whoever holds a token is asked elsewhere, each time.

pub(crate) mod request;

use std::{
    collections::HashMap,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use uuid::Uuid;

/// A link that nobody has followed for so long is void.
const LINK: Duration = Duration::from_hours(24);
/// A session that nobody has used for so long is over.
const SESSION: Duration = Duration::from_hours(12);
/// Of more links or sessions the oldest go.
const MOST: usize = 64;

/// Links and sessions.
#[derive(Default)]
pub(crate) struct Sessions {
    links: HashMap<String, Secret>,
    sessions: HashMap<String, Secret>,
}

/// What a link or a session stands for, and when it was made or used last.
struct Secret {
    token: Arc<str>,
    at: Instant,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (links, sessions) = (self.links.len(), self.sessions.len());
        formatter.debug_struct("Sessions").field("links", &links).field("sessions", &sessions).finish()
    }
}

impl Sessions {
    /// The key of a new link for whoever holds the token.
    pub(crate) fn link(&mut self, token: &str, now: Instant) -> String {
        put(&mut self.links, LINK, token.into(), now)
    }

    /// A new session for whoever has followed a link; none if there is no such link any more.
    pub(crate) fn redeem(&mut self, key: &str, now: Instant) -> Option<String> {
        forget(&mut self.links, LINK, now);
        let token = self.links.remove(key)?.token;
        Some(put(&mut self.sessions, SESSION, token, now))
    }

    /// A new session for whoever holds the token.
    pub(crate) fn begin(&mut self, token: &str, now: Instant) -> String {
        put(&mut self.sessions, SESSION, token.into(), now)
    }

    /// The token that a session stands for.
    pub(crate) fn token(&mut self, session: &str, now: Instant) -> Option<Arc<str>> {
        forget(&mut self.sessions, SESSION, now);
        let session = self.sessions.get_mut(session)?;
        session.at = now;
        Some(Arc::clone(&session.token))
    }

    /// Ends a session.
    pub(crate) fn end(&mut self, session: &str) {
        self.sessions.remove(session);
    }
}

fn put(secrets: &mut HashMap<String, Secret>, kept: Duration, token: Arc<str>, now: Instant) -> String {
    forget(secrets, kept, now);
    while secrets.len() >= MOST
        && let Some(oldest) = secrets.iter().min_by_key(|(_, secret)| secret.at).map(|(name, _)| name.clone())
    {
        secrets.remove(&oldest);
    }
    let name = random();
    secrets.insert(name.clone(), Secret { token, at: now });
    name
}

fn forget(secrets: &mut HashMap<String, Secret>, kept: Duration, now: Instant) {
    secrets.retain(|_, secret| now.duration_since(secret.at) < kept);
}

/// A text that nobody can guess: 244 random bits.
fn random() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_works_once_and_its_session_stands_for_the_token() {
        let (mut sessions, now) = (Sessions::default(), Instant::now());
        let key = sessions.link("token", now);
        assert_eq!(sessions.redeem("another", now), None);
        let session = sessions.redeem(&key, now).unwrap();
        assert_eq!(sessions.redeem(&key, now), None, "it was followed");
        assert_eq!(sessions.token(&session, now).as_deref(), Some("token"));
        assert_eq!(sessions.token(&key, now), None, "a link is no session");
        sessions.end(&session);
        assert_eq!(sessions.token(&session, now), None);
    }

    #[test]
    fn links_and_sessions_end() {
        let (mut sessions, now) = (Sessions::default(), Instant::now());
        let key = sessions.link("token", now);
        let session = sessions.begin("token", now);
        let used = now + SESSION / 2;
        assert!(sessions.token(&session, used).is_some());
        assert!(
            sessions.token(&session, used + SESSION / 2 + SESSION / 4).is_some(),
            "it was used in between"
        );
        assert_eq!(sessions.token(&session, used + SESSION * 3), None);
        assert_eq!(sessions.redeem(&key, now + LINK), None);
    }

    #[test]
    fn there_is_a_most_of_them() {
        let (mut sessions, now) = (Sessions::default(), Instant::now());
        let first = sessions.link("token", now);
        let last =
            (1..=MOST as u64).map(|n| sessions.link("token", now + Duration::from_secs(n))).last().unwrap();
        assert_eq!(sessions.redeem(&first, now), None);
        assert!(sessions.redeem(&last, now + Duration::from_secs(MOST as u64)).is_some());
        assert!(!format!("{sessions:?}").contains("token\""));
    }
}
