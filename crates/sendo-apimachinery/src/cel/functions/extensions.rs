//! Functions on texts, lists and sets, and those that Kubernetes adds.

use super::Sig::{
    A, Bool, Bytes, Double, Duration, Dyn, Int, List, Map, Named, Optional, Text, Timestamp, Uint,
};
use super::{
    CIDR, FORMAT, Function, IP, Overload, QUANTITY, SEMVER, Sig, URL, call, global, member,
};
use crate::cel::cost::Price;
use crate::cel::library::{addresses, format, lists, quantity, regex, semver, sets, strings, url};

const Q: Sig = Named(QUANTITY);
const U: Sig = Named(URL);
const I: Sig = Named(IP);
const C: Sig = Named(CIDR);
const V: Sig = Named(SEMVER);
const F: Sig = Named(FORMAT);
const TEXTS: Sig = List(&Text);
const ANY: Sig = List(&A);

const ORDERED: &[Overload] = &[
    member(&[List(&Int)], Bool),
    member(&[List(&Uint)], Bool),
    member(&[List(&Double)], Bool),
    member(&[List(&Bool)], Bool),
    member(&[List(&Duration)], Bool),
    member(&[List(&Timestamp)], Bool),
    member(&[List(&Text)], Bool),
    member(&[List(&Bytes)], Bool),
];

const EXTREMES: &[Overload] = &[
    member(&[List(&Int)], Int),
    member(&[List(&Uint)], Uint),
    member(&[List(&Double)], Double),
    member(&[List(&Bool)], Bool),
    member(&[List(&Duration)], Duration),
    member(&[List(&Timestamp)], Timestamp),
    member(&[List(&Text)], Text),
    member(&[List(&Bytes)], Bytes),
];

