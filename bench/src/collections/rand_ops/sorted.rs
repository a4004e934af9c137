//! A sorted slab list and its model: the multiplicity of each element.

use std::collections::BTreeMap;

use memfold::collections::{Packing, SlabList};
use memfold::heap::{Error, Session};

use super::elements::Number;
use super::{Game, SHORT, Times, Turn, Weights, compare_all};
use crate::random::Random;

/// Fewer elements than this are read if a list is not read to its end.
const SOME: usize = 100;

/// The operations on a list: a name, a weight, and a function. Each function performs the operation on the
/// list, timed, and on the model.
fn operations<'s, T: Number>() -> Vec<Operation<'s, T>> {
    vec![
        Operation { name: "add", weight: 1000, play: add },
        Operation { name: "remove", weight: 800, play: remove },
        Operation { name: "find", weight: 800, play: find },
        Operation { name: "number of", weight: 100, play: number_of },
        Operation { name: "by position", weight: 200, play: by_position },
        Operation { name: "ends", weight: 100, play: ends },
        Operation { name: "iterate", weight: 20, play: iterate_some },
        Operation { name: "iterate all", weight: 1, play: iterate_all },
        Operation { name: "range", weight: 20, play: range },
        Operation { name: "remove range", weight: 2, play: remove_range },
        Operation { name: "fold", weight: 1, play: fold },
        Operation { name: "reap", weight: 1, play: reap },
        Operation { name: "clear", weight: 1, play: clear },
        Operation { name: "drop", weight: 1, play: replace },
    ]
}

pub struct Operation<'s, T: Number> {
    name: &'static str,
    weight: usize,
    play: fn(&mut Sorted<'s, T>, &mut Turn<'_>) -> Result<(), String>,
}

/// A list, and its model.
pub struct Sorted<'s, T: Number> {
    /// Makes an empty list, with slabs of this many elements unless it is 0.
    make: Box<dyn Fn(usize) -> SlabList<'s, T> + 's>,
    list: SlabList<'s, T>,
    model: Option<Model<T>>,
    /// Whether equal elements are kept.
    many: bool,
    longest: usize,
    operations: Vec<Operation<'s, T>>,
    weights: Weights,
}

/// The elements, and the multiplicity of each.
struct Model<T> {
    of: BTreeMap<T, u64>,
    len: u64,
}

impl<T: Number> Model<T> {
    fn iter(&self) -> impl DoubleEndedIterator<Item = T> {
        self.of.iter().flat_map(|(x, count)| std::iter::repeat_n(*x, *count as usize))
    }

    fn add(&mut self, x: T, many: bool) -> bool {
        let count = self.of.entry(x).or_default();
        let is_added = many || *count == 0;
        *count += u64::from(is_added);
        self.len += u64::from(is_added);
        is_added
    }

    fn remove(&mut self, x: T) -> bool {
        let Some(count) = self.of.get_mut(&x) else { return false };
        *count -= 1;
        self.len -= 1;
        if *count == 0 {
            self.of.remove(&x);
        }
        true
    }
}

impl<'s, T: Number> Sorted<'s, T> {
    pub fn new(session: &'s Session<'_>, longest: usize, many: bool, check: bool) -> Self {
        let make = move |per_slab| {
            let list = SlabList::new(session);
            let list = if many { list.many() } else { list };
            if per_slab > 0 { list.per_slab(per_slab) } else { list }
        };
        Sorted {
            list: make(0),
            make: Box::new(make),
            model: check.then(|| Model { of: BTreeMap::new(), len: 0 }),
            many,
            longest,
            operations: operations(),
            weights: Weights::default(),
        }
    }

    /// An element that may or may not be in the list.
    fn any(&self, random: &mut Random) -> T {
        T::from_number(random.below(2 * self.longest) as u64)
    }

    /// An element that is usually in the list.
    fn one_of(&self, random: &mut Random) -> Result<T, String> {
        if self.list.is_empty() || random.below(4) == 0 {
            return Ok(self.any(random));
        }
        let at = random.below(self.list.len() as usize) as u64;
        let there = self.list.at(at).map_err(|error| format!("element {at}: {error}"))?;
        there.ok_or_else(|| format!("no element {at} of {}", self.list.len()))
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Removes an element from the model.
    #[cfg(test)]
    pub fn forget_one(&mut self) {
        let model = self.model.as_mut().expect("a model");
        let first = *model.of.keys().next().expect("an element");
        model.remove(first);
    }
}

impl<T: Number> Game for Sorted<'_, T> {
    fn name(&self) -> String {
        let kind = if self.many { "each as often as it came" } else { "each once" };
        format!("a list of {} {}, {kind}, about {} at most", self.list.len(), T::NAME, self.longest)
    }

