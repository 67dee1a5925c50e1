//! The functions that expressions may call, and what each takes and gives.

use std::sync::Arc;

use super::cost::Price;
use super::library::Run;
use super::library::{
    addresses, convert, format, lists, operators, optional, quantity, regex, semver, sets, strings,
    time, url,
};
use super::types::{Bindings, Type};

/// A function with its forms.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) price: Price,
    pub(super) form: Form,
    pub(super) overloads: &'static [Overload],
}

/// How a function runs.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// On the values of its arguments.
    Call(Run),
    /// The evaluator decides which arguments are evaluated, or how failures among them count.
    Special(Special),
}

impl std::fmt::Debug for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Form::Call(_) => f.write_str("Call"),
            Form::Special(special) => special.fmt(f),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Special {
    And,
    Or,
    Conditional,
    NotStrictlyFalse,
    Index,
    OptionalIndex,
    OptionalSelect,
    OptionalOr,
    OptionalOrValue,
}

/// One form of a function.
#[derive(Debug)]
pub(super) struct Overload {
    /// Whether it is called on its first argument.
    pub(super) member: bool,
    pub(super) args: &'static [Sig],
    pub(super) result: Sig,
}

/// A type as declarations write it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sig {
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    Dyn,
    /// The first type that a call chooses.
    A,
    /// The second.
    B,
    List(&'static Sig),
    Map(&'static Sig, &'static Sig),
    Optional(&'static Sig),
    Kind(&'static Sig),
    Named(&'static str),
}

impl Sig {
    /// The type, with what a call chooses taken from `chosen`.
    pub(super) fn instantiate(self, chosen: &mut Chosen, bindings: &mut Bindings) -> Type {
        match self {
            Sig::Bool => Type::Bool,
            Sig::Int => Type::Int,
            Sig::Uint => Type::Uint,
            Sig::Double => Type::Double,
            Sig::Text => Type::Text,
            Sig::Bytes => Type::Bytes,
            Sig::Duration => Type::Duration,
            Sig::Timestamp => Type::Timestamp,
            Sig::Dyn => Type::Dyn,
            Sig::A => chosen.a.get_or_insert_with(|| bindings.fresh()).clone(),
            Sig::B => chosen.b.get_or_insert_with(|| bindings.fresh()).clone(),
            Sig::List(item) => Type::list(item.instantiate(chosen, bindings)),
            Sig::Map(key, value) => {
                let key = key.instantiate(chosen, bindings);
                Type::map(key, value.instantiate(chosen, bindings))
            }
            Sig::Optional(value) => Type::optional(value.instantiate(chosen, bindings)),
            Sig::Kind(of) => Type::Kind(Some(Arc::new(of.instantiate(chosen, bindings)))),
            Sig::Named(name) => Type::Named(name),
        }
    }
}

/// The types that one call chose.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    a: Option<Type>,
    b: Option<Type>,
}

/// The function of a name.
pub(super) fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS
        .iter()
        .flat_map(|part| part.iter())
        .find(|function| function.name == name)
}

/// The type that a name stands for as a value.
pub(super) fn type_named(name: &str) -> Option<Type> {
    let kind = match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "string" => Type::Text,
        "null_type" => Type::Null,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "optional_type" => Type::optional(Type::Dyn),
        "type" => Type::Kind(None),
        _ => Type::Named(
            [QUANTITY, URL, IP, CIDR, SEMVER, FORMAT]
                .into_iter()
                .find(|known| *known == name)?,
        ),
    };
    Some(Type::Kind(Some(Arc::new(kind))))
}

pub(super) const QUANTITY: &str = "kubernetes.Quantity";
pub(super) const URL: &str = "kubernetes.URL";
pub(super) const IP: &str = "net.IP";
pub(super) const CIDR: &str = "net.CIDR";
pub(super) const SEMVER: &str = "kubernetes.Semver";
pub(super) const FORMAT: &str = "kubernetes.NamedFormat";

use Sig::{
    A, B, Bool, Bytes, Double, Duration, Dyn, Int, Kind, List, Map, Named, Optional, Text,
    Timestamp, Uint,
};