pub(super) const STRINGS_AND_LISTS: &[Function] = &[
    call(
        "charAt",
        Price::Unit,
        strings::char_at,
        &[member(&[Text, Int], Text)],
    ),
    call(
        "indexOf",
        Price::ListScan,
        strings::index_of,
        &[
            member(&[Text, Text], Int),
            member(&[Text, Text, Int], Int),
            member(&[ANY, A], Int),
        ],
    ),
    call(
        "lastIndexOf",
        Price::ListScan,
        strings::last_index_of,
        &[
            member(&[Text, Text], Int),
            member(&[Text, Text, Int], Int),
            member(&[ANY, A], Int),
        ],
    ),
    call(
        "lowerAscii",
        Price::Rewrite,
        strings::lower_ascii,
        &[member(&[Text], Text)],
    ),
    call(
        "upperAscii",
        Price::Rewrite,
        strings::upper_ascii,
        &[member(&[Text], Text)],
    ),
    call(
        "trim",
        Price::Rewrite,
        strings::trim,
        &[member(&[Text], Text)],
    ),
    call(
        "substring",
        Price::Rewrite,
        strings::substring,
        &[member(&[Text, Int], Text), member(&[Text, Int, Int], Text)],
    ),
    call(
        "replace",
        Price::Replace,
        strings::replace,
        &[
            member(&[Text, Text, Text], Text),
            member(&[Text, Text, Text, Int], Text),
        ],
    ),
    call(
        "split",
        Price::Split,
        strings::split,
        &[
            member(&[Text, Text], TEXTS),
            member(&[Text, Text, Int], TEXTS),
        ],
    ),
    call(
        "join",
        Price::Join,
        strings::join,
        &[member(&[TEXTS], Text), member(&[TEXTS, Text], Text)],
    ),
    call(
        "format",
        Price::Format,
        format::format,
        &[member(&[Text, List(&Dyn)], Text)],
    ),
    call(
        "strings.quote",
        Price::Quote,
        strings::quote,
        &[global(&[Text], Text)],
    ),
    call("isSorted", Price::ListScan, lists::is_sorted, ORDERED),
    call(
        "sum",
        Price::ListScan,
        lists::sum,
        &[
            member(&[List(&Int)], Int),
            member(&[List(&Uint)], Uint),
            member(&[List(&Double)], Double),
            member(&[List(&Duration)], Duration),
        ],
    ),
    call("min", Price::ListScan, lists::min, EXTREMES),
    call("max", Price::ListScan, lists::max, EXTREMES),
    call(
        "slice",
        Price::Slice,
        lists::slice,
        &[member(&[ANY, Int, Int], ANY)],
    ),
    call(
        "flatten",
        Price::Flatten,
        lists::flatten,
        &[
            member(&[List(&ANY)], ANY),
            member(&[List(&Dyn), Int], List(&Dyn)),
        ],
    ),
    call(
        "sort",
        Price::Sort,
        lists::sort,
        &[
            member(&[List(&Int)], List(&Int)),
            member(&[List(&Uint)], List(&Uint)),
            member(&[List(&Double)], List(&Double)),
            member(&[List(&Bool)], List(&Bool)),
            member(&[List(&Duration)], List(&Duration)),
            member(&[List(&Timestamp)], List(&Timestamp)),
            member(&[List(&Text)], List(&Text)),
            member(&[List(&Bytes)], List(&Bytes)),
        ],
    ),
    call(
        "@sortByAssociatedKeys",
        Price::SortBy,
        lists::sort_by_keys,
        &[
            member(&[ANY, List(&Int)], ANY),
            member(&[ANY, List(&Uint)], ANY),
            member(&[ANY, List(&Double)], ANY),
            member(&[ANY, List(&Bool)], ANY),
            member(&[ANY, List(&Duration)], ANY),
            member(&[ANY, List(&Timestamp)], ANY),
            member(&[ANY, List(&Text)], ANY),
            member(&[ANY, List(&Bytes)], ANY),
        ],
    ),
    call(
        "lists.range",
        Price::Range,
        lists::range,
        &[global(&[Int], List(&Int))],
    ),
    call(
        "reverse",
        Price::Reverse,
        lists::reverse,
        &[member(&[ANY], ANY)],
    ),
    call(
        "distinct",
        Price::Distinct,
        lists::distinct,
        &[member(&[ANY], ANY)],
    ),
    call(
        "sets.contains",
        Price::Sets(1.0),
        sets::contains,
        &[global(&[ANY, ANY], Bool)],
    ),
    call(
        "sets.intersects",
        Price::Sets(1.0),
        sets::intersects,
        &[global(&[ANY, ANY], Bool)],
    ),
    call(
        "sets.equivalent",
        Price::Sets(2.0),
        sets::equivalent,
        &[global(&[ANY, ANY], Bool)],
    ),
];

const IP_TESTS: &[Overload] = &[member(&[I], Bool)];
const OF_URL: &[Overload] = &[member(&[U], Text)];
const FORMATS: &[Overload] = &[global(&[], F)];
const GETS_NUMBER: &[Overload] = &[member(&[V], Int)];
const GREATER: &[Overload] = &[member(&[Q, Q], Bool), member(&[V, V], Bool)];

