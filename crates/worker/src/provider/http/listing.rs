//! The list of a provider's models, by which `callboard doctor` sees that the provider answers and takes the key.
//!
//! Deliberately absent: any use of it by a worker, which announces the models that it was told.

use std::time::Duration;

use serde_json::Value;

use super::{Endpoint, told};
use crate::provider::Failure;

/// The time for the whole answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// The longest list that is read, in bytes.
const MAX_BYTES: usize = 4 << 20;

impl Endpoint {
    /// The models that the provider lists; `None` if it answers, and has no list.
    ///
    /// # Errors
    /// The provider cannot be reached, or refuses the key.
    pub(in crate::provider) async fn models(&self) -> Result<Option<Vec<String>>, Failure> {
        let late = || Failure::unreachable(format!("no answer within {} s", PATIENCE.as_secs()));
        tokio::time::timeout(PATIENCE, self.listed()).await.map_err(|_| late())?
    }

    async fn listed(&self) -> Result<Option<Vec<String>>, Failure> {
        let mut url = self.url.clone();
        let path = url.path();
        let base =
            path.strip_suffix("/chat/completions").or_else(|| path.strip_suffix("/messages"));
        let path = format!("{}/models", base.unwrap_or(path));
        url.set_path(&path);
        let unreachable =
            |error| Failure::unreachable(told("the provider could not be reached", error));
        let request = self.client.get(url).headers(self.headers.clone());
        let mut response = request.send().await.map_err(unreachable)?;
        match response.status().as_u16() {
            200..300 => {}
            404 | 405 | 501 => return Ok(None),
            _ => return Err(self.refusal(response).await.failure),
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_BYTES {
                return Ok(None);
            }
        }
        let Ok(list) = serde_json::from_slice::<Value>(&body) else { return Ok(None) };
        let models = list["data"].as_array().map(|models| {
            models.iter().filter_map(|model| model["id"].as_str()).map(str::to_owned).collect()
        });
        Ok(models)
    }
}
