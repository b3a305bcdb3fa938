//! The text so far of running attempts, for readers that come late.
//!
//! ```text
//!   worker's actor ─ push ─▶ LiveText ◀─ follow ─ streams of the task
//! ```
//!
//! A text lives as long as the attempt, or as a reader follows it. All together have a budget of memory:
//! a text beyond the budget loses its beginning, and a later reader sees the gap by the offset.
//! Deliberately absent: anything that survives a restart.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use callboard_domain::id::{Environment, TaskId};
use tokio::sync::watch;

/// The most bytes of one text that are kept.
const OF_ONE: usize = 1 << 20;
/// The most bytes of all texts.
const OF_ALL: usize = 64 << 20;

type Key = (Environment, TaskId);

/// All texts.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    texts: Mutex<HashMap<Key, Weak<LiveText>>>,
    held: AtomicUsize,
}

impl Texts {
    fn locked(&self) -> MutexGuard<'_, HashMap<Key, Weak<LiveText>>> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The text of a task, empty at first.
    pub(crate) fn of(self: &Arc<Self>, environment: Environment, task: TaskId) -> Arc<LiveText> {
        let key = (environment, task);
        let mut texts = self.locked();
        if let Some(text) = texts.get(&key).and_then(Weak::upgrade) {
            return text;
        }
        let so_far = watch::Sender::new(TextSoFar::default());
        let text = Arc::new(LiveText { texts: Arc::clone(self), key, so_far });
        texts.insert(key, Arc::downgrade(&text));
        text
    }
}

/// The text of a task's current run.
#[derive(Debug)]
pub(crate) struct LiveText {
    texts: Arc<Texts>,
    key: Key,
    so_far: watch::Sender<TextSoFar>,
}

impl LiveText {
    /// Adds a piece of `characters` to this run's text, shorter than [`OF_ONE`]. A piece of an earlier run
    /// is dropped.
    pub(crate) fn push(&self, run: Run, piece: &str, characters: u64) {
        self.so_far.send_modify(|so_far| {
            if run.version < so_far.at.run.version {
                return;
            }
            let held = &self.texts.held;
            if run.version > so_far.at.run.version {
                held.fetch_sub(so_far.text.len(), Ordering::Relaxed);
                *so_far = TextSoFar {
                    at: TextPosition { run, ..TextPosition::default() },
                    ..TextSoFar::default()
                };
            }
            let others = held.load(Ordering::Relaxed) - so_far.text.len();
            let length = so_far.text.len() + piece.len();
            if length > OF_ONE || others + length > OF_ALL {
                held.fetch_sub(so_far.text.len(), Ordering::Relaxed);
                so_far.text = String::new();
                so_far.from = so_far.at;
            }
            so_far.at.characters += characters;
            so_far.at.bytes += piece.len() as u64;
            so_far.text.push_str(piece);
            held.fetch_add(piece.len(), Ordering::Relaxed);
        });
    }

    pub(crate) fn follow(self: &Arc<Self>) -> TextReader {
        let mut so_far = self.so_far.subscribe();
        // The text so far is news to the reader.
        so_far.mark_changed();
        TextReader { so_far, _text: Arc::clone(self) }
    }
}

impl Drop for LiveText {
    fn drop(&mut self) {
        self.texts.held.fetch_sub(self.so_far.borrow().text.len(), Ordering::Relaxed);
        let mut texts = self.texts.locked();
        // Another may have taken the place since the last owner left.
        if texts.get(&self.key).is_some_and(|text| text.strong_count() == 0) {
            texts.remove(&self.key);
        }
    }
}

/// One lease of a task: an attempt, or another go at an attempt whose worker was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Run {
    /// The version of the task when it was leased, which identifies the run; 0 before the first.
    pub version: u64,
    /// The number of the attempt.
    pub attempt: u32,
}

/// A place in the text of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextPosition {
    /// The run.
    pub run: Run,
    /// The number of characters that came before.
    pub characters: u64,
    bytes: u64,
}

#[derive(Debug, Default)]
struct TextSoFar {
    /// The beginning of the text that is kept.
    from: TextPosition,
    text: String,
    /// The end of the text.
    at: TextPosition,
}

/// A reader of the text of a task's attempts.
#[derive(Debug)]
pub struct TextReader {
    so_far: watch::Receiver<TextSoFar>,
    /// Keeps the text while it is read.
    _text: Arc<LiveText>,
}