const Q: Sig = Named(QUANTITY);
const U: Sig = Named(URL);
const I: Sig = Named(IP);
const C: Sig = Named(CIDR);
const V: Sig = Named(SEMVER);
const F: Sig = Named(FORMAT);
const TEXTS: Sig = List(&Text);
const ANY: Sig = List(&A);

/// A form that is called by its name.
const fn of(args: &'static [Sig], result: Sig) -> Overload {
    Overload {
        member: false,
        args,
        result,
    }
}

/// A form that is called on its first argument.
const fn on(args: &'static [Sig], result: Sig) -> Overload {
    Overload {
        member: true,
        args,
        result,
    }
}

const fn call(
    name: &'static str,
    price: Price,
    run: Run,
    overloads: &'static [Overload],
) -> Function {
    Function {
        name,
        price,
        form: Form::Call(run),
        overloads,
    }
}

const fn special(
    name: &'static str,
    price: Price,
    special: Special,
    overloads: &'static [Overload],
) -> Function {
    Function {
        name,
        price,
        form: Form::Special(special),
        overloads,
    }
}

static FUNCTIONS: [&[Function]; 6] = [
    OPERATORS,
    CONVERSIONS,
    STANDARD,
    STRINGS_AND_LISTS,
    OPTIONALS,
    KUBERNETES,
];

const COMPARISONS: &[Overload] = &[
    of(&[Bool, Bool], Bool),
    of(&[Int, Int], Bool),
    of(&[Int, Double], Bool),
    of(&[Int, Uint], Bool),
    of(&[Uint, Uint], Bool),
    of(&[Uint, Double], Bool),
    of(&[Uint, Int], Bool),
    of(&[Double, Double], Bool),
    of(&[Double, Int], Bool),
    of(&[Double, Uint], Bool),
    of(&[Text, Text], Bool),
    of(&[Bytes, Bytes], Bool),
    of(&[Timestamp, Timestamp], Bool),
    of(&[Duration, Duration], Bool),
];

const OPERATORS: &[Function] = &[
    special(
        "_?_:_",
        Price::Conditional,
        Special::Conditional,
        &[of(&[Bool, A, A], A)],
    ),
    special(
        "_&&_",
        Price::Logic,
        Special::And,
        &[of(&[Bool, Bool], Bool)],
    ),
    special(
        "_||_",
        Price::Logic,
        Special::Or,
        &[of(&[Bool, Bool], Bool)],
    ),
    special(
        "@not_strictly_false",
        Price::Unit,
        Special::NotStrictlyFalse,
        &[of(&[Bool], Bool)],
    ),
    call("!_", Price::Unit, operators::not, &[of(&[Bool], Bool)]),
    call(
        "_==_",
        Price::Equality,
        operators::equal,
        &[of(&[A, A], Bool)],
    ),
    call(
        "_!=_",
        Price::Equality,
        operators::not_equal,
        &[of(&[A, A], Bool)],
    ),
    call("_<_", Price::Comparison, operators::less, COMPARISONS),
    call(
        "_<=_",
        Price::Comparison,
        operators::less_or_equal,
        COMPARISONS,
    ),
    call("_>_", Price::Comparison, operators::greater, COMPARISONS),
    call(
        "_>=_",
        Price::Comparison,
        operators::greater_or_equal,
        COMPARISONS,
    ),
    call(
        "_+_",
        Price::Add,
        operators::add,
        &[
            of(&[Bytes, Bytes], Bytes),
            of(&[Double, Double], Double),
            of(&[Duration, Duration], Duration),
            of(&[Duration, Timestamp], Timestamp),
            of(&[Timestamp, Duration], Timestamp),
            of(&[Int, Int], Int),
            of(&[ANY, ANY], ANY),
            of(&[Text, Text], Text),
            of(&[Uint, Uint], Uint),
        ],
    ),
    call(
        "_-_",
        Price::Unit,
        operators::subtract,
        &[
            of(&[Double, Double], Double),
            of(&[Duration, Duration], Duration),
            of(&[Int, Int], Int),
            of(&[Timestamp, Duration], Timestamp),
            of(&[Timestamp, Timestamp], Duration),
            of(&[Uint, Uint], Uint),
        ],
    ),
    call("_*_", Price::Unit, operators::multiply, NUMBERS),
    call("_/_", Price::Unit, operators::divide, NUMBERS),
    call(
        "_%_",
        Price::Unit,
        operators::modulo,
        &[of(&[Int, Int], Int), of(&[Uint, Uint], Uint)],
    ),
    call(
        "-_",
        Price::Unit,
        operators::negate,
        &[of(&[Double], Double), of(&[Int], Int)],
    ),
    call(
        "@in",
        Price::In,
        operators::contained,
        &[of(&[A, ANY], Bool), of(&[A, Map(&A, &B)], Bool)],
    ),
    special(
        "_[_]",
        Price::Index,
        Special::Index,
        &[
            of(&[ANY, Int], A),
            of(&[Map(&A, &B), A], B),
            of(&[Optional(&ANY), Int], Optional(&A)),
            of(&[Optional(&Map(&A, &B)), A], Optional(&B)),
        ],
    ),
    special(
        "_[?_]",
        Price::Index,
        Special::OptionalIndex,
        &[
            of(&[ANY, Int], Optional(&A)),
            of(&[Optional(&ANY), Int], Optional(&A)),
            of(&[Map(&A, &B), A], Optional(&B)),
            of(&[Optional(&Map(&A, &B)), A], Optional(&B)),
        ],
    ),
    special(
        "_?._",
        Price::Index,
        Special::OptionalSelect,
        &[of(&[Dyn, Text], Optional(&A))],
    ),
];

