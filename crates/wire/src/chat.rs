//! Chat completions in the shapes of OpenAI's interface (PROTOCOL.md 14).
//!
//! ```text
//! messages ─┬ system, developer ─▶ systemPrompt
//!           ├ the last, the user's ─▶ prompt
//!           └ the others ─▶ messages
//! ```
//!
//! A member with another effect than its default is refused as unsupported, so that no wish of a
//! client is ignored in silence. Deliberately absent: tools, audio, pictures, several choices.

mod answers;

use callboard_domain::plan::{MAX_TAG, MAX_TAGS};
use callboard_domain::render::MAX_PROMPT;
use callboard_domain::task::{MAX_MESSAGES, Message, Role};
use callboard_domain::{Error, Rule};
use serde_json::{Value, json};

pub use self::answers::{ChatCompletionBody, Chunks, ModelsBody};
use super::read::rule::{self, Parse};
use super::read::{Components, Field, Refused, shape};
use super::tasks::{Hitl, NewTask, model};
use crate::request;

request! {
    /// A conversation that a model continues.
    #[derive(Debug)]
    pub struct CreateChatCompletion as "CreateChatCompletion" {
        /// The model; by default `[models] default`.
        model: Option<String> = optional("model", model()),
        /// The conversation; the last message is the user's.
        messages: Vec<ChatMessage> =
            required("messages", rule::list(1..=usize::MAX, rule::object::<ChatMessage>())),
        /// True streams the answer; by default false.
        stream: bool = or_default("stream", rule::flag()),
        /// The options of a stream.
        stream_options: Option<StreamOptions> =
            optional("stream_options", rule::object::<StreamOptions>()),
        /// The most tokens of the answer.
        max_completion_tokens: Option<u64> =
            optional("max_completion_tokens", rule::whole(1..=u64::MAX)),
        /// The old name of `max_completion_tokens`.
        max_tokens: Option<u64> = optional("max_tokens", rule::whole(1..=u64::MAX)),
        /// The sampling temperature.
        temperature: Option<f64> = optional("temperature", rule::number(0.0..=1.0)),
        /// Becomes tags `key:value`.
        metadata: Vec<(String, String)> =
            or_default("metadata", rule::map(0..=MAX_TAGS, rule::text(rule::characters(0..=MAX_TAG)))),
        /// Becomes the tag `user:…`.
        user: Option<String> = optional("user", rule::text(rule::characters(1..=MAX_TAG))),
        /// The conditions under which a reviewer must approve the answer.
        hitl: Option<Hitl> = optional("hitl", rule::object::<Hitl>()),
        /// The members with one possible value.
        fixed: Fixed = flat(shape::<Fixed>()),
    }
}

request! {
    /// The members that are accepted only with the values that change nothing.
    #[derive(Debug)]
    pub struct Fixed as "FixedChatOptions" {
        /// One choice.
        n: () = or_default("n", only(&["1", "1.0"])),
        /// The whole distribution.
        top_p: () = or_default("top_p", only(&["1", "1.0"])),
        /// No penalty.
        presence_penalty: () = or_default("presence_penalty", only(&["0", "0.0"])),
        /// No penalty.
        frequency_penalty: () = or_default("frequency_penalty", only(&["0", "0.0"])),
        /// No bias.
        logit_bias: () = or_default("logit_bias", only(&["{}"])),
        /// No probabilities.
        logprobs: () = or_default("logprobs", only(&["false"])),
        /// No probabilities.
        top_logprobs: () = or_default("top_logprobs", only(&["0"])),
        /// No tools.
        tools: () = or_default("tools", only(&["[]"])),
        /// No tools.
        tool_choice: () = or_default("tool_choice", only(&["\"none\"", "\"auto\""])),
        /// No tools.
        parallel_tool_calls: () = or_default("parallel_tool_calls", only(&["true", "false"])),
        /// No functions.
        functions: () = or_default("functions", only(&["[]"])),
        /// No functions.
        function_call: () = or_default("function_call", only(&["\"none\"", "\"auto\""])),
        /// Text.
        response_format: () = or_default("response_format", only(&["{\"type\":\"text\"}"])),
        /// Text.
        modalities: () = or_default("modalities", only(&["[\"text\"]"])),
        /// No stop sequence.
        stop: () = or_default("stop", only(&["[]"])),
        /// Nothing is stored for OpenAI's tools.
        store: () = or_default("store", only(&["false"])),
        /// The one tier.
        service_tier: () = or_default("service_tier", only(&["\"auto\"", "\"default\""])),
    }
}

