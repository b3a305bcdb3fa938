//! The program of a condition: the checked syntax tree, with its variables resolved and its patterns
//! compiled.
//!
//! Deliberately absent: forms that the check refuses.

use std::collections::BTreeSet;
use std::sync::Arc;

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

use super::number::{Exact, Number};
use crate::pattern::{Invalid, Pattern, Patterns};
use crate::render::Meta;

/// The largest sum of the compiled patterns of one condition, in bytes: enough for a few Unicode
/// classes such as `\w`.
pub(super) const MAX_PATTERNS: usize = 256 * 1024;

/// A compiled condition.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) root: Node,
    /// The distinct patterns; a node refers to them by number.
    pub(super) patterns: Vec<Arc<Pattern>>,
    /// The steps whose outputs are read as JSON.
    pub(super) json: BTreeSet<String>,
}

/// A node of the syntax tree.
#[derive(Debug)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    Bytes(Vec<u8>),
    Type(&'static str),
    Input,
    Output(String),
    Status(String),
    Json(String),
    Meta(Meta),
    /// The variable of the enclosing iteration, by its name.
    Item(String),
    Member(Box<Node>, String),
    /// True if the member, the item or the value of a step is there.
    Has(Box<Node>),
    Index(Box<[Node; 2]>),
    Not(Box<Node>),
    Negate(Box<Node>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    If(Box<[Node; 3]>),
    Binary(Operator, Box<[Node; 2]>),
    Call(Function, Vec<Node>),
    Matches(Box<Node>, usize),
    List(Vec<Node>),
    Map(Vec<[Node; 2]>),
    Iterate(Quantifier, Box<[Node; 2]>),
}

/// A binary operator that needs both operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
}

/// A function, also called as a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Size,
    Contains,
    StartsWith,
    EndsWith,
    Int,
    UInt,
    Double,
    Text,
    Type,
}

/// The items of an iteration for which the body must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantifier {
    All,
    Exists,
    ExistsOne,
}

/// Compiles a checked syntax tree.
pub(super) fn program(root: &IdedExpr, patterns: &mut Patterns) -> Result<Program, String> {
    let mut lowering = Lowering {
        known: patterns,
        left: MAX_PATTERNS,
        patterns: Vec::new(),
        json: BTreeSet::new(),
        item: None,
    };
    let root = lowering.node(root)?;
    Ok(Program { root, patterns: lowering.patterns, json: lowering.json })
}

struct Lowering<'p> {
    known: &'p mut Patterns,
    left: usize,
    patterns: Vec<Arc<Pattern>>,
    json: BTreeSet<String>,
    item: Option<String>,
}

impl Lowering<'_> {
    fn node(&mut self, node: &IdedExpr) -> Result<Node, String> {
        match &node.expr {
            Expr::Literal(literal) => Ok(of_literal(literal)),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => self.member(&select.operand, &select.field),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => Ok(Node::List(self.nodes(&list.elements)?)),
            Expr::Map(map) => {
                let entries = map.entries.iter().map(|entry| match &entry.expr {
                    EntryExpr::MapEntry(entry) => {
                        Ok([self.node(&entry.key)?, self.node(&entry.value)?])
                    }
                    EntryExpr::StructField(_) => Err(invalid()),
                });
                Ok(Node::Map(entries.collect::<Result<_, _>>()?))
            }
            Expr::Struct(_) | Expr::Comprehension(_) | Expr::Unspecified => Err(invalid()),
        }
    }

    fn nodes(&mut self, nodes: &[IdedExpr]) -> Result<Vec<Node>, String> {
        nodes.iter().map(|node| self.node(node)).collect()
    }

    fn pair(&mut self, left: &IdedExpr, right: &IdedExpr) -> Result<Box<[Node; 2]>, String> {
        Ok(Box::new([self.node(left)?, self.node(right)?]))
    }

    fn variable(&self, name: &str) -> Result<Node, String> {
        if self.item.as_deref() == Some(name) {
            return Ok(Node::Item(name.to_owned()));
        }
        if name == "input" {
            return Ok(Node::Input);
        }
        let known = super::check::TYPES.into_iter().find(|known| *known == name);
        known.map(Node::Type).ok_or_else(invalid)
    }

    fn member(&mut self, of: &IdedExpr, name: &str) -> Result<Node, String> {
        if let Some(step) = step_of(of) {
            if name == "json" {
                self.json.insert(step.to_owned());
            }
            return match name {
                "output" => Ok(Node::Output(step.to_owned())),
                "status" => Ok(Node::Status(step.to_owned())),
                "json" => Ok(Node::Json(step.to_owned())),
                _ => Err(invalid()),
            };
        }
        if is_meta(of) {
            return Meta::parse(name).map(Node::Meta).ok_or_else(invalid);
        }
        Ok(Node::Member(Box::new(self.node(of)?), name.to_owned()))
    }

    fn call(&mut self, call: &CallExpr) -> Result<Node, String> {
        let name = call.func_name.as_str();
        match (name, &call.target, call.args.as_slice()) {
            ("_[_]", None, [of, index]) => match name_of(index) {
                Some(name) => self.member(of, name),
                None => Ok(Node::Index(self.pair(of, index)?)),
            },
            ("_?_:_", None, [condition, then, otherwise]) => Ok(Node::If(Box::new([
                self.node(condition)?,
                self.node(then)?,
                self.node(otherwise)?,
            ]))),
            ("_&&_", None, [left, right]) => Ok(Node::And(self.pair(left, right)?)),
            ("_||_", None, [left, right]) => Ok(Node::Or(self.pair(left, right)?)),
            ("!_", None, [operand]) => Ok(Node::Not(Box::new(self.node(operand)?))),
            ("-_", None, [operand]) => Ok(Node::Negate(Box::new(self.node(operand)?))),
            ("has", None, [field]) => Ok(Node::Has(Box::new(self.node(field)?))),
            ("matches", Some(text), [pattern]) => self.matches(text, pattern),
            ("matches", None, [text, pattern]) => self.matches(text, pattern),
            ("all" | "exists" | "exists_one", Some(range), [item, body]) => {
                let Expr::Ident(item) = &item.expr else { return Err(invalid()) };
                let range = self.node(range)?;
                self.item = Some(item.clone());
                let body = self.node(body)?;
                self.item = None;
                let quantifier = match name {
                    "all" => Quantifier::All,
                    "exists" => Quantifier::Exists,
                    _ => Quantifier::ExistsOne,
                };
                Ok(Node::Iterate(quantifier, Box::new([range, body])))
            }
            (_, None, [left, right]) if operator(name).is_some() => {
                let operator = operator(name).ok_or_else(invalid)?;
                Ok(Node::Binary(operator, self.pair(left, right)?))
            }
            (_, target, args) => {
                let function = function(name).ok_or_else(invalid)?;
                let mut operands = Vec::with_capacity(1 + args.len());
                if let Some(target) = target {
                    operands.push(self.node(target)?);
                }
                operands.extend(self.nodes(args)?);
                Ok(Node::Call(function, operands))
            }
        }
    }

    fn matches(&mut self, text: &IdedExpr, pattern: &IdedExpr) -> Result<Node, String> {
        let text = Box::new(self.node(text)?);
        Ok(Node::Matches(text, self.pattern(pattern)?))
    }

    fn pattern(&mut self, pattern: &IdedExpr) -> Result<usize, String> {
        let pattern = name_of(pattern).ok_or_else(invalid)?;
        let compiled = self.known.compile(pattern, self.left).map_err(|fault| match fault {
            Invalid::Syntax => "has a pattern that is not a regular expression".to_owned(),
            Invalid::Unsupported(what) => format!("has a pattern with {what}"),
            Invalid::TooLarge => "has a pattern that is too large".to_owned(),
        })?;
        let same = |known: &Arc<Pattern>| Arc::ptr_eq(known, &compiled);
        if let Some(number) = self.patterns.iter().position(same) {
            return Ok(number);
        }
        self.left -= compiled.size();
        self.patterns.push(compiled);
        Ok(self.patterns.len() - 1)
    }
}

