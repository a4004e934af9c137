//! A slab list in insertion-defined order, of numbers or of strings, and its model, a `Vec`.

use std::borrow::Borrow;
use std::fmt::Debug;
use std::ops::Range;

use memfold::collections::{Cursor, Element, Ordered, SlabList};
use memfold::heap::{Error, Session};

use super::elements::Number;
use super::{Game, SHORT, Times, Turn, Weights, compare_all};
use crate::random::Random;

/// Fewer elements than this are pushed together, or read in a slice.
const SOME: usize = 100;
/// The most cursors that a list has at a time.
const CURSORS: usize = 8;

/// The element type of such a list, and how its values are derived from numbers.
pub trait Made: Element<Owned: Clone + Ord + Debug> + Ord {
    const NAME: &'static str;
    fn make(number: u64) -> Self::Owned;
}

impl<T: Number> Made for T {
    const NAME: &'static str = T::NAME;
    fn make(number: u64) -> T {
        T::from_number(number)
    }
}

impl Made for str {
    const NAME: &'static str = "strings";
    fn make(number: u64) -> String {
        // One in a thousand strings gets its own node.
        let len = if number.is_multiple_of(1000) { 5000 } else { number as usize % 40 };
        format!("{number}{}", "abcdefghij".chars().cycle().take(len).collect::<String>())
    }
}

/// The operations on a list, as in `sorted.rs`.
fn operations<'s, E: ?Sized + Made>() -> Vec<Operation<'s, E>> {
    vec![
        Operation { name: "push", weight: 600, play: push },
        Operation { name: "remove at", weight: 700, play: remove_at },
        Operation { name: "by position", weight: 800, play: by_position },
        Operation { name: "insert at", weight: 500, play: insert_at },
        Operation { name: "set at", weight: 300, play: set_at },
        Operation { name: "pop", weight: 100, play: pop },
        Operation { name: "push some", weight: 20, play: push_some },
        Operation { name: "cursors", weight: 200, play: cursors },
        Operation { name: "slice", weight: 20, play: slice },
        Operation { name: "remove slice", weight: 2, play: remove_slice },
        Operation { name: "extract slice", weight: 1, play: extract_slice },
        Operation { name: "fold back", weight: 1, play: fold_back },
        Operation { name: "sort", weight: 1, play: sort },
        Operation { name: "reverse", weight: 1, play: reverse },
        Operation { name: "reap", weight: 1, play: reap },
        Operation { name: "clear", weight: 1, play: clear },
    ]
}

struct Operation<'s, E: ?Sized + Made> {
    name: &'static str,
    weight: usize,
    play: fn(&mut InOrder<'s, E>, &mut Turn<'_>) -> Result<(), String>,
}

/// A list and its model, in which each element has a unique number.
pub struct InOrder<'s, E: ?Sized + Made> {
    make: Box<dyn Fn() -> SlabList<'s, E, Ordered> + 's>,
    list: SlabList<'s, E, Ordered>,
    model: Option<Vec<(u64, E::Owned)>>,
    /// The last number given to an element.
    given: u64,
    /// Cursors, and the numbers of the elements at which they are.
    cursors: Vec<(Cursor, u64)>,
    longest: usize,
    operations: Vec<Operation<'s, E>>,
    weights: Weights,
}

impl<'s, E: ?Sized + Made> InOrder<'s, E> {
    pub fn new(session: &'s Session<'_>, longest: usize, check: bool) -> Self {
        let make = move || SlabList::ordered(session);
        InOrder {
            list: make(),
            make: Box::new(make),
            model: check.then(Vec::new),
            given: 0,
            cursors: Vec::new(),
            longest,
            operations: operations(),
            weights: Weights::default(),
        }
    }

    /// A new element, for list and model.
    fn any(&mut self, random: &mut Random) -> (u64, E::Owned) {
        self.given += 1;
        (self.given, E::make(random.below(1_000_000) as u64))
    }

    /// The position of an element, or the end.
    fn place(&self, random: &mut Random) -> u64 {
        random.below(self.list.len() as usize + 1) as u64
    }

    /// A range of at most about an eighth of the list.
    fn piece(&self, random: &mut Random) -> Range<u64> {
        let from = self.place(random);
        let rest = (self.list.len() - from) as usize;
        from..from + random.below(1 + rest.min(1 + self.list.len() as usize / 8)) as u64
    }

    /// Cursors do not survive operations that reorder everything.
    fn drop_cursors(&mut self) {
        for (cursor, _) in self.cursors.drain(..) {
            self.list.drop_cursor(cursor);
        }
    }
}

