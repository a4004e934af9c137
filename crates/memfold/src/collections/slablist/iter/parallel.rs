//! Reading a list with several threads, in rayon's pool. Each has a session of its own.

use std::borrow::Borrow;
use std::vec::Vec;

use rayon::prelude::*;

use crate::collections::slablist::format::Element;
use crate::collections::slablist::order::Ordered;
use crate::collections::slablist::{Iter, Owned, SlabList};
use crate::heap::Error;

/// Parts of the list per thread, so that no thread waits long for the last one.
const PARTS: u64 = 8;
/// The fewest elements of a part.
const LEAST: u64 = 4096;

impl<'s, E: ?Sized + Element, C> SlabList<'s, E, C> {
    /// The numbers at which parts begin, and the end.
    fn parts(&self) -> Vec<u64> {
        let most = self.len() / LEAST + 1;
        let parts = (rayon::current_num_threads() as u64 * PARTS).min(most);
        (0..=parts)
            .map(|part| (u128::from(self.len()) * u128::from(part) / u128::from(parts)) as u64)
            .collect()
    }

    /// As `fold`, with parts of the list in parallel: each begins with the result of `init`, and `join`
    /// combines the results of two adjacent parts.
    ///
    /// ```
    /// # use memfold::collections::SlabList;
    /// # use memfold::heap::{Heap, Options};
    /// # let heap = Heap::new(Options::new())?;
    /// # let session = heap.session()?;
    /// let mut list = SlabList::new(&session);
    /// list.extend(0..10_000u64)?;
    /// assert_eq!(list.par_fold(|| 0, |sum, x| sum + x, |a, b| a + b)?, 49_995_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn par_fold<A: Send>(
        &self,
        init: impl Fn() -> A + Sync,
        fold: impl Fn(A, Owned<E>) -> A + Sync,
        join: impl Fn(A, A) -> A + Sync,
    ) -> Result<A, Error> {
        let (opener, body, parts) = (self.session.opener(), &self.body, self.parts());
        let of_part = |ends: &[u64]| {
            let session = opener.open()?;
            let mut failed = None;
            let all =
                Iter::new(&session, body, ends[0], ends[1]).fold(init(), |all, element| match element {
                    Ok(element) => fold(all, element),
                    Err(error) => {
                        failed = Some(error);
                        all
                    }
                });
            failed.map_or(Ok(all), Err)
        };
        parts.par_windows(2).map(of_part).try_reduce_with(|a, b| Ok(join(a, b))).unwrap_or_else(|| Ok(init()))
    }

    /// As `map`, with parts of the list in parallel: results of `f` are kept in plain memory until their turn
    /// comes.
    pub fn par_map<F: ?Sized + Element>(
        &self,
        f: impl Fn(Owned<E>) -> Owned<F> + Sync,
    ) -> Result<SlabList<'s, F, Ordered>, Error> {
        let (opener, body, parts) = (self.session.opener(), &self.body, self.len().div_ceil(LEAST));
        let mut list = SlabList::ordered(self.session);
        let turn = rayon::current_num_threads() as u64 * PARTS;
        for first in (0..parts).step_by(turn as usize) {
            let made: Vec<Vec<Owned<F>>> = (first..parts.min(first + turn))
                .into_par_iter()
                .map(|part| {
                    let session = opener.open()?;
                    let to = body.len().min((part + 1) * LEAST);
                    Iter::new(&session, body, part * LEAST, to).map(|element| element.map(&f)).collect()
                })
                .collect::<Result<_, Error>>()?;
            for element in made.iter().flatten() {
                list.append(element.borrow())?;
            }
        }
        Ok(list)
    }
}
