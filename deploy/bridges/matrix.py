#!/usr/bin/env python3
"""Connects a Matrix account to Cairn. One file, Python's standard library alone; docs/src/bridges.md is the protocol.

  matrix.py --daemon /run/cairn/cairn.sock --token-file matrix-bridge.token --homeserver https://matrix.example.org --access-token-file matrix.access

It accepts invitations; which rooms and people are served is up to the daemon. Encrypted rooms are not read.

State (--state, an SQLite file): how far the account was read, and what was sent. Each message is sent under a transaction id made
of the delivery's, so that the homeserver sends it once, however often it is asked.
"""
import argparse, base64, contextlib, http.client, json, os, re, socket, sqlite3, sys, threading, time, urllib.parse

FILE_BYTES = 8 << 20
LIMIT = 8000  # characters: an event may have 65,536 bytes, with the text twice
FILTER = json.dumps({"presence": {"types": []}, "account_data": {"types": []},
                     "room": {"ephemeral": {"types": []}, "account_data": {"types": []}, "state": {"types": []},
                              "timeline": {"limit": 50}}})


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
            "CREATE TABLE IF NOT EXISTS kept (name TEXT PRIMARY KEY, value TEXT);"
        )
        self.do("DELETE FROM sent WHERE at < ?", time.time() - 30 * 86400)
        self.do("DELETE FROM kept WHERE name LIKE 'thread %' AND rowid < (SELECT max(rowid) FROM kept) - 100000")

    def do(self, statement, *values):
        with self.lock:
            return self.db.execute(statement, values).fetchall()

    def kept(self, name):
        found = self.do("SELECT value FROM kept WHERE name = ?", name)
        return found[0][0] if found else None

    def keep(self, name, value):
        self.do("INSERT OR REPLACE INTO kept VALUES (?, ?)", name, value)


class Refused(Exception):
    """The homeserver answered with an error."""

    def __init__(self, status, answer):
        super().__init__(f"{status} {answer.get('errcode', '')} {answer.get('error', '')}".strip())
        self.status, self.answer = status, answer


def quoted(*steps):
    return "/".join(urllib.parse.quote(step, safe="") for step in steps)


def person(user):
    """The id of a person for the daemon, which takes no slash in it."""
    return user.replace("%", "%25").replace("/", "%2F")


class Matrix:
    """Calls of the homeserver, as one account."""

    def __init__(self, homeserver, token):
        self.url, self.token = urllib.parse.urlsplit(homeserver), token
        self.me = self.call("GET", "client/v3/account/whoami")["user_id"]

    def call(self, method, path, body=None, timeout=60, kind="application/json", raw=False):
        connection_of = http.client.HTTPSConnection if self.url.scheme == "https" else http.client.HTTPConnection
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        with contextlib.closing(connection_of(self.url.hostname, self.url.port, timeout=timeout)) as connection:
            headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
            connection.request(method, f"{self.url.path.rstrip('/')}/_matrix/{path}", data, headers)
            response = connection.getresponse()
            if response.status == 200:
                answer = response.read(FILE_BYTES + 1 if raw else None)
                try:
                    return answer if raw else json.loads(answer)
                except ValueError:
                    raise OSError("the homeserver's answer is not JSON") from None
            try:
                answer = json.loads(response.read())
            except ValueError:
                answer = {}
            raise Refused(response.status, answer if isinstance(answer, dict) else {})


