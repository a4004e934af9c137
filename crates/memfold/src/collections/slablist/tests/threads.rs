//! Lists that several threads read at the same time.

use super::*;

#[test]
fn folds_and_maps_in_parallel() {
    let heap = heap();
    let session = heap.session().unwrap();
    for len in [0, 1, 60, 61, 10_000, 100_000u64] {
        let mut list = SlabList::new(&session);
        list.extend(0..len).unwrap();
        let joined = |a: (u64, Option<u64>, bool), b: (u64, Option<u64>, bool)| {
            // Parts come in order.
            let in_order = a.1.zip(b.1).is_none_or(|(a, b)| a < b);
            (a.0 + b.0, b.1.or(a.1), a.2 && b.2 && in_order)
        };
        let all_of = |(sum, last, in_order): (u64, Option<u64>, bool), x: u64| {
            (sum + x, Some(x), in_order && last.is_none_or(|last| last < x))
        };
        let found = list.par_fold(|| (0, None, true), all_of, joined).unwrap();
        assert_eq!(found, (len * len.saturating_sub(1) / 2, len.checked_sub(1), true));
        let mapped = list.par_map::<str>(|x| std::format!("{x}")).unwrap();
        assert!(mapped.iter().map(Result::unwrap).eq((0..len).map(|x| std::format!("{x}"))));
    }
}
