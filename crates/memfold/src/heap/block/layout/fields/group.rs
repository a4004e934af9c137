//! From a block to the bytes that are compressed.

use super::super::Shape;
use super::predict::Predictions;
use super::{Fields, MOST_COLUMNS, Of, Plan, WORD, fold, is_long, long_units, set_word, word};

/// The rest of a node after its columns is mostly no longer than this.
const MOSTLY: usize = 64;

/// Writes the rearranged bytes.
struct Writer<'t> {
    to: &'t mut [u8],
    at: usize,
}

impl Writer<'_> {
    #[inline]
    fn take(&mut self, len: usize) -> Option<&mut [u8]> {
        let part = self.to.get_mut(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(part)
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        self.take(bytes.len())?.copy_from_slice(bytes);
        Some(())
    }

    /// As `put`, for bytes of a block. It copies a few more than wanted, without a call; the next `put`
    /// overwrites them.
    #[inline]
    fn put_part(&mut self, block: &[u8], from: usize, end: usize) -> Option<()> {
        let len = end.checked_sub(from)?;
        if len <= MOSTLY
            && let Some(bytes) = block.get(from..).and_then(|bytes| bytes.first_chunk::<MOSTLY>())
            && let Some(to) = self.to.get_mut(self.at..).and_then(|to| to.first_chunk_mut())
        {
            *to = *bytes;
            self.at += len;
            return Some(());
        }
        self.put(block.get(from..end)?)
    }

    fn plane(&mut self, bytes: impl ExactSizeIterator<Item = u8>) -> Option<()> {
        self.take(bytes.len())?.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
        Some(())
    }
}

impl Fields {
    /// Rearranges a block; `None` if it is damaged or grows longer than `to`. Returns the length without the
    /// zeros at the end.
    pub fn group(&mut self, of: Of, plan: &Plan, block: &[u8], to: &mut [u8]) -> Option<usize> {
        let columns = usize::from(plan.columns);
        self.walk(block, of, columns)?;
        let mut out = Writer { to, at: 0 };
        out.put(&[plan.columns])?;
        plan.predictors[..columns].iter().try_for_each(|&predictor| out.put(&[predictor as u8]))?;
        if let Shape::Mixed(shape) = of.shape {
            out.put(&(self.headers.len() as u32).to_le_bytes())?;
            out.plane(self.headers.iter().map(|&header| header as u8))?;
            out.plane(self.headers.iter().map(|&header| (header >> 8) as u8))?;
            let mut at = shape.first();
            for &header in self.headers.iter() {
                let long = if is_long(header) { long_units(block, at)? } else { 0 };
                if is_long(header) {
                    out.put(&long.to_le_bytes())?;
                }
                at += shape.stride_of(header, long)?;
            }
        }
        self.put_planes(of, plan, block, &mut out)?;
        let (lead, trailing) = of.around(block.len());
        out.put(block.get(lead)?)?;
        for &(from, end) in &self.rests {
            out.put_part(block, from as usize, end as usize)?;
        }
        out.put(block.get(trailing)?)?;
        let Writer { to, at } = out;
        to[at..].fill(0);
        Some(at)
    }

    fn put_planes(&mut self, of: Of, plan: &Plan, block: &[u8], out: &mut Writer<'_>) -> Option<()> {
        let columns = usize::from(plan.columns);
        let (width, taken) = (columns * WORD, of.taken(columns));
        self.rows.clear();
        self.rows.resize(self.members.len() * width, 0);
        let mut predictions = Predictions::new(plan.predictors[..columns].iter().copied());
        let (mut base, mut differences) = ([0; MOST_COLUMNS * WORD], [0_u8; MOST_COLUMNS * WORD]);
        for (i, row) in self.rows.chunks_exact_mut(width.max(1)).enumerate() {
            let at = self.members[i].at as usize;
            row[..taken].copy_from_slice(block.get(at..at + taken)?);
            predictions.each(of, &self.members, i, |column, prediction| {
                let word = word(row, column);
                set_word(row, column, fold(word.wrapping_sub(prediction)));
                word
            });
            if i == 0 {
                base[..width].copy_from_slice(row);
            }
            differences.iter_mut().zip(row).zip(&base).for_each(|((all, byte), base)| *all |= *byte ^ base);
        }
        for of_word in differences[..width].chunks(WORD) {
            let varying = of_word.iter().rev().fold(0, |bits, &byte| bits << 1 | u8::from(byte != 0));
            out.put(&[varying])?;
        }
        out.put(&base[..width])?;
        for byte in (0..width).filter(|&byte| differences[byte] != 0) {
            out.plane(self.rows.chunks_exact(width).map(|row| row[byte]))?;
        }
        Some(())
    }
}
