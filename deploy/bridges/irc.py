#!/usr/bin/env python3
"""Connects an IRC network to Cairn. One file, Python's standard library alone; docs/src/bridges.md is the protocol.

  irc.py --daemon /run/cairn/cairn.sock --token-file irc-bridge.token --server irc.example.org:6697 --tls --nick rowan --join '#garden'

State (--state, an SQLite file): what people said until the daemon has it, and what was sent. IRC keeps no history: what is
said while this does not run is never heard, and a message that was being sent when this was killed is reported as unknown.
"""
import argparse, contextlib, http.client, json, os, queue, re, socket, sqlite3, ssl, sys, threading, time, urllib.parse

LIMIT = 400  # bytes of a line: 512 less the prefix that the server puts before it (RFC 2812, 2.3)


def log(*words):
    print(*words, file=sys.stderr, flush=True)


class Daemon:
    """Calls of the daemon, at its socket (a path) or an http address."""

    def __init__(self, where, name, token):
        self.where, self.path = where, f"/v1/bridges/{name}"
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def request(self, method, call, body=None, timeout=60):
        if "://" in self.where:
            url = urllib.parse.urlsplit(self.where)
            kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
            connection = kind(url.hostname, url.port, timeout=timeout)
        else:
            connection = http.client.HTTPConnection("cairn", timeout=timeout)
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(timeout)
            connection.sock.connect(self.where)
        connection.request(method, f"{self.path}/{call}", body and json.dumps(body), self.headers)
        return connection, connection.getresponse()

    def call(self, call, body):
        """The status and the answer of a call; (0, why) if the daemon is not there."""
        try:
            connection, response = self.request("POST", call, body)
            with contextlib.closing(connection):
                return response.status, json.loads(response.read() or b"null")
        except (OSError, ValueError, http.client.HTTPException) as error:
            return 0, str(error)

    def events(self, hello):
        """Says hello and yields what is to be sent, until the connection ends."""
        status, answer = self.call("hello", hello)
        if status != 200:
            raise OSError(f"hello: {status} {answer}")
        connection, response = self.request("GET", "deliveries", timeout=45)  # a comment comes each 15 s
        with contextlib.closing(connection):
            if response.status != 200:
                raise OSError(f"deliveries: {response.status}")
            name = None
            for line in response:
                field, _, value = line.decode().rstrip("\r\n").partition(": ")
                if field == "event":
                    name = value
                elif field == "data":
                    yield name, json.loads(value)


class State:
    """What must outlive a crash. `sent`: the message of each delivery; none while it is being sent."""

    def __init__(self, path):
        self.lock = threading.Lock()
        self.db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self.db.executescript(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
            "CREATE TABLE IF NOT EXISTS sent (id TEXT PRIMARY KEY, message TEXT, at REAL);"
            "CREATE TABLE IF NOT EXISTS heard (n INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT);"
            "CREATE TABLE IF NOT EXISTS kept (name TEXT PRIMARY KEY, value TEXT);"
        )
        # Numbers begin again with a new file, so that ids of messages have its age.
        self.do("INSERT OR IGNORE INTO kept VALUES ('age', ?)", f"{time.time():.0f}")
        self.age = self.do("SELECT value FROM kept WHERE name = 'age'")[0][0]
        self.do("DELETE FROM sent WHERE at < ?", time.time() - 30 * 86400)

    def do(self, statement, *values):
        with self.lock:
            return self.db.execute(statement, values).fetchall()


