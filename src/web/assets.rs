//! Styles and the icon: inside the binary, under names that change with their content, kept for a
//! year.

use actix_web::HttpResponse;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use actix_web::web::Path;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::Shared;
use crate::error::Error;

/// The files, with the paths that pages link to.
pub struct Assets {
    pub style: String,
    pub icon: String,
    files: [(String, &'static str, &'static [u8]); 2],
}

impl Assets {
    pub fn new() -> Self {
        let style = file("style", "css", include_bytes!("../../static/style.css"));
        let icon = file("icon", "svg", include_bytes!("../../static/icon.svg"));
        Self {
            style: format!("/static/{}", style.0),
            icon: format!("/static/{}", icon.0),
            files: [(style.0, "text/css; charset=utf-8", style.1), (icon.0, "image/svg+xml", icon.1)],
        }
    }
}

impl Default for Assets {
    fn default() -> Self {
        Self::new()
    }
}

fn file(name: &str, ending: &str, content: &'static [u8]) -> (String, &'static [u8]) {
    let hash = HEXLOWER.encode(&Sha256::digest(content)[..6]);
    (format!("{name}-{hash}.{ending}"), content)
}

pub async fn serve(app: Shared, name: Path<String>) -> Result<HttpResponse, Error> {
    let file = app.assets.files.iter().find(|(file, ..)| *file == *name);
    let (_, kind, content) = file.ok_or(Error::NotFound)?;
    Ok(HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, *kind))
        .insert_header((CACHE_CONTROL, "public, max-age=31536000, immutable"))
        .body(*content))
}