const NUMBERS: &[Overload] = &[
    of(&[Double, Double], Double),
    of(&[Int, Int], Int),
    of(&[Uint, Uint], Uint),
];

const CONVERSIONS: &[Function] = &[
    call("type", Price::Unit, convert::kind, &[of(&[A], Kind(&A))]),
    call("dyn", Price::Dyn, convert::same, &[of(&[A], Dyn)]),
    call(
        "bool",
        Price::Unit,
        convert::bool,
        &[of(&[Bool], Bool), of(&[Text], Bool)],
    ),
    call(
        "bytes",
        Price::Transcode,
        convert::bytes,
        &[of(&[Bytes], Bytes), of(&[Text], Bytes)],
    ),
    call(
        "double",
        Price::Unit,
        convert::double,
        &[
            of(&[Double], Double),
            of(&[Int], Double),
            of(&[Text], Double),
            of(&[Uint], Double),
        ],
    ),
    call(
        "duration",
        Price::Unit,
        convert::duration,
        &[
            of(&[Duration], Duration),
            of(&[Int], Duration),
            of(&[Text], Duration),
        ],
    ),
    call(
        "int",
        Price::Unit,
        convert::int,
        &[
            of(&[Int], Int),
            of(&[Double], Int),
            of(&[Duration], Int),
            of(&[Text], Int),
            of(&[Timestamp], Int),
            of(&[Uint], Int),
        ],
    ),
    call(
        "string",
        Price::Transcode,
        convert::text,
        &[
            of(&[Text], Text),
            of(&[Bool], Text),
            of(&[Bytes], Text),
            of(&[Double], Text),
            of(&[Duration], Text),
            of(&[Int], Text),
            of(&[Timestamp], Text),
            of(&[Uint], Text),
            of(&[I], Text),
            of(&[C], Text),
        ],
    ),
    call(
        "timestamp",
        Price::Unit,
        convert::timestamp,
        &[
            of(&[Timestamp], Timestamp),
            of(&[Int], Timestamp),
            of(&[Text], Timestamp),
        ],
    ),
    call(
        "uint",
        Price::Unit,
        convert::uint,
        &[
            of(&[Uint], Uint),
            of(&[Double], Uint),
            of(&[Int], Uint),
            of(&[Text], Uint),
        ],
    ),
];

const OF_TIME: &[Overload] = &[on(&[Timestamp], Int), on(&[Timestamp, Text], Int)];

