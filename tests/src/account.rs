//! The accounts that `manifests/` make for the programs, and the rights that they have there.
//!
//! A server with roles is asked in their name, so that a right that a manifest lacks is refused; the lab has no roles.

use std::{error::Error, iter};

use serde_json::Value;

use crate::permissions::Rules;

/// In whose name a program asks a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Account {
    /// Who may do everything.
    Admin,
    /// `manifests/rbac.yaml`: the controllers of endpoints and ServiceCIDRs.
    Controllers,
    /// `manifests/ledger`: the controllers of addresses and node ports.
    Ledger,
    /// `manifests/shadow`: who plans and does not write.
    Shadow,
    /// `manifests/webhook`.
    Webhook,
}

impl Account {
    const fn manifest(self) -> Option<&'static str> {
        match self {
            Self::Admin => None,
            Self::Controllers => Some(include_str!("../../manifests/rbac.yaml")),
            Self::Ledger => Some(include_str!("../../manifests/ledger/rbac.yaml")),
            Self::Shadow => Some(include_str!("../../manifests/shadow/rbac.yaml")),
            Self::Webhook => Some(include_str!("../../manifests/webhook/rbac.yaml")),
        }
    }

    /// Its objects: the service account, its roles and their bindings. An administrator has none.
    pub fn objects(self) -> Result<Vec<Value>, UnreadableManifest> {
        self.manifest().map_or(Ok(Vec::new()), documents)
    }

    /// What its roles allow.
    pub fn rules(self) -> Result<Rules, UnreadableManifest> {
        Rules::read(self.objects()?).map_err(|error| UnreadableManifest(Box::new(error)))
    }

    /// The name under which RBAC knows it. An administrator has none of these.
    pub fn user(self) -> Result<Option<String>, UnreadableManifest> {
        let account = self.objects()?.into_iter().find(|object| object["kind"] == "ServiceAccount");
        Ok(account.map(|account| {
            let part = |key: &str| account["metadata"][key].as_str().unwrap_or_default().to_owned();
            format!("system:serviceaccount:{}:{}", part("namespace"), part("name"))
        }))
    }
}

/// A manifest that is no list of YAML documents, or has a role that is none.
#[derive(Debug, thiserror::Error)]
#[error("a manifest cannot be read: {0}")]
pub struct UnreadableManifest(Box<dyn Error + Send + Sync>);

/// The objects of a manifest.
pub fn documents(text: &str) -> Result<Vec<Value>, UnreadableManifest> {
    text.split("\n---\n")
        .map(|text| serde_saphyr::from_str(text).map_err(|error| UnreadableManifest(Box::new(error))))
        .collect()
}

/// Where an object of a manifest is on a server.
pub fn path(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&object["apiVersion"]);
    let group = if version.contains('/') { "/apis" } else { "/api" };
    let namespace = object["metadata"]["namespace"].as_str().map(|name| format!("/namespaces/{name}"));
    let plural = format!("{}s", text(&object["kind"]).to_lowercase());
    let parts = iter::once(format!("{group}/{version}")).chain(namespace);
    parts.chain([format!("/{plural}/{}", text(&object["metadata"]["name"]))]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_have_names_and_their_objects_places() {
        let user = Account::Ledger.user().unwrap();
        assert_eq!(user.as_deref(), Some("system:serviceaccount:kube-system:service-ledger"));
        assert_eq!(Account::Admin.user().unwrap(), None);
        let paths: Vec<String> = Account::Ledger.objects().unwrap().iter().map(path).collect();
        assert_eq!(paths[0], "/api/v1/namespaces/kube-system/serviceaccounts/service-ledger");
        assert_eq!(paths[1], "/apis/rbac.authorization.k8s.io/v1/clusterroles/service-ledger");
        assert!(paths[3].ends_with("/namespaces/kube-system/roles/service-ledger"), "{paths:?}");
        for account in [Account::Controllers, Account::Shadow, Account::Webhook] {
            assert!(!account.rules().unwrap().all().is_empty(), "{account:?}");
        }
    }
}
