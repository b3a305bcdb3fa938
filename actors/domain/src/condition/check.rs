//! What a condition refers to, and whether its evaluation stays small.
//!
//! It reads the tree before macros are expanded, as the author wrote it. Functions are a list of
//! those that are known to be linear; a new one of the library is not allowed by itself.
//! Deliberately absent: types. A condition that is wrong for its values fails when it is evaluated.

use std::collections::BTreeSet;

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};
use regex::RegexBuilder;

use super::MAX_DEPTH;
use crate::problem::shortened;
use crate::render::Meta;

/// How many additions a condition may hold: each may copy the texts that it joins.
pub(super) const MAX_ADDITIONS: usize = 16;

/// The largest compiled pattern, in bytes; room for a few classes of all Unicode, such as `\w`.
pub(super) const MAX_PATTERN: usize = 256 * 1024;

const OPERATORS: [&str; 16] = [
    "_?_:_", "_&&_", "_||_", "!_", "-_", "_-_", "_*_", "_/_", "_%_", "_==_", "_!=_", "_>=_",
    "_<=_", "_>_", "_<_", "@in",
];
const FUNCTIONS: [&str; 9] =
    ["size", "contains", "startsWith", "endsWith", "int", "uint", "double", "string", "type"];
const TYPES: [&str; 8] = ["bool", "int", "uint", "double", "string", "list", "map", "null_type"];

/// What a condition refers to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Uses {
    /// The fields of the input.
    pub input: BTreeSet<String>,
    /// It uses the input as a whole, or a field whose name is computed.
    pub whole_input: bool,
    /// The ids of the steps.
    pub steps: BTreeSet<String>,
    /// It reads an output as JSON.
    pub json: bool,
    /// It iterates over a collection.
    pub iterates: bool,
}

/// What the condition uses, and whether it holds a macro; or what is wrong with it.
pub(super) fn check(root: &IdedExpr) -> Result<(Uses, bool), String> {
    let mut checker = Checker::default();
    checker.visit(root, 1)?;
    Ok((checker.uses, checker.has_macros))
}

#[derive(Default)]
struct Checker {
    uses: Uses,
    additions: usize,
    has_macros: bool,
    /// The variable of the iteration that is being read.
    item: Option<String>,
}

/// A step of a path: `.name`, `["name"]`, or an index that is computed.
enum Key<'e> {
    Named(&'e str),
    Computed,
}

