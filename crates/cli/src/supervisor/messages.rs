//! Prints messages of processes, which may have no usable standard error of their own.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use memfold_shared::page::{self, Shared};

use crate::output::failure::say;

/// How often to look at an unfinished message before giving it up.
const PATIENCE: u32 = 50;

/// The reader of the ring of messages.
#[derive(Debug, Default)]
pub struct Messages {
    read: u32,
    /// The number of looks at the next message, which is unfinished.
    looks: u32,
}

impl Messages {
    /// Prints the messages that processes have left in the ring.
    pub fn print(&mut self, shared: &Shared) {
        let head = shared.message_head.load(Acquire);
        let oldest = head.wrapping_sub(page::MESSAGES as u32);
        if head.wrapping_sub(self.read) > page::MESSAGES as u32 {
            let lost = oldest.wrapping_sub(self.read);
            say(&format!("{lost} messages came too fast and were lost"));
            self.read = oldest;
        }
        while self.read != head {
            let number = self.read;
            let message = &shared.messages[number as usize % page::MESSAGES];
            if message.seq.load(Acquire) != number.wrapping_add(1) {
                // The message is still being written, or its writer was killed meanwhile.
                self.looks += 1;
                if self.looks <= PATIENCE {
                    return;
                }
                say("a message is lost because its process was killed while writing it");
                (self.looks, self.read) = (0, number.wrapping_add(1));
                continue;
            }
            self.looks = 0;
            let mut buffer = [0; page::MESSAGE_BYTES];
            let text = page::load_text(&message.text, &mut buffer);
            say(&format!("process {}: {text}", message.pid.load(Relaxed)));
            self.read = number.wrapping_add(1);
        }
    }
}