request! {
    /// The parts of a stream besides the text.
    #[derive(Debug)]
    pub struct StreamOptions as "ChatStreamOptions" {
        /// True adds the usage to the last chunk; by default false.
        include_usage: bool = or_default("include_usage", rule::flag()),
        /// No padding.
        include_obfuscation: () = or_default("include_obfuscation", only(&["false"])),
    }
}

request! {
    /// A message of a conversation.
    #[derive(Debug, Default)]
    pub struct ChatMessage as "ChatMessage" {
        /// The author: system, developer, user or assistant.
        role: Author = required("role", author()),
        /// The text.
        content: String = required("content", Content),
        /// A member of answers; only an empty value is taken.
        refusal: () = or_default("refusal", only(&[])),
        /// A member of answers; only an empty value is taken.
        annotations: () = or_default("annotations", only(&["[]"])),
        /// A member of answers; only an empty value is taken.
        audio: () = or_default("audio", only(&[])),
        /// A member of answers; only an empty value is taken.
        tool_calls: () = or_default("tool_calls", only(&["[]"])),
        /// A member of answers; only an empty value is taken.
        function_call: () = or_default("function_call", only(&[])),
    }
}

request! {
    /// A part of a message.
    #[derive(Debug, Default)]
    pub struct ContentPart as "ChatContentPart" {
        /// The kind: text.
        kind: () = required("type", only(&["\"text\""])),
        /// The text.
        text: String = required("text", rule::text(rule::bytes(0..=usize::MAX))),
    }
}

/// The author of a message of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Author {
    /// The instructions to the model.
    System,
    /// The person or the program that asks.
    #[default]
    User,
    /// The model.
    Assistant,
}

fn author() -> impl Parse<Author> {
    const ROLES: &[&str] = &["system", "developer", "user", "assistant", "tool", "function"];
    rule::one_of(ROLES, |role| role)
        .only(
            |role| !["tool", "function"].contains(role),
            Rule::Unknown,
            "must be system, developer, user or assistant: tools are not supported",
        )
        .map(|role| match role {
            "system" | "developer" => Author::System,
            "assistant" => Author::Assistant,
            _ => Author::User,
        })
}

/// One of these values, as JSON; null is taken everywhere.
fn only(values: &'static [&'static str]) -> impl Parse<()> {
    let is_known = |value: &Value| values.contains(&value.to_string().as_str());
    let says = "is supported only with the value that changes nothing";
    let variants = || values.iter().filter_map(|value| serde_json::from_str(value).ok());
    rule::any()
        .only(is_known, Rule::Unknown, says)
        .with(move || json!({"enum": variants().collect::<Vec<Value>>()}))
        .map(drop)
}

/// A text, or parts that are all texts.
struct Content;

impl Parse<String> for Content {
    fn parse(&self, field: Field<'_>) -> Result<String, Refused> {
        if field.value.is_array() {
            let parts = parts().parse(field)?;
            return Ok(parts.into_iter().map(|part| part.text).collect());
        }
        rule::text(rule::bytes(0..=usize::MAX)).parse(field)
    }

    fn schema(&self, components: &mut Components) -> Value {
        json!({"oneOf": [{"type": "string"}, parts().schema(components)]})
    }
}

fn parts() -> impl Parse<Vec<ContentPart>> {
    rule::list(1..=usize::MAX, rule::object::<ContentPart>())
}

