//! The doctor's look at the model provider: the one that a worker of this machine would call, and the models that
//! the server has paused because their provider refused calls.
//!
//! The models' list is read, which costs nothing. Deliberately absent: a call of a model.

use callboard_client::{Call, Client};
use clap::Args;
use serde_json::Value;

use super::Finding;
use crate::failure::Failure;
use crate::worker::{Provider, ProviderName, provider};

/// The provider to try, as a worker would be told it.
#[derive(Debug, Clone, Args)]
pub(super) struct Tried {
    /// Provider to try; its key comes from the environment, as for a worker.
    #[arg(long, value_enum, value_name = "NAME")]
    provider: Option<ProviderName>,
    /// Address of the provider to try, such as <http://127.0.0.1:11434/v1>.
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Models that the provider must have, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "MODEL")]
    models: Vec<String>,
}

/// The most names of models that a finding lists.
const MOST_NAMES: usize = 5;

/// The result of asking the provider for its models, and the failure if the provider does not answer.
pub(super) async fn finding(tried: &Tried) -> (Finding, Option<Failure>) {
    const CHECK: &str = "provider";
    if tried.provider.is_none() && tried.base_url.is_none() {
        let advice = "on a worker's machine, add --base-url URL or --provider anthropic";
        return (Finding::skip(CHECK, "not tried", advice), None);
    }
    let name = tried.provider.unwrap_or(ProviderName::Openai);
    let asked = Provider {
        provider: name,
        base_url: tried.base_url.clone(),
        concurrency: 1,
        simulated_delay: 0,
        simulated_disagreement: None,
    };
    let place = tried.base_url.clone().unwrap_or_else(|| match name {
        ProviderName::Openai => "OpenAI".to_owned(),
        ProviderName::Anthropic => "Anthropic".to_owned(),
        ProviderName::Simulated => "the simulated provider".to_owned(),
    });
    let broken = |why: String, advice: &str| {
        let failure = || Failure::Other(format!("{place}: {why}"));
        (Finding::fail(CHECK, &failure(), advice), Some(failure()))
    };
    let client = match provider(&asked) {
        Ok(client) => client,
        Err(why) => return broken(why, "look at --base-url and at the provider's key"),
    };
    let listed = match client.models().await {
        Ok(listed) => listed,
        Err(failure) if failure.retryable => {
            return broken(failure.message, "start the provider, or look at --base-url");
        }
        Err(failure) => {
            let variable = match name {
                ProviderName::Anthropic => "ANTHROPIC_API_KEY",
                ProviderName::Openai | ProviderName::Simulated => "OPENAI_API_KEY",
            };
            let advice = format!("put the provider's key into {variable}");
            return broken(failure.message, &advice);
        }
    };
    let Some(models) = listed else {
        return (Finding::ok(CHECK, format!("{place} answers; it lists no models")), None);
    };
    let has = |wanted: &String| models.iter().any(|model| is_same(model, wanted));
    let missing: Vec<_> = tried.models.iter().filter(|wanted| !has(wanted)).cloned().collect();
    let names = names(&models);
    if missing.is_empty() {
        return (Finding::ok(CHECK, format!("{place} answers; its models: {names}")), None);
    }
    let why = format!("it lacks {}; its models: {names}", missing.join(", "));
    broken(why, "load the model at the provider, or name another one")
}

/// Ollama lists `llama3.2:latest` for what is called `llama3.2`.
fn is_same(listed: &str, wanted: &str) -> bool {
    listed == wanted || listed.strip_suffix(":latest") == Some(wanted)
}

fn names(models: &[String]) -> String {
    if models.is_empty() {
        return "none".to_owned();
    }
    let mut shown: Vec<&str> = models.iter().take(MOST_NAMES).map(String::as_str).collect();
    if models.len() > MOST_NAMES {
        shown.push("…");
    }
    shown.join(", ")
}

/// A warning for each model that is paused because its provider refused calls or was away. Nothing if these
/// credentials may not list models.
pub(super) async fn paused(client: &Client) -> Vec<Finding> {
    let page = client.page(Call::get(&["models"]).query("limit", Some(100))).await;
    let models = page.map(|page| page.data).unwrap_or_default();
    models.iter().filter_map(warning).collect()
}

fn warning(model: &Value) -> Option<Finding> {
    let (name, until) = (model["name"].as_str()?, model["closedUntil"].as_str()?);
    let why = match model["closedBecause"].as_str() {
        Some("unavailable") => "its provider cannot be reached",
        _ => "its provider refused a call as one too many",
    };
    let detail = format!("no calls of {name} until {until}: {why}");
    let advice = "callboard doctor --base-url URL on the worker's machine tries the provider";
    Some(Finding::warn("model", detail, advice))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_paused_model_is_a_warning_with_its_reason() {
        let model = |because| json!({"name": "m", "closedUntil": "T", "closedBecause": because});
        let detail = |because| warning(&model(because)).expect("a warning").detail;
        assert_eq!(detail("unavailable"), "no calls of m until T: its provider cannot be reached");
        assert!(detail("rate_limited").contains("one too many"));
        assert!(warning(&json!({"name": "m"})).is_none());
    }

    #[test]
    fn the_tag_latest_may_be_left_out() {
        assert!(is_same("llama3.2:latest", "llama3.2") && is_same("a", "a"));
        assert!(!is_same("llama3.2:1b", "llama3.2"));
    }
}
