//! What the controls answer: one recorded answer, with nothing left to do.

use std::fs::File;
use std::io::BufReader;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use actix_web::web::Bytes;

use crate::client::Answer;

/// An answer as actix-web wants it.
pub struct Ready {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Ready {
    pub fn load(file: &str) -> Self {
        let file = BufReader::new(File::open(file).expect("the answer was recorded"));
        serde_json::from_reader::<_, Answer>(file).expect("it is an answer").into()
    }

    pub fn response(&self) -> HttpResponse {
        let mut response = HttpResponse::with_body(self.status, self.body.clone()).map_into_boxed_body();
        *response.headers_mut() = self.headers.clone();
        response
    }
}

impl From<Answer> for Ready {
    fn from(answer: Answer) -> Self {
        let mut headers = HeaderMap::new();
        for (name, value) in answer.headers {
            let name = HeaderName::try_from(name).expect("it was a header's name");
            // actix-web writes this one itself.
            if name != CONTENT_LENGTH {
                headers.append(name, HeaderValue::try_from(value).expect("it was a header's value"));
            }
        }
        let status = StatusCode::from_u16(answer.status).expect("it was a status");
        Self { status, headers, body: answer.body.into() }
    }
}