/// The step in `steps.id` or `steps["id"]`.
fn step_of(node: &IdedExpr) -> Option<&str> {
    let is_steps = |node: &IdedExpr| matches!(&node.expr, Expr::Ident(name) if name == "steps");
    match &node.expr {
        Expr::Select(select) if is_steps(&select.operand) => Some(&select.field),
        Expr::Call(call) if call.func_name == "_[_]" => match call.args.as_slice() {
            [of, index] if is_steps(of) => name_of(index),
            _ => None,
        },
        Expr::Unspecified
        | Expr::Select(_)
        | Expr::Call(_)
        | Expr::Comprehension(_)
        | Expr::Ident(_)
        | Expr::List(_)
        | Expr::Literal(_)
        | Expr::Map(_)
        | Expr::Struct(_) => None,
    }
}

fn is_meta(node: &IdedExpr) -> bool {
    matches!(&node.expr, Expr::Ident(name) if name == "meta")
}

/// The text of a string literal.
fn name_of(node: &IdedExpr) -> Option<&str> {
    if let Expr::Literal(LiteralValue::String(text)) = &node.expr {
        Some(text.inner())
    } else {
        None
    }
}

fn of_literal(literal: &LiteralValue) -> Node {
    match literal {
        LiteralValue::Boolean(value) => Node::Bool(*value.inner()),
        LiteralValue::Bytes(bytes) => Node::Bytes(bytes.inner().to_vec()),
        LiteralValue::Double(number) => typed(Exact::Double(*number.inner())),
        LiteralValue::Int(number) => typed(Exact::Int(*number.inner())),
        LiteralValue::Null => Node::Null,
        LiteralValue::String(text) => Node::Text(text.inner().to_owned()),
        LiteralValue::UInt(number) => typed(Exact::UInt(*number.inner())),
    }
}

const fn typed(value: Exact) -> Node {
    Node::Number(Number::typed(value))
}

fn operator(name: &str) -> Option<Operator> {
    Some(match name {
        "_+_" => Operator::Add,
        "_-_" => Operator::Subtract,
        "_*_" => Operator::Multiply,
        "_/_" => Operator::Divide,
        "_%_" => Operator::Remainder,
        "_==_" => Operator::Equal,
        "_!=_" => Operator::Unequal,
        "_<_" => Operator::Less,
        "_<=_" => Operator::LessEqual,
        "_>_" => Operator::Greater,
        "_>=_" => Operator::GreaterEqual,
        "@in" => Operator::In,
        _ => return None,
    })
}

fn function(name: &str) -> Option<Function> {
    Some(match name {
        "size" => Function::Size,
        "contains" => Function::Contains,
        "startsWith" => Function::StartsWith,
        "endsWith" => Function::EndsWith,
        "int" => Function::Int,
        "uint" => Function::UInt,
        "double" => Function::Double,
        "string" => Function::Text,
        "type" => Function::Type,
        _ => return None,
    })
}

/// The check refuses every construct that the lowering does not know.
fn invalid() -> String {
    "is not valid CEL".to_owned()
}
