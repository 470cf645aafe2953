//! Tells who the config names of what could not be stopped.

use crate::{config::Config, shown};
use countermand::{
    engine::{Heard, Teller},
    notify::OnOrphan,
    secret::Secrets,
};
use std::{collections::HashMap, sync::Arc};

/// What a config says of it today: of operations, also those of earlier days.
struct Who {
    by_tool: HashMap<String, Option<OnOrphan>>,
    otherwise: Option<OnOrphan>,
    secrets: Secrets,
}

/// The teller of a config.
pub(crate) fn of(config: &Config) -> Teller {
    let by_tool = config.tools.iter().map(|tool| (tool.name.clone(), tool.on_orphan.clone())).collect();
    let who = Arc::new(Who { by_tool, otherwise: config.on_orphan.clone(), secrets: Secrets::new() });
    Arc::new(move |notice, row| {
        let who = who.clone();
        Box::pin(async move {
            let Some(on_orphan) = who.by_tool.get(&row.tool).unwrap_or(&who.otherwise) else {
                return Ok(Heard::Nobody);
            };
            let mut told = shown::as_json(&row);
            told["notice"] = notice.news.as_str().into();
            on_orphan.tell(&row.id.to_string(), &told, &who.secrets).await.map(|()| Heard::Told)
        })
    })
}
