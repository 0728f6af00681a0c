//! The folder of a model: what it must have, read and checked once, at a start.

use std::fs;
use std::path::{Path, PathBuf};

use cairn_types::ports::{Embedder, NoRank};
use ndarray::{Array1, Array2};
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;

use crate::bert::{Bert, Layer, Linear, Norm};
use crate::wordpiece::WordPiece;

/// Tokens of a text that count, its start and its end among them.
const TOKENS: usize = 256;

/// Bytes of the largest model that is read: the whole of it is held in memory.
const MOST_BYTES: u64 = 1 << 30;

/// The most numbers in a state, or between two.
const MOST_WIDE: usize = 16_384;

/// Why a folder is no model.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("cannot read {}: {error}", path.display())]
    Unreadable { path: PathBuf, error: std::io::Error },
    #[error("{}: {message}", path.display())]
    Wrong { path: PathBuf, message: String },
}

/// What counts of `config.json`.
#[derive(Deserialize)]
struct Config {
    model_type: String,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    max_position_embeddings: usize,
    vocab_size: usize,
    layer_norm_eps: f32,
    #[serde(default = "gelu")]
    hidden_act: String,
    #[serde(default = "absolute")]
    position_embedding_type: String,
}

fn gelu() -> String {
    "gelu".to_owned()
}

fn absolute() -> String {
    "absolute".to_owned()
}

impl Config {
    fn check(&self) -> Result<(), String> {
        let is_known = self.model_type == "bert" && self.hidden_act == "gelu";
        if !is_known || self.position_embedding_type != "absolute" {
            return Err(format!(
                "it is of the type `{}` ({}, {} positions); only `bert` (gelu, absolute positions) is known",
                self.model_type, self.hidden_act, self.position_embedding_type
            ));
        }
        let sizes =
            [self.hidden_size, self.intermediate_size, self.num_attention_heads, self.num_hidden_layers];
        let is_sound = sizes.iter().all(|size| (1..=MOST_WIDE).contains(size))
            && self.hidden_size.is_multiple_of(self.num_attention_heads)
            && self.max_position_embeddings >= 2;
        if is_sound { Ok(()) } else { Err("its sizes cannot be those of a model".to_owned()) }
    }
}

/// An embedding model, in memory.
pub struct Model {
    name: String,
    words: WordPiece,
    bert: Bert,
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Model {
    /// Reads the model in a folder: `config.json`, `vocab.txt`, `model.safetensors`.
    ///
    /// # Errors
    /// Which file is missing or wrong, and why.
    pub fn open(folder: &Path) -> Result<Self, FolderError> {
        let path = |name: &str| folder.join(name);
        let wrong = |name: &str| {
            let path = path(name);
            move |message: String| FolderError::Wrong { path: path.clone(), message }
        };
        let config_bytes = read(&path("config.json"))?;
        let config: Config =
            serde_json::from_slice(&config_bytes).map_err(|error| wrong("config.json")(error.to_string()))?;
        config.check().map_err(wrong("config.json"))?;
        let vocabulary = String::from_utf8(read(&path("vocab.txt"))?)
            .map_err(|_| wrong("vocab.txt")("it is not UTF-8".to_owned()))?;
        let words = WordPiece::new(&vocabulary).map_err(|piece| {
            wrong("vocab.txt")(format!("it has no {piece}; it must be of an uncased BERT"))
        })?;
        if words.last() as usize >= config.vocab_size {
            return Err(wrong("vocab.txt")(format!(
                "it has more than the model's {} pieces",
                config.vocab_size
            )));
        }
        let weights = read(&path("model.safetensors"))?;
        let sum = [&config_bytes, vocabulary.as_bytes(), &weights].into_iter().fold(0, crc32c::crc32c_append);
        let name = format!("bert-{}x{}-{sum:08x}", config.num_hidden_layers, config.hidden_size);
        let bert = Weights::of(&weights)
            .and_then(|weights| weights.bert(&config))
            .map_err(wrong("model.safetensors"))?;
        Ok(Self { name, words, bert })
    }
}

impl Embedder for Model {
    fn model(&self) -> &str {
        &self.name
    }

