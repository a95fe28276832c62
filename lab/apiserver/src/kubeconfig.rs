//! The text of the kubeconfig that points kubectl at the lab: address, certificate authority and token.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::http::auth::Token;

/// The text of a kubeconfig for a server, as JSON, which is YAML.
pub fn render(server: &str, ca_pem: &str, token: &Token) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{
            "name": "lab",
            "cluster": { "server": server, "certificate-authority-data": STANDARD.encode(ca_pem) },
        }],
        "users": [{ "name": "lab", "user": { "token": token.reveal() } }],
        "contexts": [{ "name": "lab", "context": { "cluster": "lab", "user": "lab", "namespace": "default" } }],
    });
    serde_saphyr::to_string(&config).unwrap_or_else(|_| config.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_names_server_and_token() {
        let text = render("https://127.0.0.1:6443", "PEM", &Token::new("secret"));
        assert!(
            text.contains("https://127.0.0.1:6443") && text.contains("secret") && text.contains("UEVN"),
            "{text}"
        );
    }
}
