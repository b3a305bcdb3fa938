//! A client of a cluster, which repeats a call until a node answers it.

use std::time::Duration;

use reqwest::RequestBuilder;
use serde_json::Value;

use crate::support::{Answer, credentials};

/// The pause between a refusal and the next call.
const PAUSE: Duration = Duration::from_millis(40);

/// A call: its method and path, its body, and its idempotency key; null and an empty key stand for none.
pub(crate) type Call<'a> = ((&'a str, &'a str), &'a Value, &'a str);

#[derive(Clone)]
pub(crate) struct Caller {
    http: reqwest::Client,
    token: String,
}

impl Caller {
    /// A client that waits this long for an answer.
    pub(crate) fn new(token: &str, timeout: Duration) -> Self {
        credentials::keep(token);
        let http =
            crate::support::plain_http().timeout(timeout).pool_idle_timeout(Duration::from_secs(5));
        Self { http: http.build().expect("a client"), token: token.to_owned() }
    }

    /// The same client with another token.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self { http: self.http.clone(), token: token.to_owned() }
    }

    pub(crate) fn request(&self, method: &str, url: &str) -> RequestBuilder {
        let request = self.http.request(method.parse().expect("a method"), url);
        request.bearer_auth(&self.token)
    }

    /// The answer of the node at this address, or the error of the connection.
    pub(crate) async fn once(
        &self,
        node: &str,
        ((method, path), body, key): Call<'_>,
    ) -> reqwest::Result<Answer> {
        let call = self.request(method, &format!("{node}{path}"));
        let call = if body.is_null() { call } else { call.json(body) };
        let call = if key.is_empty() { call } else { call.header("Idempotency-Key", key) };
        Answer::of(call).await
    }

    /// The first answer that is neither a 503 nor a broken connection. `node` gives the address for each
    /// try.
    pub(crate) async fn ask(&self, node: impl Fn() -> String, call: Call<'_>) -> Answer {
        loop {
            // A submission whose client has left may be pending at a node that is cut off.
            if let Ok(answer) = self.once(&node(), call).await
                && answer.status != 503
                && answer.body["error"]["code"] != "IDEMPOTENCY_KEY_IN_USE"
            {
                return answer;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
