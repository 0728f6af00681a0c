//! A network between a node and its database, which loses and holds what it is told to.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::spawn;

use parking_lot::{Condvar, Mutex};

pub(crate) struct Proxy {
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
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Before the database has them.
    Request,
    /// When the database has answered.
    Answer,
}

impl Proxy {
    /// To the server of that url; with the url of the same database by way of it.
    pub(crate) fn to(url: &str) -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (head, tail) = url.rsplit_once(':').unwrap();
        let (to, database) = tail.split_once('/').unwrap();
        let by_way = format!("{head}:{port}/{database}");
        let shared =
            Arc::new(Shared { to: to.parse().unwrap(), state: Mutex::default(), changed: Condvar::new() });
        let of = shared.clone();
        spawn(move || {
            for client in listener.incoming().flatten() {
                of.clone().join(client);
            }
        });
        (Self { shared }, by_way)
    }

    pub(crate) fn cut(&self, what: Cut, words: &'static str) {
        self.shared.state.lock().cut = Some((what, words));
    }

    /// How many connections it has cut.
    pub(crate) fn cuts(&self) -> usize {
        self.shared.state.lock().cuts
    }

    /// Holds all traffic from here on.
    pub(crate) fn hold(&self) {
        self.shared.state.lock().is_held = true;
    }

    pub(crate) fn release(&self) {
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
        let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
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