impl<E: ?Sized + Made> Game for InOrder<'_, E> {
    fn name(&self) -> String {
        format!("a list of {} {} in their order, about {} at most", self.list.len(), E::NAME, self.longest)
    }

    fn step(&mut self, random: &mut Random, times: &mut Times) -> Result<(), String> {
        let is_too_long = self.list.len() as usize > self.longest;
        let base = self.operations.iter().map(|operation| operation.weight);
        let number = self.weights.next(random, base, is_too_long);
        let Operation { name, play, .. } = self.operations[number];
        let mut turn = Turn { name, random, times };
        play(self, &mut turn)?;
        match &self.model {
            Some(model) => turn.compare(self.list.len(), model.len() as u64),
            None => Ok(()),
        }
    }

    fn check(&self) -> Result<(), String> {
        self.list.check_leaves()?;
        let Some(model) = &self.model else { return Ok(()) };
        compare_all(self.list.iter(), model.iter().map(|(_, x)| x.clone()))
    }
}

type Played = Result<(), String>;

fn push<E: ?Sized + Made>(game: &mut InOrder<'_, E>, turn: &mut Turn<'_>) -> Played {
    let (number, x) = game.any(turn.random);
    turn.time(|| game.list.push(x.borrow()))?;
    game.model.iter_mut().for_each(|model| model.push((number, x.clone())));
    Ok(())
}

fn push_some<E: ?Sized + Made>(game: &mut InOrder<'_, E>, turn: &mut Turn<'_>) -> Played {
    let some: Vec<_> = (0..turn.random.below(SOME)).map(|_| game.any(turn.random)).collect();
    turn.time(|| game.list.push_all(some.iter().map(|(_, x)| Borrow::<E>::borrow(x))))?;
    game.model.iter_mut().for_each(|model| model.extend(some.iter().cloned()));
    Ok(())
}

fn insert_at<E: ?Sized + Made>(game: &mut InOrder<'_, E>, turn: &mut Turn<'_>) -> Played {
    let ((number, x), at) = (game.any(turn.random), game.place(turn.random) + turn.random.below(2) as u64);
    let is_put = turn.time(|| game.list.insert_at(at, x.borrow()))?;
    let Some(model) = &mut game.model else { return Ok(()) };
    let wanted = at <= model.len() as u64;
    if wanted {
        model.insert(at as usize, (number, x));
    }
    turn.compare(is_put, wanted)
}

fn set_at<E: ?Sized + Made>(game: &mut InOrder<'_, E>, turn: &mut Turn<'_>) -> Played {
    let ((_, x), at) = (game.any(turn.random), game.place(turn.random));
    let old = turn.time(|| game.list.set_at(at, x.borrow()))?;
    let Some(model) = &mut game.model else { return Ok(()) };
    let wanted = model.get_mut(at as usize).map(|(_, there)| std::mem::replace(there, x));
    turn.compare(old, wanted)
}

fn remove_at<E: ?Sized + Made>(game: &mut InOrder<'_, E>, turn: &mut Turn<'_>) -> Played {
    let at = game.place(turn.random);
    let gone = turn.time(|| game.list.remove_at(at))?;
    let Some(model) = &mut game.model else { return Ok(()) };
    let wanted = ((at as usize) < model.len()).then(|| model.remove(at as usize).1);
    turn.compare(gone, wanted)
}

fn pop<E: ?Sized + Made>(game: &mut InOrder<'_, E>, turn: &mut Turn<'_>) -> Played {
    let gone = turn.time(|| game.list.pop())?;
    game.model.as_mut().map_or(Ok(()), |model| turn.compare(gone, model.pop().map(|(_, x)| x)))
}

fn by_position<E: ?Sized + Made>(game: &mut InOrder<'_, E>, turn: &mut Turn<'_>) -> Played {
    let at = game.place(turn.random);
    let found = turn.time(|| game.list.at(at))?;
    let wanted = |model: &Vec<(u64, E::Owned)>| model.get(at as usize).map(|(_, x)| x.clone());
    game.model.as_ref().map_or(Ok(()), |model| turn.compare(found, wanted(model)))
}

