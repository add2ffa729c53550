// Burns CPU below a closure, a trait object and an iterator of the standard library.
use std::env;
use std::hint::black_box;
use std::time::{Duration, Instant};

#[no_mangle]
#[inline(never)]
pub extern "C" fn burn(n: u64) -> u64 {
    let mut sum = 0;
    for i in 0..n {
        sum = black_box(sum + i * i);
    }
    sum
}

pub trait Wheel {
    fn turn(&self, n: u64) -> u64;
}

struct Water(u64);

impl Wheel for Water {
    #[inline(never)]
    fn turn(&self, n: u64) -> u64 {
        let mut parts = vec![n, n + self.0, n + 2];
        parts.sort_by_cached_key(|part| black_box(burn(*part)));
        black_box(parts[0]) + 1
    }
}

#[no_mangle]
#[inline(never)]
pub fn run(wheel: &dyn Wheel, end: Instant) -> u64 {
    let mut sum = 0u64;
    while Instant::now() < end {
        sum = sum.wrapping_add(wheel.turn(1_000_000));
    }
    black_box(sum)
}

fn main() {
    let seconds = env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1);
    let wheel: Box<dyn Wheel> = Box::new(Water(1));
    run(black_box(wheel).as_ref(), Instant::now() + Duration::from_secs(seconds));
}
