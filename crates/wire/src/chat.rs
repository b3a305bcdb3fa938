//! Chat completions in the shapes of OpenAI's interface.
//!
//! ```text
//! messages ─┬ system, developer ─▶ systemPrompt
//!           ├ the last, the user's ─▶ prompt
//!           └ the others ─▶ messages
//! ```
//!
//! A member with another effect than its default is refused as unsupported, so that no wish of a
//! client is ignored in silence; one that is null counts as absent. Deliberately absent: tools, audio,
//! several choices.

mod answers;
pub mod batch_lines;
pub mod batches;
pub mod files;
mod fixed;
mod format;
mod parts;

use callboard_domain::file::MAX_FILES;
use callboard_domain::id::FileId;
use callboard_domain::plan::{MAX_TAG, MAX_TAGS};
use callboard_domain::render::MAX_PROMPT;
use callboard_domain::task::{MAX_MESSAGES, Message, Role, Routing, Sampling, ServiceTier};
use callboard_domain::{Error, Rule};
use serde_json::json;

pub use self::answers::{ChatCompletionBody, Chunks, ModelBody, ModelsBody};
use self::fixed::{Fixed, nulls_are_absent, only, tier};
use self::format::ResponseFormat;
pub use self::format::in_response_format;
use self::parts::TextOrParts;
pub use self::parts::{ContentPart, DataUrl, FilePart, GivenFile, ImageUrl, MessageContent};
use super::read::rule::{self, Parse};
use super::read::shape;
use super::sampling::{Stops, penalty, seed, share};
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
        temperature: Option<f64> = optional("temperature", temperature()),
        /// The seed, for providers that take one.
        seed: Option<i64> = optional("seed", seed()),
        /// The next token is chosen from the most probable ones that have this share of the probability.
        top_p: Option<f64> = optional("top_p", share()),
        /// The answer ends before the first of these sequences: a string, or at most 16.
        stop: Vec<String> = or_default("stop", Stops),
        /// Tokens that have come are less probable the more often they have; if negative, more probable.
        frequency_penalty: Option<f64> = optional("frequency_penalty", penalty()),
        /// The form of the answer; the answer is checked against its schema.
        response_format: Option<ResponseFormat> =
            optional("response_format", rule::object::<ResponseFormat>()),
        /// The service tier to ask the provider for.
        service_tier: Option<ServiceTier> = or_default("service_tier", tier()),
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
    check nulls_are_absent
}

/// A temperature. `OpenAI` takes up to 2, other providers 1.
fn temperature() -> impl Parse<f64> {
    let says =
        "must be 0 to 1, the range that every provider takes: send 1 for the most varied answers";
    rule::number(f64::MIN..=f64::MAX)
        .only(|temperature| (0.0..=1.0).contains(temperature), Rule::Range, says)
        .with(|| json!({"minimum": 0.0, "maximum": 1.0}))
}

request! {
    /// The parts of a stream besides the text.
    #[derive(Debug)]
    pub struct StreamOptions as "ChatStreamOptions" {
        /// True adds the usage to the last chunk; by default false.
        include_usage: bool = or_default("include_usage", rule::flag()),
        /// True may pad the chunks, which is never done.
        include_obfuscation: bool = or_default("include_obfuscation", rule::flag()),
    }
    check nulls_are_absent
}

request! {
    /// A message of a conversation.
    #[derive(Debug, Default)]
    pub struct ChatMessage as "ChatMessage" {
        /// The author: system, developer, user or assistant.
        role: Author = required("role", author()),
        /// The text, and the images and documents; those of the system have none.
        content: MessageContent = required("content", TextOrParts),
        /// A name for the author, which no provider needs.
        name: Option<String> = optional("name", rule::text(rule::bytes(0..=usize::MAX))),
        /// A member of answers; only an empty value is taken.
        refusal: () = or_default("refusal", only(&[], ANSWERS)),
        /// A member of answers; only an empty value is taken.
        annotations: () = or_default("annotations", only(&["[]"], ANSWERS)),
        /// A member of answers; only an empty value is taken.
        audio: () = or_default("audio", only(&[], ANSWERS)),
        /// A member of answers; only an empty value is taken.
        tool_calls: () = or_default("tool_calls", only(&["[]"], ANSWERS)),
        /// A member of answers; only an empty value is taken.
        function_call: () = or_default("function_call", only(&[], ANSWERS)),
        /// The answer as the client's library read it; without effect.
        parsed: () = or_default("parsed", rule::any().map(drop)),
    }
    check nulls_are_absent
}

