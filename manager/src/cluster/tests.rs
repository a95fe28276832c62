//! What a request carries, and how a server that cannot be used is told.

use std::os::unix::fs::PermissionsExt as _;

use rstest::rstest;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};

use super::*;

/// A server for one request, which it gives the head of.
async fn serve(answer: &'static str, credentials: AuthInfo) -> (Client, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let head = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(head).unwrap()
    });
    let mut config = Config::new(url.parse().unwrap());
    config.default_retry = false;
    config.auth_info = credentials;
    (client(config).unwrap(), head)
}

#[rstest]
#[case::of_its_own(Some("somebody"), "somebody")]
#[case::of_the_process(None, USER_AGENT)]
#[tokio::test]
async fn a_request_has_one_user_agent(#[case] own: Option<&str>, #[case] expected: &str) {
    let (client, head) = serve("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", AuthInfo::default()).await;
    let mut request = http::Request::get("/version");
    if let Some(own) = own {
        request = request.header(http::header::USER_AGENT, own);
    }
    client.request_text(request.body(Vec::new()).unwrap()).await.unwrap();
    let head = head.await.unwrap();
    let agents: Vec<&str> = head.lines().filter_map(|line| line.strip_prefix("user-agent: ")).collect();
    assert_eq!(agents, [expected]);
}

#[rstest]
#[case::busy(
    "HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 17\r\n\r\nToo many requests",
    true
)]
#[case::unwilling("HTTP/1.1 401 Unauthorized\r\ncontent-length: 12\r\n\r\nUnauthorized", false)]
#[tokio::test]
async fn a_busy_server_has_been_reached(#[case] answer: &'static str, #[case] reached: bool) {
    let (client, _) = serve(answer, AuthInfo::default()).await;
    // There is no second answer.
    assert_eq!(reach(&client, "url").await.is_ok(), reached);
}

#[rstest]
#[case::alone(None)]
#[case::beside_another("older".parse().ok())]
#[tokio::test]
async fn a_token_file_with_a_line_end_is_sent_without_it(#[case] beside: Option<String>) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "secret\n").unwrap();
    let credentials = AuthInfo {
        token: beside.map(Into::into),
        token_file: Some(file.display().to_string()),
        ..AuthInfo::default()
    };
    let (client, head) = serve("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", credentials).await;
    client.request_text(http::Request::get("/version").body(Vec::new()).unwrap()).await.unwrap();
    let head = head.await.unwrap();
    let sent: Vec<&str> = head.lines().filter_map(|line| line.strip_prefix("authorization: ")).collect();
    assert_eq!(sent, ["Bearer secret"]);
}

#[test]
fn a_token_counts_where_its_file_is_gone() {
    let mut credentials =
        AuthInfo { token_file: Some("/nowhere/token".into()), token: None, ..AuthInfo::default() };
    assert!(token_file(&mut credentials.clone()).unwrap_err().to_string().contains("/nowhere/token"));
    credentials.token = Some("kept".to_owned().into());
    assert!(token_file(&mut credentials).unwrap().is_none() && credentials.token.is_some());
}

/// The error of a kubeconfig whose credentials come from a program.
fn of_plugin(command: &str) -> String {
    let exec = ExecConfig {
        command: Some(command.to_owned()),
        install_hint: Some("get it\n  from us\n".into()),
        ..serde_json::from_str(
            r#"{"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}"#,
        )
        .unwrap()
    };
    let mut config = Config::new("https://somewhere".parse().unwrap());
    config.auth_info.exec = Some(exec);
    client(config).err().unwrap().to_string()
}

#[tokio::test]
async fn a_program_for_credentials_that_fails_has_its_say() {
    let missing = of_plugin("/nowhere/login");
    for part in ["\"/nowhere/login\"", "No such file", "get it from us"] {
        assert!(missing.contains(part), "{missing}");
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("login");
    std::fs::write(&program, "#!/bin/sh\necho no session >&2\necho log in first >&2\nexit 3\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    let failing = of_plugin(&program.display().to_string());
    assert!(
        failing.ends_with("login\" of the kubeconfig failed (exit status: 3): no session log in first"),
        "{failing}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_not_waited_for_without_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let client = client(Config::new(url.parse().unwrap())).unwrap();
    let error = reach(&client, &url).await.unwrap_err();
    assert!(matches!(error, ClusterError::Silent { .. }), "{error}");
}

#[test]
fn what_a_pod_lacks_is_named() {
    let unset = InClusterError::ReadEnvironmentVariable(std::env::VarError::NotPresent);
    assert!(missing_in_pod(&unset).contains("KUBERNETES_SERVICE_HOST"));
    let file = InClusterError::ReadDefaultNamespace(std::io::ErrorKind::NotFound.into());
    assert!(missing_in_pod(&file).contains("serviceaccount/namespace"));
}
