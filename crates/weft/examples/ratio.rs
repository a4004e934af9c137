//! Prints how small pages of files become: `ratio UNIT FILE...`.

use memfold_weft::{Effort, Scratch, reference};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let unit: usize =
        arguments.next().and_then(|size| size.parse().ok()).expect("the bytes of a unit, and files");
    let mut scratch = Box::new(Scratch::new());
    let mut means = [0.0; Effort::ALL.len()];
    let mut files = 0;
    for path in arguments {
        let bytes = std::fs::read(&path).expect("a file that can be read");
        let mut to = vec![0; unit + 16];
        print!("{:24}", path.rsplit('/').next().unwrap_or(&path));
        for (effort, mean) in Effort::ALL.into_iter().zip(&mut means) {
            let (mut all, mut stored) = (0, 0);
            for page in bytes.chunks_exact(unit) {
                all += unit;
                stored += reference::compress(page, &mut to, effort, &mut scratch)
                    .map_or(unit, |size| size.min(unit));
            }
            print!(" {:.3}", all as f64 / stored as f64);
            *mean += stored as f64 / all as f64;
        }
        files += 1;
        println!();
    }
    println!(
        "harmonic mean            {}",
        means.map(|mean| format!("{:.3}", files as f64 / mean)).join(" ")
    );
}
