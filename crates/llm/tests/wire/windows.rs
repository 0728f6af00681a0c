//! How large a model's window is, as its server tells it.

use std::net::SocketAddr;

use cairn_llm::Anthropic;
use cairn_testkit::model::Ollama;
use cairn_types::ports::{ServerWindow, Unanswered};
use rstest::rstest;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

fn claude(base_url: &str) -> Anthropic {
    Anthropic::new(ServerOptions::new("m", base_url, "fake")).unwrap()
}

/// A server that has these answers at these paths, and nothing else.
async fn server_of(answers: Vec<(&'static str, Value)>) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let n = socket.read(&mut request).await.unwrap();
            let path =
                String::from_utf8_lossy(&request[..n]).split(' ').nth(1).unwrap_or_default().to_owned();
            let answer = answers.iter().find(|(at, _)| *at == path);
            let (status, body) = match answer {
                Some((_, answer)) => (200, answer.to_string()),
                None => (404, json!({"error": {"message": "File Not Found"}}).to_string()),
            };
            let head = format!(
                "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            socket.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        }
    });
    address
}

#[tokio::test]
async fn a_listed_window_is_taken() {
    let server = FakeModel::builder().advertise(4_321).start().await;
    let listed = Ok(ServerWindow::Listed(4_321));
    assert_eq!(model(&server.base_url(), true).discover_window().await, listed);
    assert_eq!(claude(&server.base_url()).discover_window().await, listed);
    let silent = FakeModel::start().await;
    let unlisted = Ok(ServerWindow::Unlisted);
    assert_eq!(model(&silent.base_url(), true).discover_window().await, unlisted);
    assert_eq!(claude(&silent.base_url()).discover_window().await, unlisted);
    let gone = silent.base_url();
    drop(silent);
    assert_eq!(model(&gone, true).discover_window().await, Err(Unanswered));
}

/// It loads a model with its first request.
#[tokio::test]
async fn the_window_of_ollama_is_known_once_it_has_answered() {
    let server = FakeModel::builder().ollama(Ollama::new(4_096)).start().await;
    let model = model(&server.base_url(), true);
    assert_eq!(model.discover_window().await, Ok(ServerWindow::NotLoaded));
    ask(&model, request("hello")).await.unwrap();
    assert_eq!(model.discover_window().await, Ok(ServerWindow::Loaded(4_096)));
    assert_eq!(claude(&server.base_url()).discover_window().await, Ok(ServerWindow::Loaded(4_096)));
    let silent = FakeModel::builder().ollama(Ollama::new(4_096).silent()).start().await;
    let model = super::model(&silent.base_url(), true);
    ask(&model, request("hello")).await.unwrap();
    assert_eq!(model.discover_window().await, Ok(ServerWindow::Unlisted));
}

#[rstest]
#[case::llama_cpp(
    vec![
        ("/v1/models", json!({"data": [{"id": "qwen.gguf", "meta": {"n_ctx_train": 131_072}}]})),
        ("/props", json!({"default_generation_settings": {"n_ctx": 8_192}})),
    ],
    ServerWindow::Listed(8_192)
)]
#[case::llama_cpp_without_its_properties(
    vec![("/v1/models", json!({"data": [{"id": "qwen.gguf", "meta": {"n_ctx_train": 131_072}}]}))],
    ServerWindow::Listed(131_072)
)]
#[case::a_modelfile_of_ollama(
    vec![
        ("/v1/models", json!({"data": [{"id": "fake:latest", "owned_by": "library"}]})),
        ("/api/ps", json!({"models": []})),
        ("/api/show", json!({"parameters": "num_ctx 16384", "model_info": {"qwen3.context_length": 40_960}})),
    ],
    ServerWindow::Loaded(16_384)
)]
#[case::another_model_is_loaded_in_ollama(
    vec![
        ("/v1/models", json!({"data": [{"id": "fake:latest"}, {"id": "big:latest"}]})),
        ("/api/ps", json!({"models": [{"name": "big:latest", "context_length": 65_536}]})),
        ("/api/show", json!({"model_info": {"qwen3.context_length": 40_960}})),
    ],
    ServerWindow::NotLoaded
)]
#[case::an_old_ollama(
    vec![
        ("/v1/models", json!({"data": [{"id": "fake:latest"}]})),
        ("/api/ps", json!({"models": [{"name": "fake:latest", "size": 1}]})),
    ],
    ServerWindow::Unlisted
)]
#[case::lm_studio(
    vec![
        ("/v1/models", json!({"data": [{"id": "fake"}, {"id": "y"}]})),
        ("/api/v0/models", json!({"data": [
            {"id": "y", "state": "loaded", "loaded_context_length": 2_048, "max_context_length": 131_072},
            {"id": "fake", "state": "loaded", "loaded_context_length": 4_096, "max_context_length": 131_072},
        ]})),
    ],
    ServerWindow::Loaded(4_096)
)]
#[case::lm_studio_before_it_loads(
    vec![
        ("/v1/models", json!({"data": [{"id": "fake"}]})),
        ("/api/v0/models", json!({"data": [{"id": "fake", "state": "not-loaded", "max_context_length": 131_072}]})),
    ],
    ServerWindow::NotLoaded
)]
#[tokio::test]
async fn servers_are_asked_in_their_own_ways(
    #[case] answers: Vec<(&'static str, Value)>,
    #[case] expected: ServerWindow,
) {
    let address = server_of(answers).await;
    for base_url in [format!("http://{address}/v1"), format!("http://{address}/v1/")] {
        assert_eq!(model(&base_url, true).discover_window().await, Ok(expected), "{base_url}");
        assert_eq!(claude(&base_url).discover_window().await, Ok(expected), "{base_url}");
    }
}