class Irc:
    """The connection to the server. Lines of people go to `hear`."""

    def __init__(self, args, hear):
        self.args, self.hear, self.nick = args, hear, args.nick
        self.socket, self.ready, self.writing = None, threading.Event(), threading.Lock()
        self.pong, self.refused, self.budget, self.paid = queue.Queue(), {}, 5.0, time.monotonic()

    def write(self, line):
        with self.writing:
            self.socket.sendall(line.encode()[:510] + b"\r\n")

    def run(self):
        while True:
            try:
                self.connected()
            except Exception as error:  # whatever it is, the bridge connects again
                log("irc:", repr(error))
            self.ready.clear()
            self.pong.put(None)  # whoever waits learns that the connection broke
            time.sleep(3)

    def connected(self):
        host, _, port = self.args.server.rpartition(":")
        plain = socket.create_connection((host, int(port)), timeout=300)
        self.socket = ssl.create_default_context().wrap_socket(plain, server_hostname=host) if self.args.tls else plain
        self.write("CAP REQ :account-tag")
        if self.args.password_file:
            self.write("PASS :" + open(self.args.password_file).read().strip())
        self.write(f"NICK {self.nick}")
        self.write(f"USER {self.args.nick} 0 * :Cairn")
        self.write("CAP END")
        buffer = b""
        while chunk := self.socket.recv(65536):
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                if line.strip():
                    self.line(line.decode(errors="replace").rstrip("\r"))
        raise OSError("the server closed the connection")

    def line(self, line):
        tags, prefix = {}, ""
        if line.startswith("@"):
            head, _, line = line[1:].partition(" ")
            tags = dict(tag.partition("=")[::2] for tag in head.split(";"))
        if line.startswith(":"):
            prefix, _, line = line[1:].partition(" ")
        line, _, last = line.partition(" :")
        command, *words = line.split() + ([last] if _ else [])
        if command == "PING":
            self.write(f"PONG :{words[-1] if words else ''}")
        elif command == "NICK" and words and prefix.partition("!")[0].lower() == self.nick.lower():
            self.nick = words[0]
        elif command == "PONG" and words:
            self.pong.put(words[-1])
        elif command == "001":
            self.nick = words[0]
            for channel in self.args.join.split(","):
                self.write(f"JOIN {channel}")
        elif command in ("376", "422"):  # the end of what the server says at first
            self.ready.set()
            log("irc: connected as", self.nick)
        elif command == "433":
            self.nick += "_"
            self.write(f"NICK {self.nick}")
        elif command in ("401", "403", "404", "407", "411", "412", "477", "486", "716") and len(words) > 1:
            self.refused[words[1].lower()] = words[-1]
        elif command == "PRIVMSG" and len(words) == 2:
            self.hear(prefix, tags.get("account"), words[0], words[1])

    def pay(self):
        """Servers drop who writes too fast: five lines at once, then one each 0.6 s."""
        now = time.monotonic()
        self.budget = min(5.0, self.budget + (now - self.paid) / 0.6) - 1
        self.paid = now
        time.sleep(max(0.0, -self.budget) * 0.6)

    def send(self, target, lines):
        """Sends lines and waits until the server has taken them. Gives what became of it."""
        if not self.ready.is_set():
            return {"outcome": "later", "reason": "not connected to the IRC server", "retry_after_secs": 3}
        self.refused.pop(target.lower(), None)
        token = f"cairn{time.time_ns()}"
        while not self.pong.empty():
            self.pong.get()
        try:
            for n, line in enumerate(lines):
                if n:
                    self.pay()
                self.write(f"PRIVMSG {target} :{line}")
            self.write(f"PING :{token}")
            while (answer := self.pong.get(timeout=40)) != token:
                if answer is None:
                    raise OSError("the connection to the IRC server broke")
        except (OSError, queue.Empty) as error:
            return {"outcome": "unknown", "reason": str(error) or "the IRC server did not answer"}
        if reason := self.refused.pop(target.lower(), None):
            return {"outcome": "refused", "reason": reason}
        return {"outcome": "sent", "message": f"out-{token}"}


