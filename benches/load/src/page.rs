//! The page that keeps the figures: they stand between two marks, and only the lines between them
//! are written.

use std::path::PathBuf;

use super::error::{Error, broken};

const BEGIN: &str = "<!-- bench: begin -->";
const END: &str = "<!-- bench: end -->";

/// A page with its marks.
#[derive(Debug)]
pub(super) struct Page {
    path: PathBuf,
    before: String,
    after: String,
}

impl Page {
    /// Reads the page. Call it before measuring, so that a wrong path costs nothing.
    ///
    /// # Errors
    /// The page cannot be read or lacks its marks.
    pub(super) fn open(path: PathBuf) -> Result<Self, Error> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(&path).map_err(Error::of(&shown))?;
        let (before, after) = split(&text).ok_or_else(|| {
            broken(format!("{shown} has no place for figures: no {BEGIN} with {END} after it"))
        })?;
        let (before, after) = (before.to_owned(), after.to_owned());
        Ok(Self { path, before, after })
    }

    /// Writes the page with `figures` between its marks.
    ///
    /// # Errors
    /// The page cannot be written.
    pub(super) fn write(&self, figures: &str) -> Result<(), Error> {
        let what = self.path.display().to_string();
        std::fs::write(&self.path, self.with(figures)).map_err(Error::of(&what))
    }

    fn with(&self, figures: &str) -> String {
        let Self { before, after, .. } = self;
        format!("{before}{BEGIN}\n{}\n{END}{after}", figures.trim())
    }
}

/// The text before the first mark and after the second one.
fn split(text: &str) -> Option<(&str, &str)> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some((before, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("page.md");
        let text = format!("# Figures\n\n{BEGIN}\nold\n{END}\n\nThe rest.\n");
        std::fs::write(&path, text).unwrap();
        for figures in ["new\n", "newer"] {
            Page::open(path.clone()).unwrap().write(figures).unwrap();
            let expected =
                format!("# Figures\n\n{BEGIN}\n{}\n{END}\n\nThe rest.\n", figures.trim());
            assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        }
    }

    #[test]
    fn a_page_without_its_marks_in_order_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("page.md");
        for text in ["", BEGIN, END, &format!("{END}{BEGIN}")] {
            std::fs::write(&path, text).unwrap();
            assert!(Page::open(path.clone()).is_err(), "{text}");
        }
        assert!(Page::open(directory.path().join("none.md")).is_err());
    }

    #[test]
    fn the_performance_page_has_its_marks() {
        assert!(split(include_str!("../../../docs/performance.md")).is_some());
    }
}
