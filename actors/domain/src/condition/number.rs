//! The numbers of an evaluation.
//!
//! A number of JSON has no type: 1, 1.0 and 1e0 are one number, and a result is the one of arithmetic, also
//! where an integer of 64 bits would overflow or be cut off. Literals and the results of `int`, `uint`,
//! `double` and `size` have CEL's types: two integers divide to an integer. A number of JSON beside another
//! one makes a number of JSON. Deliberately absent: decimals. A fraction is a double.

use std::cmp::Ordering;

use super::program::Operator;

/// A number, and its origin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number {
    value: Exact,
    is_json: bool,
}

/// The value of a number. That of a number of JSON is an integer if it can be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Exact {
    Int(i64),
    UInt(u64),
    Double(f64),
}

/// A computation without a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("is a division by zero")]
    Zero,
    #[error("is out of range")]
    Range,
}

impl Number {
    /// A number of a type of CEL.
    pub(super) const fn typed(value: Exact) -> Self {
        Self { value, is_json: false }
    }

    /// A size.
    pub(super) fn size(size: usize) -> Self {
        Self::typed(Exact::Int(i64::try_from(size).unwrap_or(i64::MAX)))
    }

    /// A number as it stands in JSON.
    pub(super) fn of_json(number: &serde_json::Number) -> Self {
        Self::untyped(match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Exact::Int(number),
            (None, Some(number)) => Exact::UInt(number),
            (None, None) => Exact::Double(number.as_f64().unwrap_or(f64::NAN)),
        })
    }

    fn untyped(value: Exact) -> Self {
        let value = match value {
            Exact::Double(number) if number.fract() == 0.0 => {
                wide(number).and_then(integer).unwrap_or(value)
            }
            Exact::Int(_) | Exact::UInt(_) | Exact::Double(_) => value,
        };
        Self { value, is_json: true }
    }

    /// The name of the type, as `type` returns it.
    pub(super) const fn type_name(self) -> &'static str {
        match self.value {
            Exact::Int(_) => "int",
            Exact::UInt(_) => "uint",
            Exact::Double(_) => "double",
        }
    }

    /// True for a number that can be a key of a map.
    pub(super) const fn is_integer(self) -> bool {
        matches!(self.value, Exact::Int(_) | Exact::UInt(_))
    }

    /// The result of an operator of arithmetic.
    pub(super) fn compute(self, operator: Operator, other: Self) -> Result<Self, Fault> {
        let is_json = self.is_json || other.is_json;
        let is_division = matches!(operator, Operator::Divide | Operator::Remainder);
        if is_division && other.is_zero() && (is_json || (self.is_integer() && other.is_integer()))
        {
            return Err(Fault::Zero);
        }
        let doubles = || Exact::Double(of_doubles(operator, self.double(), other.double()));
        let (Some(left), Some(right)) = (self.integer(), other.integer()) else {
            return Ok(if is_json { Self::untyped(doubles()) } else { Self::typed(doubles()) });
        };
        if is_json {
            let is_fraction = operator == Operator::Divide && left % right != 0;
            let whole = of_integers(operator, left, right).filter(|_| !is_fraction);
            return Ok(Self::untyped(whole.and_then(integer).unwrap_or_else(doubles)));
        }
        let result = of_integers(operator, left, right).ok_or(Fault::Range)?;
        let typed = match (self.value, other.value) {
            (Exact::Int(_), Exact::Int(_)) => i64::try_from(result).ok().map(Exact::Int),
            (Exact::UInt(_), Exact::UInt(_)) => u64::try_from(result).ok().map(Exact::UInt),
            (_, _) => integer(result),
        };
        typed.map(Self::typed).ok_or(Fault::Range)
    }

    /// The number with the other sign.
    pub(super) fn negated(self) -> Result<Self, Fault> {
        if let Exact::Double(number) = self.value {
            return Ok(Self { value: Exact::Double(-number), ..self });
        }
        Self::typed(Exact::Int(0)).compute(Operator::Subtract, self)
    }

    /// The order by value, whatever the types; `None` beside a NaN.
    pub(super) fn compare(self, other: Self) -> Option<Ordering> {
        match (self.integer(), other.integer()) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            (Some(left), None) => of_integer_and_double(left, other.double()),
            (None, Some(right)) => {
                of_integer_and_double(right, self.double()).map(Ordering::reverse)
            }
            (None, None) => self.double().partial_cmp(&other.double()),
        }
    }

    /// The place in a list; `None` for a negative number or a fraction.
    pub(super) fn place(self) -> Option<usize> {
        let whole = match self.value {
            Exact::Double(number) => wide(number).filter(|_| number.fract() == 0.0),
            Exact::Int(_) | Exact::UInt(_) => self.integer(),
        };
        whole.and_then(|whole| usize::try_from(whole).ok())
    }

    /// The number as an `int`, a fraction cut off.
    pub(super) fn int(self) -> Option<Self> {
        let whole = self.integer().or_else(|| wide(self.double()))?;
        i64::try_from(whole).ok().map(Exact::Int).map(Self::typed)
    }

    /// The number as a `uint`, a fraction cut off.
    pub(super) fn uint(self) -> Option<Self> {
        let whole = self.integer().or_else(|| wide(self.double()))?;
        let is_negative = matches!(self.value, Exact::Double(number) if number < 0.0);
        u64::try_from(whole).ok().filter(|_| !is_negative).map(Exact::UInt).map(Self::typed)
    }

    /// The number as a `double`.
    pub(super) const fn as_double(self) -> Self {
        Self::typed(Exact::Double(self.double()))
    }

    /// The number as a text.
    pub(super) fn text(self) -> String {
        match self.value {
            Exact::Int(number) => number.to_string(),
            Exact::UInt(number) => number.to_string(),
            Exact::Double(number) => number.to_string(),
        }
    }

    fn is_zero(self) -> bool {
        self.integer() == Some(0) || matches!(self.value, Exact::Double(number) if number == 0.0)
    }

    fn integer(self) -> Option<i128> {
        match self.value {
            Exact::Int(number) => Some(number.into()),
            Exact::UInt(number) => Some(number.into()),
            Exact::Double(_) => None,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "CEL converts an integer so")]
    const fn double(self) -> f64 {
        match self.value {
            Exact::Int(number) => number as f64,
            Exact::UInt(number) => number as f64,
            Exact::Double(number) => number,
        }
    }
}