/// Makes, drops, moves or reads a cursor.
fn cursors<E: ?Sized + Made>(game: &mut InOrder<'_, E>, turn: &mut Turn<'_>) -> Played {
    let Some(model) = &game.model else { return Ok(()) };
    let is_looked_for = model.len() as u64 <= SHORT || turn.random.below(200) == 0;
    if game.cursors.len() < CURSORS && turn.random.below(4) == 0 {
        let at = turn.random.below(model.len() + 1);
        let made = turn.time(|| Ok(game.list.cursor_at(at as u64)))?;
        turn.compare(made.is_some(), at < model.len())?;
        game.cursors.extend(made.map(|cursor| (cursor, model[at].0)));
        return Ok(());
    }
    if game.cursors.is_empty() || !is_looked_for {
        return Ok(());
    }
    let which = turn.random.below(game.cursors.len());
    let (cursor, number) = game.cursors[which];
    let there = model.iter().position(|(other, _)| *other == number);
    let found = turn.time(|| game.list.at_cursor(cursor))?;
    turn.compare(found, there.map(|at| model[at].1.clone()))?;
    match (there, turn.random.below(3)) {
        (Some(at), 0) => {
            let next = turn.time(|| game.list.next(cursor))?;
            turn.compare(next, model.get(at + 1).map(|(_, x)| x.clone()))?;
            game.cursors[which].1 = model.get(at + 1).map_or(number, |(number, _)| *number);
        }
        (Some(at), 1) => {
            let before = at.checked_sub(1).map(|at| &model[at]);
            let previous = turn.time(|| game.list.previous(cursor))?;
            turn.compare(previous, before.map(|(_, x)| x.clone()))?;
            game.cursors[which].1 = before.map_or(number, |(number, _)| *number);
        }
        (Some(_), _) => {}
        (None, _) => {
            game.list.drop_cursor(cursor);
            game.cursors.swap_remove(which);
        }
    }
    Ok(())
}

fn slice<E: ?Sized + Made>(game: &mut InOrder<'_, E>, turn: &mut Turn<'_>) -> Played {
    let from = game.place(turn.random);
    let to = game.list.len().min(from + turn.random.below(SOME) as u64);
    let is_back = turn.random.below(2) == 0;
    let found = turn.time(|| {
        let slice = game.list.slice(from..to);
        if is_back { slice.rev().collect::<Result<Vec<_>, Error>>() } else { slice.collect() }
    })?;
    let Some(model) = &game.model else { return Ok(()) };
    let mut wanted: Vec<_> = model[from as usize..to as usize].iter().map(|(_, x)| x.clone()).collect();
    if is_back {
        wanted.reverse();
    }
    turn.compare(found, wanted)
}

fn remove_slice<E: ?Sized + Made>(game: &mut InOrder<'_, E>, turn: &mut Turn<'_>) -> Played {
    let piece = game.piece(turn.random);
    let gone = turn.time(|| game.list.remove_slice(piece.clone()))?;
    let Some(model) = &mut game.model else { return Ok(()) };
    turn.compare(gone, model.drain(piece.start as usize..piece.end as usize).count() as u64)
}

/// Appends the extracted list to the rest.
fn extract_slice<E: ?Sized + Made>(game: &mut InOrder<'_, E>, turn: &mut Turn<'_>) -> Played {
    let piece = game.piece(turn.random);
    game.drop_cursors();
    turn.time(|| {
        let out = game.list.extract_slice(piece.clone())?;
        out.iter().try_for_each(|x| game.list.push(x?.borrow()))
    })?;
    if let Some(model) = &mut game.model {
        let out: Vec<_> = model.drain(piece.start as usize..piece.end as usize).collect();
        model.extend(out);
    }
    Ok(())
}

fn fold_back<E: ?Sized + Made>(game: &mut InOrder<'_, E>, turn: &mut Turn<'_>) -> Played {
    let found = turn.time(|| game.list.rfold((0, None), |(count, _), x| (count + 1, Some(x))))?;
    let wanted = |model: &Vec<(u64, E::Owned)>| (model.len(), model.first().map(|(_, x)| x.clone()));
    game.model.as_ref().map_or(Ok(()), |model| turn.compare(found, wanted(model)))
}

fn sort<E: ?Sized + Made>(game: &mut InOrder<'_, E>, turn: &mut Turn<'_>) -> Played {
    game.drop_cursors();
    turn.time(|| game.list.sort())?;
    game.model.iter_mut().for_each(|model| model.sort_by(|(_, a), (_, b)| a.cmp(b)));
    Ok(())
}

fn reverse<E: ?Sized + Made>(game: &mut InOrder<'_, E>, turn: &mut Turn<'_>) -> Played {
    game.drop_cursors();
    turn.time(|| game.list.reverse())?;
    game.model.iter_mut().for_each(|model| model.reverse());
    Ok(())
}

fn reap<E: ?Sized + Made>(game: &mut InOrder<'_, E>, turn: &mut Turn<'_>) -> Played {
    turn.time(|| game.list.reap()).map(|_| ())
}

/// Removes all elements, or replaces the list. Long lists are rarely cleared, so that they get a chance to
/// grow.
fn clear<E: ?Sized + Made>(game: &mut InOrder<'_, E>, turn: &mut Turn<'_>) -> Played {
    if turn.random.below(1 + game.longest / 1000) != 0 {
        return Ok(());
    }
    game.drop_cursors();
    let is_dropped = turn.random.below(2) == 0;
    turn.time(|| {
        if is_dropped {
            game.list = (game.make)();
            return Ok(());
        }
        game.list.clear()
    })?;
    game.model.iter_mut().for_each(Vec::clear);
    Ok(())
}
