//! Verdicts: the outcomes of a test under a model, or of a client under a setting.

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use mowgli::cat;
use mowgli::check::{self, Engine};
use mowgli::litmus::Litmus;
use mowgli::outcome::{Budget, Limit};
use mowgli_libraries::client::Client;
use mowgli_libraries::judge::{self, Under, UnknownUnder};
use serde::Deserialize;

use super::corerma;
use super::model::{Model, Named};
use super::verdicts::{self, Answer, Condition, ROWS_MAX};
use crate::jobs::{Jobs, Refusal};
use crate::text::{self, Source};

#[derive(Deserialize)]
pub(crate) struct Request {
    text: String,
    #[serde(flatten)]
    model: Named,
}

pub(crate) async fn check(
    State(jobs): State<Jobs>,
    Json(request): Json<Request>,
) -> Result<Json<Answer>, Refusal> {
    jobs.run(move |budget| match text::read(&request.text) {
        Ok(Source::Litmus(parsed)) => litmus(&parsed.litmus, &request.model, budget),
        Ok(Source::CoreRma(parsed)) => corerma::checked(&parsed.litmus, &request.model, budget),
        Ok(Source::Client(parsed)) => client(&parsed.client, &request.model, budget),
        Err((_, error)) => Err(Refusal::Wrong(error.to_string())),
    })
    .await
}

fn litmus(litmus: &Litmus, model: &Named, budget: &Budget<'_>) -> Result<Answer, Refusal> {
    let start = Instant::now();
    let loaded = model.load()?;
    let search = match &loaded {
        Model::BuiltIn(setting) => check::decide(litmus, *setting, Engine::Declarative, budget)
            .map(|answer| answer.search)
            .map_err(|e| e.to_string()),
        Model::File(file, rmw) => cat::decide(&litmus.program, file, *rmw, Some(&litmus.all_shown()), budget)
            .map_err(|e| e.to_string()),
    };
    let mut answer = match search {
        Err(reason) => Answer {
            not_applicable: Some(reason),
            ..Answer::default()
        },
        Ok(search) => verdicts::found(litmus, &search, &|query| match &loaded {
            Model::BuiltIn(setting) => check::expected(&litmus.program, query, *setting),
            Model::File(..) => None,
        }),
    };
    answer.setting = model.setting.clone();
    answer.searched = "candidate executions";
    answer.time_ms = start.elapsed().as_secs_f64() * 1e3;
    Ok(answer)
}

fn client(client: &Client, model: &Named, budget: &Budget<'_>) -> Result<Answer, Refusal> {
    let start = Instant::now();
    let under: Under = model
        .setting
        .parse()
        .map_err(|e: UnknownUnder| Refusal::Wrong(e.to_string()))?;
    let found = judge::outcomes_under(client, under, *budget)
        .ok_or_else(|| Refusal::Wrong(format!("{under} is not judged here")))?;
    let mut columns = Vec::new();
    for (t, thread) in client.threads.iter().enumerate() {
        columns.extend(thread.registers.iter().map(|r| format!("{t}:{r}")));
    }
    let words = client.observed_words.iter();
    columns.extend(words.map(|&word| format!("[{}]", client.object(word).name)));
    let row = |outcome: &mowgli_libraries::outcome::Outcome| {
        let values = outcome.registers.iter().flatten().chain(&outcome.words);
        values.map(ToString::to_string).collect()
    };
    let conditions = client.queries.iter().enumerate().map(|(at, query)| {
        let verdict = judge::verdict(client, &query.condition.formula, &found);
        let stated = under.stated(query);
        let formula = client.formula(&query.condition.formula);
        Condition {
            name: client.query_name(at),
            condition: format!("{} ({formula})", query.condition.quantifier.keyword()),
            verdict: verdict.map(|v| v.to_string()),
            stated: stated.map(|v| v.to_string()),
            as_stated: stated
                .zip(verdict)
                .map(|(stated, found)| judge::agrees(stated, found)),
        }
    });
    Ok(Answer {
        setting: model.setting.clone(),
        not_applicable: None,
        conditions: conditions.collect(),
        columns,
        rows: found.outcomes.iter().take(ROWS_MAX).map(row).collect(),
        total: found.outcomes.len(),
        limit: found.completeness.limit().map(Limit::advice),
        searched: "executions",
        count: found.executions,
        time_ms: start.elapsed().as_secs_f64() * 1e3,
    })
}