impl CreateChatCompletion {
    /// True if the stream's last chunk holds the usage.
    #[must_use]
    pub fn includes_usage(&self) -> bool {
        self.stream_options.as_ref().is_some_and(|options| options.include_usage)
    }

    /// The task that answers the conversation.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the messages make no prompt, or a member is too long.
    pub fn into_task(self) -> Result<NewTask, Error> {
        let last = self.messages.iter().rposition(|message| message.role == Author::User);
        let last = last.ok_or_else(|| {
            let message = "messages must have one whose role is user";
            Error::invalid("messages", Rule::Required, message)
        })?;
        let after = &self.messages[last + 1..];
        if after.iter().any(|message| message.role == Author::Assistant) {
            let message =
                "the last message must be the user's: a prefilled answer is not supported";
            return Err(Error::invalid("messages", Rule::Unknown, message));
        }
        let (mut prompt, mut system, mut messages) = (String::new(), Vec::new(), Vec::new());
        for (index, ChatMessage { role, content, .. }) in self.messages.into_iter().enumerate() {
            match role {
                Author::System => system.push(content),
                Author::User if index == last => prompt = content,
                Author::User => messages.push(Message { role: Role::User, content }),
                Author::Assistant => messages.push(Message { role: Role::Assistant, content }),
            }
        }
        let system_prompt = (!system.is_empty()).then(|| system.join("\n\n"));
        check_length(&format!("messages[{last}].content"), 1, prompt.len())?;
        check_length("messages", 0, system_prompt.as_ref().map_or(0, String::len))?;
        if Message::length(&messages) > MAX_MESSAGES {
            let message = format!(
                "messages must have at most {MAX_MESSAGES} bytes of content in all, without the last of the user and those of the system"
            );
            return Err(Error::invalid("messages", Rule::Length, message));
        }
        let max_tokens = match (self.max_completion_tokens, self.max_tokens) {
            (Some(new), Some(old)) if new != old => {
                let message = "max_tokens must be the same as max_completion_tokens, or left out";
                return Err(Error::invalid("max_tokens", Rule::Format, message));
            }
            (new, old) => new.or(old),
        };
        let tags = tags(self.metadata, self.user)?;
        Ok(NewTask {
            prompt,
            model: self.model,
            system_prompt,
            messages,
            tags: (!tags.is_empty()).then_some(tags),
            max_tokens,
            temperature: self.temperature,
            hitl: self.hitl,
            ..NewTask::default()
        })
    }
}

fn check_length(field: &str, least: usize, found: usize) -> Result<(), Error> {
    if (least..=MAX_PROMPT).contains(&found) {
        return Ok(());
    }
    let message = match least {
        0 => format!("the system's messages must have at most {MAX_PROMPT} bytes in all"),
        _ => format!("{field} must have {least} to {MAX_PROMPT} bytes: it is the prompt"),
    };
    Err(Error::invalid(field, Rule::Length, message))
}

fn tags(metadata: Vec<(String, String)>, user: Option<String>) -> Result<Vec<String>, Error> {
    let pairs = metadata.into_iter().map(|(key, value)| {
        (format!("metadata.{}", key.chars().take(MAX_TAG).collect::<String>()), key, value)
    });
    let user = user.map(|user| ("user".to_owned(), "user".to_owned(), user));
    let mut tags = Vec::new();
    for (field, key, value) in pairs.chain(user) {
        let tag = format!("{key}:{value}");
        if tag.chars().count() > MAX_TAG {
            let message = format!(
                "{field} must have at most {MAX_TAG} characters with its name and a colon: it is a tag"
            );
            return Err(Error::invalid(field, Rule::Length, message));
        }
        tags.push(tag);
    }
    if tags.len() > MAX_TAGS {
        let message =
            format!("metadata and user make {} tags, and {MAX_TAGS} are the most", tags.len());
        return Err(Error::invalid("metadata", Rule::Length, message));
    }
    Ok(tags)
}

#[cfg(test)]
mod tests {
    use callboard_domain::Fault;

    use super::*;
    use crate::read;