const OF_TIME_AND_SPAN: &[Overload] = &[
    on(&[Timestamp], Int),
    on(&[Timestamp, Text], Int),
    on(&[Duration], Int),
];

const STANDARD: &[Function] = &[
    call(
        "size",
        Price::Unit,
        convert::size,
        &[
            of(&[Bytes], Int),
            on(&[Bytes], Int),
            of(&[ANY], Int),
            on(&[ANY], Int),
            of(&[Map(&A, &B)], Int),
            on(&[Map(&A, &B)], Int),
            of(&[Text], Int),
            on(&[Text], Int),
        ],
    ),
    call(
        "contains",
        Price::Contains,
        strings::contains,
        &[on(&[Text, Text], Bool)],
    ),
    call(
        "startsWith",
        Price::Ends,
        strings::starts_with,
        &[on(&[Text, Text], Bool)],
    ),
    call(
        "endsWith",
        Price::Ends,
        strings::ends_with,
        &[on(&[Text, Text], Bool)],
    ),
    call(
        "matches",
        Price::Matches,
        regex::matches,
        &[of(&[Text, Text], Bool), on(&[Text, Text], Bool)],
    ),
    call("getFullYear", Price::Unit, time::year, OF_TIME),
    call("getMonth", Price::Unit, time::month, OF_TIME),
    call("getDayOfYear", Price::Unit, time::day_of_year, OF_TIME),
    call("getDayOfMonth", Price::Unit, time::day_of_month, OF_TIME),
    call("getDate", Price::Unit, time::date, OF_TIME),
    call("getDayOfWeek", Price::Unit, time::day_of_week, OF_TIME),
    call("getHours", Price::Unit, time::hours, OF_TIME_AND_SPAN),
    call("getMinutes", Price::Unit, time::minutes, OF_TIME_AND_SPAN),
    call("getSeconds", Price::Unit, time::seconds, OF_TIME_AND_SPAN),
    call(
        "getMilliseconds",
        Price::Unit,
        time::milliseconds,
        OF_TIME_AND_SPAN,
    ),
    call(
        "cel.@mapInsert",
        Price::Unit,
        lists::map_insert,
        &[
            of(&[Map(&A, &B), A, B], Map(&A, &B)),
            of(&[Map(&A, &B), Map(&A, &B)], Map(&A, &B)),
        ],
    ),
];

const ORDERED: &[Overload] = &[
    on(&[List(&Int)], Bool),
    on(&[List(&Uint)], Bool),
    on(&[List(&Double)], Bool),
    on(&[List(&Bool)], Bool),
    on(&[List(&Duration)], Bool),
    on(&[List(&Timestamp)], Bool),
    on(&[List(&Text)], Bool),
    on(&[List(&Bytes)], Bool),
];

const EXTREMES: &[Overload] = &[
    on(&[List(&Int)], Int),
    on(&[List(&Uint)], Uint),
    on(&[List(&Double)], Double),
    on(&[List(&Bool)], Bool),
    on(&[List(&Duration)], Duration),
    on(&[List(&Timestamp)], Timestamp),
    on(&[List(&Text)], Text),
    on(&[List(&Bytes)], Bytes),
];

