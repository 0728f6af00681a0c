//! A network between a daemon and a server that it talks to: it loses and holds what it is told to, and counts.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::spawn;

use parking_lot::{Condvar, Mutex};

pub struct Proxy {
    shared: Arc<Shared>,
}

struct Shared {
    to: u16,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Nothing passes, in either direction.
    is_held: bool,
    /// The connection on which these words are sent breaks once.
    cut: Option<(Cut, &'static str)>,
    cuts: usize,
    counted: &'static [&'static str],
    count: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Before the server has them.
    Request,
    /// When the server has answered.
    Answer,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("to", &self.shared.to).finish_non_exhaustive()
    }
}

impl Proxy {
    /// To the server of that url on this machine; with the same url by way of it.
    pub fn to(url: &str) -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it listens").port();
        let (head, tail) = url.rsplit_once(':').expect("the url has a port");
        let end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
        let (to, path) = tail.split_at(end);
        let by_way = format!("{head}:{port}{path}");
        let to = to.parse().expect("the port is a number");
        let shared = Arc::new(Shared { to, state: Mutex::default(), changed: Condvar::new() });
        let of = shared.clone();
        spawn(move || {
            for client in listener.incoming().flatten() {
                of.clone().join(client);
            }
        });
        (Self { shared }, by_way)
    }

    /// Breaks the connection on which these words are sent next.
    pub fn cut(&self, what: Cut, words: &'static str) {
        self.shared.state.lock().cut = Some((what, words));
    }

    /// How many connections it has cut.
    pub fn cuts(&self) -> usize {
        self.shared.state.lock().cuts
    }

    /// Counts requests with one of these words from here on.
    pub fn count(&self, words: &'static [&'static str]) {
        self.shared.state.lock().counted = words;
    }

    /// How many such requests it has passed on.
    pub fn counted(&self) -> usize {
        self.shared.state.lock().count
    }

    /// Holds all traffic from here on.
    pub fn hold(&self) {
        self.shared.state.lock().is_held = true;
    }

    pub fn release(&self) {
        self.shared.state.lock().is_held = false;
        self.shared.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.release();
    }
}

impl Shared {
    fn join(self: Arc<Self>, client: TcpStream) {
        let Ok(server) = TcpStream::connect(("127.0.0.1", self.to)) else { return };
        let is_lost = Arc::<AtomicBool>::default();
        let (Ok(from), Ok(to)) = (client.try_clone(), server.try_clone()) else { return };
        let (shared, lost) = (self.clone(), is_lost.clone());
        spawn(move || shared.pump(from, to, |shared, bytes| shared.passes(bytes, &lost)));
        spawn(move || {
            self.pump(server, client, |shared, _| {
                let is_cut = is_lost.load(Ordering::SeqCst);
                shared.state.lock().cuts += usize::from(is_cut);
                !is_cut
            });
        });
    }

    /// Passes on what comes, until `passes` says no.
    fn pump(&self, mut from: TcpStream, mut to: TcpStream, passes: impl Fn(&Self, &[u8]) -> bool) {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(n @ 1..) = from.read(&mut bytes) {
            let mut state = self.state.lock();
            self.changed.wait_while(&mut state, |state| state.is_held);
            drop(state);
            if !passes(self, &bytes[..n]) || to.write_all(&bytes[..n]).is_err() {
                break;
            }
        }
        for stream in [from, to] {
            // It may be closed already.
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    fn passes(&self, bytes: &[u8], is_lost: &AtomicBool) -> bool {
        let mut state = self.state.lock();
        let has = |words: &str| bytes.windows(words.len()).any(|here| here == words.as_bytes());
        state.count += usize::from(state.counted.iter().any(|words| has(words)));
        match state.cut.take_if(|(_, words)| has(words)) {
            Some((Cut::Request, _)) => {
                state.cuts += 1;
                false
            }
            Some((Cut::Answer, _)) => {
                is_lost.store(true, Ordering::SeqCst);
                true
            }
            None => true,
        }
    }
}
