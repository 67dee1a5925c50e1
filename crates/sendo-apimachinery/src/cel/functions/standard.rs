//! The functions of the language itself, and those of optional values.

use super::Sig::{
    A, B, Bool, Bytes, Double, Duration, Dyn, Int, Kind, List, Map, Named, Optional, Text,
    Timestamp, Uint,
};
use super::{CIDR, Function, IP, Overload, Sig, Special, call, of, on, special};
use crate::cel::cost::Price;
use crate::cel::library::{convert, lists, operators, optional, regex, strings, time};

const I: Sig = Named(IP);
const C: Sig = Named(CIDR);
const ANY: Sig = List(&A);

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

pub(super) const OPERATORS: &[Function] = &[
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

pub(super) const CONVERSIONS: &[Function] = &[
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

pub(super) const STANDARD: &[Function] = &[
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

pub(super) const OPTIONALS: &[Function] = &[
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
