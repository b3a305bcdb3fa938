//! The files of a request, as parts of its messages.
//!
//! | | OpenAI's form | Anthropic's |
//! |---|---|---|
//! | image | `image_url` with a data URL | `image` |
//! | PDF | `file` with a data URL | `document` |
//! | text | `text` after its name | `document` |
//!
//! vLLM, Ollama and llama.cpp take images in OpenAI's form, and refuse the `file` of a PDF.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Completion, Failure, Request};
use crate::files::File;
use callboard_domain::task::{Content, Part};

/// The form of the parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    OpenAi,
    Anthropic,
}

/// The formats that models are shown.
enum Shown<'f> {
    Image,
    Pdf,
    Text(&'f str),
}

/// The format of a file; `None` if no model can be shown it.
fn shown(file: &File) -> Option<Shown<'_>> {
    match file.media_type.as_str() {
        "image/png" | "image/jpeg" | "image/webp" | "image/gif" => Some(Shown::Image),
        "application/pdf" => Some(Shown::Pdf),
        _ => std::str::from_utf8(&file.bytes).ok().map(Shown::Text),
    }
}

/// Passes if every file can be shown to a model.
fn check<'f>(mut files: impl Iterator<Item = &'f File>) -> Result<(), Failure> {
    match files.find(|file| shown(file).is_none()) {
        None => Ok(()),
        Some(file) => Err(Failure::refused(format!(
            "file {} of the type {} can be shown to no model",
            file.id, file.media_type
        ))),
    }
}

/// The content of a message: the text alone, or the files before it.
pub(super) fn content(form: Form, files: &[File], text: &str) -> Value {
    if files.is_empty() {
        return json!(text);
    }
    let parts = files.iter().filter_map(|file| part(form, file));
    parts.chain([text_part(text)]).collect()
}

