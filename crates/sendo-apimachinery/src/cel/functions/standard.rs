//! The functions of the language itself, and those of optional values.

use super::Sig::{
    A, B, Bool, Bytes, Double, Duration, Dyn, Int, Kind, List, Map, Named, Optional, Text,
    Timestamp, Uint,
};
use super::{CIDR, Function, IP, Overload, Sig, Special, call, global, member, special};
use crate::cel::cost::Price;
use crate::cel::library::{convert, lists, operators, optional, regex, strings, time};

const I: Sig = Named(IP);
const C: Sig = Named(CIDR);
const ANY: Sig = List(&A);

const COMPARISONS: &[Overload] = &[
    global(&[Bool, Bool], Bool),
    global(&[Int, Int], Bool),
    global(&[Int, Double], Bool),
    global(&[Int, Uint], Bool),
    global(&[Uint, Uint], Bool),
    global(&[Uint, Double], Bool),
    global(&[Uint, Int], Bool),
    global(&[Double, Double], Bool),
    global(&[Double, Int], Bool),
    global(&[Double, Uint], Bool),
    global(&[Text, Text], Bool),
    global(&[Bytes, Bytes], Bool),
    global(&[Timestamp, Timestamp], Bool),
    global(&[Duration, Duration], Bool),
];

pub(super) const OPERATORS: &[Function] = &[
    special(
        "_?_:_",
        Price::Conditional,
        Special::Conditional,
        &[global(&[Bool, A, A], A)],
    ),
    special(
        "_&&_",
        Price::Logic,
        Special::And,
        &[global(&[Bool, Bool], Bool)],
    ),
    special(
        "_||_",
        Price::Logic,
        Special::Or,
        &[global(&[Bool, Bool], Bool)],
    ),
    special(
        "@not_strictly_false",
        Price::Unit,
        Special::NotStrictlyFalse,
        &[global(&[Bool], Bool)],
    ),
    call("!_", Price::Unit, operators::not, &[global(&[Bool], Bool)]),
    call(
        "_==_",
        Price::Equality,
        operators::equal,
        &[global(&[A, A], Bool)],
    ),
    call(
        "_!=_",
        Price::Equality,
        operators::not_equal,
        &[global(&[A, A], Bool)],
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
            global(&[Bytes, Bytes], Bytes),
            global(&[Double, Double], Double),
            global(&[Duration, Duration], Duration),
            global(&[Duration, Timestamp], Timestamp),
            global(&[Timestamp, Duration], Timestamp),
            global(&[Int, Int], Int),
            global(&[ANY, ANY], ANY),
            global(&[Text, Text], Text),
            global(&[Uint, Uint], Uint),
        ],
    ),
    call(
        "_-_",
        Price::Unit,
        operators::subtract,
        &[
            global(&[Double, Double], Double),
            global(&[Duration, Duration], Duration),
            global(&[Int, Int], Int),
            global(&[Timestamp, Duration], Timestamp),
            global(&[Timestamp, Timestamp], Duration),
            global(&[Uint, Uint], Uint),
        ],
    ),
    call("_*_", Price::Unit, operators::multiply, NUMBERS),
    call("_/_", Price::Unit, operators::divide, NUMBERS),
    call(
        "_%_",
        Price::Unit,
        operators::modulo,
        &[global(&[Int, Int], Int), global(&[Uint, Uint], Uint)],
    ),
    call(
        "-_",
        Price::Unit,
        operators::negate,
        &[global(&[Double], Double), global(&[Int], Int)],
    ),
    call(
        "@in",
        Price::In,
        operators::contained,
        &[global(&[A, ANY], Bool), global(&[A, Map(&A, &B)], Bool)],
    ),
    special(
        "_[_]",
        Price::Index,
        Special::Index,
        &[
            global(&[ANY, Int], A),
            global(&[Map(&A, &B), A], B),
            global(&[Optional(&ANY), Int], Optional(&A)),
            global(&[Optional(&Map(&A, &B)), A], Optional(&B)),
        ],
    ),
    special(
        "_[?_]",
        Price::Index,
        Special::OptionalIndex,
        &[
            global(&[ANY, Int], Optional(&A)),
            global(&[Optional(&ANY), Int], Optional(&A)),
            global(&[Map(&A, &B), A], Optional(&B)),
            global(&[Optional(&Map(&A, &B)), A], Optional(&B)),
        ],
    ),
    special(
        "_?._",
        Price::Index,
        Special::OptionalSelect,
        &[global(&[Dyn, Text], Optional(&A))],
    ),
];

const NUMBERS: &[Overload] = &[
    global(&[Double, Double], Double),
    global(&[Int, Int], Int),
    global(&[Uint, Uint], Uint),
];

