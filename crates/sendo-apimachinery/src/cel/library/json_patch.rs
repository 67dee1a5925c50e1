//! The CEL function of JSON patches.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/cel/library/jsonpatch.go`

use crate::cel::eval::{Fault, Machine, Result};
use crate::cel::value::Value;

/// A key as a part of a path.
pub(in crate::cel) fn escape_key<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    match args {
        [Value::Text(key)] => Ok(key.replace('~', "~0").replace('/', "~1").into()),
        _ => Err(Fault::no_such_overload()),
    }
}