class Bridge:
    def __init__(self, args):
        self.daemon = Daemon(args.daemon, args.name, open(args.token_file).read().strip())
        self.state, self.irc, self.news = State(args.state), Irc(args, self.hear), threading.Event()

    def hear(self, prefix, account, target, text):
        """Keeps what somebody said until the daemon has it."""
        nick, _, host = prefix.partition("!")
        direct, me = target.lower() == self.irc.nick.lower(), re.escape(self.irc.nick)
        text = re.sub(r"^\x01ACTION (.*)\x01$", r"* \1", text)
        if text.startswith("\x01"):  # a question of one client to another, such as VERSION
            return
        text = re.sub(r"\x03\d{0,2}(,\d{1,2})?|[\x00-\x08\x0b-\x1f\x7f]", "", text)
        addressed = direct or bool(re.search(rf"(?<![\w-]){me}(?![\w-])", text, re.I))
        text = re.sub(rf"^{me}[:,]?\s+", "", text, flags=re.I).strip()
        if addressed and re.match(r"![a-z]", text):  # clients keep lines with a slash for themselves
            text = "/" + text[1:]
        if not text:
            return
        # Without accounts a nick is anybody's: it counts together with its host.
        author = f"account:{account}" if account else f"{nick}@{host.rpartition('@')[2]}".lower()
        # A private chat is of that person, not of whoever has the nick.
        chat = target.lower() if not direct else f"{nick.lower()}!{author}" if account else author
        author, chat = (id.replace("%", "%25").replace("/", "%2F") for id in (author, chat))
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        said = {"chat": chat, "direct": direct, "author": {"id": author, "name": nick}, "text": text,
                "addressed": addressed, "at": at}
        if not direct:
            said["title"] = target
        self.state.do("INSERT INTO heard (body) VALUES (?)", json.dumps(said))
        self.news.set()

    def hand_in(self):
        while True:
            self.news.clear()
            for n, body in self.state.do("SELECT n, body FROM heard ORDER BY n LIMIT 100"):
                status, answer = self.daemon.call("messages", {"id": f"{self.state.age}.{n}", **json.loads(body)})
                if status == 400:
                    log("the daemon cannot read a message, which is dropped:", answer)
                elif status != 200:
                    log("the daemon takes nothing now:", status, answer)
                    break
                self.state.do("DELETE FROM heard WHERE n = ?", n)
            else:
                self.news.wait(5)
                continue
            time.sleep(1)

    def fate(self, delivery):
        """Sends a message, unless it is known to be sent, and gives what became of it."""
        known = self.state.do("SELECT message FROM sent WHERE id = ?", delivery["id"])
        if known and known[0][0]:
            return {"outcome": "sent", "message": known[0][0]}
        if known and delivery["repeat"]:
            return {"outcome": "unknown", "reason": "the bridge stopped while it was sent, and IRC keeps no history"}
        lines = []
        for line in delivery["text"].splitlines():
            line = re.sub(r"[\x00-\x1f\x7f]", " ", line).rstrip()
            lines += [line] if line else []
        target = urllib.parse.unquote(delivery["chat"])
        target = target if target[:1] in "#&+" else re.split("[!@]", target)[0]
        if not lines or not target or target.startswith(":") or re.search(r"[\s,\x00]", target):
            return {"outcome": "refused", "reason": "nothing that IRC can send, or no chat of IRC"}
        self.irc.pay()  # before it counts as being sent: what is killed from here on is unknown
        self.state.do("INSERT OR REPLACE INTO sent VALUES (?, NULL, ?)", delivery["id"], time.time())
        fate = self.irc.send(target, lines)
        if fate["outcome"] == "sent":
            self.state.do("UPDATE sent SET message = ? WHERE id = ?", fate["message"], delivery["id"])
        elif fate["outcome"] != "unknown":
            self.state.do("DELETE FROM sent WHERE id = ?", delivery["id"])
        return fate

    def run(self):
        for work in (self.irc.run, self.hand_in):
            threading.Thread(target=work, daemon=True).start()
        while True:
            hello = {"protocol": 1, "software": "irc.py 1", "name": self.irc.nick, "limit": LIMIT, "unit": "bytes"}
            try:
                for name, data in self.daemon.events(hello):
                    if name == "message":
                        self.daemon.call(f"deliveries/{data['id']}", self.fate(data))
                    elif name == "ready":
                        log("connected to the daemon")
            except (OSError, ValueError, http.client.HTTPException) as error:
                log("daemon:", error)
            time.sleep(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--daemon", required=True, help="the daemon's socket, or http://HOST:PORT of `listen`")
    parser.add_argument("--name", default="irc", help="the bridge's name in [[bridges]]")
    parser.add_argument("--token-file", required=True)
    parser.add_argument("--state", default="irc-bridge.db")
    parser.add_argument("--server", required=True, help="HOST:PORT")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--password-file", help="the server's password, if it wants one")
    parser.add_argument("--nick", required=True)
    parser.add_argument("--join", required=True, help="channels, with commas between them")
    os.umask(0o077)
    Bridge(parser.parse_args()).run()


if __name__ == "__main__":
    main()
