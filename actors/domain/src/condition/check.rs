//! The check of a condition: its references and its forms.
//!
//! The syntax tree is checked as the author wrote it, with macros as calls.
//! Deliberately absent: types. A condition of the wrong type fails when it is evaluated.

use std::collections::BTreeSet;

use super::MAX_DEPTH;
use crate::problem::shortened;
use crate::render::Meta;
use crate::render::members::normal;
use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

/// The most additions: each may copy the strings that it joins.
pub(super) const MAX_ADDITIONS: usize = 16;

const OPERATORS: [&str; 16] = [
    "_?_:_", "_&&_", "_||_", "!_", "-_", "_-_", "_*_", "_/_", "_%_", "_==_", "_!=_", "_>=_",
    "_<=_", "_>_", "_<_", "@in",
];
const FUNCTIONS: [&str; 9] =
    ["size", "contains", "startsWith", "endsWith", "int", "uint", "double", "string", "type"];
pub(super) const TYPES: [&str; 8] =
    ["bool", "int", "uint", "double", "string", "list", "map", "null_type"];

/// The variables that a condition refers to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct References {
    /// The fields of the input, by name, in NFC.
    pub input: BTreeSet<String>,
    /// True if the condition refers to the whole input, or to a field with a computed name.
    pub whole_input: bool,
    /// The ids of the steps.
    pub steps: BTreeSet<String>,
}

/// The references of a condition, or the fault.
pub(super) fn check(root: &IdedExpr) -> Result<References, String> {
    let mut checker = Checker::default();
    checker.visit(root, 1)?;
    Ok(checker.references)
}

#[derive(Default)]
struct Checker {
    references: References,
    additions: usize,
    /// The variable of the enclosing iteration.
    item: Option<String>,
}

/// A segment of a path: `.name`, `["name"]`, or a computed index.
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
            Expr::Struct(made) => Err(format!(
                "uses the message {}, which is not allowed",
                shortened(&made.type_name, 64)
            )),
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
            ("has", None, [field]) if is_member(field) => return self.visit(field, depth + 1),
            ("matches", Some(_), [pattern]) | ("matches", None, [_, pattern]) => {
                check_pattern(pattern)?;
            }
            ("_+_", _, _) => {
                self.additions += 1;
                if self.additions > MAX_ADDITIONS {
                    return Err(format!("must not have more than {MAX_ADDITIONS} additions"));
                }
            }
            (name, _, _) if OPERATORS.contains(&name) || FUNCTIONS.contains(&name) => {}
            (name, _, _) => {
                return Err(format!(
                    "calls {}, which is not allowed with these arguments or at all; allowed are \
                     size, contains, startsWith, endsWith, matches, int, uint, double, string, \
                     type, has, all, exists and exists_one",
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
            return Err("must have a name as the variable of an iteration".to_owned());
        };
        if ["input", "steps", "meta"].contains(&item.as_str()) {
            return Err(format!("must not name the variable of an iteration {item}"));
        }
        if self.item.is_some() {
            return Err("must not nest iterations".to_owned());
        }
        self.visit(range, depth + 1)?;
        self.item = Some(item.clone());
        self.visit(body, depth + 1)?;
        self.item = None;
        Ok(())
    }

    /// Visits a variable with the members selected from it, or the members of another expression.
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
                self.references.input.insert(normal(field).into_owned());
            }
            ("input", [] | [Key::Computed, ..]) => self.references.whole_input = true,
            ("steps", [Key::Named(step), Key::Named(value), ..])
                if ["output", "status", "json"].contains(value) =>
            {
                self.references.steps.insert((*step).to_owned());
            }
            ("steps", _) => {
                return Err("must use steps as steps[\"id\"].output, .status or .json".to_owned());
            }
            ("meta", [Key::Named(name)]) if Meta::parse(name).is_some() => {}
            ("meta", _) => {
                return Err("must use meta as meta.templateName or meta.executionId".to_owned());
            }
            (name, []) if TYPES.contains(&name) => {}
            (name, _) => {
                return Err(format!(
                    "uses {}, which is not a variable; variables are input, steps and meta",
                    shortened(name, 64)
                ));
            }
        }
        Ok(())
    }
}

/// True for `a.b` and `a["b"]`.
fn is_member(node: &IdedExpr) -> bool {
    matches!(&node.expr, Expr::Select(_))
        || matches!(&node.expr, Expr::Call(call) if call.func_name == "_[_]")
}

fn check_pattern(pattern: &IdedExpr) -> Result<(), String> {
    if let Expr::Literal(LiteralValue::String(_)) = &pattern.expr {
        Ok(())
    } else {
        Err("must have a string literal as the pattern of matches".to_owned())
    }
}