impl Checker {
    fn visit(&mut self, node: &IdedExpr, depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!("must not be nested deeper than {MAX_DEPTH}"));
        }
        match &node.expr {
            Expr::Literal(_) => Ok(()),
            Expr::Ident(_) | Expr::Select(_) => self.path(node, depth),
            Expr::Call(call) if call.func_name == "_[_]" => self.path(node, depth),
            Expr::Call(call) => self.call(call, depth),
            Expr::List(list) => self.all(&list.elements, depth),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    self.visit(&entry.key, depth + 1)?;
                    self.visit(&entry.value, depth + 1)
                }
                EntryExpr::StructField(field) => self.visit(&field.value, depth + 1),
            }),
            Expr::Struct(made) => {
                Err(format!("uses {}, but there are no messages", shortened(&made.type_name, 64)))
            }
            Expr::Comprehension(_) | Expr::Unspecified => Err("is not valid CEL".to_owned()),
        }
    }

    fn all(&mut self, nodes: &[IdedExpr], depth: usize) -> Result<(), String> {
        nodes.iter().try_for_each(|node| self.visit(node, depth + 1))
    }

    fn call(&mut self, call: &CallExpr, depth: usize) -> Result<(), String> {
        let name = call.func_name.as_str();
        match (name, &call.target, call.args.as_slice()) {
            ("all" | "exists" | "exists_one", Some(range), [item, body]) => {
                return self.iteration(range, item, body, depth);
            }
            ("has", None, [field]) if matches!(field.expr, Expr::Select(_)) => {
                self.has_macros = true;
                return self.visit(field, depth + 1);
            }
            ("matches", Some(_), [pattern]) | ("matches", None, [_, pattern]) => {
                check_pattern(pattern)?;
            }
            ("_+_", _, _) => {
                self.additions += 1;
                if self.additions > MAX_ADDITIONS {
                    return Err(format!("must not hold more than {MAX_ADDITIONS} additions"));
                }
            }
            (name, _, _) if OPERATORS.contains(&name) || FUNCTIONS.contains(&name) => {}
            (name, _, _) => {
                return Err(format!(
                    "uses {}, which is not one of size, contains, startsWith, endsWith, matches, \
                     int, uint, double, string, type, has, all, exists, exists_one, with their \
                     arguments",
                    shortened(name, 64)
                ));
            }
        }
        if let Some(target) = &call.target {
            self.visit(target, depth + 1)?;
        }
        self.all(&call.args, depth)
    }

    fn iteration(
        &mut self,
        range: &IdedExpr,
        item: &IdedExpr,
        body: &IdedExpr,
        depth: usize,
    ) -> Result<(), String> {
        let Expr::Ident(item) = &item.expr else {
            return Err("must name the variable of an iteration".to_owned());
        };
        if ["input", "steps", "meta"].contains(&item.as_str()) {
            return Err(format!("must not give the name {item} to the variable of an iteration"));
        }
        if self.item.is_some() {
            return Err("must not iterate within an iteration".to_owned());
        }
        self.uses.iterates = true;
        self.has_macros = true;
        self.visit(range, depth + 1)?;
        self.item = Some(item.clone());
        self.visit(body, depth + 1)?;
        self.item = None;
        Ok(())
    }

    /// A variable with the members that are reached in it, or members of another expression.
    fn path(&mut self, node: &IdedExpr, depth: usize) -> Result<(), String> {
        let mut keys = Vec::new();
        let mut node = node;
        let mut depth = depth;
        loop {
            if depth > MAX_DEPTH {
                return Err(format!("must not be nested deeper than {MAX_DEPTH}"));
            }
            match &node.expr {
                Expr::Select(select) => {
                    keys.push(Key::Named(&select.field));
                    node = &select.operand;
                }
                Expr::Call(call) if call.func_name == "_[_]" => {
                    let [inner, index] = call.args.as_slice() else {
                        return Err("is not valid CEL".to_owned());
                    };
                    if let Expr::Literal(LiteralValue::String(name)) = &index.expr {
                        keys.push(Key::Named(name.inner()));
                    } else {
                        keys.push(Key::Computed);
                        self.visit(index, depth + 1)?;
                    }
                    node = inner;
                }
                Expr::Ident(name) => {
                    keys.reverse();
                    return self.variable(name, &keys);
                }
                Expr::Call(_)
                | Expr::List(_)
                | Expr::Map(_)
                | Expr::Literal(_)
                | Expr::Struct(_)
                | Expr::Comprehension(_)
                | Expr::Unspecified => return self.visit(node, depth),
            }
            depth += 1;
        }
    }

    fn variable(&mut self, name: &str, keys: &[Key<'_>]) -> Result<(), String> {
        match (name, keys) {
            (name, _) if self.item.as_deref() == Some(name) => {}
            ("input", [Key::Named(field), ..]) => {
                self.uses.input.insert((*field).to_owned());
            }
            ("input", [] | [Key::Computed, ..]) => self.uses.whole_input = true,
            ("steps", [Key::Named(step), Key::Named(value), ..])
                if ["output", "status", "json"].contains(value) =>
            {
                self.uses.steps.insert((*step).to_owned());
                self.uses.json |= *value == "json";
            }
            ("steps", _) => {
                return Err("must use steps as steps[\"id\"].output, .status or .json".to_owned());
            }
            ("meta", [Key::Named(name)])
                if Meta::ALL.into_iter().any(|meta| meta.as_str() == *name) => {}
            ("meta", _) => {
                return Err("must use meta as meta.templateName or meta.executionId".to_owned());
            }
            (name, []) if TYPES.contains(&name) => {}
            (name, _) => {
                return Err(format!(
                    "uses {}, but the variables are input, steps and meta",
                    shortened(name, 64)
                ));
            }
        }
        Ok(())
    }
}

fn check_pattern(pattern: &IdedExpr) -> Result<(), String> {
    let Expr::Literal(LiteralValue::String(pattern)) = &pattern.expr else {
        return Err("must write out the pattern of matches".to_owned());
    };
    match RegexBuilder::new(pattern.inner()).size_limit(MAX_PATTERN).build() {
        Ok(_) => Ok(()),
        Err(regex::Error::CompiledTooBig(_)) => Err("holds a pattern that is too large".to_owned()),
        Err(_) => Err("holds a pattern that is no regular expression".to_owned()),
    }
}