/// The fault of a member that only answers have.
const ANSWERS: &str = "is a member of answers: leave it out of the message";

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

impl CreateChatCompletion {
    /// True if the stream's last chunk holds the usage.
    #[must_use]
    pub fn includes_usage(&self) -> bool {
        self.stream_options.as_ref().is_some_and(|options| options.include_usage)
    }

    /// The task that answers the conversation, and the files that [`give_files`] puts at their places.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the messages make no prompt, or a member is too long.
    pub fn into_task(self) -> Result<(NewTask, Vec<GivenFile>), Error> {
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
        let (mut given, mut given_last) = (Vec::new(), Vec::new());
        for (index, ChatMessage { role, content, .. }) in self.messages.into_iter().enumerate() {
            let role = match role {
                Author::User if index == last => {
                    (prompt, given_last) = content.apart();
                    continue;
                }
                Author::System => {
                    let (text, files) = content.apart();
                    if !files.is_empty() {
                        let field = format!("messages[{index}].content");
                        let message = format!(
                            "{field} has a file: put it in a message of the user, the system has texts only"
                        );
                        return Err(Error::invalid(field, Rule::Unknown, message));
                    }
                    system.push(text);
                    continue;
                }
                Author::User => Role::User,
                Author::Assistant => Role::Assistant,
            };
            let (content, files) = content.in_turn();
            given.extend(files);
            messages.push(Message { role, content });
        }
        given.extend(given_last);
        if given.len() > MAX_FILES {
            let message = format!("messages must have at most {MAX_FILES} images and files in all");
            return Err(Error::invalid("messages", Rule::Length, message));
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
        let routing = Routing { service_tier: self.service_tier, ..Routing::default() };
        let task = NewTask {
            prompt,
            model: self.model,
            system_prompt,
            messages,
            tags: (!tags.is_empty()).then_some(tags),
            max_tokens,
            temperature: self.temperature,
            sampling: Sampling {
                seed: self.seed,
                top_p: self.top_p,
                stop: self.stop,
                // What OpenAI does without it; other servers may know no penalty.
                frequency_penalty: self.frequency_penalty.filter(|penalty| *penalty != 0.0),
            },
            output_schema: self.response_format.and_then(ResponseFormat::schema),
            routing,
            hitl: self.hitl,
            ..NewTask::default()
        };
        Ok((task, given))
    }
}

/// Puts the files of a conversation at their places: those of the earlier turns, and then those of the prompt.
pub fn give_files(task: &mut NewTask, files: Vec<FileId>) {
    let mut files = files.into_iter();
    for place in task.messages.iter_mut().flat_map(Message::files_mut) {
        *place = files.next().map(|file| file.to_string()).unwrap_or_default();
    }
    task.files = files.collect();
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
        let message = format!(
            "metadata and user make {} tags, more than the limit of {MAX_TAGS}",
            tags.len()
        );
        return Err(Error::invalid("metadata", Rule::Length, message));
    }
    Ok(tags)
}

#[cfg(test)]
mod tests {
    use callboard_domain::Fault;
    use callboard_domain::file::Kind;
    use callboard_domain::problem::{Problem, Problems};
    use serde_json::Value;

    use super::*;
    use crate::read;

    fn read(body: &Value) -> Result<CreateChatCompletion, Error> {
        read::body(body.to_string().as_bytes())
    }

