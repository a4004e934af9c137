//! Places names beside marks, so that they cover neither each other nor marks.
//!
//! The method is greedy: each name in turn takes the best of some places around its mark, with a preference
//! for near ones. A line connects a name that is far away to its mark. This suffices for a few dozen marks.

/// A rectangle; y grows downwards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Box {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

/// A point.
pub(super) type At = (f64, f64);

impl Box {
    /// The area that both boxes cover.
    fn overlap(&self, other: &Box) -> f64 {
        let width = self.right.min(other.right) - self.left.max(other.left);
        let height = self.bottom.min(other.bottom) - self.top.max(other.top);
        width.max(0.0) * height.max(0.0)
    }

    fn is_within(&self, other: &Box) -> bool {
        self.left >= other.left
            && self.right <= other.right
            && self.top >= other.top
            && self.bottom <= other.bottom
    }

    /// The point of the box that is nearest to another point.
    fn nearest(&self, (x, y): At) -> At {
        (x.clamp(self.left, self.right), y.clamp(self.top, self.bottom))
    }

    /// The line from a mark to its name, if they are so far apart that one is needed.
    pub(super) fn leader(&self, mark: At, radius: f64) -> Option<(At, At)> {
        let to = self.nearest(mark);
        let (dx, dy) = (to.0 - mark.0, to.1 - mark.1);
        (dx.hypot(dy) > radius + 7.0).then_some((mark, to))
    }
}

/// Places a name of each wanted size (width and height) beside its mark.
pub(super) fn place(
    marks: &[At],
    radius: f64,
    wanted: &[Option<(f64, f64)>],
    inside: Box,
) -> Vec<Option<Box>> {
    let around = |&(x, y): &At| {
        let half = radius + 1.0;
        Box { left: x - half, top: y - half, right: x + half, bottom: y + half }
    };
    let taken: Vec<Box> = marks.iter().map(around).collect();
    let mut placed: Vec<Option<Box>> = vec![None; marks.len()];
    let mut lines: Vec<(At, At)> = Vec::new();
    // From the top down, so that a displaced name finds room below.
    let mut order: Vec<usize> = (0..marks.len()).filter(|i| wanted[*i].is_some()).collect();
    order.sort_by(|a, b| marks[*a].1.total_cmp(&marks[*b].1));
    for i in order {
        let Some(size) = wanted[i] else { continue };
        let cost = |candidate: &(Box, f64)| {
            let (candidate, distance) = candidate;
            let covered = taken.iter().map(|mark| mark.overlap(candidate)).sum::<f64>();
            let names = placed.iter().flatten().map(|name| name.overlap(candidate)).sum::<f64>();
            let crossed = lines.iter().filter(|line| crosses(**line, candidate)).count() as f64;
            let own = candidate.leader(marks[i], radius);
            let hit = own.map_or(0.0, |line| {
                let names = placed.iter().flatten().filter(|name| crosses(line, name)).count();
                let others =
                    taken.iter().enumerate().filter(|(j, mark)| *j != i && crosses(line, mark)).count();
                (names * 40 + others * 8) as f64
            });
            covered * 3.0 + names * 6.0 + crossed * 40.0 + hit + distance
        };
        let best = candidates(marks[i], size, radius)
            .filter(|(candidate, _)| candidate.is_within(&inside))
            .min_by(|a, b| cost(a).total_cmp(&cost(b)));
        if let Some((candidate, _)) = best {
            lines.extend(candidate.leader(marks[i], radius));
            placed[i] = Some(candidate);
        }
    }
    placed
}

/// Places around a mark, and the cost of their distance and direction.
fn candidates((x, y): At, (width, height): (f64, f64), radius: f64) -> impl Iterator<Item = (Box, f64)> {
    let distances = [2.0, 8.0, 16.0, 26.0, 38.0, 52.0, 68.0, 86.0, 110.0, 140.0];
    distances.into_iter().flat_map(move |distance| {
        (0..16).map(move |step| {
            let angle = f64::from(step) * std::f64::consts::TAU / 16.0;
            let (sin, cos) = angle.sin_cos();
            let far = radius + distance;
            // The middle of the box, placed so that the box's edge is `far` away from the mark.
            let (mx, my) = (x + cos * (far + width / 2.0), y + sin * (far + height / 2.0));
            let made = Box {
                left: mx - width / 2.0,
                top: my - height / 2.0,
                right: mx + width / 2.0,
                bottom: my + height / 2.0,
            };
            // Prefer the right side, where readers look first.
            (made, distance + (1.0 - cos))
        })
    })
}

/// Whether a line goes through a box (checked at 15 points).
fn crosses((from, to): (At, At), other: &Box) -> bool {
    (1..16).any(|i| {
        let share = f64::from(i) / 16.0;
        let (x, y) = (from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share);
        (other.left..=other.right).contains(&x) && (other.top..=other.bottom).contains(&y)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INSIDE: Box = Box { left: 0.0, top: 0.0, right: 900.0, bottom: 450.0 };

    #[test]
    fn names_keep_apart() {
        // A cluster typical of codecs: twelve marks close to each other, and some far away.
        let marks: Vec<At> = (0..12)
            .map(|i| (430.0 + f64::from(i % 4) * 9.0, 220.0 + f64::from(i / 4) * 7.0))
            .chain([(0.0, 0.0), (900.0, 450.0), (880.0, 10.0)])
            .collect();
        let wanted = vec![Some((60.0, 13.0)); marks.len()];
        let placed = place(&marks, 5.0, &wanted, INSIDE);
        let placed: Vec<Box> = placed.into_iter().map(|name| name.expect("room for all")).collect();
        for (i, name) in placed.iter().enumerate() {
            assert!(name.is_within(&INSIDE));
            assert!(placed[i + 1..].iter().all(|other| name.overlap(other) == 0.0), "{i}: {placed:?}");
            for (x, y) in &marks {
                let mark = Box { left: x - 4.0, top: y - 4.0, right: x + 4.0, bottom: y + 4.0 };
                assert_eq!(name.overlap(&mark), 0.0);
            }
        }
    }

    #[test]
    fn a_lone_name_stands_at_its_right() {
        let placed = place(&[(100.0, 100.0)], 5.0, &[Some((50.0, 12.0))], INSIDE)[0].unwrap();
        assert!(placed.left > 100.0 && placed.left < 110.0 && placed.top < 100.0 && placed.bottom > 100.0);
        assert_eq!(placed.leader((100.0, 100.0), 5.0), None);
        assert_eq!(place(&[(100.0, 100.0)], 5.0, &[None], INSIDE), [None]);
    }
}