    fn step(&mut self, random: &mut Random, times: &mut Times) -> Result<(), String> {
        let is_too_long = self.list.len() as usize > self.longest;
        let base = self.operations.iter().map(|operation| operation.weight);
        let number = self.weights.next(random, base, is_too_long);
        let Operation { name, play, .. } = self.operations[number];
        let mut turn = Turn { name, random, times };
        play(self, &mut turn)?;
        match &self.model {
            Some(model) => turn.compare(self.list.len(), model.len),
            None => Ok(()),
        }
    }

    fn check(&self) -> Result<(), String> {
        self.list.check()?;
        let Some(model) = &self.model else { return Ok(()) };
        compare_all(self.list.iter(), model.iter())
    }
}

fn add<T: Number>(game: &mut Sorted<'_, T>, turn: &mut Turn<'_>) -> Result<(), String> {
    let x = game.any(turn.random);
    let is_added = turn.time(|| game.list.insert(&x))?;
    let many = game.many;
    game.model.as_mut().map_or(Ok(()), |model| turn.compare(is_added, model.add(x, many)))
}

fn remove<T: Number>(game: &mut Sorted<'_, T>, turn: &mut Turn<'_>) -> Result<(), String> {
    let x = game.one_of(turn.random)?;
    let removed = turn.time(|| game.list.remove(&x))?;
    game.model.as_mut().map_or(Ok(()), |model| turn.compare(removed, model.remove(x).then_some(x)))
}

fn find<T: Number>(game: &mut Sorted<'_, T>, turn: &mut Turn<'_>) -> Result<(), String> {
    let x = game.one_of(turn.random)?;
    let found = turn.time(|| game.list.get(&x))?;
    game.model.as_ref().map_or(Ok(()), |model| turn.compare(found, model.of.contains_key(&x).then_some(x)))
}

fn number_of<T: Number>(game: &mut Sorted<'_, T>, turn: &mut Turn<'_>) -> Result<(), String> {
    let x = game.one_of(turn.random)?;
    let number = turn.time(|| game.list.find(&x))?;
    match &game.model {
        Some(model) if model.len <= SHORT || turn.random.below(200) == 0 => {
            let behind: u64 = model.of.range(..=x).map(|(_, count)| count).sum();
            turn.compare(number, model.of.contains_key(&x).then(|| behind - 1))
        }
        _ => Ok(()),
    }
}

fn by_position<T: Number>(game: &mut Sorted<'_, T>, turn: &mut Turn<'_>) -> Result<(), String> {
    let at = turn.random.below(game.list.len() as usize + 2) as u64;
    let found = turn.time(|| game.list.at(at))?;
    match &game.model {
        Some(model) if model.len <= SHORT || turn.random.below(200) == 0 => {
            turn.compare(found, model.iter().nth(at as usize))
        }
        _ => Ok(()),
    }
}

fn ends<T: Number>(game: &mut Sorted<'_, T>, turn: &mut Turn<'_>) -> Result<(), String> {
    let ends = turn.time(|| Ok((game.list.first()?, game.list.last()?)))?;
    match &game.model {
        Some(model) => {
            turn.compare(ends, (model.of.keys().next().copied(), model.of.keys().next_back().copied()))
        }
        None => Ok(()),
    }
}

fn iterate_some<T: Number>(game: &mut Sorted<'_, T>, turn: &mut Turn<'_>) -> Result<(), String> {
    let some = turn.random.below(SOME);
    let (front, back) = turn.time(|| {
        let mut iter = game.list.iter();
        let front = iter.by_ref().take(some).collect::<Result<Vec<T>, Error>>()?;
        Ok((front, iter.rev().take(some).collect::<Result<Vec<T>, Error>>()?))
    })?;
    let Some(model) = &game.model else { return Ok(()) };
    let mut iter = model.iter();
    let wanted: Vec<T> = iter.by_ref().take(some).collect();
    turn.compare(front, wanted)?;
    // Elements taken from the front can no longer be taken from the back.
    let rest = (model.len as usize).saturating_sub(some).min(some);
    turn.compare(back, model.iter().rev().take(rest).collect())
}