pub(super) const CONVERSIONS: &[Function] = &[
    call(
        "type",
        Price::Unit,
        convert::kind,
        &[global(&[A], Kind(&A))],
    ),
    call("dyn", Price::Dyn, convert::same, &[global(&[A], Dyn)]),
    call(
        "bool",
        Price::Unit,
        convert::bool,
        &[global(&[Bool], Bool), global(&[Text], Bool)],
    ),
    call(
        "bytes",
        Price::Transcode,
        convert::bytes,
        &[global(&[Bytes], Bytes), global(&[Text], Bytes)],
    ),
    call(
        "double",
        Price::Unit,
        convert::double,
        &[
            global(&[Double], Double),
            global(&[Int], Double),
            global(&[Text], Double),
            global(&[Uint], Double),
        ],
    ),
    call(
        "duration",
        Price::Unit,
        convert::duration,
        &[
            global(&[Duration], Duration),
            global(&[Int], Duration),
            global(&[Text], Duration),
        ],
    ),
    call(
        "int",
        Price::Unit,
        convert::int,
        &[
            global(&[Int], Int),
            global(&[Double], Int),
            global(&[Duration], Int),
            global(&[Text], Int),
            global(&[Timestamp], Int),
            global(&[Uint], Int),
        ],
    ),
    call(
        "string",
        Price::Transcode,
        convert::text,
        &[
            global(&[Text], Text),
            global(&[Bool], Text),
            global(&[Bytes], Text),
            global(&[Double], Text),
            global(&[Duration], Text),
            global(&[Int], Text),
            global(&[Timestamp], Text),
            global(&[Uint], Text),
            global(&[I], Text),
            global(&[C], Text),
        ],
    ),
    call(
        "timestamp",
        Price::Unit,
        convert::timestamp,
        &[
            global(&[Timestamp], Timestamp),
            global(&[Int], Timestamp),
            global(&[Text], Timestamp),
        ],
    ),
    call(
        "uint",
        Price::Unit,
        convert::uint,
        &[
            global(&[Uint], Uint),
            global(&[Double], Uint),
            global(&[Int], Uint),
            global(&[Text], Uint),
        ],
    ),
];

const OF_TIME: &[Overload] = &[member(&[Timestamp], Int), member(&[Timestamp, Text], Int)];

const OF_TIME_AND_SPAN: &[Overload] = &[
    member(&[Timestamp], Int),
    member(&[Timestamp, Text], Int),
    member(&[Duration], Int),
];

pub(super) const STANDARD: &[Function] = &[
    call(
        "size",
        Price::Unit,
        convert::size,
        &[
            global(&[Bytes], Int),
            member(&[Bytes], Int),
            global(&[ANY], Int),
            member(&[ANY], Int),
            global(&[Map(&A, &B)], Int),
            member(&[Map(&A, &B)], Int),
            global(&[Text], Int),
            member(&[Text], Int),
        ],
    ),
    call(
        "contains",
        Price::Contains,
        strings::contains,
        &[member(&[Text, Text], Bool)],
    ),
    call(
        "startsWith",
        Price::Ends,
        strings::starts_with,
        &[member(&[Text, Text], Bool)],
    ),
    call(
        "endsWith",
        Price::Ends,
        strings::ends_with,
        &[member(&[Text, Text], Bool)],
    ),
    call(
        "matches",
        Price::Matches,
        regex::matches,
        &[global(&[Text, Text], Bool), member(&[Text, Text], Bool)],
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
            global(&[Map(&A, &B), A, B], Map(&A, &B)),
            global(&[Map(&A, &B), Map(&A, &B)], Map(&A, &B)),
        ],
    ),
];

pub(super) const OPTIONALS: &[Function] = &[
    call(
        "optional.of",
        Price::Unit,
        optional::of,
        &[global(&[A], Optional(&A))],
    ),
    call(
        "optional.ofNonZeroValue",
        Price::Unit,
        optional::of_non_zero,
        &[global(&[A], Optional(&A))],
    ),
    call(
        "optional.none",
        Price::Unit,
        optional::none,
        &[global(&[], Optional(&A))],
    ),
    call(
        "optional.unwrap",
        Price::Unit,
        optional::unwrap,
        &[global(&[List(&Optional(&A))], ANY)],
    ),
    call(
        "unwrapOpt",
        Price::Unit,
        optional::unwrap,
        &[member(&[List(&Optional(&A))], ANY)],
    ),
    call(
        "value",
        Price::Unit,
        optional::value,
        &[member(&[Optional(&A)], A)],
    ),
    call(
        "hasValue",
        Price::Unit,
        optional::has_value,
        &[member(&[Optional(&A)], Bool)],
    ),
    special(
        "or",
        Price::Free,
        Special::OptionalOr,
        &[member(&[Optional(&A), Optional(&A)], Optional(&A))],
    ),
    special(
        "orValue",
        Price::Free,
        Special::OptionalOrValue,
        &[member(&[Optional(&A), A], A)],
    ),
    call(
        "first",
        Price::Unit,
        lists::first,
        &[member(&[ANY], Optional(&A))],
    ),
    call(
        "last",
        Price::Unit,
        lists::last,
        &[member(&[ANY], Optional(&A))],
    ),
];
