// Burns CPU below a closure, a trait object and an iterator of the standard library.
use std::env;

// black_box hides from the compiler what a value is. That of std::hint is younger than Debian's compiler.
#[inline(always)]
fn black_box<T>(value: T) -> T {
    let hidden = unsafe { std::ptr::read_volatile(&value) };
    std::mem::forget(value);
    hidden
}

#[no_mangle]
#[inline(never)]
pub extern "C" fn burn(n: u64) -> u64 {
    let mut sum = 0;
    for i in 0..n {
        sum = black_box(sum + i * i);
    }
    sum
}

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
}

/// The CPU time of the process so far, in seconds.
fn cpu_time() -> f64 {
    const CLOCK_PROCESS_CPUTIME_ID: i32 = 2;
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    unsafe { clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.seconds as f64 + time.nanoseconds as f64 * 1e-9
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
pub fn run(wheel: &dyn Wheel, end: f64) -> u64 {
    let mut sum = 0u64;
    while cpu_time() < end {
        sum = sum.wrapping_add(wheel.turn(100_000));
    }
    black_box(sum)
}

fn main() {
    let seconds = env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let wheel: Box<dyn Wheel> = Box::new(Water(1));
    run(black_box(wheel).as_ref(), cpu_time() + seconds);
}
