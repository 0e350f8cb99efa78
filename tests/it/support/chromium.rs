//! A real Chromium, driven as a person drives it: through WebDriver, by Debian's chromedriver.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fantoccini::wd::Capabilities;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::json;
use tempfile::TempDir;
use tokio::time::timeout;

use super::process::Group;

/// The longest that anything may take: a slow machine, and never a test that hangs.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often is looked whether what is waited for is there.
const STEP: Duration = Duration::from_millis(10);
/// The screens that pages are looked at on, in CSS pixels.
pub const PHONE: (u32, u32) = (390, 844);
pub const DESKTOP: (u32, u32) = (1280, 800);

/// What kind of browser.
#[derive(Clone, Copy)]
pub struct Look {
    pub screen: (u32, u32),
    pub dark: bool,
    pub scripts: bool,
    /// The port of a gateway that stands for all of school.example, whoever vouches for it.
    pub gateway: Option<u16>,
}

impl Default for Look {
    fn default() -> Self {
        Self { screen: DESKTOP, dark: false, scripts: true, gateway: None }
    }
}

/// One browser with a profile of its own; gone when dropped.
pub struct Chromium {
    client: Client,
    /// Of the driver and all that it started.
    group: Group,
    home: String,
    _profile: TempDir,
}

impl Chromium {
    /// An ordinary one on a desk, for the server at `home`.
    pub async fn start(home: &str) -> Self {
        Self::with(home, Look::default()).await
    }

    pub async fn with(home: &str, look: Look) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let (group, port) = driver();
        let mut builder = ClientBuilder::new(HttpConnector::new());
        let address = format!("http://127.0.0.1:{port}");
        let connecting = builder.capabilities(capabilities(&profile, look)).connect(&address);
        // Boxed: its errors are large.
        let client = Box::pin(timeout(PATIENCE, connecting)).await;
        let client =
            client.expect("Chromium starts in time").expect("Chromium starts (Debian: chromium), see scripts/test");
        Self { client, group, home: home.to_owned(), _profile: profile }
    }

    pub async fn goto(&self, path: &str) {
        let whole = if path.contains("://") { path.to_owned() } else { format!("{}{path}", self.home) };
        self.within(self.client.goto(&whole)).await;
    }

    pub async fn back(&self) {
        self.within(self.client.back()).await;
    }

    /// Types into the field of this name.
    pub async fn fill(&self, name: &str, text: &str) {
        let field = format!("input[name='{name}']");
        let field =
            self.within(self.client.wait().at_most(PATIENCE).every(STEP).for_element(Locator::Css(&field))).await;
        self.within(field.clear()).await;
        self.within(field.send_keys(text)).await;
    }

    /// Presses the button, or follows the link, with these words, and waits until another page stands there.
    pub async fn press(&self, words: &str) {
        self.press_times(words, 1).await;
    }

    /// The same by so many clicks in one go.
    pub async fn press_times(&self, words: &str, clicks: usize) {
        let old = self.within(self.client.find(Locator::Css("html"))).await;
        let button = self.find(words).await;
        let id = json!(button);
        if clicks == 1 {
            self.within(button.click()).await;
        } else {
            let script = "for (let n = arguments[1]; n > 0; n--) arguments[0].click()";
            self.within(self.client.execute(script, vec![id, json!(clicks)])).await;
        }
        let gone = async {
            while old.tag_name().await.is_ok() {
                tokio::time::sleep(STEP).await;
            }
        };
        timeout(PATIENCE, gone).await.expect("another page comes");
        self.within(self.client.wait().at_most(PATIENCE).every(STEP).for_element(Locator::Css("main"))).await;
    }

    async fn find(&self, words: &str) -> fantoccini::elements::Element {
        let path = format!("//*[self::button or self::a][normalize-space()=\"{words}\"]");
        self.within(self.client.wait().at_most(PATIENCE).every(STEP).for_element(Locator::XPath(&path))).await
    }

    /// Whether the button with these words is seen on a phone without scrolling.
    pub async fn shows(&self, words: &str) -> bool {
        let (_, y, _, height) = self.within(self.find(words).await.rectangle()).await;
        y + height <= f64::from(PHONE.1)
    }

    /// The words of the page.
    pub async fn words(&self) -> String {
        let body =
            self.within(self.client.wait().at_most(PATIENCE).every(STEP).for_element(Locator::Css("body"))).await;
        self.within(body.text()).await
    }

    /// Where it is: path and query.
    pub async fn path(&self) -> String {
        let url = self.within(self.client.current_url()).await;
        format!("{}{}", url.path(), url.query().map(|query| format!("?{query}")).unwrap_or_default())
    }

    /// Where it is, whole.
    pub async fn url(&self) -> String {
        self.within(self.client.current_url()).await.to_string()
    }

    /// The name of the field that typing goes into.
    pub async fn focused(&self) -> Option<String> {
        let element = self.within(self.client.active_element()).await;
        self.within(element.attr("name")).await
    }

    pub async fn picture(&self) -> Vec<u8> {
        self.within(self.client.screenshot()).await
    }

    /// Shows a text as a page of its own.
    pub async fn show(&self, html: &str) {
        let file = self._profile.path().join("shown.html");
        std::fs::write(&file, html).unwrap();
        self.goto(&format!("file://{}", file.display())).await;
    }

    /// Ends it in order. Whoever panics before ends it all the same.
    pub async fn close(self) {
        let _ = timeout(PATIENCE, self.client.close()).await;
        drop(self.group);
    }

    async fn within<T, E: std::fmt::Debug>(&self, doing: impl Future<Output = Result<T, E>>) -> T {
        Box::pin(timeout(PATIENCE, doing)).await.expect("Chromium answers in time").expect("Chromium does it")
    }
}

