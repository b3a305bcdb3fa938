//! Hears what must not happen: an error in the log, a panic anywhere on this thread.
//!
//! An actor that breaks is started again, so that a run may end well in spite of it; here it is heard all the same.

use std::cell::RefCell;
use std::fmt::{Debug, Write};
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber, span};

thread_local! {
    static HEARD: RefCell<Option<Heard>> = const { RefCell::new(None) };
}

/// The messages so far.
#[derive(Debug, Default, Clone)]
pub(super) struct Heard {
    pub(super) errors: Vec<String>,
    pub(super) panics: Vec<String>,
}

/// Listens to this thread until it is dropped.
pub(super) struct Alarm(#[expect(dead_code, reason = "held for its drop")] DefaultGuard);

impl Alarm {
    pub(super) fn set() -> Self {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                let heard = HEARD.with_borrow_mut(|heard| match heard {
                    Some(heard) => {
                        heard.panics.push(info.to_string());
                        true
                    }
                    None => false,
                });
                if !heard {
                    before(info);
                }
            }));
        });
        HEARD.set(Some(Heard::default()));
        Self(tracing::subscriber::set_default(Listener))
    }

    /// The messages since the last call.
    pub(super) fn take() -> Heard {
        HEARD.with_borrow_mut(|heard| heard.as_mut().map(std::mem::take).unwrap_or_default())
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        HEARD.set(None);
    }
}

struct Listener;

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() == Level::ERROR
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        HEARD.with_borrow_mut(|heard| {
            if let Some(heard) = heard {
                heard.errors.push(text.0);
            }
        });
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
