//! The control: actix-web and nothing else, which gives one recorded answer to every request.

use actix_web::web::{Bytes, Data, resource, route};
use actix_web::{App, HttpResponse, HttpServer};

use crate::control::Ready;

/// Serves the answer that the file holds until the process is killed.
pub fn serve(address: &str, file: &str) {
    let ready = Data::new(Ready::load(file));
    let pages = move || {
        let page = resource(["/users/log-in", "/auth/check"]).route(route().to(answer));
        App::new().app_data(ready.clone()).service(page)
    };
    let server = HttpServer::new(pages).bind(address).expect("the port was free a moment ago");
    actix_web::rt::System::new().block_on(server.run()).expect("the control serves");
}

/// The body is read and dropped: one that nobody reads costs its connection.
async fn answer(ready: Data<Ready>, _body: Bytes) -> HttpResponse {
    ready.response()
}
