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
    (client(config, Source::default(), Watched::default()).await.unwrap(), head)
}

#[rstest]
#[case::of_its_own(Some("somebody"), "somebody")]
#[case::of_the_process(None, connection::USER_AGENT)]
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
async fn of_plugin(command: &str) -> String {
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
    client(config, Source::default(), Watched::default()).await.err().unwrap().to_string()
}

#[tokio::test]
async fn a_program_for_credentials_that_fails_has_its_say() {
    let missing = of_plugin("/nowhere/login").await;
    for part in ["\"/nowhere/login\"", "No such file", "get it from us"] {
        assert!(missing.contains(part), "{missing}");
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("login");
    std::fs::write(&program, "#!/bin/sh\necho no session >&2\necho log in first >&2\nexit 3\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    let failing = of_plugin(&program.display().to_string()).await;
    assert!(
        failing.ends_with("login\" of the kubeconfig failed (exit status: 3): no session log in first"),
        "{failing}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_not_waited_for_without_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let client =
        client(Config::new(url.parse().unwrap()), Source::default(), Watched::default()).await.unwrap();
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

/// A server that lets in who has the token in a file, whatever it is asked.
async fn guarded(wanted: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let token = std::fs::read_to_string(&wanted).unwrap();
            let has =
                String::from_utf8(head).unwrap().contains(&format!("authorization: Bearer {token}\r\n"));
            let (status, body) = if has {
                (
                    "200 OK",
                    r#"{"gitVersion": "v1", "major": "1", "minor": "36", "gitCommit": "", "gitTreeState": "",
                "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}"#,
                )
            } else {
                ("401 Unauthorized", r#"{"message": "Unauthorized", "code": 401}"#)
            };
            let length = body.len();
            let answer =
                format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    url
}

/// A kubeconfig whose context `c` has a server and credentials, and `d` another server.
fn write_kubeconfig(file: &Path, server: &str, user: &str, current: &str) {
    let text = format!(
        r#"{{"current-context": "{current}", "users": [{{"name": "u", "user": {user}}}],
        "clusters": [{{"name": "c", "cluster": {{"server": "{server}"}}}}, {{"name": "d", "cluster": {{"server": "http://d"}}}}],
        "contexts": [{{"name": "c", "context": {{"cluster": "c", "user": "u"}}}},
        {{"name": "d", "context": {{"cluster": "d", "user": "u"}}}}]}}"#
    );
    std::fs::write(file, text).unwrap();
}

async fn let_in(client: &Client) -> bool {
    client.apiserver_version().await.is_ok()
}

/// The user of a kubeconfig, given a directory: a token in the file itself, or a command that prints the wanted one.
fn user(dir: &Path, command: bool, token: &str) -> String {
    if !command {
        return format!(r#"{{"token": "{token}"}}"#);
    }
    let program = dir.join("login");
    let says = r#"'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "%s"}}'"#;
    let script = format!("#!/bin/sh\nprintf {says} \"$(cat {}/wanted)\"\n", dir.display());
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    r#"{"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./login", "interactiveMode": "Never"}}"#
        .to_owned()
}

#[rstest]
#[case::in_the_file(false)]
#[case::from_a_command(true)]
#[tokio::test]
async fn credentials_that_are_refused_later_are_read_again(#[case] command: bool) {
    let dir = tempfile::tempdir().unwrap();
    let (wanted, file) = (dir.path().join("wanted"), dir.path().join("kubeconfig"));
    std::fs::write(&wanted, "one").unwrap();
    let url = guarded(wanted.clone()).await;
    write_kubeconfig(&file, &url, &user(dir.path(), command, "one"), "c");
    let client = connect(Some(&file), Watched::default()).await.unwrap();
    std::fs::write(&wanted, "two").unwrap();
    // Another context is current by now, and is not what these controllers were started for.
    write_kubeconfig(&file, &url, &user(dir.path(), command, "two"), "d");
    assert!(!let_in(&client).await, "a command is not run for each request");
    let again = async { while !let_in(&client).await {} };
    tokio::time::timeout(Duration::from_mins(1), again).await.unwrap();
}

#[tokio::test]
async fn a_kubeconfig_that_leads_elsewhere_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kubeconfig");
    write_kubeconfig(&file, "http://one:1", "{}", "c");
    let mut source = Source { file: Some(file.clone()), ..Source::default() };
    source.read().await.unwrap();
    write_kubeconfig(&file, "http://two:1", "{}", "c");
    let error = source.read().await.unwrap_err().to_string();
    assert!(error.contains("leads to http://two:1/ now, and led to http://one:1/"), "{error}");
}

#[tokio::test]
async fn a_program_for_credentials_that_hangs_does_not_stop_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let (program, file) = (dir.path().join("login"), dir.path().join("kubeconfig"));
    // It waits until something is written for it.
    let script = format!("#!/bin/sh\nmkfifo {0}/go\ncat {0}/go\nexit 1\n", dir.path().display());
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    let user = r#"{"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./login", "interactiveMode": "Never"}}"#;
    write_kubeconfig(&file, "http://127.0.0.1:1", user, "c");
    let go = dir.path().join("go");
    let other = async {
        while !go.exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        connected = connect(Some(&file), Watched::default()) => panic!("{:?}", connected.err()),
        () = other => {}
    }
    std::fs::write(&go, "").unwrap();
}

#[tokio::test]
async fn a_token_that_no_request_can_carry_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kubeconfig");
    write_kubeconfig(&file, "http://127.0.0.1:1", r#"{"token": "one\ntwo"}"#, "c");
    let error = connect(Some(&file), Watched::default()).await.err().unwrap().to_string();
    assert!(error.contains("http://127.0.0.1:1/") && error.contains("line end"), "{error}");
}

/// A command whose credentials expire at once, and which later gives some that do not expire.
#[tokio::test]
async fn credentials_that_do_not_expire_any_more_are_taken() {
    let dir = tempfile::tempdir().unwrap();
    let (wanted, file, later) =
        (dir.path().join("wanted"), dir.path().join("kubeconfig"), dir.path().join("later"));
    std::fs::write(&wanted, "one").unwrap();
    let url = guarded(wanted).await;
    let expires = r#", "expirationTimestamp": "2020-01-01T00:00:00Z""#;
    let says = r#"{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "one""#;
    let script = format!(
        "#!/bin/sh\n[ -e {} ] || more='{expires}'\nprintf '%s' '{says}' \"$more\" '}}}}'\n",
        later.display()
    );
    let user = user(dir.path(), true, "one");
    std::fs::write(dir.path().join("login"), script).unwrap();
    write_kubeconfig(&file, &url, &user, "c");
    let client = connect(Some(&file), Watched::default()).await.unwrap();
    assert!(let_in(&client).await);
    std::fs::write(&later, "").unwrap();
    assert!(!let_in(&client).await, "kube does not take them");
    let again = async { while !let_in(&client).await {} };
    tokio::time::timeout(Duration::from_mins(1), again).await.unwrap();
}
