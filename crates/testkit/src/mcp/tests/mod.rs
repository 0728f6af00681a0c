//! The fake MCP server's own rules, asked over the wire.

mod faults;
mod http;
mod refusals;
mod tools;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

use super::script::Behaviour;
use super::server::Server;
use super::stdio::{Ended, serve};
use super::*;

/// Bytes that wait in the pipe.
const PIPE: usize = 64 << 10;

/// A client by hand, of a server on lines.
struct Client {
    log: Log,
    input: WriteHalf<DuplexStream>,
    output: BufReader<ReadHalf<DuplexStream>>,
    served: JoinHandle<Ended>,
}

impl Client {
    fn start(script: Script) -> Self {
        let (near, far) = tokio::io::duplex(PIPE);
        let log = Log::memory();
        let server = Arc::new(Server { behaviour: Behaviour::new(None, script), log: log.clone() });
        let (input, output) = tokio::io::split(far);
        let served = tokio::spawn(serve(server, input, output));
        let (output, input) = tokio::io::split(near);
        Self { log, input, output: BufReader::new(output), served }
    }

    async fn ready(script: Script) -> Self {
        let mut client = Self::start(script);
        let greeting = client.ask(&initialize(0)).await;
        assert!(greeting["result"]["serverInfo"]["name"].is_string(), "{greeting}");
        client.say(&initialized()).await;
        client
    }

    async fn send(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn say(&mut self, message: &Value) {
        self.send(&message.to_string()).await;
    }

    /// The next line, without its end; nothing at the end of the stream.
    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).await.unwrap();
        line.trim_end().to_owned()
    }

    async fn hear(&mut self) -> Value {
        let line = self.line().await;
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    async fn ask(&mut self, message: &Value) -> Value {
        self.say(message).await;
        self.hear().await
    }
}

fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn initialize(id: u64) -> Value {
    let params = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
    });
    request(id, "initialize", &params)
}

fn initialized() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })
}

fn cancelled(id: u64) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })
}

fn list(id: u64) -> Value {
    request(id, "tools/list", &json!({}))
}

fn call(id: u64, tool: &str, arguments: &Value) -> Value {
    request(id, "tools/call", &json!({ "name": tool, "arguments": arguments }))
}

fn rules(log: &Log) -> Vec<Rule> {
    log.refusals().into_iter().map(|refusal| refusal.rule).collect()
}
