//! The command line's definition as man pages and shells need it: with the options that help omits for
//! brevity, and with hints about values.

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, CommandFactory, ValueHint};
use memfold_args::Cli;
use memfold_args::du::COLUMNS;

/// The definition for man pages.
pub fn command() -> Command {
    let mut command = Cli::command()
        .disable_help_subcommand(true)
        .mut_subcommand("du", |du| du.mut_args(|arg| arg.hide(false)));
    command.build();
    command
}

/// The definition for shells, without hidden options, which shells would show.
pub fn for_shells() -> Command {
    let command = command();
    let subcommands = command.get_subcommands().map(|sub| {
        // clap needs names that live as long as the program.
        let plain = Command::new(&*sub.get_name().to_owned().leak());
        plain.about(sub.get_about().cloned().unwrap_or_default()).args(visible(sub))
    });
    Command::new("memfold").version(env!("CARGO_PKG_VERSION")).subcommands(subcommands.collect::<Vec<_>>())
}

/// The arguments, except those that clap adds itself.
fn visible(command: &Command) -> impl Iterator<Item = Arg> {
    command.get_arguments().filter(|arg| !arg.is_hide_set() && arg.get_id() != "help").cloned().map(hinted)
}

/// The argument with a hint about its values.
fn hinted(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "sort" => {
            let orders = COLUMNS
                .iter()
                .flat_map(|(name, _)| ["", "-asc", "-desc"].map(|order| format!("{name}{order}")));
            arg.value_parser(PossibleValuesParser::new(orders.map(|name| &*name.leak()).collect::<Vec<_>>()))
        }
        "path" => arg.value_hint(ValueHint::DirPath),
        "command" => arg.value_hint(ValueHint::CommandWithArguments),
        // The value may well be the name of an existing file.
        "exclude" => arg,
        _ if arg.get_value_hint() == ValueHint::Unknown => arg.value_hint(ValueHint::Other),
        _ => arg,
    }
}
