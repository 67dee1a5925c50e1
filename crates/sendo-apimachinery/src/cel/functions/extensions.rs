//! Functions on texts, lists and sets, and those that Kubernetes adds.

use super::Sig::{
    A, Bool, Bytes, Double, Duration, Dyn, Int, List, Map, Named, Optional, Text, Timestamp, Uint,
};
use super::{CIDR, FORMAT, Function, IP, Overload, QUANTITY, SEMVER, Sig, URL, call, of, on};
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

pub(super) const STRINGS_AND_LISTS: &[Function] = &[
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

const IP_TESTS: &[Overload] = &[on(&[I], Bool)];
const OF_URL: &[Overload] = &[on(&[U], Text)];
const FORMATS: &[Overload] = &[of(&[], F)];
const GETS_NUMBER: &[Overload] = &[on(&[V], Int)];
const GREATER: &[Overload] = &[on(&[Q, Q], Bool), on(&[V, V], Bool)];

pub(super) const KUBERNETES: &[Function] = &[
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
