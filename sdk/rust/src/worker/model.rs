//! The models of a worker: handlers that answer a prompt piece by piece.

use std::pin::pin;
use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::function::Working;
use super::task::{Failure, Task, Usage};

/// The bytes of the longest piece that goes out at once.
const LONGEST_PIECE: usize = 1 << 20;
/// The characters that count as a token where a handler names no usage.
const CHARACTERS: usize = 4;

/// The models of a worker, with their handlers.
pub(super) type Models = Vec<(String, Arc<dyn Model>)>;

/// An output with more about it. A text alone is one, too.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    output: Option<String>,
    usage: Option<Usage>,
    confidence: Option<f64>,
    finish_reason: Option<String>,
    thinking: Option<String>,
}

/// A piece that a handler's stream yields.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// More text of the output.
    Text(String),
    /// The end of the output, and more about it.
    End(Answer),
    /// The task has no result.
    Failed(Failure),
}

impl Answer {
    /// No output: at the end of a stream, the pieces together are the output.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The output. At the end of a stream, it takes the place of the pieces together.
    #[must_use]
    pub fn output(self, output: impl Into<String>) -> Self {
        Self { output: Some(output.into()), ..self }
    }

    /// The tokens of the call. Without it, four characters count as a token.
    #[must_use]
    pub fn usage(self, usage: Usage) -> Self {
        Self { usage: Some(usage), ..self }
    }

    /// The confidence, 0 to 1.
    #[must_use]
    pub fn confidence(self, confidence: f64) -> Self {
        Self { confidence: Some(confidence), ..self }
    }

    /// `stop`, or `length` for an output that is cut.
    #[must_use]
    pub fn finish_reason(self, reason: impl Into<String>) -> Self {
        Self { finish_reason: Some(reason.into()), ..self }
    }

    /// The thinking before the output, which is no part of it.
    #[must_use]
    pub fn thinking(self, thinking: impl Into<String>) -> Self {
        Self { thinking: Some(thinking.into()), ..self }
    }

    /// The members of the result, with the text that was streamed.
    fn members(self, task: &Task, streamed: String) -> Result<Map<String, Value>, Failure> {
        let output = self.output.unwrap_or(streamed);
        let mut members = Map::new();
        let usage = self.usage.unwrap_or_else(|| Usage {
            input: tokens(task.chat().iter().map(|turn| &*turn.content)),
            output: tokens([&*output]),
            ..Usage::default()
        });
        members.insert("output".into(), output.into());
        members.insert("usage".into(), json!(usage));
        if let Some(confidence) = self.confidence {
            if !(0.0..=1.0).contains(&confidence) {
                return Err(Failure::fatal(format!(
                    "the confidence {confidence} is not within 0 to 1"
                )));
            }
            members.insert("confidence".into(), confidence.into());
            members.insert("confidenceSource".into(), "reported".into());
        }
        members.extend(self.finish_reason.map(|reason| ("finishReason".into(), reason.into())));
        members.extend(self.thinking.map(|thinking| ("thinking".into(), thinking.into())));
        Ok(members)
    }
}

fn tokens<'a>(texts: impl IntoIterator<Item = &'a str>) -> u64 {
    let characters: usize = texts.into_iter().map(|text| text.chars().count()).sum();
    characters.div_ceil(CHARACTERS) as u64
}

impl From<&str> for Answer {
    fn from(output: &str) -> Self {
        Self::new().output(output)
    }
}

impl From<String> for Answer {
    fn from(output: String) -> Self {
        Self::new().output(output)
    }
}

