//! The places in a request, and which placeholders stand in which.

use super::{
    BodyTemplate, HeaderTemplate, Name, Part, Placeholder, RequestTemplate, Template, ValueTemplate,
};
use std::fmt;

/// A place in a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The path, or what stands for the whole URL.
    Target,
    /// A query parameter.
    Query(String),
    /// A header.
    Header(String),
    /// The JSON body; the steps from its root.
    Body(Vec<String>),
    /// A field of a form.
    Form(String),
    /// An element of an argument vector, by its number; the program itself is 0.
    Argument(usize),
    /// An environment variable.
    Variable(String),
    /// What a program reads.
    Stdin,
    /// A text of our own, which is no part of a request: an id, a JSONPath.
    Text,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target => f.write_str("the path"),
            Self::Query(name) => write!(f, "the query parameter `{name}`"),
            Self::Header(name) => write!(f, "the header `{name}`"),
            Self::Body(steps) if steps.is_empty() => f.write_str("the body"),
            Self::Body(steps) => write!(f, "the body's `{}`", steps.join(".")),
            Self::Form(name) => write!(f, "the form field `{name}`"),
            Self::Argument(number) => write!(f, "argument {number}"),
            Self::Variable(name) => write!(f, "the environment variable `{name}`"),
            Self::Stdin => f.write_str("the standard input"),
            Self::Text => f.write_str("the text"),
        }
    }
}

impl Template {
    /// The placeholders, in order.
    pub fn placeholders(&self) -> impl Iterator<Item = &Placeholder> {
        self.parts.iter().filter_map(|part| match part {
            Part::Placeholder(placeholder) => Some(placeholder),
            Part::Text(_) => None,
        })
    }

    /// The names that it uses, in order, repeated where they are.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.placeholders().map(|placeholder| &placeholder.name)
    }
}

impl HeaderTemplate {
    /// The names that it uses; a secret uses none.
    pub fn names(&self) -> Vec<&Name> {
        match self {
            Self::Text(template) => template.names().collect(),
            Self::Secret(_) => Vec::new(),
        }
    }
}

impl ValueTemplate {
    /// The names that it uses, in order.
    pub fn names(&self) -> Vec<&Name> {
        let mut names = Vec::new();
        self.walk(&mut Vec::new(), &mut |_, template| names.extend(template.names()));
        names
    }

    /// Visits every text in it, with the steps that lead there.
    pub(super) fn walk<'a>(
        &'a self,
        steps: &mut Vec<String>,
        visit: &mut dyn FnMut(&[String], &'a Template),
    ) {
        match self {
            Self::Text(template) => visit(steps, template),
            Self::Plain(_) => {}
            Self::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    steps.push(index.to_string());
                    item.walk(steps, visit);
                    steps.pop();
                }
            }
            Self::Object(fields) => {
                for (name, value) in fields {
                    steps.push(name.clone());
                    value.walk(steps, visit);
                    steps.pop();
                }
            }
        }
    }
}

impl BodyTemplate {
    /// The names that it uses, in order.
    pub fn names(&self) -> Vec<&Name> {
        let mut names = Vec::new();
        self.walk(&mut |_, template| names.extend(template.names()));
        names
    }

    fn walk<'a>(&'a self, visit: &mut dyn FnMut(Place, &'a Template)) {
        match self {
            Self::None => {}
            Self::Json(value) => {
                value.walk(&mut Vec::new(), &mut |steps, template| {
                    visit(Place::Body(steps.to_vec()), template)
                });
            }
            Self::Form(fields) => {
                for (name, value) in fields {
                    value
                        .walk(&mut Vec::new(), &mut |_, template| visit(Place::Form(name.clone()), template));
                }
            }
        }
    }
}

impl RequestTemplate {
    /// Every template of the request, with its place.
    pub fn templates(&self) -> Vec<(Place, &Template)> {
        let mut all = vec![(Place::Target, &self.target)];
        for (name, value) in &self.query {
            value.walk(&mut Vec::new(), &mut |_, template| all.push((Place::Query(name.clone()), template)));
        }
        for (name, value) in &self.headers {
            if let HeaderTemplate::Text(template) = value {
                all.push((Place::Header(name.clone()), template));
            }
        }
        self.body.walk(&mut |place, template| all.push((place, template)));
        all
    }

    /// Every placeholder of the request, with its place.
    pub fn placeholders(&self) -> Vec<(Place, &Placeholder)> {
        self.templates()
            .into_iter()
            .flat_map(|(place, template)| template.placeholders().map(move |p| (place.clone(), p)))
            .collect()
    }

    /// The names that the request uses, in order, repeated where they are.
    pub fn names(&self) -> Vec<&Name> {
        self.templates().into_iter().flat_map(|(_, template)| template.names()).collect()
    }
}
