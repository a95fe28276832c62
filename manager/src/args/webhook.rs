//! `webhook`: the admission webhook in front of a real API server.

use std::path::PathBuf;

use clap::Args;
use service_allocators::NodePortRange;
use service_allocators::pools::{Share, ShareError};

use super::{LoggingArgs, ServingArgs};

/// Flags of `webhook`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct WebhookArgs {
    /// How to reach the API server; without it the environment of a pod in the cluster.
    #[arg(long, env = "SCM_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Port that the API server asks; 0 takes any free one.
    #[arg(long, env = "SCM_WEBHOOK_PORT", value_name = "PORT", default_value_t = 9443)]
    pub webhook_port: u16,
    /// Which of the replicas this is, counted from 0: each chooses from a part of the free values of its own.
    #[arg(long, env = "SCM_REPLICA_INDEX", value_name = "N", default_value_t = 0)]
    pub replica_index: u32,
    /// How many replicas there are.
    #[arg(long, env = "SCM_REPLICAS", value_name = "N", default_value_t = 1)]
    pub replicas: u32,
    /// Range of node ports of a cluster that has no NodePortRange objects.
    #[arg(
        long,
        env = "SCM_SERVICE_NODE_PORT_RANGE",
        value_name = "FIRST-LAST",
        default_value = "30000-32767"
    )]
    pub service_node_port_range: NodePortRange,
    /// The Service in front of the webhook, whose names the certificate has.
    #[arg(
        long,
        env = "SCM_WEBHOOK_SERVICE",
        value_name = "NAMESPACE/NAME",
        default_value = "kube-system/service-webhook"
    )]
    pub webhook_service: ServiceName,
    /// Name of the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration that get the authority of the
    /// certificate, if it is one of its own.
    #[arg(
        long,
        env = "SCM_WEBHOOK_CONFIGURATION",
        value_name = "NAME",
        default_value = "service-control-plane"
    )]
    pub webhook_configuration: String,
    /// The port for metrics and readiness. Its address and its certificate are those of the webhook's port too.
    #[command(flatten)]
    pub serving: ServingArgs,
    /// The log.
    #[command(flatten)]
    pub logging: LoggingArgs,
}

impl WebhookArgs {
    /// The part of the free values that this replica chooses from.
    pub fn share(&self) -> Result<Share, ShareError> {
        Share::new(self.replica_index, self.replicas)
    }
}

/// The namespace and name of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceName {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// A text that names no Service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no namespace and name of a Service, such as kube-system/service-webhook")]
pub struct ServiceNameError(String);

impl std::str::FromStr for ServiceName {
    type Err = ServiceNameError;

    fn from_str(text: &str) -> Result<Self, ServiceNameError> {
        let is_label = |part: &str| service_api::names::dns_label(part).is_empty();
        match text.split_once('/') {
            Some((namespace, name)) if is_label(namespace) && is_label(name) => {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err(ServiceNameError(text.to_owned())),
        }
    }
}

impl ServiceName {
    /// What the API server calls it.
    pub fn for_the_api_server(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }

    /// What it is called in the cluster, and what this machine calls itself.
    pub fn names(&self) -> Vec<String> {
        let Self { namespace, name } = self;
        let short = format!("{name}.{namespace}");
        vec![
            short.clone(),
            self.for_the_api_server(),
            format!("{short}.svc.cluster.local"),
            "localhost".to_owned(),
            "127.0.0.1".to_owned(),
            "::1".to_owned(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_named_by_both_its_names() {
        let name: ServiceName = "kube-system/service-webhook".parse().unwrap();
        assert_eq!(name.for_the_api_server(), "service-webhook.kube-system.svc");
        assert!(name.names().contains(&name.for_the_api_server()));
        for text in ["", "web", "a/b/c", "/web", "A/b"] {
            assert_eq!(text.parse::<ServiceName>(), Err(ServiceNameError(text.to_owned())));
        }
    }
}