pub(super) const KUBERNETES: &[Function] = &[
    call(
        "find",
        Price::Find,
        regex::find,
        &[member(&[Text, Text], Text)],
    ),
    call(
        "findAll",
        Price::Find,
        regex::find_all,
        &[
            member(&[Text, Text], TEXTS),
            member(&[Text, Text, Int], TEXTS),
        ],
    ),
    call("url", Price::Rewrite, url::parse, &[global(&[Text], U)]),
    call("isURL", Price::Unit, url::is_url, &[global(&[Text], Bool)]),
    call("getScheme", Price::Unit, url::scheme, OF_URL),
    call("getHost", Price::Unit, url::host, OF_URL),
    call("getHostname", Price::Unit, url::hostname, OF_URL),
    call("getPort", Price::Unit, url::port, OF_URL),
    call("getEscapedPath", Price::Unit, url::escaped_path, OF_URL),
    call(
        "getQuery",
        Price::Unit,
        url::query,
        &[member(&[U], Map(&Text, &TEXTS))],
    ),
    call(
        "quantity",
        Price::Scan(1.0),
        quantity::parse,
        &[global(&[Text], Q)],
    ),
    call(
        "isQuantity",
        Price::Scan(1.0),
        quantity::is_quantity,
        &[global(&[Text], Bool)],
    ),
    call("sign", Price::Unit, quantity::sign, &[global(&[Q], Int)]),
    call(
        "isInteger",
        Price::Unit,
        quantity::is_integer,
        &[member(&[Q], Bool)],
    ),
    call(
        "asInteger",
        Price::Unit,
        quantity::as_integer,
        &[member(&[Q], Int)],
    ),
    call(
        "asApproximateFloat",
        Price::Unit,
        quantity::as_float,
        &[member(&[Q], Double)],
    ),
    call("isGreaterThan", Price::Unit, quantity::is_greater, GREATER),
    call("isLessThan", Price::Unit, quantity::is_less, GREATER),
    call(
        "compareTo",
        Price::Unit,
        quantity::compare,
        &[member(&[Q, Q], Int), member(&[V, V], Int)],
    ),
    call(
        "add",
        Price::Unit,
        quantity::add,
        &[member(&[Q, Q], Q), member(&[Q, Int], Q)],
    ),
    call(
        "sub",
        Price::Unit,
        quantity::sub,
        &[member(&[Q, Q], Q), member(&[Q, Int], Q)],
    ),
    call(
        "semver",
        Price::Scan(1.0),
        semver::parse,
        &[global(&[Text], V), global(&[Text, Bool], V)],
    ),
    call(
        "isSemver",
        Price::Scan(1.0),
        semver::is_semver,
        &[global(&[Text], Bool), global(&[Text, Bool], Bool)],
    ),
    call("major", Price::Unit, semver::major, GETS_NUMBER),
    call("minor", Price::Unit, semver::minor, GETS_NUMBER),
    call("patch", Price::Unit, semver::patch, GETS_NUMBER),
    call(
        "ip",
        Price::Scan(1.0),
        addresses::ip,
        &[global(&[Text], I), member(&[C], I)],
    ),
    call(
        "isIP",
        Price::Scan(1.0),
        addresses::is_ip,
        &[global(&[Text], Bool)],
    ),
    call(
        "ip.isCanonical",
        Price::Scan(2.0),
        addresses::is_canonical,
        &[global(&[Text], Bool)],
    ),
    call(
        "family",
        Price::Unit,
        addresses::family,
        &[member(&[I], Int)],
    ),
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
    call(
        "cidr",
        Price::Scan(1.0),
        addresses::cidr,
        &[global(&[Text], C)],
    ),
    call(
        "isCIDR",
        Price::Scan(1.0),
        addresses::is_cidr,
        &[global(&[Text], Bool)],
    ),
    call(
        "containsIP",
        Price::ContainsIp,
        addresses::contains_ip,
        &[member(&[C, Text], Bool), member(&[C, I], Bool)],
    ),
    call(
        "containsCIDR",
        Price::ContainsCidr,
        addresses::contains_cidr,
        &[member(&[C, Text], Bool), member(&[C, C], Bool)],
    ),
    call(
        "prefixLength",
        Price::Unit,
        addresses::prefix_length,
        &[member(&[C], Int)],
    ),
    call("masked", Price::Unit, addresses::masked, &[member(&[C], C)]),
    call(
        "format.named",
        Price::Unit,
        format::named,
        &[global(&[Text], Optional(&F))],
    ),
    call(
        "validate",
        Price::Validate,
        format::validate,
        &[member(&[F, Text], Optional(&TEXTS))],
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