impl TextReader {
    /// The text after a mark, at most so many bytes of it, the characters before them, and the mark at
    /// their end; `None` if nothing is new. The text of another run is returned from its beginning, as
    /// far as it is kept.
    pub fn after(
        &mut self,
        mark: TextPosition,
        most: usize,
    ) -> Option<(u64, String, TextPosition)> {
        let so_far = self.so_far.borrow_and_update();
        let mark = if mark.run == so_far.at.run { mark } else { TextPosition::default() };
        if mark.bytes >= so_far.at.bytes {
            return None;
        }
        let from = so_far.from;
        let skip = usize::try_from(mark.bytes.saturating_sub(from.bytes)).unwrap_or(usize::MAX);
        let text = so_far.text.get(skip..).unwrap_or_default();
        let offset = mark.characters.max(from.characters);
        if text.len() <= most {
            return (!text.is_empty()).then(|| (offset, text.to_owned(), so_far.at));
        }
        let piece = text[..text.floor_char_boundary(most)].to_owned();
        let characters = offset + piece.chars().count() as u64;
        let bytes = mark.bytes.max(from.bytes) + piece.len() as u64;
        let at = TextPosition { run: so_far.at.run, characters, bytes };
        drop(so_far);
        // The rest is news, too.
        self.so_far.mark_changed();
        Some((offset, piece, at))
    }

    /// Waits until there is more text.
    pub async fn changed(&mut self) {
        if self.so_far.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = (Environment::LIVE, TaskId::from_u128(1));

    fn push(text: &LiveText, version: u64, piece: &str) {
        text.push(Run { version, attempt: 1 }, piece, piece.chars().count() as u64);
    }

    /// The texts that a reader who stands at `mark` is given.
    fn read(following: &mut TextReader, mark: &mut TextPosition) -> Option<(u64, String)> {
        let (offset, text, at) = following.after(*mark, usize::MAX)?;
        *mark = at;
        Some((offset, text))
    }

    #[test]
    fn a_late_reader_gets_the_text_so_far_and_then_the_rest() {
        let texts = Arc::new(Texts::default());
        let worker = texts.of(KEY.0, KEY.1);
        push(&worker, 1, "Zwölf ");
        push(&worker, 1, "Boxkämpfer");
        let (mut late, mut mark) = (texts.of(KEY.0, KEY.1).follow(), TextPosition::default());
        assert_eq!(read(&mut late, &mut mark), Some((0, "Zwölf Boxkämpfer".to_owned())));
        assert_eq!(read(&mut late, &mut mark), None);
        push(&worker, 1, " jagen");
        assert_eq!(read(&mut late, &mut mark), Some((16, " jagen".to_owned())));
        assert_eq!((mark.characters, mark.bytes), (22, 24));
    }

    #[test]
    fn a_long_text_is_read_in_pieces() {
        let text = Arc::new(Texts::default()).of(KEY.0, KEY.1);
        push(&text, 1, "Zwölf Boxkämpfer");
        let (mut reader, mut mark, mut pieces) =
            (text.follow(), TextPosition::default(), Vec::new());
        while let Some((offset, piece, at)) = reader.after(mark, 4) {
            pieces.push((offset, piece, reader.so_far.has_changed().is_ok_and(|more| more)));
            mark = at;
        }
        let expected = [
            (0, "Zwö", true),
            (3, "lf B", true),
            (7, "oxk", true),
            (10, "ämp", true),
            (13, "fer", false),
        ];
        assert_eq!(pieces, expected.map(|(offset, piece, more)| (offset, piece.to_owned(), more)));
        assert_eq!((mark.characters, mark.bytes), (16, 18));
    }

    #[test]
    fn a_new_run_begins_from_nothing_and_an_old_one_is_not_heard() {
        let texts = Arc::new(Texts::default());
        let text = texts.of(KEY.0, KEY.1);
        let (mut reader, mut mark) = (text.follow(), TextPosition::default());
        push(&text, 1, "one");
        assert_eq!(read(&mut reader, &mut mark), Some((0, "one".to_owned())));
        push(&text, 2, "two");
        push(&text, 1, " more");
        assert_eq!(read(&mut reader, &mut mark), Some((0, "two".to_owned())));
        assert_eq!(mark.run.version, 2);
        assert_eq!(texts.held.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_text_beyond_its_budget_loses_its_beginning_and_its_offset_says_so() {
        let texts = Arc::new(Texts::default());
        let text = texts.of(KEY.0, KEY.1);
        let (mut reader, mut mark) = (text.follow(), TextPosition::default());
        let long = "x".repeat(OF_ONE);
        push(&text, 1, &long);
        assert_eq!(read(&mut reader, &mut mark).map(|read| read.1.len()), Some(OF_ONE));
        push(&text, 1, "end");
        assert_eq!(read(&mut reader, &mut mark), Some((OF_ONE as u64, "end".to_owned())));
        let mut late = text.follow();
        assert_eq!(
            late.after(TextPosition::default(), usize::MAX).map(|read| (read.0, read.1)),
            Some((OF_ONE as u64, "end".to_owned()))
        );
    }

    #[test]
    fn a_text_goes_with_the_last_who_holds_it() {
        let texts = Arc::new(Texts::default());
        let text = texts.of(KEY.0, KEY.1);
        push(&text, 1, "text");
        let reader = text.follow();
        drop(text);
        assert_eq!((texts.locked().len(), texts.held.load(Ordering::Relaxed)), (1, 4));
        drop(reader);
        assert_eq!((texts.locked().len(), texts.held.load(Ordering::Relaxed)), (0, 0));
    }
}