fn of_doubles(operator: Operator, left: f64, right: f64) -> f64 {
    match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide => left / right,
        Operator::Remainder => left % right,
        Operator::Equal
        | Operator::Unequal
        | Operator::Less
        | Operator::LessEqual
        | Operator::Greater
        | Operator::GreaterEqual
        | Operator::In => f64::NAN,
    }
}

fn of_integers(operator: Operator, left: i128, right: i128) -> Option<i128> {
    match operator {
        Operator::Add => left.checked_add(right),
        Operator::Subtract => left.checked_sub(right),
        Operator::Multiply => left.checked_mul(right),
        Operator::Divide => left.checked_div(right),
        Operator::Remainder => left.checked_rem(right),
        Operator::Equal
        | Operator::Unequal
        | Operator::Less
        | Operator::LessEqual
        | Operator::Greater
        | Operator::GreaterEqual
        | Operator::In => None,
    }
}

fn of_integer_and_double(integer: i128, double: f64) -> Option<Ordering> {
    match wide(double) {
        Some(whole) => Some(integer.cmp(&whole).then(0.0.partial_cmp(&double.fract())?)),
        None => 0.0.partial_cmp(&double),
    }
}

/// The integer of 64 bits, with a sign if it can have one.
fn integer(whole: i128) -> Option<Exact> {
    let signed = i64::try_from(whole).ok().map(Exact::Int);
    signed.or_else(|| u64::try_from(whole).ok().map(Exact::UInt))
}

/// The whole part of a double; `None` if it is far beyond 64 bits, or no number.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn wide(number: f64) -> Option<i128> {
    (number.abs() < 1e30).then_some(number as i128)
}