impl From<&str> for Piece {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Piece {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Answer> for Piece {
    fn from(answer: Answer) -> Self {
        Self::End(answer)
    }
}

impl<P: Into<Self>, E: Into<Failure>> From<Result<P, E>> for Piece {
    fn from(result: Result<P, E>) -> Self {
        match result {
            Ok(piece) => piece.into(),
            Err(failure) => Self::Failed(failure.into()),
        }
    }
}

/// A model that can run a task.
pub(super) trait Model: Send + Sync + 'static {
    /// Begins the task; its text goes to `pieces` as it comes.
    fn run(&self, task: Task, pieces: mpsc::Sender<String>) -> Working;
}

/// A model made of a handler that returns a stream.
pub(super) struct Streamed<F>(F);

impl<F> Streamed<F> {
    pub(super) const fn new(handler: F) -> Self {
        Self(handler)
    }
}

impl<F, S, P> Model for Streamed<F>
where
    F: Fn(Task) -> S + Send + Sync + 'static,
    S: Stream<Item = P> + Send + 'static,
    P: Into<Piece> + Send + 'static,
{
    fn run(&self, task: Task, sender: mpsc::Sender<String>) -> Working {
        let stream = (self.0)(task.clone());
        Box::pin(async move {
            let mut stream = pin!(stream);
            let mut text = String::new();
            while let Some(piece) = stream.next().await {
                match piece.into() {
                    Piece::Text(piece) => {
                        text.push_str(&piece);
                        for part in parts(&piece) {
                            // The result holds the whole output in any case.
                            let _ = sender.send(part.to_owned()).await;
                        }
                    }
                    Piece::End(answer) => return answer.members(&task, text),
                    Piece::Failed(failure) => return Err(failure),
                }
            }
            Answer::new().members(&task, text)
        })
    }
}

/// The parts of a text that go out at once.
fn parts(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (part, rest) = text.split_at(text.floor_char_boundary(LONGEST_PIECE));
        text = rest;
        (!part.is_empty()).then_some(part)
    })
}

/// The handler of a model: that of its name, or that of the longest prefix.
pub(super) fn handler_of<'a>(models: &'a Models, name: &str) -> Option<&'a Arc<dyn Model>> {
    let fits = |pattern: &str| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix).then_some(prefix.len()),
        None => (pattern == name).then_some(usize::MAX),
    };
    let fitting = models.iter().filter_map(|(pattern, model)| Some((fits(pattern)?, model)));
    fitting.max_by_key(|(length, _)| *length).map(|(_, model)| model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_run_by_the_handler_of_its_name_or_of_the_longest_prefix() {
        let of = |_: Task| futures_util::stream::iter(["x"]);
        let models: Models = ["*", "gpt-*", "gpt-4-*", "gpt-4-x"]
            .map(|name| (name.to_owned(), Arc::new(Streamed::new(of)) as Arc<dyn Model>))
            .into();
        let found = |name: &str| {
            let model = handler_of(&models, name).unwrap();
            models.iter().position(|(_, other)| Arc::ptr_eq(other, model)).unwrap()
        };
        assert_eq!(["o1", "gpt-3", "gpt-4-y", "gpt-4-x"].map(found), [0, 1, 2, 3]);
        assert!(handler_of(&models[1..].to_vec(), "o1").is_none());
    }

    #[test]
    fn a_long_piece_goes_out_in_parts_that_cut_no_character() {
        let text = "ä".repeat(LONGEST_PIECE);
        let lengths: Vec<_> = parts(&text).map(str::len).collect();
        assert_eq!(lengths, [LONGEST_PIECE, LONGEST_PIECE]);
        let odd = format!("x{text}");
        assert_eq!(parts(&odd).collect::<String>(), odd);
        assert!(parts(&odd).all(|part| part.len() <= LONGEST_PIECE));
    }

    #[test]
    fn an_answer_counts_its_tokens_and_refuses_a_confidence_beyond_one() {
        let mut task = Task::default();
        task.prompt = "12345".into();
        let members = Answer::from("1234").members(&task, String::new()).unwrap();
        assert_eq!(members["usage"], json!({"input": 2, "output": 1}));
        assert_eq!(Answer::new().members(&task, "streamed".into()).unwrap()["output"], "streamed");
        assert!(Answer::new().confidence(1.5).members(&task, String::new()).is_err());
    }
}
