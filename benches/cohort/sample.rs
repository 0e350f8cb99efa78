//! One of doorpost's mails, received by the least that can be called a mail server: what the bare
//! client sends is of the same size.

use std::io::{BufRead, BufReader, ErrorKind, Result, Write};
use std::net::{TcpListener, TcpStream};

use tempfile::NamedTempFile;

use super::queue::Queue;

/// The mail as smtp-source wants it: plain lines in a file.
pub fn record() -> NamedTempFile {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let (_server, _watch) = Queue::fill(1).send(&address, 1);
    // Before any mail doorpost tries out whether one could leave, on a connection of its own.
    let mail = listener.incoming().find_map(|stream| receive(&stream.ok()?).ok());
    let mail = mail.expect("doorpost hands a mail over");
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(mail.as_bytes()).expect("the mail can be written down");
    file
}

fn receive(mut stream: &TcpStream) -> Result<String> {
    let mut lines = BufReader::new(stream).lines();
    stream.write_all(b"220 localhost\r\n")?;
    while !lines.next().ok_or(ErrorKind::UnexpectedEof)??.eq_ignore_ascii_case("DATA") {
        stream.write_all(b"250 localhost\r\n")?;
    }
    stream.write_all(b"354 Go on\r\n")?;
    let mut mail = String::new();
    for line in lines.by_ref() {
        let line = line?;
        if line == "." {
            break;
        }
        // A line's first dot is doubled on the way.
        mail += line.strip_prefix('.').unwrap_or(&line);
        mail.push('\n');
    }
    stream.write_all(b"250 Taken\r\n").map(|()| mail)
}
