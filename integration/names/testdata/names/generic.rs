// Generic counts, sorts and formats for some seconds with what the standard library inlines.
use std::collections::HashMap;
use std::time::{Duration, Instant};

#[inline(never)]
fn count(values: &[u64]) -> HashMap<u64, u64> {
    let mut sums = HashMap::new();
    for value in values {
        *sums.entry(value % 997).or_insert(0) += value;
    }
    sums
}

#[inline(never)]
fn text<T: std::fmt::Display>(values: &[T]) -> usize {
    values.iter().map(|v| v.to_string().len()).sum()
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(1);
    let (start, mut seed, mut total) = (Instant::now(), 1u64, 0);
    while start.elapsed() < Duration::from_secs(seconds) {
        let values: Vec<u64> = (0..2000).map(|x| x * 7 + seed).collect();
        let mut sums: Vec<_> = count(&values).into_iter().collect();
        sums.sort_by(|a, b| b.1.cmp(&a.1));
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(sums[0].1) >> 8;
        total += text(&values);
    }
    println!("{total}");
}