fn iterate_all<T: Number>(game: &mut Sorted<'_, T>, turn: &mut Turn<'_>) -> Result<(), String> {
    let (count, last) = turn
        .time(|| game.list.iter().try_fold((0u64, None), |(count, _), x| x.map(|x| (count + 1, Some(x)))))?;
    match &game.model {
        Some(model) => turn.compare((count, last), (model.len, model.of.keys().next_back().copied())),
        None => Ok(()),
    }
}

fn range<T: Number>(game: &mut Sorted<'_, T>, turn: &mut Turn<'_>) -> Result<(), String> {
    let from = game.any(turn.random);
    let some = turn.random.below(SOME);
    let found = turn.time(|| game.list.range(from..)?.take(some).collect::<Result<Vec<T>, Error>>())?;
    let Some(model) = &game.model else { return Ok(()) };
    let wanted = model.of.range(from..).flat_map(|(x, count)| std::iter::repeat_n(*x, *count as usize));
    turn.compare(found, wanted.take(some).collect())
}

/// Removes the elements between two that are close in the order.
fn remove_range<T: Number>(game: &mut Sorted<'_, T>, turn: &mut Turn<'_>) -> Result<(), String> {
    let len = game.list.len();
    let at = turn.random.below(len as usize + 1) as u64;
    let end = at + turn.random.below(1 + len as usize / 8) as u64;
    let there = |at| game.list.at(at).map_err(|error| format!("element {at}: {error}"));
    let (Some(from), Some(to)) = (there(at)?, there(end)?) else { return Ok(()) };
    let gone = turn.time(|| game.list.remove_range(from..to))?;
    let Some(model) = &mut game.model else { return Ok(()) };
    let taken: Vec<T> = model.of.range(from..to).map(|(x, _)| *x).collect();
    let count = taken.iter().filter_map(|x| model.of.remove(x)).sum();
    model.len -= count;
    turn.compare(gone, count)
}

fn fold<T: Number>(game: &mut Sorted<'_, T>, turn: &mut Turn<'_>) -> Result<(), String> {
    let (count, last) = turn.time(|| game.list.fold((0u64, None), |(count, _), x| (count + 1, Some(x))))?;
    match &game.model {
        Some(model) => turn.compare((count, last), (model.len, model.of.keys().next_back().copied())),
        None => Ok(()),
    }
}

fn reap<T: Number>(game: &mut Sorted<'_, T>, turn: &mut Turn<'_>) -> Result<(), String> {
    turn.time(|| game.list.reap()).map(|_| ())
}

fn clear<T: Number>(game: &mut Sorted<'_, T>, turn: &mut Turn<'_>) -> Result<(), String> {
    if is_spared(game, turn) {
        return Ok(());
    }
    turn.time(|| game.list.clear())?;
    if let Some(model) = &mut game.model {
        *model = Model { of: BTreeMap::new(), len: 0 };
    }
    Ok(())
}

/// Replaces the list with one that has slabs of another size and is packed in another way.
fn replace<T: Number>(game: &mut Sorted<'_, T>, turn: &mut Turn<'_>) -> Result<(), String> {
    if is_spared(game, turn) {
        return Ok(());
    }
    let per_slab = if turn.random.below(2) == 0 { 2 + turn.random.below(254) } else { 0 };
    let at_once = Packing::AtOnce { least_slabs: 30, least_percent: 30 };
    let packing = [Packing::Lazily, at_once, Packing::Never][turn.random.below(3)];
    let list = (game.make)(per_slab).packing(packing);
    turn.time(|| {
        game.list = list;
        Ok(())
    })?;
    if let Some(model) = &mut game.model {
        *model = Model { of: BTreeMap::new(), len: 0 };
    }
    Ok(())
}

/// Whether the list is spared: long lists are rarely cleared, so that they get a chance to grow.
fn is_spared<T: Number>(game: &Sorted<'_, T>, turn: &mut Turn<'_>) -> bool {
    turn.random.below(1 + game.longest / 1000) != 0
}
