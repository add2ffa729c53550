// Closures and generic functions of the standard library, inlined.
use std::collections::HashMap;

#[inline(never)]
fn count(values: &[u64]) -> HashMap<u64, u64> {
    let mut sums = HashMap::new();
    for value in values {
        *sums.entry(value % 97).or_insert(0) += value;
    }
    sums
}

fn main() {
    let values: Vec<u64> = (0..100_000).map(|x| x * 7 + 3).collect();
    let mut sums: Vec<_> = count(&values).into_iter().collect();
    sums.sort_by(|a, b| b.1.cmp(&a.1));
    println!("{:?}", &sums[..3]);
}
