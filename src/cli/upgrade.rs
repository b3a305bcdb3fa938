//! `callboard upgrade --check`: what the next start of this program changes in the data, said before it.

use callboard_cli::process::{announce, block_on};
use callboard_store::{Inspected, ROWS, Written, inspect, postgres};

use super::serve::start;
use super::{Serve, Upgrade, VERSION};
use crate::config::Config;
use crate::service::check_exists;

/// Looks at the store, and prints the result.
pub(super) fn run(asked: Upgrade) -> Result<(), String> {
    let Upgrade { check: _, data_dir, store, config } = asked;
    let config = start(&Serve {
        listen: None,
        data_dir,
        store,
        config,
        init: false,
        check: false,
        paused: false,
    })?;
    look(&config)
}

/// Looks at the store of these settings, and prints the result.
pub(super) fn look(config: &Config) -> Result<(), String> {
    let directory = config.server.data_dir.join("store");
    let (place, found) = if let Some(address) = config.store.shared.clone() {
        let found =
            block_on(async { postgres::inspect(address).await.map_err(|it| it.to_string()) })?;
        ("the database".to_owned(), found)
    } else {
        check_exists(config).map_err(|error| error.to_string())?;
        let found = inspect(&directory).map_err(|error| error.to_string())?;
        (directory.display().to_string(), found)
    };
    let is_shared = config.store.shared.is_some();
    announce(&said(&place, found.as_ref(), is_shared));
    Ok(())
}

fn said(place: &str, found: Option<&Inspected>, is_shared: bool) -> String {
    let program = format!("program     callboard {VERSION}, which writes rows of version {ROWS}");
    let Some(Inspected { written, bytes, is_changed_by_opening }) = found else {
        return format!("{program}\ndata        none in {place}: the first start makes it");
    };
    let by = match written {
        Written { rows: 0, .. } => "rows of a program that recorded no version".to_owned(),
        Written { rows, program } => {
            format!("rows of version {rows}, first written by callboard {program}")
        }
    };
    let size = format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10);
    let back = if !is_changed_by_opening {
        "every program that writes this version of rows opens the data"
    } else if is_shared {
        "until a node of this program becomes active; then only a dump of the database"
    } else {
        "none once this program has opened the data, but a backup from before: callboard backup create --in DIRECTORY"
    };
    format!(
        "{program}\n\
         data        {place}: {size}, {by}\n\
         conversion  none: a row is read in its form, and written in the new one when it changes\n\
         time, disk  those of any start\n\
         way back    {back}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_is_said() {
        let of = |rows, is_changed_by_opening| Inspected {
            written: Written { rows, program: "0.1.0".into() },
            bytes: 1_250_000,
            is_changed_by_opening,
        };
        let text = said("./d/store", Some(&of(0, true)), false);
        assert!(text.contains("1.2 MB, rows of a program that recorded no version"), "{text}");
        assert!(text.contains("way back    none once this program"), "{text}");
        let text = said("./d/store", Some(&of(ROWS, false)), false);
        assert!(text.contains("way back    every program"), "{text}");
        let text = said("the database", Some(&of(0, true)), true);
        assert!(text.contains("way back    until a node"), "{text}");
        assert!(said("./d/store", None, false).contains("data        none in ./d/store"));
    }
}
