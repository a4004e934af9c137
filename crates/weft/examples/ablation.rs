//! Prints what each idea of the encoders is worth: `ablation UNIT FILE...` compresses units of that many
//! bytes with all ideas, and then without each of them.

use memfold_weft::{Effort, Idea, Scratch, leave_out, reference};

/// The efforts that are examined.
const EFFORTS: [Effort; 2] = [Effort::Packed, Effort::Dense];

/// The harmonic mean of the files' ratios, for each effort.
fn ratios(unit: usize, files: &[Vec<u8>], scratch: &mut Scratch) -> [f64; EFFORTS.len()] {
    let mut to = vec![0; unit + 16];
    EFFORTS.map(|effort| {
        let mut shares = 0.0;
        for bytes in files {
            let units = bytes.chunks_exact(unit);
            let all = units.len() * unit;
            let size = |unit: &[u8]| {
                reference::compress(unit, &mut to, effort, scratch)
                    .map_or(unit.len(), |len| len.min(unit.len()))
            };
            shares += units.map(size).sum::<usize>() as f64 / all as f64;
        }
        files.len() as f64 / shares
    })
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let unit: usize =
        arguments.next().and_then(|size| size.parse().ok()).expect("the bytes of a unit, and files");
    let files: Vec<Vec<u8>> =
        arguments.map(|path| std::fs::read(path).expect("a file that can be read")).collect();
    let mut scratch = Box::new(Scratch::new());
    let all = ratios(unit, &files, &mut scratch);
    let row = |name: &str, ratios: [f64; EFFORTS.len()]| {
        print!("{name:20}");
        for (ratio, all) in ratios.into_iter().zip(all) {
            print!("  {ratio:6.3} {:+6.1} %", (ratio / all - 1.0) * 100.0);
        }
        println!();
    };
    println!("{:20}  weft:3            weft:4", format!("{} files", files.len()));
    row("with all ideas", all);
    for idea in Idea::ALL {
        leave_out(&[idea]);
        row(&format!("without {idea:?}"), ratios(unit, &files, &mut scratch));
    }
}