const STRINGS_AND_LISTS: &[Function] = &[
    call(
        "charAt",
        Price::Unit,
        strings::char_at,
        &[on(&[Text, Int], Text)],
    ),
    call(
        "indexOf",
        Price::ListScan,
        strings::index_of,
        &[
            on(&[Text, Text], Int),
            on(&[Text, Text, Int], Int),
            on(&[ANY, A], Int),
        ],
    ),
    call(
        "lastIndexOf",
        Price::ListScan,
        strings::last_index_of,
        &[
            on(&[Text, Text], Int),
            on(&[Text, Text, Int], Int),
            on(&[ANY, A], Int),
        ],
    ),
    call(
        "lowerAscii",
        Price::Rewrite,
        strings::lower_ascii,
        &[on(&[Text], Text)],
    ),
    call(
        "upperAscii",
        Price::Rewrite,
        strings::upper_ascii,
        &[on(&[Text], Text)],
    ),
    call("trim", Price::Rewrite, strings::trim, &[on(&[Text], Text)]),
    call(
        "substring",
        Price::Rewrite,
        strings::substring,
        &[on(&[Text, Int], Text), on(&[Text, Int, Int], Text)],
    ),
    call(
        "replace",
        Price::Replace,
        strings::replace,
        &[
            on(&[Text, Text, Text], Text),
            on(&[Text, Text, Text, Int], Text),
        ],
    ),
    call(
        "split",
        Price::Split,
        strings::split,
        &[on(&[Text, Text], TEXTS), on(&[Text, Text, Int], TEXTS)],
    ),
    call(
        "join",
        Price::Join,
        strings::join,
        &[on(&[TEXTS], Text), on(&[TEXTS, Text], Text)],
    ),
    call(
        "format",
        Price::Format,
        format::format,
        &[on(&[Text, List(&Dyn)], Text)],
    ),
    call(
        "strings.quote",
        Price::Quote,
        strings::quote,
        &[of(&[Text], Text)],
    ),
    call("isSorted", Price::ListScan, lists::is_sorted, ORDERED),
    call(
        "sum",
        Price::ListScan,
        lists::sum,
        &[
            on(&[List(&Int)], Int),
            on(&[List(&Uint)], Uint),
            on(&[List(&Double)], Double),
            on(&[List(&Duration)], Duration),
        ],
    ),
    call("min", Price::ListScan, lists::min, EXTREMES),
    call("max", Price::ListScan, lists::max, EXTREMES),
    call(
        "slice",
        Price::Slice,
        lists::slice,
        &[on(&[ANY, Int, Int], ANY)],
    ),
    call(
        "flatten",
        Price::Flatten,
        lists::flatten,
        &[on(&[List(&ANY)], ANY), on(&[List(&Dyn), Int], List(&Dyn))],
    ),
    call(
        "sort",
        Price::Sort,
        lists::sort,
        &[
            on(&[List(&Int)], List(&Int)),
            on(&[List(&Uint)], List(&Uint)),
            on(&[List(&Double)], List(&Double)),
            on(&[List(&Bool)], List(&Bool)),
            on(&[List(&Duration)], List(&Duration)),
            on(&[List(&Timestamp)], List(&Timestamp)),
            on(&[List(&Text)], List(&Text)),
            on(&[List(&Bytes)], List(&Bytes)),
        ],
    ),
    call(
        "@sortByAssociatedKeys",
        Price::SortBy,
        lists::sort_by_keys,
        &[
            on(&[ANY, List(&Int)], ANY),
            on(&[ANY, List(&Uint)], ANY),
            on(&[ANY, List(&Double)], ANY),
            on(&[ANY, List(&Bool)], ANY),
            on(&[ANY, List(&Duration)], ANY),
            on(&[ANY, List(&Timestamp)], ANY),
            on(&[ANY, List(&Text)], ANY),
            on(&[ANY, List(&Bytes)], ANY),
        ],
    ),
    call(
        "lists.range",
        Price::Range,
        lists::range,
        &[of(&[Int], List(&Int))],
    ),
    call(
        "reverse",
        Price::Reverse,
        lists::reverse,
        &[on(&[ANY], ANY)],
    ),
    call(
        "distinct",
        Price::Distinct,
        lists::distinct,
        &[on(&[ANY], ANY)],
    ),
    call(
        "sets.contains",
        Price::Sets(1.0),
        sets::contains,
        &[of(&[ANY, ANY], Bool)],
    ),
    call(
        "sets.intersects",
        Price::Sets(1.0),
        sets::intersects,
        &[of(&[ANY, ANY], Bool)],
    ),
    call(
        "sets.equivalent",
        Price::Sets(2.0),
        sets::equivalent,
        &[of(&[ANY, ANY], Bool)],
    ),
];

