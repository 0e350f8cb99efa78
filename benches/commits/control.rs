//! The control: one row for every request, and one recorded answer once it is durable.

use std::path::Path;

use actix_web::error::ErrorInternalServerError;
use actix_web::web::{Bytes, Data, post, resource};
use actix_web::{App, HttpResponse, HttpServer};

use super::gather::Commits;
use crate::control::Ready;
use crate::database;

/// Serves until the process is killed, on the kind of runtime that the program has.
pub fn serve(address: &str, file: &str) {
    let ready = Data::new(Ready::load(file));
    let runtime = tokio::runtime::Runtime::new().expect("the system gives threads");
    runtime.block_on(async {
        let commits = Data::new(Commits::start(database::open(Path::new(database::FILE)).await));
        let pages = move || {
            let page = resource("/users/log-in").route(post().to(answer));
            App::new().app_data(ready.clone()).app_data(commits.clone()).service(page)
        };
        let server = HttpServer::new(pages).bind(address).expect("the port was free a moment ago");
        server.run().await.expect("the control serves");
    });
}

async fn answer(ready: Data<Ready>, commits: Data<Commits>, body: Bytes) -> actix_web::Result<HttpResponse> {
    let email = body.strip_prefix(b"email=").unwrap_or(&body);
    let email = String::from_utf8_lossy(email).into_owned();
    commits.insert(email).await.map_err(ErrorInternalServerError)?;
    Ok(ready.response())
}
