//! The supervisor's part of spilling: it serves the spill area (`memfold_shared::spill`), through which processes
//! send batches to a tier and fetch them back.
//!
//! ```text
//!   request slots ──> service (threads) ──> engine ──> tier
//!                       ├─ holds      which process needs which batch, through forks and execs (who)
//!                       └─ abandoned  request slots whose process no longer waits
//! ```

mod abandoned;
mod holds;
pub mod service;
mod who;

#[cfg(test)]
mod tests {
    use crate::settings::Settings;
    use crate::settings::shared_page::SharedPage;
    use crate::settings::spill::Spill;

    /// A spill area without a server.
    pub fn area() -> &'static memfold_shared::spill::Area {
        let target = "/nowhere".parse().unwrap();
        let patience = std::time::Duration::from_secs(60);
        let spill = Some(Spill { target, most: None, patience, is_encrypted: true });
        SharedPage::new(&Settings { spill, ..Settings::example() }).unwrap().area.unwrap()
    }
}