const OPTIONALS: &[Function] = &[
    call(
        "optional.of",
        Price::Unit,
        optional::of,
        &[of(&[A], Optional(&A))],
    ),
    call(
        "optional.ofNonZeroValue",
        Price::Unit,
        optional::of_non_zero,
        &[of(&[A], Optional(&A))],
    ),
    call(
        "optional.none",
        Price::Unit,
        optional::none,
        &[of(&[], Optional(&A))],
    ),
    call(
        "optional.unwrap",
        Price::Unit,
        optional::unwrap,
        &[of(&[List(&Optional(&A))], ANY)],
    ),
    call(
        "unwrapOpt",
        Price::Unit,
        optional::unwrap,
        &[on(&[List(&Optional(&A))], ANY)],
    ),
    call(
        "value",
        Price::Unit,
        optional::value,
        &[on(&[Optional(&A)], A)],
    ),
    call(
        "hasValue",
        Price::Unit,
        optional::has_value,
        &[on(&[Optional(&A)], Bool)],
    ),
    special(
        "or",
        Price::Free,
        Special::OptionalOr,
        &[on(&[Optional(&A), Optional(&A)], Optional(&A))],
    ),
    special(
        "orValue",
        Price::Free,
        Special::OptionalOrValue,
        &[on(&[Optional(&A), A], A)],
    ),
    call(
        "first",
        Price::Unit,
        lists::first,
        &[on(&[ANY], Optional(&A))],
    ),
    call(
        "last",
        Price::Unit,
        lists::last,
        &[on(&[ANY], Optional(&A))],
    ),
];

const IP_TESTS: &[Overload] = &[on(&[I], Bool)];
const OF_URL: &[Overload] = &[on(&[U], Text)];
const FORMATS: &[Overload] = &[of(&[], F)];
const GETS_NUMBER: &[Overload] = &[on(&[V], Int)];
const GREATER: &[Overload] = &[on(&[Q, Q], Bool), on(&[V, V], Bool)];

