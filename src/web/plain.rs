//! The two forms as most people see them, and as a flood does: rendered once, since nothing in them
//! changes while the program runs but the sentence of a refusal.

use std::sync::OnceLock;

use actix_web::HttpResponse;
use actix_web::web::Bytes;
use askama::Template;

use super::pages::{AskPage, Layout, Problem, of_text, unrendered};
use crate::app::App;
use crate::error::{Form, ShownOn};

/// Log in and register, each with and without a refusal, and with and without the note that mail is
/// delayed.
#[derive(Default)]
pub struct PlainPages([OnceLock<Page>; 8]);

/// A page, cut where its sentence stands.
struct Page {
    before: Bytes,
    behind: Bytes,
}

/// Stands for the sentence while a page is rendered. No page holds a control character otherwise.
const SENTENCE: &str = "\u{1}";

impl PlainPages {
    /// The empty form.
    pub fn of(&self, app: &App, shown_on: ShownOn) -> HttpResponse {
        match self.page(app, shown_on, false) {
            Ok(page) => of_text(page.before.clone()),
            Err(error) => unrendered(&error),
        }
    }

    /// The empty form under a refusal, which is made of our words and digits and needs no escaping.
    pub fn refused(&self, app: &App, shown_on: ShownOn, sentence: &str) -> HttpResponse {
        match self.page(app, shown_on, true) {
            Ok(page) => of_text([&page.before, sentence.as_bytes(), &page.behind].concat()),
            Err(error) => unrendered(&error),
        }
    }

    fn page(&self, app: &App, shown_on: ShownOn, refused: bool) -> Result<&Page, askama::Error> {
        let layout = Layout::of(app);
        let registering = shown_on == ShownOn::Register;
        let kept = &self.0[[registering, refused, layout.delayed].iter().fold(0, |at, bit| 2 * at + usize::from(*bit))];
        if let Some(page) = kept.get() {
            return Ok(page);
        }
        let form = Form { shown_on, ..Form::default() };
        let problem = Problem { sentence: SENTENCE.to_owned(), in_field: false };
        let error = refused.then_some(&problem);
        let text = AskPage { layout, form: &form, error, notice: None }.render()?;
        Ok(kept.get_or_init(|| Page::cut(text)))
    }
}

impl Page {
    fn cut(text: String) -> Self {
        let text = Bytes::from(text);
        let at = text.iter().position(|byte| *byte == SENTENCE.as_bytes()[0]).unwrap_or(text.len());
        Self { before: text.slice(..at), behind: text.slice((at + SENTENCE.len()).min(text.len())..) }
    }
}