    fn task(body: &Value) -> Result<NewTask, Error> {
        read(body).and_then(CreateChatCompletion::into_task).map(|(task, _)| task)
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
                {"role": "user", "content": "hi", "name": "ann"},
                {"role": "assistant", "content": "hello", "refusal": null, "tool_calls": [], "parsed": {"a": 1}},
                {"role": "developer", "content": [{"type": "text", "text": "Be"}, {"type": "text", "text": " kind."}]},
                {"role": "user", "content": [{"type": "text", "text": "why?"}]},
            ],
            "max_completion_tokens": 7,
            "temperature": 0.5,
            "metadata": {"team": "a", "run": "7"},
            "user": "ann",
            "n": 1,
            "top_p": 0.5,
            "seed": 7,
            "stop": "END",
            "frequency_penalty": 0.5,
            "tools": [],
            "response_format": {"type": "text"},
            "service_tier": "flex",
            "store": true,
            "prompt_cache_key": "k",
            "logit_bias": null,
            "moderation": null,
            "hitl": {"required": true},
        }))
        .expect("it is right");
        let said = |role, content: &str| Message { role, content: content.into() };
        assert_eq!(task.prompt, "why?");
        assert_eq!(task.system_prompt.as_deref(), Some("Be brief.\n\nBe kind."));
        assert_eq!(task.messages, [said(Role::User, "hi"), said(Role::Assistant, "hello")]);
        assert_eq!(task.tags.expect("tags"), ["team:a", "run:7", "user:ann"]);
        assert_eq!((task.model.as_deref(), task.max_tokens), (Some("m"), Some(7)));
        assert_eq!(task.hitl.and_then(|hitl| hitl.required), Some(true));
        let sampling = Sampling {
            seed: Some(7),
            top_p: Some(0.5),
            stop: vec!["END".to_owned()],
            frequency_penalty: Some(0.5),
        };
        assert_eq!((task.sampling, task.output_schema), (sampling, None));
        assert_eq!(task.routing.service_tier, Some(ServiceTier::Flex));
    }

    #[test]
    fn a_response_format_becomes_the_output_schema() {
        let schema =
            |format: Value| task(&asking("response_format", &format)).unwrap().output_schema;
        let person = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        let named = json!({
            "type": "json_schema",
            "json_schema": {"name": "person", "description": null, "strict": true, "schema": person},
        });
        assert_eq!(schema(named), Some(person.clone()));
        assert_eq!(schema(json!({"type": "json_object"})), Some(json!({"type": "object"})));
        assert_eq!(schema(json!({"type": "json_object", "schema": person})), Some(person));
        assert_eq!(schema(Value::Null), None);
        for (format, field, rule) in [
            (json!({"type": "grammar"}), "response_format.type", Rule::Enum),
            (json!({"type": "json_schema"}), "response_format.json_schema", Rule::Required),
            (
                json!({"type": "json_schema", "json_schema": {"schema": 5}}),
                "response_format.json_schema.schema",
                Rule::Type,
            ),
            (json!({"type": "text", "strict": 1}), "response_format.strict", Rule::Unknown),
        ] {
            assert_eq!(fault(&asking("response_format", &format)), (field.to_owned(), rule));
        }
    }

    #[test]
    fn the_faults_of_a_schema_are_told_by_the_clients_own_names() {
        let first = Problem::rule(Rule::Type, "outputSchema.type", "must be a type");
        let other = Problem::rule(Rule::Type, "confidence.n", "must be a number");
        let error = Problems::none_of(vec![first, other]).expect_err("there are two").into();
        let Error::InvalidDefinition(problems) = in_response_format(error) else {
            panic!("faults")
        };
        let found: Vec<_> = problems.all().iter().map(|it| (&*it.field, &*it.message)).collect();
        let place = "response_format.json_schema.schema.type";
        let says = format!("{place} must be a type");
        let expected = [(place, &*says), ("confidence.n", "confidence.n must be a number")];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_last_message_of_the_user_has_files() {
        let (_, files) = read(&json!({"messages": [{"role": "user", "content": [
            {"type": "text", "text": "What is it?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n", "detail": "low"}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}},
            {"type": "file", "file": {"file_id": "file_01hf7yat3v0000000000001a7z"}},
        ]}]}))
        .and_then(CreateChatCompletion::into_task)
        .expect("it is supported");
        let bytes = |name: Option<&str>, media_type: &str, bytes: &[u8]| GivenFile::Bytes {
            name: name.map(str::to_owned),
            media_type: Some(media_type.to_owned()),
            bytes: bytes.to_vec(),
        };
        let kept = "file_01hf7yat3v0000000000001a7z".parse().expect("an id");
        assert_eq!(
            files,
            [
                bytes(None, "image/png", b"png"),
                bytes(Some("a.pdf"), "application/pdf", b"%PDF-"),
                GivenFile::Kept(kept),
            ]
        );
        let part = |part: Value| {
            fault(
                &json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, part]}]}),
            )
        };
        let at = |end: &str, rule| (format!("messages[0].content[1].{end}"), rule);
        let broken = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,%"}});
        assert_eq!(part(broken), at("image_url.url", Rule::Format));
        assert_eq!(part(json!({"type": "image_url"})), at("image_url", Rule::Required));
        assert_eq!(part(json!({"type": "text"})), at("text", Rule::Required));
        assert_eq!(part(json!({"type": "file", "file": {}})), at("file.file_data", Rule::Required));
    }

    #[test]
    fn files_of_earlier_messages_stay_at_their_places() {
        let id = |number: u8| format!("file_01hf7yat3v0000000000001a{number}z");
        let file = |number| json!({"type": "file", "file": {"file_id": id(number)}});
        let image =
            json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}});
        let text = |text: &str| json!({"type": "text", "text": text});
        let body = json!({"messages": [
            {"role": "user", "content": [text("This, "), image, text("and this:"), file(1)]},
            {"role": "assistant", "content": [text("Two "), text("files.")]},
            {"role": "user", "content": [file(2), text("And here?")]},
        ]});
        let (mut task, given) =
            read(&body).and_then(CreateChatCompletion::into_task).expect("a task");
        assert!(matches!(given[0], GivenFile::Bytes { .. }));
        let ids = [3, 1, 2].map(|number| id(number).parse().expect("an id"));
        assert_eq!(given[1..], [GivenFile::Kept(ids[1]), GivenFile::Kept(ids[2])]);
        give_files(&mut task, ids.to_vec());
        let found: Vec<_> = Message::files(&task.messages)
            .map(|(place, kind, id)| (place, kind, id.clone()))
            .collect();
        let expected = [
            ("messages[0].content[1].file".into(), Kind::Image, id(3)),
            ("messages[0].content[3].file".into(), Kind::Document, id(1)),
        ];
        assert_eq!((found.as_slice(), task.files), (expected.as_slice(), vec![ids[2]]));
        assert!(task.messages[1].content == "Two files.".into());
        assert_eq!(task.prompt, "And here?");

        let system = json!({"messages": [{"role": "system", "content": [file(1)]}, {"role": "user", "content": "x"}]});
        assert_eq!(fault(&system), ("messages[0].content".into(), Rule::Unknown));
        let many = json!({"role": "user", "content": vec![file(1); 11]});
        assert_eq!(fault(&json!({"messages": [many, many]})), ("messages".into(), Rule::Length));
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        let unsupported = [
            ("n", json!(2)),
            ("tools", json!([{"type": "function"}])),
            ("audio", json!({"voice": "x"})),
            ("tool_choice", json!({"type": "function", "function": {"name": "f"}})),
            ("logprobs", json!(true)),
            ("reasoning_effort", json!("high")),
            ("presence_penalty", json!(0.5)),
            ("typo", json!(1)),
        ];
        for (member, value) in unsupported {
            assert_eq!(fault(&asking(member, &value)), (member.to_owned(), Rule::Unknown));
        }
        let saying =
            |message: Value| json!({"messages": [{"role": "user", "content": "x"}, message]});
        let picture = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
        let (remote, own) =
            (picture("https://example.com/a.png"), picture("data:image/png;base64,cG5n"));
        let sound = json!({"type": "input_audio", "input_audio": {"data": "", "format": "wav"}});
        let answers = [own, json!({"type": "text", "text": "x"})];
        for (message, field) in [
            (json!({"role": "user", "content": [remote]}), "messages[1].content[0].image_url.url"),
            (json!({"role": "user", "content": [sound]}), "messages[1].content[0].type"),
            (json!({"role": "system", "content": answers}), "messages[1].content"),
            (json!({"role": "tool", "content": "x", "tool_call_id": "1"}), "messages[1].role"),
            (json!({"role": "user", "content": "x", "nome": "ann"}), "messages[1].nome"),
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
            (asking("temperature", &json!(-0.1)), "temperature", Rule::Range),
            (asking("top_p", &json!(1.5)), "top_p", Rule::Range),
            (asking("seed", &json!(0.5)), "seed", Rule::Type),
            (asking("stop", &json!([""])), "stop[0]", Rule::Length),
            (asking("stop", &json!("")), "stop", Rule::Length),
            (asking("user", &json!("x".repeat(60))), "user", Rule::Length),
            (asking("metadata", &json!({"k": "x".repeat(63)})), "metadata.k", Rule::Length),
        ] {
            assert_eq!(fault(&body), (field.to_owned(), rule));
        }
    }
}