const KUBERNETES: &[Function] = &[
    call("find", Price::Find, regex::find, &[on(&[Text, Text], Text)]),
    call(
        "findAll",
        Price::Find,
        regex::find_all,
        &[on(&[Text, Text], TEXTS), on(&[Text, Text, Int], TEXTS)],
    ),
    call("url", Price::Rewrite, url::parse, &[of(&[Text], U)]),
    call("isURL", Price::Unit, url::is_url, &[of(&[Text], Bool)]),
    call("getScheme", Price::Unit, url::scheme, OF_URL),
    call("getHost", Price::Unit, url::host, OF_URL),
    call("getHostname", Price::Unit, url::hostname, OF_URL),
    call("getPort", Price::Unit, url::port, OF_URL),
    call("getEscapedPath", Price::Unit, url::escaped_path, OF_URL),
    call(
        "getQuery",
        Price::Unit,
        url::query,
        &[on(&[U], Map(&Text, &TEXTS))],
    ),
    call(
        "quantity",
        Price::Scan(1.0),
        quantity::parse,
        &[of(&[Text], Q)],
    ),
    call(
        "isQuantity",
        Price::Scan(1.0),
        quantity::is_quantity,
        &[of(&[Text], Bool)],
    ),
    call("sign", Price::Unit, quantity::sign, &[of(&[Q], Int)]),
    call(
        "isInteger",
        Price::Unit,
        quantity::is_integer,
        &[on(&[Q], Bool)],
    ),
    call(
        "asInteger",
        Price::Unit,
        quantity::as_integer,
        &[on(&[Q], Int)],
    ),
    call(
        "asApproximateFloat",
        Price::Unit,
        quantity::as_float,
        &[on(&[Q], Double)],
    ),
    call("isGreaterThan", Price::Unit, quantity::is_greater, GREATER),
    call("isLessThan", Price::Unit, quantity::is_less, GREATER),
    call(
        "compareTo",
        Price::Unit,
        quantity::compare,
        &[on(&[Q, Q], Int), on(&[V, V], Int)],
    ),
    call(
        "add",
        Price::Unit,
        quantity::add,
        &[on(&[Q, Q], Q), on(&[Q, Int], Q)],
    ),
    call(
        "sub",
        Price::Unit,
        quantity::sub,
        &[on(&[Q, Q], Q), on(&[Q, Int], Q)],
    ),
    call(
        "semver",
        Price::Scan(1.0),
        semver::parse,
        &[of(&[Text], V), of(&[Text, Bool], V)],
    ),
    call(
        "isSemver",
        Price::Scan(1.0),
        semver::is_semver,
        &[of(&[Text], Bool), of(&[Text, Bool], Bool)],
    ),
    call("major", Price::Unit, semver::major, GETS_NUMBER),
    call("minor", Price::Unit, semver::minor, GETS_NUMBER),
    call("patch", Price::Unit, semver::patch, GETS_NUMBER),
    call(
        "ip",
        Price::Scan(1.0),
        addresses::ip,
        &[of(&[Text], I), on(&[C], I)],
    ),
    call(
        "isIP",
        Price::Scan(1.0),
        addresses::is_ip,
        &[of(&[Text], Bool)],
    ),
    call(
        "ip.isCanonical",
        Price::Scan(2.0),
        addresses::is_canonical,
        &[of(&[Text], Bool)],
    ),
    call("family", Price::Unit, addresses::family, &[on(&[I], Int)]),
    call(
        "isUnspecified",
        Price::Unit,
        addresses::is_unspecified,
        IP_TESTS,
    ),
    call("isLoopback", Price::Unit, addresses::is_loopback, IP_TESTS),
    call(
        "isLinkLocalMulticast",
        Price::Unit,
        addresses::is_link_local_multicast,
        IP_TESTS,
    ),
    call(
        "isLinkLocalUnicast",
        Price::Unit,
        addresses::is_link_local_unicast,
        IP_TESTS,
    ),
    call(
        "isGlobalUnicast",
        Price::Unit,
        addresses::is_global_unicast,
        IP_TESTS,
    ),
    call("cidr", Price::Scan(1.0), addresses::cidr, &[of(&[Text], C)]),
    call(
        "isCIDR",
        Price::Scan(1.0),
        addresses::is_cidr,
        &[of(&[Text], Bool)],
    ),
    call(
        "containsIP",
        Price::ContainsIp,
        addresses::contains_ip,
        &[on(&[C, Text], Bool), on(&[C, I], Bool)],
    ),
    call(
        "containsCIDR",
        Price::ContainsCidr,
        addresses::contains_cidr,
        &[on(&[C, Text], Bool), on(&[C, C], Bool)],
    ),
    call(
        "prefixLength",
        Price::Unit,
        addresses::prefix_length,
        &[on(&[C], Int)],
    ),
    call("masked", Price::Unit, addresses::masked, &[on(&[C], C)]),
    call(
        "format.named",
        Price::Unit,
        format::named,
        &[of(&[Text], Optional(&F))],
    ),
    call(
        "validate",
        Price::Validate,
        format::validate,
        &[on(&[F, Text], Optional(&TEXTS))],
    ),
    call(
        "format.dns1123Label",
        Price::Unit,
        format::dns1123_label,
        FORMATS,
    ),
    call(
        "format.dns1123Subdomain",
        Price::Unit,
        format::dns1123_subdomain,
        FORMATS,
    ),
    call(
        "format.dns1035Label",
        Price::Unit,
        format::dns1035_label,
        FORMATS,
    ),
    call(
        "format.qualifiedName",
        Price::Unit,
        format::qualified_name,
        FORMATS,
    ),
    call(
        "format.dns1123LabelPrefix",
        Price::Unit,
        format::dns1123_label_prefix,
        FORMATS,
    ),
    call(
        "format.dns1123SubdomainPrefix",
        Price::Unit,
        format::dns1123_subdomain_prefix,
        FORMATS,
    ),
    call(
        "format.dns1035LabelPrefix",
        Price::Unit,
        format::dns1035_label_prefix,
        FORMATS,
    ),
    call(
        "format.labelValue",
        Price::Unit,
        format::label_value,
        FORMATS,
    ),
    call("format.uri", Price::Unit, format::uri, FORMATS),
    call("format.uuid", Price::Unit, format::uuid, FORMATS),
    call("format.byte", Price::Unit, format::byte, FORMATS),
    call("format.date", Price::Unit, format::date, FORMATS),
    call("format.datetime", Price::Unit, format::datetime, FORMATS),
];