    fn read(body: &Value) -> Result<CreateChatCompletion, Error> {
        read::body(body.to_string().as_bytes())
    }

    fn task(body: &Value) -> Result<NewTask, Error> {
        read(body).and_then(CreateChatCompletion::into_task)
    }

    /// The field and the rule of the first fault.
    fn fault(body: &Value) -> (String, Rule) {
        let error = task(body).expect_err("it has a fault");
        if let Error::Invalid(Fault { field, rule, .. }) = error {
            return (field, rule);
        }
        let Error::InvalidDefinition(problems) = error else { panic!("{error}") };
        let first = problems.first();
        (first.field.clone(), first.code.rule().expect("a rule"))
    }

    fn asking(member: &str, value: &Value) -> Value {
        json!({"messages": [{"role": "user", "content": "x"}], member: value})
    }

    #[test]
    fn a_conversation_becomes_a_task() {
        let task = task(&json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "hello", "refusal": null, "tool_calls": []},
                {"role": "developer", "content": [{"type": "text", "text": "Be"}, {"type": "text", "text": " kind."}]},
                {"role": "user", "content": [{"type": "text", "text": "why?"}]},
            ],
            "max_completion_tokens": 7,
            "temperature": 0.5,
            "metadata": {"team": "a", "run": "7"},
            "user": "ann",
            "n": 1,
            "top_p": 1.0,
            "tools": [],
            "response_format": {"type": "text"},
            "hitl": {"required": true},
        }))
        .expect("it is right");
        let said = |role, content: &str| Message { role, content: content.to_owned() };
        assert_eq!(task.prompt, "why?");
        assert_eq!(task.system_prompt.as_deref(), Some("Be brief.\n\nBe kind."));
        assert_eq!(task.messages, [said(Role::User, "hi"), said(Role::Assistant, "hello")]);
        assert_eq!(task.tags.expect("tags"), ["team:a", "run:7", "user:ann"]);
        assert_eq!((task.model.as_deref(), task.max_tokens), (Some("m"), Some(7)));
        assert_eq!(task.hitl.and_then(|hitl| hitl.required), Some(true));
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        let unsupported = [
            ("n", json!(2)),
            ("tools", json!([{"type": "function"}])),
            ("audio", json!({"voice": "x"})),
            ("seed", json!(7)),
            ("stop", json!(["."])),
            ("top_p", json!(0.5)),
            ("response_format", json!({"type": "json_object"})),
        ];
        for (member, value) in unsupported {
            assert_eq!(fault(&asking(member, &value)), (member.to_owned(), Rule::Unknown));
        }
        let saying =
            |message: Value| json!({"messages": [{"role": "user", "content": "x"}, message]});
        let picture = json!({"type": "image_url", "image_url": {"url": "x"}});
        for (message, field) in [
            (json!({"role": "user", "content": [picture]}), "messages[1].content[0].type"),
            (json!({"role": "tool", "content": "x", "tool_call_id": "1"}), "messages[1].role"),
            (json!({"role": "user", "content": "x", "name": "ann"}), "messages[1].name"),
            (json!({"role": "assistant", "content": "x"}), "messages"),
        ] {
            assert_eq!(fault(&saying(message)), (field.to_owned(), Rule::Unknown));
        }
    }

    #[test]
    fn every_limit_is_told() {
        for (body, field, rule) in [
            (json!({"messages": []}), "messages", Rule::Length),
            (json!({"messages": [{"role": "system", "content": "x"}]}), "messages", Rule::Required),
            (
                json!({"messages": [{"role": "user", "content": ""}]}),
                "messages[0].content",
                Rule::Length,
            ),
            (asking("temperature", &json!(1.5)), "temperature", Rule::Range),
            (asking("user", &json!("x".repeat(60))), "user", Rule::Length),
            (asking("metadata", &json!({"k": "x".repeat(63)})), "metadata.k", Rule::Length),
        ] {
            assert_eq!(fault(&body), (field.to_owned(), rule));
        }
    }
}
