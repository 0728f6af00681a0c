//! The forward pass of a BERT-like encoder, with the mean of its last states as the text's vector.

use ndarray::{Array1, Array2, ArrayView1, Axis, Slice, Zip};

/// A linear layer as it is published: a row of weights for each number that comes out.
pub(crate) struct Linear {
    pub(crate) weight: Array2<f32>,
    pub(crate) bias: Array1<f32>,
}

impl Linear {
    fn of(&self, input: &Array2<f32>) -> Array2<f32> {
        input.dot(&self.weight.t()) + &self.bias
    }
}

pub(crate) struct Norm {
    pub(crate) weight: Array1<f32>,
    pub(crate) bias: Array1<f32>,
}

impl Norm {
    fn apply(&self, states: &mut Array2<f32>, eps: f32) {
        for mut state in states.rows_mut() {
            let mean = state.mean().unwrap_or_default();
            state -= mean;
            let variance = state.dot(&state) / state.len() as f32;
            let scale = 1.0 / (variance + eps).sqrt();
            Zip::from(&mut state)
                .and(&self.weight)
                .and(&self.bias)
                .for_each(|x, w, b| *x = *x * scale * w + b);
        }
    }
}

pub(crate) struct Layer {
    pub(crate) query: Linear,
    pub(crate) key: Linear,
    pub(crate) value: Linear,
    pub(crate) attended: Linear,
    pub(crate) attended_norm: Norm,
    pub(crate) wide: Linear,
    pub(crate) narrow: Linear,
    pub(crate) norm: Norm,
}

pub(crate) struct Bert {
    pub(crate) words: Array2<f32>,
    pub(crate) positions: Array2<f32>,
    pub(crate) kinds: Array2<f32>,
    pub(crate) norm: Norm,
    pub(crate) layers: Vec<Layer>,
    pub(crate) heads: usize,
    pub(crate) eps: f32,
}

impl Bert {
    /// The vector of a text's tokens, of length 1. There are no more of them than positions.
    pub(crate) fn vector(&self, tokens: &[u32]) -> Vec<f32> {
        let mut states = Array2::zeros((tokens.len(), self.words.ncols()));
        for (idx, mut state) in states.rows_mut().into_iter().enumerate() {
            state += &self.words.row(tokens[idx] as usize);
            state += &self.positions.row(idx);
            state += &self.kinds.row(0);
        }
        self.norm.apply(&mut states, self.eps);
        for layer in &self.layers {
            states = self.through(layer, states);
        }
        let mean = states.mean_axis(Axis(0)).unwrap_or_else(|| Array1::zeros(states.ncols()));
        // As sentence-transformers: a vector of nothing stays what it is.
        let length = norm(mean.view()).max(1e-12);
        mean.iter().map(|x| x / length).collect()
    }

    fn through(&self, layer: &Layer, states: Array2<f32>) -> Array2<f32> {
        let mut states = layer.attended.of(&self.attend(layer, &states)) + states;
        layer.attended_norm.apply(&mut states, self.eps);
        let mut wide = layer.wide.of(&states);
        wide.mapv_inplace(gelu);
        let mut states = layer.narrow.of(&wide) + states;
        layer.norm.apply(&mut states, self.eps);
        states
    }

    fn attend(&self, layer: &Layer, states: &Array2<f32>) -> Array2<f32> {
        let (query, key, value) = (layer.query.of(states), layer.key.of(states), layer.value.of(states));
        let mut attended = Array2::zeros(query.dim());
        let width = query.ncols() / self.heads;
        for head in 0..self.heads {
            let part = Slice::from(head * width..(head + 1) * width);
            let of = |states: &Array2<f32>| states.slice_axis(Axis(1), part).to_owned();
            let mut weights = of(&query).dot(&of(&key).t());
            weights /= (width as f32).sqrt();
            for mut row in weights.rows_mut() {
                let most = row.fold(f32::MIN, |most, x| most.max(*x));
                row.mapv_inplace(|x| (x - most).exp());
                let sum = row.sum();
                row /= sum;
            }
            attended.slice_axis_mut(Axis(1), part).assign(&weights.dot(&of(&value)));
        }
        attended
    }
}

fn norm(vector: ArrayView1<'_, f32>) -> f32 {
    vector.dot(&vector).sqrt()
}

fn gelu(x: f32) -> f32 {
    x * 0.5 * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// The error function as a quotient of polynomials, right to the last digits of an `f32`; the coefficients are those that Eigen
/// and XLA use. It has no branch, so that the compiler makes it of vector instructions.
fn erf(x: f32) -> f32 {
    const P: [f32; 7] = [
        -2.726_142e-10,
        2.770_681_4e-8,
        -2.101_024e-6,
        -5.692_506_4e-5,
        -7.349_906e-4,
        -2.954_6e-3,
        -1.609_603_4e-2,
    ];
    const Q: [f32; 5] = [-1.456_607_2e-5, -2.133_740_6e-4, -1.682_827e-3, -7.373_329e-3, -1.426_473_9e-2];
    let x = x.clamp(-4.0, 4.0);
    let square = x * x;
    let of = |coefficients: &[f32]| coefficients.iter().fold(0.0, |sum, c| sum * square + c);
    x * of(&P) / of(&Q)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_function_is_right() {
        // From the tables of Abramowitz and Stegun, 7.1.
        let known =
            [(0.0, 0.0), (0.1, 0.112_462_92), (0.5, 0.520_499_9), (1.0, 0.842_700_8), (2.0, 0.995_322_3)];
        for (x, expected) in known {
            assert!((erf(x) - expected).abs() < 3e-7, "{x}: {}", erf(x));
            assert!((erf(-x) + expected).abs() < 3e-7, "-{x}");
        }
        assert!((erf(9.0) - 1.0).abs() < 1e-6 && (erf(-9.0) + 1.0).abs() < 1e-6);
    }
}
