//! The plan for people.

use super::{Moment, Plan, Program, ServerPlan, ToolPlan, show};
use std::fmt::Write as _;

/// The narrowest second column that is worth wrapping to.
const NARROWEST: usize = 30;

/// Two columns under an indent; the second is wrapped where there is a width.
struct Columns {
    first: usize,
    width: Option<usize>,
    text: String,
}

pub(super) fn render(plan: &Plan, width: Option<usize>) -> String {
    let mut text = String::new();
    if plan.tools.is_empty() && plan.servers.is_empty() {
        let _ = writeln!(text, "{}: no tools", plan.server);
    }
    for (n, tool) in plan.tools.iter().enumerate() {
        if n > 0 {
            text.push('\n');
        }
        text.push_str(&one(tool, width));
    }
    for server in &plan.servers {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&server_of(server, width));
    }
    text
}

fn server_of(server: &ServerPlan, width: Option<usize>) -> String {
    let firsts = server.moments.iter().map(|moment| moment.when);
    let first = firsts.map(|first| first.chars().count()).max().unwrap_or_default();
    let mut columns = Columns { first, width, text: String::new() };
    let named = if server.prefix.is_empty() { String::new() } else { format!(", as {}*", server.prefix) };
    let _ =
        writeln!(columns.text, "{}: the tools of an MCP server{named} ({})", server.server, server.target);
    for line in wrap(&server.summary, width.map(|width| width.saturating_sub(2).max(NARROWEST))) {
        let _ = writeln!(columns.text, "  {line}");
    }
    columns.head("When a cancel comes");
    server.moments.iter().for_each(|moment| columns.moment(moment));
    columns.head("What bounds it");
    for bound in &server.bounds {
        columns.row(&format!("{} {}", bound.bound, bound.time), &bound.what);
    }
    columns.head("What cannot be promised");
    for risk in &server.risks {
        columns.row(risk.risk, &risk.what);
    }
    columns.text
}

fn one(tool: &ToolPlan, width: Option<usize>) -> String {
    let what = match tool.kind {
        "job" => "a job",
        "http_once" => "one request with an effect",
        "command" => "a program",
        _ => "one request without an effect",
    };
    let firsts = tool.moments.iter().map(|moment| moment.when);
    let first = firsts.map(|first| first.chars().count()).max().unwrap_or_default();
    let mut columns = Columns { first, width, text: String::new() };
    let at = match (&tool.upstream, &tool.base_url) {
        (Some(upstream), Some(url)) => format!(" at {upstream} ({url})"),
        (Some(upstream), None) => format!(" at {upstream}"),
        (None, _) => String::new(),
    };
    let _ = writeln!(columns.text, "{}: {what}{at}", tool.tool);
    for line in wrap(&tool.summary, width.map(|width| width.saturating_sub(2).max(NARROWEST))) {
        let _ = writeln!(columns.text, "  {line}");
    }
    if tool.on_reissue == "attach" {
        let joins = "an identical call while it runs joins it; only the cancel of the last one stops it";
        for line in wrap(joins, width.map(|width| width.saturating_sub(2).max(NARROWEST))) {
            let _ = writeln!(columns.text, "  {line}");
        }
    }
    columns.head("When a cancel comes");
    for moment in &tool.moments {
        columns.moment(moment);
    }
    columns.head("What bounds it");
    for bound in &tool.bounds {
        columns.row(&format!("{} {}", bound.bound, bound.time), &bound.what);
    }
    columns.head("What is undone");
    match &tool.undo {
        None => columns.row("nothing", ""),
        Some(undo) => {
            columns.row("when", &undo.when);
            for (n, request) in undo.sends.iter().enumerate() {
                columns.row(&format!("undo {}", n + 1), request);
            }
        }
    }
    columns.head("What cannot be promised");
    for risk in &tool.risks {
        columns.row(risk.risk, &risk.what);
    }
    if !tool.programs.is_empty() {
        columns.head("Programs as configured");
    }
    for program in &tool.programs {
        columns.row(program.purpose, &as_configured(program));
    }
    if !tool.requests.is_empty() {
        columns.head("Requests as configured");
    }
    for request in &tool.requests {
        let mut line = request.request.clone();
        for (name, value) in &request.headers {
            let _ = write!(line, "  {name}: {value}");
        }
        if let Some(body) = &request.body {
            let _ = write!(line, "  {} {body}", if request.form { "form" } else { "body" });
        }
        columns.row(request.purpose, &line);
    }
    columns.text
}

fn as_configured(program: &Program) -> String {
    let words: Vec<_> = program.run.iter().map(|word| show::word(word)).collect();
    let mut line = words.join(" ");
    if let Some(cwd) = &program.cwd {
        let _ = write!(line, "  in {cwd}");
    }
    for (name, value) in &program.env {
        let _ = write!(line, "  {name}={value}");
    }
    match &program.inherit_env {
        None => line.push_str("  inherits all our variables"),
        Some(names) => {
            let _ = write!(line, "  inherits {}", names.join(", "));
        }
    }
    if let Some(stdin) = &program.stdin {
        let _ = write!(line, "  reads {stdin}");
    }
    line
}

impl Columns {
    fn head(&mut self, head: &str) {
        let _ = writeln!(self.text, "\n  {head}");
    }

    /// A statement per line where lines can wrap, all of them in one where they are for `grep`.
    fn moment(&mut self, moment: &Moment) {
        if self.width.is_none() {
            return self.row(moment.when, &moment.what.join(" "));
        }
        let mut first = moment.when;
        for sentence in &moment.what {
            self.row(first, sentence);
            first = "";
        }
    }

    fn row(&mut self, first: &str, second: &str) {
        let indent = 4 + self.first + 2;
        let room = self.width.map(|width| width.saturating_sub(indent).max(NARROWEST));
        let mut lines = wrap(second, room).into_iter();
        let line = format!("    {first:<width$}  {}", lines.next().unwrap_or_default(), width = self.first);
        let _ = writeln!(self.text, "{}", line.trim_end());
        for line in lines {
            let _ = writeln!(self.text, "{:indent$}{line}", "");
        }
    }
}

/// Breaks a text at its spaces; a word that is too long stays whole, since it is copied.
fn wrap(text: &str, room: Option<usize>) -> Vec<String> {
    let Some(room) = room else { return vec![text.to_owned()] };
    let mut lines = vec![String::new()];
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
