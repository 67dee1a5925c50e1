//! Macros: what looks like a call and is a loop, a test or a name for a value.

use super::parse::{Parser, Stop};
use super::syntax::{Expr, Fold, Item, Kind, Literal};

/// The variable in which a loop gathers its result; no expression can name it.
pub(super) const ACCUMULATOR: &str = "@result";
const OLD_ACCUMULATOR: &str = "__result__";
const UNUSED: &str = "#unused";

type Result<T> = std::result::Result<T, Stop>;

/// A call of a function by its name.
pub(super) fn global_call(
    parser: &mut Parser,
    offset: u32,
    function: String,
    args: Vec<Expr>,
) -> Result<Expr> {
    if function != "has" || args.len() != 1 {
        return parser.call(offset, &function, args);
    }
    let arg = args.into_iter().next().ok_or(Stop::Reported)?;
    match arg.kind {
        Kind::Select {
            operand,
            field,
            test: false,
        } => {
            let kind = Kind::Select {
                operand,
                field,
                test: true,
            };
            parser.node(offset, kind)
        }
        _ => {
            let offset = parser.offsets.get(arg.id);
            Err(parser.report(offset, "invalid argument to has() macro"))
        }
    }
}

/// A call of a function on a value.
pub(super) fn member_call(
    parser: &mut Parser,
    offset: u32,
    target: Expr,
    function: String,
    args: Vec<Expr>,
) -> Result<Expr> {
    let mut expansion = Expansion { parser, offset };
    let count = args.len();
    let mut args = args.into_iter();
    let mut next = || args.next().ok_or(Stop::Reported);
    match (function.as_str(), count) {
        ("all" | "exists" | "exists_one", 2) => {
            let (variable, predicate) = (next()?, next()?);
            let name = expansion.variable(&variable, "argument must be a simple name")?;
            expansion.quantifier(&function, Over::one(target, name), predicate)
        }
        ("all" | "exists" | "exists_one" | "existsOne", 3) => {
            let (first, second, predicate) = (next()?, next()?, next()?);
            let (name, second) = expansion.two_variables(&first, &second)?;
            expansion.quantifier(&function, Over::two(target, name, second), predicate)
        }
        ("map", 2 | 3) => {
            let variable = next()?;
            let name = expansion.variable(&variable, "argument is not an identifier")?;
            let filter = if count == 3 { Some(next()?) } else { None };
            let transform = next()?;
            expansion.gather(Over::one(target, name), filter, transform)
        }
        ("filter", 2) => {
            let (variable, filter) = (next()?, next()?);
            let name = expansion.variable(&variable, "argument is not an identifier")?;
            expansion.gather(Over::one(target, name), Some(filter), variable)
        }
        ("transformList", 3 | 4) => {
            let (first, second) = (next()?, next()?);
            let (name, second) = expansion.two_variables(&first, &second)?;
            let filter = if count == 4 { Some(next()?) } else { None };
            let transform = next()?;
            expansion.gather(Over::two(target, name, second), filter, transform)
        }
        ("transformMap" | "transformMapEntry", 3 | 4) => {
            let (first, second) = (next()?, next()?);
            let (name, second) = expansion.two_variables(&first, &second)?;
            let filter = if count == 4 { Some(next()?) } else { None };
            let transform = next()?;
            let inserted = if function == "transformMap" {
                vec![expansion.ident(&name)?, transform]
            } else {
                vec![transform]
            };
            expansion.insert(Over::two(target, name, second), filter, inserted)
        }
        ("optMap" | "optFlatMap", 2) => {
            let (variable, transform) = (next()?, next()?);
            let Kind::Ident(name) = variable.kind else {
                let offset = expansion.parser.offsets.get(variable.id);
                let message = format!("{function}() variable name must be a simple identifier");
                return Err(expansion.parser.report(offset, message));
            };
            expansion.optional(&function, target, name, transform)
        }
        ("sortBy", 2) => {
            let (variable, key) = (next()?, next()?);
            expansion.sort_by(target, &variable, key)
        }
        _ => expansion.member(&function, target, args.collect()),
    }
}

/// What a loop goes over, and the names of what it is at.
struct Over {
    range: Expr,
    variable: String,
    second: Option<String>,
}

impl Over {
    fn one(range: Expr, variable: String) -> Self {
        Self {
            range,
            variable,
            second: None,
        }
    }

    fn two(range: Expr, variable: String, second: String) -> Self {
        Self {
            range,
            variable,
            second: Some(second),
        }
    }
}

/// Makes nodes at the offset of a macro's call.
struct Expansion<'p> {
    parser: &'p mut Parser,
    offset: u32,
}

