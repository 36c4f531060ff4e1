//! Clients of libraries for the commands: found by path or built-in name, and `explain` for them.

use std::path::Path;

use mowgli::counted::counted;
use mowgli::explain::Drawing;
use mowgli::litmus::limits;
use mowgli_libraries::catalogue;
use mowgli_libraries::client::{Client, parse};
use mowgli_libraries::explain::{Reason, explain_drawn};
use mowgli_libraries::judge::{self, Under};

use crate::budget::Run;
use crate::{Error, Exit, diagnostics, read};

/// Returns the client that an argument names, if it names one and no litmus test: a file `*.client`, or a
/// built-in client.
pub(crate) fn find(argument: &str) -> Result<Option<Client>, Error> {
    if mowgli::catalogue::find(argument).is_some() {
        return Ok(None);
    }
    client(argument)
}

fn client(argument: &str) -> Result<Option<Client>, Error> {
    let path = Path::new(argument);
    let source = if path.extension().is_some_and(|e| e == "client") {
        read::text(path, limits::SOURCE_BYTES_MAX as u64, "a client")?
    } else {
        match catalogue::find(argument) {
            Some(text) => text.to_owned(),
            None => return Ok(None),
        }
    };
    match parse(&source) {
        Ok(parsed) => {
            diagnostics::print(argument, &source, &parsed.warnings);
            Ok(Some(parsed.client))
        }
        Err(error) => {
            diagnostics::print(argument, &source, &error.diagnostics);
            Err(Error::Parse(1))
        }
    }
}

/// Finds a client as [`find`] does, for commands that take only clients.
pub(crate) fn load(argument: &str) -> Result<Client, Error> {
    client(argument)?.ok_or_else(|| {
        let names: Vec<_> = catalogue::CLIENTS.iter().map(|(name, _)| *name).collect();
        let wanted = argument.to_lowercase();
        let close = names.iter().find(|n| n.to_lowercase().contains(&wanted));
        let hint = close.map(|n| format!(" (did you mean {n}?)")).unwrap_or_default();
        Error::Usage(format!(
            "{argument} is neither a file *.client nor a built-in client{hint}; built in are {}",
            names.join(", ")
        ))
    })
}

/// An explanation of a client's condition.
pub(crate) struct Explained {
    /// The client, the setting and the condition.
    pub(crate) title: String,
    /// The explanation in words.
    pub(crate) text: String,
    /// The execution or the cycle.
    pub(crate) drawing: Option<Drawing>,
    /// The exit status.
    pub(crate) exit: Exit,
}

/// Says why the condition of a client is allowed or forbidden under a setting.
pub(crate) fn explain_client(
    client: &Client,
    query: usize,
    under: Under,
    run: &Run,
) -> Result<Explained, Error> {
    let Some(of) = query.checked_sub(1).and_then(|at| client.queries.get(at)) else {
        let count = client.queries.len();
        return Err(Error::Usage(format!(
            "--query {query}: the client has {}, numbered from 1",
            counted(count, "condition")
        )));
    };
    let Some(rules) = under.rules(judge::ITERATIONS_MAX) else {
        return Err(Error::Usage(format!(
            "{under} is judged by `loco check --client`, not here"
        )));
    };
    let formula = &of.condition.formula;
    let title = format!("{} under {under}: {}", client.name, client.formula(formula));
    let (text, drawing, exit) = match explain_drawn(client, &rules, formula, run.budget()) {
        Err(limit) => (format!("Unknown: {}\n", limit.advice()), None, Exit::Unknown),
        Ok((reason, drawing)) => (text(&reason), drawing, Exit::AsStated),
    };
    Ok(Explained {
        title,
        text,
        drawing,
        exit,
    })
}

/// Says in words why an outcome is allowed or forbidden.
pub(crate) fn text(reason: &Reason) -> String {
    match reason {
        Reason::Allowed(execution) => format!("Allowed. A consistent execution:\n{execution}"),
        Reason::Forbidden { executions: 0, .. } => {
            "Forbidden: whatever the calls return, no run of the threads ends so.\n".to_owned()
        }
        Reason::Forbidden { executions, cycle } => {
            let why = match cycle {
                Some(cycle) => format!("a short cycle of happens-before:\n{cycle}"),
                None => "no library has a synchronisation order for it.\n".to_owned(),
            };
            let runs = counted(*executions, "run");
            format!("Forbidden. Of {runs} of the threads that would end so, none is consistent; {why}")
        }
    }
}
