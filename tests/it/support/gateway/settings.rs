//! The settings that we ship, with a test's own ports and folders in them.

use std::net::SocketAddr;
use std::path::Path;

use crate::support::process::free_address;

/// What differs from place to place.
pub struct Around<'a> {
    /// Where the gateway is to listen.
    pub https: SocketAddr,
    pub doorposts: &'a [SocketAddr],
    pub app: SocketAddr,
    /// The group that the app is for, if it is for one alone.
    pub group: Option<&'a str>,
    /// Holds certificate.pem and key.pem, and takes all that is written.
    pub folder: &'a Path,
}

impl Around<'_> {
    fn wish(&self) -> String {
        self.group.map(|group| format!("group={group}")).unwrap_or_default()
    }
}

/// The Caddyfile, its last example included.
pub fn caddyfile(around: &Around) -> String {
    let (text, last) =
        include_str!("../../../../Caddyfile").split_once("\n#   app.school.example {").expect("the last");
    let last = last.lines().map(|line| line.strip_prefix("#   ").unwrap_or(line)).collect::<Vec<_>>().join("\n");
    let ports = format!("http_port {}\n\thttps_port {}", free_address().port(), around.https.port());
    let ours = format!("\n{{\n\tadmin off\n\t{ports}\n\tlocal_certs\n\tskip_install_trust\n");
    let doorposts: Vec<_> = around.doorposts.iter().map(SocketAddr::to_string).collect();
    let text = text.replacen("\n{\n", &ours, 1).replace("127.0.0.1:8080", &doorposts.join(" "));
    let stand_in = free_address();
    let text = text.replace("127.0.0.1:8082", &stand_in.to_string());
    let text = text.replace("http://:8082", &format!("http://:{}", stand_in.port()));
    let check = format!("/auth/check?{}", around.wish());
    let text = text.replace("uri /auth/check?", &format!("uri {check}"));
    let last = last.replace("127.0.0.1:9000", &around.app.to_string());
    format!("{text}\napp.school.example {{{last}\n")
}

/// docs/nginx.conf, in what Debian's nginx.conf has around it.
pub fn nginx(around: &Around) -> String {
    let folder = around.folder.display();
    let doorposts: Vec<_> = around.doorposts.iter().map(|address| format!("server {address};")).collect();
    let text = include_str!("../../../../docs/nginx.conf")
        .replace("server 127.0.0.1:8080;", &doorposts.join(" "))
        .replace("set $check /auth/check;", &format!("set $check /auth/check?{};", around.wish()))
        .replace("127.0.0.1:9000", &around.app.to_string())
        .replace("listen 443 ssl", &format!("listen {} ssl", around.https))
        .replace("/etc/ssl/certs/school.example.pem", &format!("{folder}/certificate.pem"))
        .replace("/etc/ssl/private/school.example.key", &format!("{folder}/key.pem"))
        .replace("/var/log/nginx", &folder.to_string());
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary: Vec<_> = temporary.iter().map(|kind| format!("{kind}_temp_path {folder}/{kind};")).collect();
    let temporary = temporary.join("\n");
    format!(
        "daemon off;\nmaster_process off;\npid {folder}/pid;\nevents {{}}\n\
         http {{\naccess_log {folder}/access.log;\n{temporary}\n{text}\n}}\n"
    )
}
