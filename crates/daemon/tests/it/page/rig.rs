//! A daemon with its page, and requests for it.

use std::net::SocketAddr;

use cairn_testkit::daemon::Daemon;
use cairn_testkit::free_address;
use cairn_testkit::home::Home;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::home;

pub(super) struct Site {
    pub(super) home: Home,
    pub(super) daemon: Daemon,
    pub(super) address: SocketAddr,
}

/// An answer: what browsers go by.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    head: String,
    /// As text; see `bytes`.
    pub(super) body: String,
    pub(super) bytes: Vec<u8>,
}

impl Answer {
    /// A header's value, if it is there once.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.head.lines().filter_map(|line| {
            let (named, value) = line.split_once(": ")?;
            named.eq_ignore_ascii_case(name).then_some(value)
        });
        let value = values.next();
        assert!(values.next().is_none(), "{name} is there twice: {}", self.head);
        value
    }

    /// The cookie that it sets, as a browser sends it back.
    pub(super) fn cookie(&self) -> Option<String> {
        Some(self.header("set-cookie")?.split(';').next().unwrap_or_default().to_owned())
    }

    #[track_caller]
    pub(super) fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }
}

impl Site {
    /// With more under [admin].
    pub(super) async fn start(more: &str) -> Self {
        let (home, address) = (home(), free_address());
        let config = home.config(&format!("[admin]\npage = true\nlisten = \"{address}\"\n{more}"));
        let daemon = home.daemon(Some(&config)).await;
        Self { home, daemon, address }
    }

    pub(super) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What `cairn ui` prints.
    pub(super) fn link(&self, args: &[&str]) -> Value {
        self.home.json(&[&["ui"], args].concat())
    }

    /// A request with these headers beside `Host`.
    pub(super) async fn ask(&self, line: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.ask_as(&self.address.to_string(), line, headers, body).await
    }

    /// The same by another name.
    pub(super) async fn ask_as(
        &self,
        host: &str,
        line: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let kind = [("content-type", "application/x-www-form-urlencoded")];
        let headers = [headers, if body.is_empty() { &[] } else { &kind }].concat();
        self.send(host, line, &headers, body.as_bytes()).await
    }

    async fn send(&self, host: &str, line: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut request = format!("{line} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
        headers.iter().for_each(|(name, value)| request.push_str(&format!("{name}: {value}\r\n")));
        if !body.is_empty() {
            request.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(&[request.as_bytes(), b"\r\n", body].concat()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let at = answer.windows(4).position(|end| end == b"\r\n\r\n").unwrap();
        let (head, bytes) = (String::from_utf8(answer[..at].to_vec()).unwrap(), answer[at + 4..].to_vec());
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head, body: String::from_utf8_lossy(&bytes).into_owned(), bytes }
    }

    /// A form with files, as browsers send it (RFC 7578). `files`: name, type and bytes of each.
    pub(super) async fn post_files(
        &self,
        path: &str,
        cookie: &str,
        fields: &[(&str, &str)],
        files: &[(&str, &str, &[u8])],
    ) -> Answer {
        let mut body = Vec::new();
        for (name, value) in fields {
            let part = format!("--b0\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
            body.extend_from_slice(part.as_bytes());
        }
        for (name, media_type, bytes) in files {
            let head = format!("name=\"files\"; filename=\"{name}\"\r\nContent-Type: {media_type}\r\n\r\n");
            body.extend_from_slice(format!("--b0\r\nContent-Disposition: form-data; {head}").as_bytes());
            body.extend_from_slice(bytes);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"--b0--\r\n");
        let origin = self.origin();
        let headers = [
            ("cookie", cookie),
            ("origin", origin.as_str()),
            ("sec-fetch-site", "same-origin"),
            ("content-type", "multipart/form-data; boundary=b0"),
        ];
        self.send(&self.address.to_string(), &format!("POST {path}"), &headers, &body).await
    }

    /// A view, for whoever has that cookie.
    pub(super) async fn view(&self, path: &str, cookie: &str) -> Answer {
        self.ask(&format!("GET {path}"), &[("cookie", cookie)], "").await
    }

    /// A change that the page itself sends.
    pub(super) async fn post(&self, path: &str, cookie: &str, body: &str) -> Answer {
        let origin = self.origin();
        let headers = [("cookie", cookie), ("origin", origin.as_str()), ("sec-fetch-site", "same-origin")];
        self.ask(&format!("POST {path}"), &headers, body).await
    }

    /// The cookie of a browser that was logged in by a link.
    pub(super) async fn login(&self, args: &[&str]) -> String {
        let code = self.link(args)["code"].as_str().unwrap().to_owned();
        let entered = self.post("/login", "", &format!("code={code}")).await.is(303);
        entered.cookie().unwrap()
    }
}
