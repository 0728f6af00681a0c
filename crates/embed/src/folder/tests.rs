//! A tiny model with weights made here, against the same sums written down plainly, in `f64`.

use std::collections::BTreeMap;

use safetensors::tensor::{TensorView, serialize};

use super::*;

const SIZE: usize = 8;
const WIDE: usize = 16;
const HEADS: usize = 2;
const LAYERS: usize = 2;
const VOCABULARY: &str = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\nkey\nis\nunder\npot\n##s\n.";

type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// Weights as large as those of real models.
fn tensors() -> Tensors {
    let mut random = fastrand::Rng::with_seed(7);
    let mut tensors = Tensors::new();
    let mut add = |name: &str, shape: &[usize]| {
        let numbers = (0..shape.iter().product()).map(|_| random.f32() * 2.0 - 1.0).collect();
        tensors.insert(name.to_owned(), (shape.to_vec(), numbers));
    };
    add("embeddings.word_embeddings.weight", &[VOCABULARY.lines().count(), SIZE]);
    add("embeddings.position_embeddings.weight", &[12, SIZE]);
    add("embeddings.token_type_embeddings.weight", &[2, SIZE]);
    let norm = ["weight", "bias"];
    norm.iter().for_each(|part| add(&format!("embeddings.LayerNorm.{part}"), &[SIZE]));
    for layer in 0..LAYERS {
        let dense = [
            ("attention.self.query", SIZE, SIZE),
            ("attention.self.key", SIZE, SIZE),
            ("attention.self.value", SIZE, SIZE),
            ("attention.output.dense", SIZE, SIZE),
            ("intermediate.dense", WIDE, SIZE),
            ("output.dense", SIZE, WIDE),
        ];
        for (name, out, of) in dense {
            add(&format!("encoder.layer.{layer}.{name}.weight"), &[out, of]);
            add(&format!("encoder.layer.{layer}.{name}.bias"), &[out]);
        }
        for name in ["attention.output.LayerNorm", "output.LayerNorm"] {
            norm.iter().for_each(|part| add(&format!("encoder.layer.{layer}.{name}.{part}"), &[SIZE]));
        }
    }
    tensors
}

fn config() -> serde_json::Value {
    serde_json::json!({
        "model_type": "bert", "hidden_size": SIZE, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "intermediate_size": WIDE, "max_position_embeddings": 12, "vocab_size": VOCABULARY.lines().count(),
        "layer_norm_eps": 1e-12, "hidden_act": "gelu",
    })
}

fn folder(
    config: &serde_json::Value,
    vocabulary: &str,
    tensors: &Tensors,
    prefix: &str,
) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let bytes: Vec<(String, Vec<usize>, Vec<u8>)> = tensors
        .iter()
        .map(|(name, (shape, numbers))| {
            (format!("{prefix}{name}"), shape.clone(), numbers.iter().flat_map(|x| x.to_le_bytes()).collect())
        })
        .collect();
    let views = bytes.iter().map(|(name, shape, bytes)| {
        (name.clone(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap())
    });
    fs::write(dir.path().join("model.safetensors"), serialize(views, None).unwrap()).unwrap();
    fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    fs::write(dir.path().join("vocab.txt"), vocabulary).unwrap();
    dir
}

/// The same model, number by number.
struct Plain(Tensors);

impl Plain {
    fn at(&self, name: &str, idx: usize) -> f64 {
        self.0[name].1[idx].into()
    }

    fn linear(&self, name: &str, rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let shape = &self.0[&format!("{name}.weight")].0;
        let out = |row: &Vec<f64>, o: usize| {
            let sum: f64 =
                (0..shape[1]).map(|i| row[i] * self.at(&format!("{name}.weight"), o * shape[1] + i)).sum();
            sum + self.at(&format!("{name}.bias"), o)
        };
        rows.iter().map(|row| (0..shape[0]).map(|o| out(row, o)).collect()).collect()
    }

    fn norm(&self, name: &str, rows: &[Vec<f64>], added: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let one = |(row, added): (&Vec<f64>, &Vec<f64>)| {
            let row: Vec<f64> = row.iter().zip(added).map(|(a, b)| a + b).collect();
            let mean = row.iter().sum::<f64>() / SIZE as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / SIZE as f64;
            let of = |i: usize| {
                let x = (row[i] - mean) / (variance + 1e-12).sqrt();
                x * self.at(&format!("{name}.weight"), i) + self.at(&format!("{name}.bias"), i)
            };
            (0..SIZE).map(of).collect()
        };
        rows.iter().zip(added).map(one).collect()
    }

