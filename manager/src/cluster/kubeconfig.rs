//! From a kubeconfig to the settings of a client: which context, and what is wrong with it.
//!
//! Owns the reading of the file; connects to nothing and remembers nothing.

use std::path::Path;

use kube::{
    Config,
    config::{Cluster, KubeConfigOptions, Kubeconfig, KubeconfigError},
};

use super::proxy::{Environment, ProxyError};

/// A kubeconfig that leads to no server.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read or understood.
    #[error(transparent)]
    Read(#[from] KubeconfigError),
    /// It does not say which of its contexts is meant.
    #[error(
        "no current-context is set; `kubectl config use-context NAME` sets one, the file has {}",
        listed(.0)
    )]
    NoCurrentContext(Vec<String>),
    /// It means a context that it does not have.
    #[error("the current-context is {name:?}, but the file has {}", listed(known))]
    UnknownContext {
        /// What it means.
        name: String,
        /// What it has.
        known: Vec<String>,
    },
    /// The context means a cluster that is not there.
    #[error("the context {context:?} means the cluster {cluster:?}, which the file does not have")]
    UnknownCluster {
        /// The context.
        context: String,
        /// What it means.
        cluster: String,
    },
    /// There is nothing to talk to.
    #[error("the cluster {0:?} has no server")]
    NoServer(String),
    /// The environment has an unusable proxy.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "no context".to_owned() } else { names.join(", ") }
}

/// What a file says.
#[derive(Debug)]
pub(super) struct Read {
    /// The settings of its context.
    pub(super) config: Config,
    /// The name of that context.
    pub(super) context: String,
}

/// Reads the settings for a context of a file, or for its current one.
pub(super) async fn read(
    file: &Path,
    context: Option<&str>,
    environment: &Environment,
) -> Result<Read, FileError> {
    from(Kubeconfig::read_from(file)?, context, environment).await
}

async fn from(
    mut kubeconfig: Kubeconfig,
    context: Option<&str>,
    environment: &Environment,
) -> Result<Read, FileError> {
    if let Some(context) = context {
        kubeconfig.current_context = Some(context.to_owned());
    }
    let own_proxy = meant(&kubeconfig)?.proxy_url.as_ref().is_some_and(|url| !url.is_empty());
    let context = kubeconfig.current_context.clone().unwrap_or_default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    if !own_proxy {
        // kube takes HTTPS_PROXY for every server, this machine and those of NO_PROXY included.
        config.proxy_url = environment.proxy_for(&config.cluster_url)?;
    }
    if config.accept_invalid_certs {
        tracing::warn!("insecure-skip-tls-verify: whoever answers is believed to be the API server");
    }
    Ok(Read { config, context })
}

/// The cluster that the current context means.
fn meant(kubeconfig: &Kubeconfig) -> Result<&Cluster, FileError> {
    let known = || kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    let name = kubeconfig.current_context.as_deref().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| FileError::NoCurrentContext(known()))?;
    let context = kubeconfig.contexts.iter().find(|context| context.name == name);
    let context = context.and_then(|context| context.context.as_ref());
    let context =
        context.ok_or_else(|| FileError::UnknownContext { name: name.to_owned(), known: known() })?;
    let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == context.cluster);
    let cluster = cluster.and_then(|cluster| cluster.cluster.as_ref());
    let cluster = cluster.ok_or_else(|| FileError::UnknownCluster {
        context: name.to_owned(),
        cluster: context.cluster.clone(),
    })?;
    if cluster.server.as_ref().is_none_or(String::is_empty) {
        return Err(FileError::NoServer(context.cluster.clone()));
    }
    // As with kubectl this is no error, since a server may want no credentials.
    if let Some(user) = &context.user
        && !user.is_empty()
        && !kubeconfig.auth_infos.iter().any(|known| known.name == *user)
    {
        tracing::warn!(
            user,
            context = name,
            "the kubeconfig does not have this user: no credentials are sent"
        );
    }
    Ok(cluster)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const WHOLE: &str = r#"{"current-context": "work", "contexts": [
        {"name": "play", "context": {"cluster": "toy", "user": "me"}},
        {"name": "work", "context": {"cluster": "real", "user": "me"}}],
        "clusters": [{"name": "toy", "cluster": {"server": "http://toy:1"}},
        {"name": "real", "cluster": {"server": "https://real:2"}}],
        "users": [{"name": "me", "user": {"token": "t"}}]}"#;

    async fn read(text: &str) -> Result<Config, FileError> {
        let read = from(serde_json::from_str(text).unwrap(), None, &Environment::default()).await;
        read.map(|read| read.config)
    }

    #[tokio::test]
    async fn the_current_context_of_several_is_taken() {
        assert_eq!(read(WHOLE).await.unwrap().cluster_url.to_string(), "https://real:2/");
        let other = WHOLE.replace(r#""current-context": "work""#, r#""current-context": "play""#);
        assert_eq!(read(&other).await.unwrap().cluster_url.to_string(), "http://toy:1/");
    }

    #[tokio::test]
    async fn a_context_that_was_taken_stays() {
        let file = || serde_json::from_str(WHOLE).unwrap();
        let read = from(file(), Some("play"), &Environment::default()).await.unwrap();
        assert_eq!((read.context.as_str(), read.config.cluster_url.host()), ("play", Some("toy")));
        assert!(from(file(), Some("gone"), &Environment::default()).await.is_err());
    }

    #[rstest]
    #[case::unset(r#""current-context": "work","#, "", "the file has play, work")]
    #[case::empty(r#""current-context": "work""#, r#""current-context": """#, "use-context")]
    #[case::another(
        r#""current-context": "work""#,
        r#""current-context": "wrk""#,
        "\"wrk\", but the file has play, work"
    )]
    #[case::cluster(r#""cluster": "real""#, r#""cluster": "reel""#, "means the cluster \"reel\"")]
    #[case::server(r#""server": "https://real:2""#, "", "the cluster \"real\" has no server")]
    #[tokio::test]
    async fn what_is_missing_is_named(#[case] from: &str, #[case] to: &str, #[case] part: &str) {
        let error = read(&WHOLE.replace(from, to)).await.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }

    #[tokio::test]
    async fn an_empty_file_has_no_context() {
        let error = read("{}").await.unwrap_err().to_string();
        assert!(error.contains("the file has no context"), "{error}");
    }

    #[tokio::test]
    async fn a_user_who_is_not_there_is_nobody() {
        let config = read(&WHOLE.replace(r#""name": "me""#, r#""name": "you""#)).await.unwrap();
        assert!(config.auth_info.token.is_none());
    }

    #[tokio::test]
    async fn a_proxy_of_the_file_wins() {
        let own = WHOLE.replace(
            r#""server": "https://real:2""#,
            r#""server": "https://real:2", "proxy-url": "http://p:1""#,
        );
        assert_eq!(read(&own).await.unwrap().proxy_url.unwrap().to_string(), "http://p:1/");
    }
}