fn driver() -> (Group, u16) {
    let mut command = Command::new("chromedriver");
    command.arg("--port=0").process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let child = command.spawn().expect("chromedriver is installed (Debian: chromium-driver), see scripts/test");
    let mut group = Group(child);
    let output = group.0.stdout.take().unwrap();
    let (tell, told) = mpsc::channel();
    // Reading has no time limit of its own; the thread ends with the driver, whose output it reads to the end.
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let _ = port_in(&line).map(|port| tell.send(port));
        }
    });
    (group, told.recv_timeout(PATIENCE).expect("chromedriver says its port in time"))
}

fn port_in(line: &str) -> Option<u16> {
    line.strip_prefix("ChromeDriver was started successfully on port ")?.trim_end_matches('.').parse().ok()
}

fn capabilities(profile: &TempDir, look: Look) -> Capabilities {
    let (width, height) = look.screen;
    let mut arguments = vec![
        "--headless=new".to_owned(),
        "--disable-gpu".to_owned(),
        "--disable-dev-shm-usage".to_owned(),
        "--hide-scrollbars".to_owned(),
        // Chromium's own sandbox needs another user than root, and the pages are ours.
        "--no-sandbox".to_owned(),
        format!("--user-data-dir={}", profile.path().join("profile").display()),
        format!("--window-size={width},{height}"),
    ];
    if look.dark {
        arguments.push("--blink-settings=preferredColorScheme=0".to_owned());
    }
    if let Some(port) = look.gateway {
        arguments.push(format!("--host-resolver-rules=MAP *.school.example:443 127.0.0.1:{port}"));
    }
    let mut options = json!({ "args": arguments });
    // Also on a desk: a window's frame would take from it.
    let phone = look.screen == PHONE;
    let metrics = json!({ "width": width, "height": height, "pixelRatio": 1.0, "touch": phone, "mobile": phone });
    options["mobileEmulation"] = json!({ "deviceMetrics": metrics });
    if !look.scripts {
        options["prefs"] = json!({ "profile.managed_default_content_settings.javascript": 2 });
    }
    let insecure = look.gateway.is_some();
    let wanted = json!({ "browserName": "chrome", "acceptInsecureCerts": insecure, "goog:chromeOptions": options });
    wanted.as_object().unwrap().clone()
}
