//! Sign-in at the identity provider, in a browser (docs/reference/accounts.md).
//!
//! ```text
//!   browser ─▶ server ─▶ provider ─▶ server ─▶ http://127.0.0.1:PORT/?code=… ─▶ this program ─▶ server
//! ```
//!
//! The code counts only together with the verifier, which never leaves this process before the exchange.

use std::io::IsTerminal;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use callboard_client::{Call, Client};
use callboard_domain::account::comparison::comparison_code;
use callboard_domain::digest::Digest;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

use super::super::access::Access;
use super::super::failure::Failure;
use super::super::output::status_line;
use super::{anonymous, keep, session};

/// The time that the user has at the provider.
const PATIENCE: Duration = Duration::from_mins(10);
/// The time for one connection of the browser.
const REQUEST: Duration = Duration::from_secs(5);
/// The longest request line, in bytes.
const MAX_LINE: u64 = 8 * 1024;

pub(super) async fn login(access: &Access) -> Result<(), Failure> {
    let (store, client) = anonymous(access)?;
    let cannot = |error| Failure::Other(format!("no port to wait on for the browser: {error}"));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(cannot)?;
    let port = listener.local_addr().map_err(cannot)?.port();
    let verifier = URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>());
    let challenge = URL_SAFE_NO_PAD.encode(Digest::of(&verifier).as_bytes());
    let url = start(&client, port, &challenge);
    status_line(&format!("to sign in, open {url}"));
    let shown = comparison_code(&challenge);
    status_line(&format!("allow it in the browser only if the page there shows the code {shown}"));
    if std::io::stderr().is_terminal() {
        open(&url);
    }
    let waiting = tokio::time::timeout(PATIENCE, code(&listener)).await;
    let code = waiting.map_err(|_| Failure::Other("no sign-in within 10 minutes".to_owned()))??;
    let body = json!({"code": code, "verifier": verifier});
    let made = client.data(Call::post(&["auth", "oidc", "token"]).json(&body)).await?;
    keep(access, &store, &client, &session(&made)?).await
}

fn start(client: &Client, port: u16, challenge: &str) -> String {
    let server = client.server().to_string();
    let server = server.trim_end_matches('/');
    format!("{server}/api/auth/oidc/start?port={port}&challenge={challenge}")
}

/// Tries to show a page. The terminal shows the address too, so a failure does no harm.
fn open(url: &str) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(opener);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    drop(command.spawn());
}

/// Waits for the browser to bring a code; other requests, such as for an icon, are 404.
async fn code(listener: &TcpListener) -> Result<String, Failure> {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { continue };
        let Ok(Some(parameters)) =
            tokio::time::timeout(REQUEST, read_parameters(&mut stream)).await
        else {
            continue;
        };
        let text = |name: &str| parameters.get(name).and_then(Value::as_str);
        let (status, words, outcome) = match (text("code"), text("error")) {
            (Some(code), _) => {
                ("200 OK", "You are signed in and can close this page.", Some(Ok(code)))
            }
            (None, Some(error)) => {
                let failure = Failure::NotSignedIn(text("message").unwrap_or(error).to_owned());
                ("200 OK", "You are not signed in: the terminal says why.", Some(Err(failure)))
            }
            (None, None) => ("404 Not Found", "Nothing is here.", None),
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
             Referrer-Policy: no-referrer\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n{words}",
            words.len()
        );
        // The code has arrived, with or without the page.
        let _ = tokio::time::timeout(REQUEST, stream.write_all(answer.as_bytes())).await;
        let _ = tokio::time::timeout(REQUEST, stream.shutdown()).await;
        if let Some(outcome) = outcome {
            return outcome.map(str::to_owned);
        }
    }
}

/// The parameters of a request for `/`; `None` for any other.
async fn read_parameters(stream: &mut TcpStream) -> Option<Map<String, Value>> {
    let mut reader = BufReader::new(stream.take(MAX_LINE));
    let mut line = String::new();
    reader.read_line(&mut line).await.ok()?;
    let target = line.strip_prefix("GET ")?.split(' ').next()?.to_owned();
    // The rest of the head is read, so that the browser does not see a reset.
    loop {
        line.clear();
        if reader.read_line(&mut line).await.ok()? == 0 || line.trim().is_empty() {
            break;
        }
    }
    Some(parameters(&target))
}

fn parameters(target: &str) -> Map<String, Value> {
    let Some(query) = target.strip_prefix("/?") else { return Map::new() };
    let decode = |text: &str| {
        let text = text.replace('+', " ");
        percent_encoding::percent_decode_str(&text).decode_utf8_lossy().into_owned()
    };
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decode(name), Value::String(decode(value)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameters_are_those_of_the_root_alone() {
        let error = parameters("/?error=FORBIDDEN&message=not+on+the+list%3A+caf%C3%A9");
        assert_eq!(error["message"], "not on the list: café");
        assert_eq!(parameters("/?code=a")["code"], "a");
        for other in ["/favicon.ico", "/", "/x?code=a", ""] {
            assert!(parameters(other).is_empty(), "{other}");
        }
    }
}
