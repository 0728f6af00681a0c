//! The slope of a line through points.

/// By how much `y` grows for one of `x`, by least squares; 0 for fewer than two points.
pub fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let mean = |value: fn(&(f64, f64)) -> f64| points.iter().map(value).sum::<f64>() / n;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let across: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let along: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    if along > 0.0 { across / along } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_own_slope_and_noise_around_it_little_of_another() {
        let line: Vec<_> = (0..50).map(|n| (f64::from(n), 3.0 + 2.0 * f64::from(n))).collect();
        assert!((slope(&line) - 2.0).abs() < 1e-9);
        let noisy: Vec<_> = line
            .iter()
            .map(|(x, y)| (*x, y + if (*x as u32).is_multiple_of(2) { 0.5 } else { -0.5 }))
            .collect();
        assert!((slope(&noisy) - 2.0).abs() < 0.01);
        assert_eq!((slope(&[]), slope(&[(1.0, 5.0)])), (0.0, 0.0));
    }
}
