//! The kubeconfig that points kubectl at the lab: address, certificate authority and token in one private file.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

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

/// Writes a file that only its owner can read (mode 0600), replacing an older one in one step.
///
/// # Errors
/// What the file system refuses.
pub fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = Path::new(&name);
    match fs::remove_file(new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_for_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubeconfig");
        for text in ["one", "two"] {
            write_private(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn it_names_server_and_token() {
        let text = render("https://127.0.0.1:6443", "PEM", &Token::new("secret"));
        assert!(
            text.contains("https://127.0.0.1:6443") && text.contains("secret") && text.contains("UEVN"),
            "{text}"
        );
    }
}
