//! The control: actix-web and nothing else, which gives one recorded answer to every request.

use std::fs::File;
use std::io::BufReader;

use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use actix_web::web::{Bytes, Data, resource, route};
use actix_web::{App, HttpResponse, HttpServer};

use crate::client::Answer;

/// An answer with nothing left to do.
struct Ready {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

/// Serves the answer that the file holds until the process is killed.
pub fn serve(address: &str, file: &str) {
    let file = BufReader::new(File::open(file).expect("the answer was recorded"));
    let ready = Data::new(Ready::from(serde_json::from_reader::<_, Answer>(file).expect("it is an answer")));
    let pages = move || {
        let page = resource("/users/log-in").route(route().to(answer));
        App::new().app_data(ready.clone()).service(page)
    };
    let server = HttpServer::new(pages).bind(address).expect("the port was free a moment ago");
    actix_web::rt::System::new().block_on(server.run()).expect("the control serves");
}

/// The body is read and dropped: one that nobody reads costs its connection.
async fn answer(ready: Data<Ready>, _body: Bytes) -> HttpResponse {
    let mut response = HttpResponse::with_body(ready.status, ready.body.clone()).map_into_boxed_body();
    *response.headers_mut() = ready.headers.clone();
    response
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