    fn vector(&self, tokens: &[usize]) -> Vec<f64> {
        let embedded = |(place, token): (usize, &usize)| {
            let of = |i| {
                self.at("embeddings.word_embeddings.weight", token * SIZE + i)
                    + self.at("embeddings.position_embeddings.weight", place * SIZE + i)
                    + self.at("embeddings.token_type_embeddings.weight", i)
            };
            (0..SIZE).map(of).collect()
        };
        let rows: Vec<Vec<f64>> = tokens.iter().enumerate().map(embedded).collect();
        let nothing = vec![vec![0.0; SIZE]; tokens.len()];
        let mut rows = self.norm("embeddings.LayerNorm", &rows, &nothing);
        for layer in 0..LAYERS {
            let name = |part: &str| format!("encoder.layer.{layer}.{part}");
            let [q, k, v] = ["query", "key", "value"]
                .map(|part| self.linear(&name(&format!("attention.self.{part}")), &rows));
            let mut seen = nothing.clone();
            for (from, i) in (0..tokens.len()).flat_map(|from| (0..SIZE).map(move |i| (from, i))) {
                let width = SIZE / HEADS;
                let head = i / width * width..(i / width + 1) * width;
                let fit = |to: usize| {
                    let dot: f64 = head.clone().map(|j| q[from][j] * k[to][j]).sum();
                    (dot / (width as f64).sqrt()).exp()
                };
                let sum: f64 = (0..tokens.len()).map(fit).sum();
                seen[from][i] = (0..tokens.len()).map(|to| fit(to) / sum * v[to][i]).sum();
            }
            let seen = self.linear(&name("attention.output.dense"), &seen);
            rows = self.norm(&name("attention.output.LayerNorm"), &seen, &rows);
            let wide: Vec<Vec<f64>> = self
                .linear(&name("intermediate.dense"), &rows)
                .into_iter()
                .map(|row| row.into_iter().map(|x| x * 0.5 * (1.0 + erf(x / 2f64.sqrt()))).collect())
                .collect();
            rows = self.norm(&name("output.LayerNorm"), &self.linear(&name("output.dense"), &wide), &rows);
        }
        let mean: Vec<f64> =
            (0..SIZE).map(|i| rows.iter().map(|row| row[i]).sum::<f64>() / rows.len() as f64).collect();
        let length = mean.iter().map(|x| x * x).sum::<f64>().sqrt();
        mean.iter().map(|x| x / length).collect()
    }
}

/// By its series of Taylor, which is exact enough where numbers are small.
fn erf(x: f64) -> f64 {
    if x.abs() > 5.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

#[test]
fn a_vector_is_what_the_same_sums_give_written_down_plainly() {
    let tensors = tensors();
    let plain = Plain(tensors.clone());
    let cases: [(&str, &[usize]); 3] = [
        ("The keys, is", &[2, 4, 5, 9, 1, 6, 3]),
        ("", &[2, 3]),
        // There are twelve positions.
        (&"pot ".repeat(99), &[2, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 3]),
    ];
    for prefix in ["", "bert."] {
        let dir = folder(&config(), VOCABULARY, &tensors, prefix);
        let model = Model::open(dir.path()).unwrap();
        for (text, tokens) in cases {
            let (vector, expected) = (model.embed(&[text]).unwrap().remove(0), plain.vector(tokens));
            let close = vector.iter().zip(&expected).all(|(a, b)| (f64::from(*a) - b).abs() < 2e-6);
            assert!(close && vector.len() == SIZE, "{text}: {vector:?} {expected:?}");
        }
    }
}

#[test]
fn another_model_has_another_name() {
    let (mut tensors, name) = (tensors(), |tensors: &Tensors| {
        Model::open(folder(&config(), VOCABULARY, tensors, "").path()).unwrap().model().to_owned()
    });
    let before = name(&tensors);
    assert_eq!(name(&tensors), before);
    tensors.get_mut("embeddings.LayerNorm.bias").unwrap().1[0] += 0.1;
    assert_ne!(name(&tensors), before);
}

#[test]
fn an_error_names_the_file_and_what_is_wrong_with_it() {
    let error = |config: &serde_json::Value, vocabulary: &str, tensors: &Tensors| {
        let dir = folder(config, vocabulary, tensors, "");
        Model::open(dir.path()).unwrap_err().to_string().replace(&format!("{}/", dir.path().display()), "")
    };
    let with = |key: &str, value: serde_json::Value| {
        let mut config = config();
        config[key] = value;
        config
    };
    let all = tensors();
    let mut without = all.clone();
    without.remove("encoder.layer.1.output.dense.bias");
    let mut not_a_number = all.clone();
    not_a_number.get_mut("embeddings.LayerNorm.bias").unwrap().1[0] = f32::NAN;
    let cases = [
        (
            error(&with("model_type", "gpt2".into()), VOCABULARY, &all),
            "config.json: it is of the type `gpt2`",
        ),
        (error(&with("num_attention_heads", 3.into()), VOCABULARY, &all), "config.json: its sizes"),
        (error(&with("hidden_size", 16.into()), VOCABULARY, &all), "model.safetensors: `embeddings.word"),
        (error(&config(), "the\nkey", &all), "vocab.txt: it has no [CLS]"),
        (error(&config(), &format!("{VOCABULARY}\nmore"), &all), "vocab.txt: it has more"),
        (error(&config(), VOCABULARY, &without), "model.safetensors: it has no `encoder.layer.1.output"),
        (error(&config(), VOCABULARY, &not_a_number), "model.safetensors: `embeddings.LayerNorm.bias` has"),
    ];
    for (error, expected) in cases {
        assert!(error.starts_with(expected), "{error}");
    }
    let none = Model::open(Path::new("/nowhere")).unwrap_err().to_string();
    assert!(none.starts_with("cannot read /nowhere/config.json"), "{none}");
}
