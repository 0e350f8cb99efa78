//! The server's half of an SMTP dialogue.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use data_encoding::BASE64;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::{Act, Counted, Received, Security, Shared};

pub async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        // Its replies are small, and the next command waits for each.
        let _ = stream.set_nodelay(true);
        // How a connection ends is the client's affair.
        let shared = shared.clone();
        tokio::spawn(async move { greet(stream, &shared).await.ok() });
    }
}

async fn greet(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    shared.opened.fetch_add(1, Ordering::SeqCst);
    let _open = Counted::new(&shared.open);
    let mut wire: Box<dyn Wire> = Box::new(stream);
    if shared.security == Security::Implicit {
        wire = encrypt(wire, shared).await?;
    }
    let message = Received { encrypted: shared.security == Security::Implicit, ..Received::default() };
    let mut talk = Talk { wire: BufReader::new(wire), shared, message };
    if talk.answer("GREETING", "220 ready").await? {
        while talk.command().await? {}
    }
    Ok(())
}

async fn encrypt(wire: Box<dyn Wire>, shared: &Shared) -> io::Result<Box<dyn Wire>> {
    let acceptor = match shared.act("TLS") {
        Some(Act::Impostor) => &shared.impostor,
        _ => &shared.acceptor,
    };
    Ok(Box::new(acceptor.accept(wire).await?))
}

pub trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

pub struct Talk<'a> {
    pub(super) wire: BufReader<Box<dyn Wire>>,
    pub(super) shared: &'a Shared,
    /// The message in the making.
    message: Received,
}

impl Talk<'_> {
    /// One command and its reply; false at the end.
    async fn command(&mut self) -> io::Result<bool> {
        let Some(line) = self.line().await? else { return Ok(false) };
        self.shared.seen.lock().unwrap().push(line.clone());
        let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let verb = verb.to_ascii_uppercase();
        match verb.as_str() {
            "EHLO" => self.hello(rest).await,
            "STARTTLS" => self.start_tls().await,
            "AUTH" => self.log_in(rest).await,
            "DATA" => self.data().await,
            "MAIL" | "RSET" => {
                let Received { encrypted, hello, login, .. } = std::mem::take(&mut self.message);
                self.message = Received { from: inside(rest), encrypted, hello, login, ..Received::default() };
                self.answer(&verb, "250 ok").await
            }
            "RCPT" => {
                self.message.to.push(inside(rest));
                self.answer("RCPT", "250 ok").await
            }
            "NOOP" => self.answer("NOOP", "250 ok").await,
            "QUIT" => self.answer("QUIT", "221 bye").await.map(|_| false),
            _ => self.answer(&verb, "500 what?").await,
        }
    }

    async fn hello(&mut self, name: &str) -> io::Result<bool> {
        self.message.hello = name.to_owned();
        let offers_tls = self.shared.security == Security::StartTls && !self.message.encrypted;
        let tls = if offers_tls { "250-STARTTLS\r\n" } else { "" };
        let pipelining = if self.shared.pipelines.load(Ordering::SeqCst) { "250-PIPELINING\r\n" } else { "" };
        let reply = format!("250-localhost\r\n{tls}{pipelining}250 AUTH {}", self.shared.mechanisms);
        self.answer("EHLO", &reply).await
    }

    async fn start_tls(&mut self) -> io::Result<bool> {
        if self.shared.security != Security::StartTls || !self.answer("STARTTLS", "220 go on").await? {
            return Ok(false);
        }
        let plain = std::mem::replace(&mut self.wire, BufReader::new(Box::new(tokio::io::empty())));
        self.wire = BufReader::new(encrypt(plain.into_inner(), self.shared).await?);
        self.message.encrypted = true;
        Ok(true)
    }

    async fn log_in(&mut self, rest: &str) -> io::Result<bool> {
        let login = if let Some(coded) = rest.strip_prefix("PLAIN ") {
            let plain = decode(coded);
            let mut parts = plain.split('\0').skip(1).map(str::to_owned);
            (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
        } else {
            (self.ask("334 VXNlcm5hbWU6").await?, self.ask("334 UGFzc3dvcmQ6").await?)
        };
        self.message.login = Some(login);
        self.answer("AUTH", "235 welcome").await
    }

    async fn ask(&mut self, challenge: &str) -> io::Result<String> {
        self.answer("CHALLENGE", challenge).await?;
        Ok(decode(&self.line().await?.unwrap_or_default()))
    }

    async fn data(&mut self) -> io::Result<bool> {
        let reply = self.shared.act("DATA").unwrap_or(Act::Say("354 go on"));
        let goes_on = self.perform(reply, "354 go on").await?;
        if !goes_on || matches!(reply, Act::Say(text) if !text.starts_with("354")) {
            return Ok(goes_on);
        }
        if let Some(act) = self.shared.act("INSIDE") {
            self.line().await?;
            return self.perform(act, "").await;
        }
        loop {
            let Some(line) = self.line().await? else { return Ok(false) };
            if line == "." {
                break;
            }
            self.message.raw.extend_from_slice(line.strip_prefix('.').unwrap_or(&line).as_bytes());
            self.message.raw.extend_from_slice(b"\r\n");
        }
        let act = self.shared.act("END").unwrap_or(Act::Say("250 queued"));
        if !matches!(act, Act::Say(text) if !text.starts_with("250")) {
            self.shared.accepted.lock().unwrap().push(self.message.clone());
        }
        self.perform(act, "250 queued").await
    }

    /// A line up to its CR LF; a bare LF doesn't end one.
    async fn line(&mut self) -> io::Result<Option<String>> {
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n") {
            if self.wire.read_until(b'\n', &mut bytes).await? == 0 {
                return Ok(None);
            }
        }
        bytes.truncate(bytes.len() - 2);
        Ok(Some(String::from_utf8(bytes).expect("text")))
    }

    async fn answer(&mut self, place: &str, usual: &str) -> io::Result<bool> {
        match self.shared.act(place) {
            Some(act) => self.perform(act, usual).await,
            None => self.say(usual).await,
        }
    }

    pub(super) async fn say(&mut self, text: &str) -> io::Result<bool> {
        self.wire.write_all(format!("{text}\r\n").as_bytes()).await?;
        self.wire.flush().await?;
        Ok(true)
    }
}

fn inside(path: &str) -> String {
    path.split(['<', '>']).nth(1).unwrap_or_default().to_owned()
}

fn decode(coded: &str) -> String {
    String::from_utf8(BASE64.decode(coded.as_bytes()).expect("base64")).expect("text")
}