/// The content of an earlier message, each part at its place.
pub(super) fn of(form: Form, content: &Content<File>) -> Value {
    match content {
        Content::Text(text) => json!(text),
        Content::Parts(parts) => {
            let part = |it: &Part<File>| match it.file() {
                Some((_, file)) => part(form, file),
                None => it.text().map(|text| text_part(text)),
            };
            parts.iter().filter_map(part).collect()
        }
    }
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn part(form: Form, file: &File) -> Option<Value> {
    let media_type = &file.media_type;
    let base64 = || STANDARD.encode(&file.bytes);
    let url = || format!("data:{media_type};base64,{}", base64());
    let source = || json!({"type": "base64", "media_type": media_type, "data": base64()});
    Some(match (form, shown(file)?) {
        (Form::OpenAi, Shown::Image) => {
            json!({"type": "image_url", "image_url": {"url": url()}})
        }
        (Form::OpenAi, Shown::Pdf) => {
            let name = file.name.clone().unwrap_or_else(|| format!("{}.pdf", file.id));
            json!({"type": "file", "file": {"filename": name, "file_data": url()}})
        }
        (Form::OpenAi, Shown::Text(text)) => {
            json!({"type": "text", "text": format!("{}:\n{text}", file.title())})
        }
        (Form::Anthropic, Shown::Image) => json!({"type": "image", "source": source()}),
        (Form::Anthropic, Shown::Pdf) => {
            json!({"type": "document", "source": source(), "title": file.title()})
        }
        (Form::Anthropic, Shown::Text(text)) => {
            let source = json!({"type": "text", "media_type": "text/plain", "data": text});
            json!({"type": "document", "source": source, "title": file.title()})
        }
    })
}

/// The result of a call, unless a file of the request can be shown to no model.
pub(super) async fn answered(
    request: &Request,
    call: impl Future<Output = Result<Completion, Failure>>,
) -> Result<Completion, Failure> {
    check(request.all_files())?;
    call.await.map_err(|failure| naming(failure, request.all_files()))
}

/// The refusal of a request by a provider, which names the files that it may be about.
fn naming<'f>(failure: Failure, files: impl Iterator<Item = &'f File>) -> Failure {
    let of = |file: &File| format!("{} ({})", file.id, file.media_type);
    let files: Vec<_> = files.map(of).collect();
    if files.is_empty() || failure.retryable {
        return failure;
    }
    let files = files.join(", ");
    let message = format!("{}; the request had the files {files}", failure.message);
    Failure { message: message.chars().take(1_000).collect(), ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(media_type: &str, bytes: &[u8]) -> File {
        let (id, name) = ("file_1".into(), Some("a.x".into()));
        File { id, name, media_type: media_type.into(), bytes: bytes.into() }
    }

    #[test]
    fn files_stand_before_the_text_in_the_published_forms() {
        let files = [
            file("image/png", b"png"),
            file("application/pdf", b"%PDF-"),
            file("text/csv", b"a,b"),
        ];
        assert_eq!(
            content(Form::OpenAi, &files, "What is it?"),
            json!([
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
                {"type": "file", "file":
                    {"filename": "a.x", "file_data": "data:application/pdf;base64,JVBERi0="}},
                {"type": "text", "text": "a.x:\na,b"},
                {"type": "text", "text": "What is it?"},
            ])
        );
        assert_eq!(
            content(Form::Anthropic, &files, "What is it?"),
            json!([
                {"type": "image", "source":
                    {"type": "base64", "media_type": "image/png", "data": "cG5n"}},
                {"type": "document", "title": "a.x", "source":
                    {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}},
                {"type": "document", "title": "a.x", "source":
                    {"type": "text", "media_type": "text/plain", "data": "a,b"}},
                {"type": "text", "text": "What is it?"},
            ])
        );
        assert_eq!(content(Form::OpenAi, &[], "x"), json!("x"));
    }

    #[test]
    fn the_parts_of_a_turn_stay_in_their_order() {
        let text = |text: &str| Part::Text { text: text.to_owned() };
        let (image, document) = (file("image/png", b"png"), file("text/csv", b"a,b"));
        let content = Content::Parts(vec![
            text("One:"),
            Part::Image { file: image },
            text("Two:"),
            Part::Document { file: document },
        ]);
        assert_eq!(
            of(Form::OpenAi, &content),
            json!([
                {"type": "text", "text": "One:"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
                {"type": "text", "text": "Two:"},
                {"type": "text", "text": "a.x:\na,b"},
            ])
        );
        assert_eq!(
            of(Form::Anthropic, &content),
            json!([
                {"type": "text", "text": "One:"},
                {"type": "image", "source":
                    {"type": "base64", "media_type": "image/png", "data": "cG5n"}},
                {"type": "text", "text": "Two:"},
                {"type": "document", "title": "a.x", "source":
                    {"type": "text", "media_type": "text/plain", "data": "a,b"}},
            ])
        );
        assert_eq!(of(Form::Anthropic, &"x".into()), json!("x"));
    }

    #[test]
    fn a_file_that_no_model_is_shown_is_refused_for_good() {
        let failure = check([file("application/zip", b"\xff")].iter()).expect_err("it is no text");
        assert!(!failure.retryable && failure.message.contains("file_1"), "{failure:?}");
        assert_eq!(check([file("text/markdown", b"# a")].iter()), Ok(()));
    }

    #[test]
    fn a_refusal_names_the_files_and_a_passing_failure_does_not() {
        let files = [file("application/pdf", b"%PDF-")];
        let refused = naming(Failure::refused("unknown part type: file"), files.iter());
        let says = "unknown part type: file; the request had the files file_1 (application/pdf)";
        assert_eq!((refused.message.as_str(), refused.retryable), (says, false));
        let passing = Failure::new(super::super::Code::ProviderError, "busy", true);
        assert_eq!(naming(passing.clone(), files.iter()), passing);
        let alone = Failure::refused("no");
        assert_eq!(naming(alone.clone(), [].iter()), alone);
    }
}