class Bridge:
    def __init__(self, args):
        self.daemon = Daemon(args.daemon, args.name, open(args.token_file).read().strip())
        self.state = State(args.state)
        self.matrix = Matrix(args.homeserver, open(args.access_token_file).read().strip())
        self.me, self.names, self.members = self.matrix.me, {}, {}

    # What people say

    def read(self):
        """Reads what is new, and remembers how far only when the daemon has it."""
        while True:
            try:
                since = self.state.kept("since")
                query = {"filter": FILTER, "timeout": "30000" if since else "0", **({"since": since} if since else {})}
                news = self.matrix.call("GET", "client/v3/sync?" + urllib.parse.urlencode(query), timeout=90)
                rooms = news.get("rooms", {})
                for room, invitation in rooms.get("invite", {}).items():
                    self.join(room, invitation)
                # What was said before the first start is not answered.
                for room, joined in rooms.get("join", {}).items() if since else ():
                    timeline = joined["timeline"]
                    for event in self.gap(room, timeline, since) + timeline["events"]:
                        try:
                            self.event(room, event)
                        except (AttributeError, KeyError, TypeError, ValueError) as error:
                            log("an event cannot be read, and is dropped:", repr(error))
                self.state.keep("since", news["next_batch"])
            except (OSError, ValueError, Refused, http.client.HTTPException) as error:
                log("matrix:", error)
                time.sleep(3)

    def gap(self, room, timeline, since):
        """The events between the last sync and the timeline, where that leaves some out."""
        events, start = [], timeline.get("prev_batch")
        while timeline.get("limited") and start:
            query = urllib.parse.urlencode({"dir": "b", "from": start, "to": since, "limit": "100"})
            page = self.matrix.call("GET", f"client/v3/rooms/{quoted(room)}/messages?{query}")
            events += page["chunk"]
            start = page.get("end") if page["chunk"] else None
            if start and len(events) >= 2000:
                log("more than 2,000 events were missed in a room; the oldest are left out:", room)
                break
        return events[::-1]

    def join(self, room, invitation):
        for event in invitation.get("invite_state", {}).get("events", ()):
            if event["type"] == "m.room.member" and event["state_key"] == self.me and event["content"].get("is_direct"):
                self.state.keep(f"direct {room}", "yes")
        try:
            self.matrix.call("POST", f"client/v3/rooms/{quoted(room)}/join", {})
        except Refused as refused:
            log("an invitation cannot be accepted:", refused)

    def is_direct(self, room):
        """Whether it was opened as a private chat, and nobody else has joined since."""
        if room not in self.members:
            joined = self.matrix.call("GET", f"client/v3/rooms/{quoted(room)}/joined_members")["joined"]
            self.members[room] = {user: about.get("display_name") or user for user, about in joined.items()}
        return bool(self.state.kept(f"direct {room}")) and len(self.members[room]) <= 2

    def title(self, room):
        try:
            return self.matrix.call("GET", f"client/v3/rooms/{quoted(room)}/state/m.room.name")["name"]
        except (Refused, KeyError):
            return room

    def event(self, room, event):
        kind, content, sender = event["type"], event.get("content", {}), event["sender"]
        if kind == "m.room.member":
            self.members.pop(room, None)
        elif kind == "m.room.encrypted" and room not in self.names:
            log("an encrypted room is not read:", room)
            self.names[room] = True
        elif sender == self.me or event.get("state_key") is not None:
            return
        elif kind == "m.room.redaction":
            gone = event.get("redacts") or content.get("redacts")
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(event["origin_server_ts"] / 1000))
            thread = self.state.kept(f"thread {gone}")
            self.hand_in("deletions", {"id": gone, "chat": room, "direct": self.is_direct(room), "at": at,
                                       **({"thread": thread} if thread else {})})
        elif kind == "m.room.message" and content.get("msgtype"):
            self.said(room, event, content)

    def said(self, room, event, content):
        relation = content.get("m.relates_to") or {}
        is_edit = relation.get("rel_type") == "m.replace"
        content = content.get("m.new_content", content) if is_edit else content
        direct, kind, body = self.is_direct(room), content.get("msgtype"), str(content.get("body", ""))
        said = {"id": relation["event_id"] if is_edit else event["event_id"], "chat": room, "direct": direct,
                "author": {"id": person(event["sender"]), "name": self.members[room].get(event["sender"], event["sender"]),
                           "bot": kind == "m.notice"},
                "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(event["origin_server_ts"] / 1000))}
        if not direct:
            said["title"] = self.title(room)
        if relation.get("rel_type") == "m.thread":
            said["thread"] = relation["event_id"]
            self.state.keep(f"thread {said['id']}", said["thread"])
        elif is_edit and (thread := self.state.kept(f"thread {said['id']}")):
            said["thread"] = thread  # edits do not say in which thread their message is
        answered = (relation.get("m.in_reply_to") or {}).get("event_id")
        own = False
        if answered and not relation.get("is_falling_back"):
            body = re.sub(r"\A(> .*\n)+\n?", "", body)
            said["reply_to"], own = self.replied(room, answered)
        name = self.members[room].get(self.me, self.me)
        named = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", body, re.I) or self.me in body
        mentioned = self.me in (content.get("m.mentions") or {}).get("user_ids", ())
        said["addressed"] = bool(direct or own or named or mentioned)
        body = re.sub(rf"^({re.escape(name)}|{re.escape(self.me)})[:,]?\s+", "", body, flags=re.I)
        if said["addressed"] and re.match(r"![a-z]", body):  # clients keep lines with a slash for themselves
            body = "/" + body[1:]
        if kind in ("m.text", "m.notice", "m.emote"):
            said["text"] = ("* " if kind == "m.emote" else "") + body[:20000]
        else:
            said["text"] = body if content.get("filename", body) != body else ""
            said["files"] = [self.file(content)]
        if said["text"].strip() or said.get("files"):
            self.hand_in("edits" if is_edit else "messages", said)

    def replied(self, room, answered):
        try:
            event = self.matrix.call("GET", f"client/v3/rooms/{quoted(room)}/event/{quoted(answered)}")
        except Refused:
            return {"id": answered}, False
        if event["sender"] == self.me:
            return {"id": answered}, True
        author = {"id": person(event["sender"]), "name": self.members[room].get(event["sender"], event["sender"])}
        text = str(event.get("content", {}).get("body", ""))[:2000]
        return {"id": answered, "author": author, **({"text": text} if text else {})}, False

    def file(self, content):
        info, data = content.get("info") or {}, b""
        uri = re.fullmatch(r"mxc://([^/]+)/([^/]+)", str(content.get("url", "")))
        size = info.get("size")
        if uri and (not isinstance(size, int) or size <= FILE_BYTES):
            try:
                data = self.matrix.call("GET", f"client/v1/media/download/{quoted(*uri.groups())}", raw=True)
            except Refused as refused:
                log("a file cannot be fetched:", refused)
        data = data if len(data) <= FILE_BYTES else b""
        # https://github.com/matrix-org/matrix-spec-proposals/pull/3245
        spoken = {"spoken": True} if "org.matrix.msc3245.voice" in content else {}
        return {"name": str(content.get("filename") or content.get("body") or "file")[:200],
                "media_type": info.get("mimetype"), "data": base64.b64encode(data).decode()} | spoken

    def hand_in(self, call, body):
        while True:
            status, answer = self.daemon.call(call, body)
            if status == 200:
                return
            if status == 400:
                return log("the daemon cannot read a message, which is dropped:", answer)
            log("the daemon takes nothing now:", status, answer)
            time.sleep(2)

    # What the bot says

    def fate(self, delivery, work):
        """Sends something, unless it is known to be sent, and gives what became of it."""
        known = self.state.do("SELECT message, at FROM sent WHERE id = ?", delivery["id"])
        if known and known[0][0]:
            return {"outcome": "sent", "message": known[0][0]}
        repeat = delivery.get("repeat")
        if known and repeat and time.time() - known[0][1] > 12 * 3600:  # homeservers forget transactions in time
            return {"outcome": "unknown", "reason": "it was being sent long ago"}
        if not (known and repeat):
            self.state.do("INSERT OR REPLACE INTO sent VALUES (?, NULL, ?)", delivery["id"], time.time())
        try:
            message = work(delivery)
        except Refused as refused:
            if refused.status == 429 or refused.status >= 500 or refused.status == 401:
                wait = refused.answer.get("retry_after_ms", 3000) // 1000 + 1
                return {"outcome": "later", "reason": str(refused), "retry_after_secs": wait}
            return {"outcome": "refused", "reason": str(refused)}
        except (OSError, ValueError, http.client.HTTPException) as error:
            # Again under the same transaction id it is sent once.
            return {"outcome": "later", "reason": str(error) or "the homeserver broke off", "retry_after_secs": 3}
        self.state.do("UPDATE sent SET message = ? WHERE id = ?", message, delivery["id"])
        return {"outcome": "sent", "message": message}

    def content(self, delivery):
        # An empty `m.mentions` says that nobody is to be notified by name.
        content = {"msgtype": "m.text", "body": delivery["text"], "m.mentions": {}}
        if delivery.get("html"):
            content |= {"format": "org.matrix.custom.html", "formatted_body": delivery["html"]}
        return content

    def put(self, delivery, content, step=""):
        path = quoted("rooms", delivery["chat"], "send", "m.room.message", delivery["id"] + step)
        return self.matrix.call("PUT", f"client/v3/{path}", content)["event_id"]

    def send(self, delivery):
        relation, sent = {}, None
        if delivery.get("thread"):
            relation = {"rel_type": "m.thread", "event_id": delivery["thread"]}
        if delivery.get("reply_to"):
            relation["m.in_reply_to"] = {"event_id": delivery["reply_to"]}
        if delivery["text"]:
            sent = self.put(delivery, self.content(delivery) | ({"m.relates_to": relation} if relation else {}))
        for n, file in enumerate(delivery.get("files", ())):
            data, kind = base64.b64decode(file["data"]), file["media_type"]
            name = urllib.parse.urlencode({"filename": file["name"]})
            uri = self.matrix.call("POST", f"media/v3/upload?{name}", data, kind=kind)["content_uri"]
            shown = kind.split("/")[0] if kind.split("/")[0] in ("image", "audio", "video") else "file"
            content = {"msgtype": f"m.{shown}", "body": file["name"], "url": uri,
                       "info": {"mimetype": kind, "size": len(data)}}
            event = self.put(delivery, content | ({"m.relates_to": relation} if relation else {}), f"-{n}")
            sent = sent or event
        return sent

    def edit(self, edit):
        new = self.content(edit)
        relation = {"rel_type": "m.replace", "event_id": edit["message"]}
        self.put(edit, new | {"body": "* " + edit["text"], "m.new_content": new, "m.relates_to": relation})
        return edit["message"]

    def typing(self, data):
        path = quoted("rooms", data["chat"], "typing", self.me)
        with contextlib.suppress(OSError, Refused, ValueError, http.client.HTTPException):
            self.matrix.call("PUT", f"client/v3/{path}", {"typing": True, "timeout": 8000}, timeout=5)

    def run(self):
        threading.Thread(target=self.read, daemon=True).start()
        hello = {"protocol": 1, "software": "matrix.py 1", "me": self.me, "name": self.me, "limit": LIMIT,
                 "unit": "characters", "markup": "html", "edits": True, "file_bytes": FILE_BYTES, "typing": True}
        while True:
            try:
                for name, data in self.daemon.events(hello):
                    if name in ("message", "edit"):
                        fate = self.fate(data, self.send if name == "message" else self.edit)
                        self.daemon.call(f"deliveries/{data['id']}", fate)
                    elif name == "typing":
                        self.typing(data)
                    elif name == "ready":
                        log("connected to the daemon as", self.me)
            except (OSError, ValueError, http.client.HTTPException) as error:
                log("daemon:", error)
            time.sleep(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--daemon", required=True, help="the daemon's socket, or http://HOST:PORT of `listen`")
    parser.add_argument("--name", default="matrix", help="the bridge's name in [[bridges]]")
    parser.add_argument("--token-file", required=True)
    parser.add_argument("--state", default="matrix-bridge.db")
    parser.add_argument("--homeserver", required=True, help="such as https://matrix.example.org")
    parser.add_argument("--access-token-file", required=True)
    os.umask(0o077)
    Bridge(parser.parse_args()).run()


if __name__ == "__main__":
    main()