impl Expansion<'_> {
    fn node(&mut self, kind: Kind) -> Result<Expr> {
        self.parser.node(self.offset, kind)
    }

    fn ident(&mut self, name: &str) -> Result<Expr> {
        self.node(Kind::Ident(name.to_owned()))
    }

    fn accumulated(&mut self) -> Result<Expr> {
        self.ident(ACCUMULATOR)
    }

    fn literal(&mut self, literal: Literal) -> Result<Expr> {
        self.node(Kind::Literal(literal))
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Result<Expr> {
        self.parser.call(self.offset, function, args)
    }

    fn member(&mut self, function: &str, target: Expr, args: Vec<Expr>) -> Result<Expr> {
        self.node(Kind::Call {
            function: function.to_owned(),
            target: Some(Box::new(target)),
            args,
        })
    }

    fn variable(&mut self, arg: &Expr, otherwise: &str) -> Result<String> {
        let offset = self.parser.offsets.get(arg.id);
        let Kind::Ident(name) = &arg.kind else {
            return Err(self.parser.report(offset, otherwise));
        };
        if name == ACCUMULATOR || name == OLD_ACCUMULATOR {
            let message = "iteration variable overwrites accumulator variable";
            return Err(self.parser.report(offset, message));
        }
        Ok(name.clone())
    }

    fn two_variables(&mut self, first: &Expr, second: &Expr) -> Result<(String, String)> {
        let one = self.variable(first, "argument must be a simple name")?;
        let other = self.variable(second, "argument must be a simple name")?;
        if one == other {
            let offset = self.parser.offsets.get(second.id);
            let message = format!("duplicate variable name: {one}");
            return Err(self.parser.report(offset, message));
        }
        Ok((one, other))
    }

    fn quantifier(&mut self, function: &str, over: Over, predicate: Expr) -> Result<Expr> {
        let accumulated = self.accumulated()?;
        let (init, condition, step, result);
        match function {
            "all" => {
                init = self.literal(Literal::Bool(true))?;
                condition = self.call("@not_strictly_false", vec![accumulated])?;
                let so_far = self.accumulated()?;
                step = self.call("_&&_", vec![so_far, predicate])?;
                result = self.accumulated()?;
            }
            "exists" => {
                init = self.literal(Literal::Bool(false))?;
                let none = self.call("!_", vec![accumulated])?;
                condition = self.call("@not_strictly_false", vec![none])?;
                let so_far = self.accumulated()?;
                step = self.call("_||_", vec![so_far, predicate])?;
                result = self.accumulated()?;
            }
            _ => {
                init = self.literal(Literal::Int(0))?;
                condition = self.literal(Literal::Bool(true))?;
                let one = self.literal(Literal::Int(1))?;
                let more = self.call("_+_", vec![accumulated, one])?;
                let same = self.accumulated()?;
                step = self.call("_?_:_", vec![predicate, more, same])?;
                let count = self.accumulated()?;
                let one = self.literal(Literal::Int(1))?;
                result = self.call("_==_", vec![count, one])?;
            }
        }
        self.fold(over, init, condition, step, result)
    }

    /// A loop that gathers a list.
    fn gather(&mut self, over: Over, filter: Option<Expr>, transform: Expr) -> Result<Expr> {
        let so_far = self.accumulated()?;
        let item = self.node(Kind::List(vec![Item {
            value: transform,
            optional: false,
        }]))?;
        let step = self.call("_+_", vec![so_far, item])?;
        let init = self.node(Kind::List(Vec::new()))?;
        self.unconditional(over, filter, init, step)
    }

    /// A loop that gathers a map.
    fn insert(&mut self, over: Over, filter: Option<Expr>, inserted: Vec<Expr>) -> Result<Expr> {
        let mut args = vec![self.accumulated()?];
        args.extend(inserted);
        let step = self.call("cel.@mapInsert", args)?;
        let init = self.node(Kind::Map(Vec::new()))?;
        self.unconditional(over, filter, init, step)
    }

    fn unconditional(
        &mut self,
        over: Over,
        filter: Option<Expr>,
        init: Expr,
        step: Expr,
    ) -> Result<Expr> {
        let step = match filter {
            None => step,
            Some(filter) => {
                let same = self.accumulated()?;
                self.call("_?_:_", vec![filter, step, same])?
            }
        };
        let condition = self.literal(Literal::Bool(true))?;
        let result = self.accumulated()?;
        self.fold(over, init, condition, step, result)
    }

    fn fold(
        &mut self,
        over: Over,
        init: Expr,
        condition: Expr,
        step: Expr,
        result: Expr,
    ) -> Result<Expr> {
        self.node(Kind::Fold(Box::new(Fold {
            range: over.range,
            variable: over.variable,
            second: over.second,
            accumulator: ACCUMULATOR.to_owned(),
            init,
            condition,
            step,
            result,
        })))
    }

    /// Gives a value a name inside of `result`.
    fn bind(&mut self, name: String, value: Expr, result: Expr) -> Result<Expr> {
        let range = self.node(Kind::List(Vec::new()))?;
        let condition = self.literal(Literal::Bool(false))?;
        let step = self.ident(&name)?;
        self.node(Kind::Fold(Box::new(Fold {
            range,
            variable: UNUSED.to_owned(),
            second: None,
            accumulator: name,
            init: value,
            condition,
            step,
            result,
        })))
    }

    fn optional(
        &mut self,
        function: &str,
        target: Expr,
        name: String,
        transform: Expr,
    ) -> Result<Expr> {
        let again = target.copy(&mut self.parser.offsets);
        let value = self.member("value", again, Vec::new())?;
        let mut bound = self.bind(name, value, transform)?;
        if function == "optMap" {
            bound = self.call("optional.of", vec![bound])?;
        }
        let present = self.member("hasValue", target, Vec::new())?;
        let none = self.call("optional.none", Vec::new())?;
        self.call("_?_:_", vec![present, bound, none])
    }

    fn sort_by(&mut self, target: Expr, variable: &Expr, key: Expr) -> Result<Expr> {
        const INPUT: &str = "@__sortBy_input__";
        if matches!(
            target.kind,
            Kind::Literal(_) | Kind::Map(_) | Kind::Struct { .. }
        ) {
            let offset = self.parser.offsets.get(target.id);
            let message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return Err(self.parser.report(offset, message));
        }
        let name = self.variable(variable, "argument is not an identifier")?;
        let input = self.ident(INPUT)?;
        let keys = self.gather(Over::one(input, name), None, key)?;
        let input = self.ident(INPUT)?;
        let sorted = self.member("@sortByAssociatedKeys", input, vec![keys])?;
        self.bind(INPUT.to_owned(), target, sorted)
    }
}
