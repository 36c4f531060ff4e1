//! Tells the editor about a text: what is wrong with it, its names, and under which models it can be judged.

use axum::Json;
use axum::extract::State;
use mowgli::cat::{self, Embedded, ModelFile};
use mowgli::check;
use mowgli::litmus::{Litmus, Parsed};
use mowgli::model::{Model, Tier};
use mowgli::syntax::Located;
use mowgli_libraries::client::{self, Client, Setting};
use mowgli_libraries::judge::{Under, rules};
use serde::Deserialize;

use super::corerma;
use super::model::{FILES, OWN};
use super::outline::{Answer, ConditionEntry, Name, SettingEntry, keywords, locations, name};
use crate::jobs::{Jobs, Refusal};
use crate::text::{self, Diagnostic, Places, Range, Source};

#[derive(Deserialize)]
pub(crate) struct Request {
    text: String,
    /// Whether the text is a model file.
    #[serde(default)]
    is_model: bool,
}

pub(crate) async fn parse(
    State(jobs): State<Jobs>,
    Json(request): Json<Request>,
) -> Result<Json<Answer>, Refusal> {
    jobs.run(move |_| {
        Ok(match request.is_model {
            true => model(&request.text),
            false => program(&request.text),
        })
    })
    .await
}

fn program(text: &str) -> Answer {
    match text::read(text) {
        Ok(Source::Litmus(parsed)) => litmus(text, &parsed),
        Ok(Source::CoreRma(parsed)) => corerma::parsed(text, &parsed),
        Ok(Source::Client(parsed)) => client(text, &parsed.client, &parsed.warnings),
        Err((kind, error)) => Answer {
            kind,
            diagnostics: text::diagnostics(text, &error.diagnostics),
            names: words(kind),
            ..Answer::default()
        },
    }
}

/// Returns the names that do not depend on the text.
fn words(kind: &str) -> Vec<Name> {
    let mut names = keywords();
    if kind == "corerma" {
        names.extend(corerma::words());
    } else if kind == "client" {
        let methods = client::Method::ALL.iter();
        names.extend(methods.map(|m| name(m.name(), "method", m.library().name())));
        names.extend(Setting::ALL.iter().map(|s| name(s.name(), "model", "")));
    } else {
        names.extend(Model::every().map(|m| name(m.name(), "model", m.summary())));
    }
    names
}

fn litmus(text: &str, parsed: &Parsed) -> Answer {
    let Parsed {
        litmus,
        warnings,
        instructions,
    } = parsed;
    let places = Places::of(text);
    let program = &litmus.program;
    let mut names = words("litmus");
    names.extend(locations(&program.locations));
    for thread in &program.threads {
        for register in &thread.registers {
            names.push(name(register, "register", format!("of {}", thread.name)));
        }
    }
    Answer {
        kind: "litmus",
        name: Some(litmus.name.clone()),
        diagnostics: text::diagnostics(text, warnings),
        names,
        settings: settings(litmus),
        conditions: (0..litmus.queries.len())
            .map(|at| ConditionEntry {
                name: litmus.query_name(at),
                condition: litmus.queries[at].condition.display(program),
                formula: litmus.queries[at].condition.formula.display(program),
            })
            .collect(),
        instructions: instructions
            .iter()
            .map(|thread| thread.iter().map(|(_, span)| places.range(span)).collect())
            .collect(),
        usable: true,
    }
}

fn settings(litmus: &Litmus) -> Vec<SettingEntry> {
    let program = &litmus.program;
    let applicable = check::settings(program);
    let glob = applicable
        .iter()
        .any(|s| s.rmw == mowgli::model::RmwAtomicity::Glob);
    let mut out = Vec::new();
    for model in Model::every() {
        let lacking = check::applicable(program, model).err().map(|e| e.to_string());
        let entry = |name: String| SettingEntry {
            name,
            summary: model.summary().to_owned(),
            not_applicable: lacking.clone(),
            has_machine: true,
            has_robustness: Model::ROBUSTNESS.contains(&model.base()),
            tier: tier(model.tier()),
        };
        out.push(entry(model.name().to_owned()));
        if glob && lacking.is_none() {
            out.push(entry(format!("{model}/glob")));
        }
    }
    for file in FILES.iter().chain([&OWN]) {
        out.push(SettingEntry {
            name: (*file).to_owned(),
            summary: match *file {
                OWN => "the model file in the editor".to_owned(),
                _ => format!("{file}, built in"),
            },
            not_applicable: None,
            has_machine: false,
            has_robustness: false,
            tier: None,
        });
    }
    out
}

/// Returns the name of a tier other than the papers'.
fn tier(tier: Tier) -> Option<&'static str> {
    (tier != Tier::Ibta).then(|| tier.name())
}

fn client(text: &str, client: &Client, warnings: &[client::Diagnostic]) -> Answer {
    let mut names = words("client");
    for object in &client.objects {
        names.push(name(&object.name, "object", object.kind.library().name()));
    }
    for (t, thread) in client.threads.iter().enumerate() {
        for register in &thread.registers {
            names.push(name(register, "register", format!("of P{t}")));
        }
    }
    let settings = Setting::ALL.into_iter();
    let judged: Vec<Setting> = settings.filter(|&s| rules(s, 1).is_some()).collect();
    let under = Tier::ALL.into_iter().flat_map(|tier| {
        judged.iter().map(move |&setting| Under {
            setting: setting.into(),
            tier,
        })
    });
    Answer {
        kind: "client",
        name: Some(client.name.clone()),
        diagnostics: text::diagnostics(text, warnings),
        names,
        settings: under
            .map(|under| SettingEntry {
                name: under.to_string(),
                summary: String::new(),
                not_applicable: None,
                has_machine: false,
                has_robustness: false,
                tier: tier(under.tier),
            })
            .collect(),
        conditions: client
            .queries
            .iter()
            .enumerate()
            .map(|(at, query)| {
                let formula = client.formula(&query.condition.formula);
                ConditionEntry {
                    name: client.query_name(at),
                    condition: format!("{} ({formula})", query.condition.quantifier.keyword()),
                    formula,
                }
            })
            .collect(),
        instructions: Vec::new(),
        usable: true,
    }
}

fn model(text: &str) -> Answer {
    let (usable, found) = match ModelFile::parse(OWN, text, &Embedded) {
        Ok(file) => (true, file.warnings().to_vec()),
        Err(errors) => (false, errors),
    };
    let places = Places::of(text);
    let shown = |found: &Located| {
        let own = text::diagnostic(&places, found);
        match found.source.name == OWN {
            true => own,
            // The page has only its own text to mark.
            false => Diagnostic {
                message: found.to_string(),
                at: Range { from: 0, to: 0 },
                ..own
            },
        }
    };
    let keywords = [
        "let",
        "rec",
        "and",
        "acyclic",
        "irreflexive",
        "empty",
        "requires",
        "include",
        "show",
        "as",
    ];
    let mut names: Vec<Name> = keywords.iter().map(|word| name(word, "keyword", "")).collect();
    names.extend(cat::SETS.iter().map(|s| name(s.0, "set", "")));
    names.extend(cat::RELATIONS.iter().map(|r| name(r.0, "relation", "")));
    Answer {
        kind: "model",
        diagnostics: found.iter().map(shown).collect(),
        names,
        usable,
        ..Answer::default()
    }
}