    /// Each takes tens of milliseconds of a processor.
    fn at_once(&self) -> usize {
        1
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, NoRank> {
        let most = TOKENS.min(self.bert.positions.nrows());
        Ok(texts.iter().map(|text| self.bert.vector(&self.words.tokens(text, most))).collect())
    }
}

fn read(path: &Path) -> Result<Vec<u8>, FolderError> {
    let unreadable = |error| FolderError::Unreadable { path: path.to_owned(), error };
    let bytes = fs::metadata(path).map_err(unreadable)?.len();
    if bytes > MOST_BYTES {
        let message = format!("it has {bytes} bytes; at most {MOST_BYTES} are read");
        return Err(FolderError::Wrong { path: path.to_owned(), message });
    }
    fs::read(path).map_err(unreadable)
}

/// Tensors by name, with or without the prefix `bert.`.
struct Weights<'a> {
    tensors: SafeTensors<'a>,
    prefix: &'static str,
}

impl<'a> Weights<'a> {
    fn of(bytes: &'a [u8]) -> Result<Self, String> {
        let tensors = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
        let is_prefixed = tensors.names().iter().any(|name| name.starts_with("bert."));
        Ok(Self { tensors, prefix: if is_prefixed { "bert." } else { "" } })
    }

    fn numbers(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, String> {
        let tensor = self
            .tensors
            .tensor(&format!("{}{name}", self.prefix))
            .map_err(|_| format!("it has no `{name}`"))?;
        if tensor.dtype() != Dtype::F32 || tensor.shape() != shape {
            return Err(format!(
                "`{name}` is {:?} of {:?}, where F32 of {shape:?} is needed",
                tensor.dtype(),
                tensor.shape()
            ));
        }
        let (numbers, _) = tensor.data().as_chunks::<4>();
        let numbers: Vec<f32> = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        if numbers.iter().all(|number| number.is_finite()) {
            Ok(numbers)
        } else {
            Err(format!("`{name}` has numbers that are none"))
        }
    }

    fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<Array2<f32>, String> {
        let numbers = self.numbers(name, &[rows, columns])?;
        Array2::from_shape_vec((rows, columns), numbers).map_err(|error| error.to_string())
    }

    fn vector(&self, name: &str, len: usize) -> Result<Array1<f32>, String> {
        self.numbers(name, &[len]).map(Array1::from_vec)
    }

    fn linear(&self, name: &str, out: usize, of: usize) -> Result<Linear, String> {
        let weight = self.matrix(&format!("{name}.weight"), out, of)?;
        Ok(Linear { weight, bias: self.vector(&format!("{name}.bias"), out)? })
    }

    fn norm(&self, name: &str, len: usize) -> Result<Norm, String> {
        let weight = self.vector(&format!("{name}.weight"), len)?;
        Ok(Norm { weight, bias: self.vector(&format!("{name}.bias"), len)? })
    }

    fn layer(&self, config: &Config, idx: usize) -> Result<Layer, String> {
        let (size, wide) = (config.hidden_size, config.intermediate_size);
        let name = |part: &str| format!("encoder.layer.{idx}.{part}");
        Ok(Layer {
            query: self.linear(&name("attention.self.query"), size, size)?,
            key: self.linear(&name("attention.self.key"), size, size)?,
            value: self.linear(&name("attention.self.value"), size, size)?,
            attended: self.linear(&name("attention.output.dense"), size, size)?,
            attended_norm: self.norm(&name("attention.output.LayerNorm"), size)?,
            wide: self.linear(&name("intermediate.dense"), wide, size)?,
            narrow: self.linear(&name("output.dense"), size, wide)?,
            norm: self.norm(&name("output.LayerNorm"), size)?,
        })
    }

    fn bert(&self, config: &Config) -> Result<Bert, String> {
        let size = config.hidden_size;
        let kinds = self.tensors.tensor(&format!("{}embeddings.token_type_embeddings.weight", self.prefix));
        let n_kinds = kinds.ok().and_then(|kinds| kinds.shape().first().copied()).unwrap_or(1).max(1);
        let layers = (0..config.num_hidden_layers).map(|idx| self.layer(config, idx));
        Ok(Bert {
            words: self.matrix("embeddings.word_embeddings.weight", config.vocab_size, size)?,
            positions: self.matrix(
                "embeddings.position_embeddings.weight",
                config.max_position_embeddings,
                size,
            )?,
            kinds: self.matrix("embeddings.token_type_embeddings.weight", n_kinds, size)?,
            norm: self.norm("embeddings.LayerNorm", size)?,
            layers: layers.collect::<Result<_, _>>()?,
            heads: config.num_attention_heads,
            eps: config.layer_norm_eps,
        })
    }
}

#[cfg(test)]
mod tests;
