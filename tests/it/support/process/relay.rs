//! What the tests of the real binary need of a mail server, at its simplest.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

/// A mail server in a few lines: hands over the text of each mail, and refuses those to `refused@…`
/// in words that repeat the address.
pub fn mail_server(address: SocketAddr) -> Receiver<String> {
    let listener = TcpListener::bind(address).unwrap();
    let (sender, mails) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, sender) = (stream.unwrap(), sender.clone());
            // How a connection ends is the client's affair.
            std::thread::spawn(move || speak(stream, &sender));
        }
    });
    mails
}

fn speak(mut stream: TcpStream, mails: &Sender<String>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    stream.write_all(b"220 ready\r\n")?;
    while let Some(line) = lines.next().transpose()? {
        let reply = match line.split(' ').next().unwrap_or_default() {
            "RCPT" if line.contains("refused@") => format!("550 no such user: {line}\r\n"),
            "DATA" => {
                stream.write_all(b"354 go on\r\n")?;
                let text: Vec<_> = lines.by_ref().map_while(Result::ok).take_while(|line| line != ".").collect();
                let _ = mails.send(text.join("\n"));
                "250 queued\r\n".to_owned()
            }
            "QUIT" => return stream.write_all(b"221 bye\r\n"),
            _ => "250 ok\r\n".to_owned(),
        };
        stream.write_all(reply.as_bytes())?;
    }
    Ok(())
}

/// The path of the link in a mail's text part.
pub fn link_in(mail: &str) -> String {
    let line = mail.lines().find(|line| line.starts_with("http://localhost")).expect("a link on a line of its own");
    line[line.find("/users/").expect("a link of ours")..].trim().to_owned()
}
