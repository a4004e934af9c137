//! The ideas behind the encoders. `examples/ablation.rs` measures how much larger forms become without each
//! of them. Only the reference encoder of a build with the feature `training` can leave one out. The result
//! may not be readable; only its size means anything.

/// An idea of the encoders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idea {
    /// Each line has a distance. Otherwise all have the first, eight words.
    Distances,
    /// A line compares several distances. Otherwise it takes the first that its words propose.
    Candidates,
    /// A line may go back to the distance before the last change.
    Back,
    /// The code of a word is predicted by that of its reference. Otherwise zero is predicted.
    Prediction,
    /// Frequent masks have codes. Otherwise only the words that are zero, all new or as their reference have.
    Masks,
    /// Common literals take half a byte.
    Packing,
    /// Literals of words that start from their reference are parts of their own, by their place in the word.
    Parts,
    /// Those literals are differences.
    Differences,
    /// Repetitions in the other literals are matches.
    Matches,
    /// A piece chooses among several tables for each family. Otherwise it has the first.
    Tables,
    /// There are fifteen of them. Otherwise eight, which were trained on fewer programs.
    MoreTables,
}

#[cfg(feature = "training")]
impl Idea {
    /// All of them.
    pub const ALL: [Idea; 11] = [
        Idea::Distances,
        Idea::Candidates,
        Idea::Back,
        Idea::Prediction,
        Idea::Masks,
        Idea::Packing,
        Idea::Parts,
        Idea::Differences,
        Idea::Matches,
        Idea::Tables,
        Idea::MoreTables,
    ];
}

#[cfg(feature = "training")]
static LEFT_OUT: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);

/// From now on, encoders do without these ideas.
#[cfg(feature = "training")]
pub fn leave_out(ideas: &[Idea]) {
    let all = ideas.iter().fold(0, |all, idea| all | 1 << *idea as u32);
    LEFT_OUT.store(all, core::sync::atomic::Ordering::Relaxed);
}

/// Whether encoders do without this idea.
#[inline(always)]
pub(crate) fn is_left_out(idea: Idea) -> bool {
    #[cfg(feature = "training")]
    return LEFT_OUT.load(core::sync::atomic::Ordering::Relaxed) >> idea as u32 & 1 != 0;
    #[cfg(not(feature = "training"))]
    {
        let _ = idea;
        false
    }
}
