//! CEL functions that ask the authoriser.
//!
//! An answer that is not there yet ends the evaluation: it is run again with it, since only the
//! caller can wait for it.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/cel/library/authz.go`

use std::sync::Arc;

use crate::cel::eval::{Fault, Machine, Result};
use crate::cel::value::{
    Account, Authorization, Check, CheckTarget, Decision, ResourceCheck, Value,
};
use crate::names;

fn made<'a>(value: Authorization) -> Result<Value<'a>> {
    Ok(Value::Authorization(Arc::new(value)))
}

/// The value that a function is called on, and the text it is given.
fn on_text<'v>(args: &'v [Value<'_>]) -> Result<(&'v Authorization, &'v str)> {
    match args {
        [Value::Authorization(target), Value::Text(text)] => Ok((target, text)),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(in crate::cel) fn path<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let (Authorization::Authorizer(account), path) = on_text(args)? else {
        return Err(Fault::no_such_overload());
    };
    if path.trim().is_empty() {
        return Err(Fault::new("path must not be empty"));
    }
    made(Authorization::Path(account.clone(), path.to_owned()))
}

pub(in crate::cel) fn group<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let (Authorization::Authorizer(account), group) = on_text(args)? else {
        return Err(Fault::no_such_overload());
    };
    made(Authorization::Group(account.clone(), group.to_owned()))
}

pub(in crate::cel) fn service_account<'a>(
    _: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    let [
        Value::Authorization(target),
        Value::Text(namespace),
        Value::Text(name),
    ] = args
    else {
        return Err(Fault::no_such_overload());
    };
    let Authorization::Authorizer(_) = &**target else {
        return Err(Fault::no_such_overload());
    };
    if !names::dns1123_subdomain(name).is_empty() {
        return Err(Fault::new("Invalid service account name"));
    }
    if !names::dns1123_label(namespace).is_empty() {
        return Err(Fault::new("Invalid service account namespace"));
    }
    made(Authorization::Authorizer(Some(Account {
        namespace: namespace.to_string(),
        name: name.to_string(),
    })))
}

pub(in crate::cel) fn resource<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let (Authorization::Group(account, group), resource) = on_text(args)? else {
        return Err(Fault::no_such_overload());
    };
    if resource.trim().is_empty() {
        return Err(Fault::new("resource must not be empty"));
    }
    let check = ResourceCheck {
        group: group.clone(),
        resource: resource.to_owned(),
        ..ResourceCheck::default()
    };
    made(Authorization::Resource(account.clone(), check))
}

/// A resource check with one part of it set to a text.
fn narrowed<'a>(
    args: &[Value<'a>],
    set: impl FnOnce(&mut ResourceCheck, String),
) -> Result<Value<'a>> {
    let (Authorization::Resource(account, check), text) = on_text(args)? else {
        return Err(Fault::no_such_overload());
    };
    let mut check = check.clone();
    set(&mut check, text.to_owned());
    made(Authorization::Resource(account.clone(), check))
}

pub(in crate::cel) fn subresource<'a>(
    _: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    narrowed(args, |check, text| check.subresource = text)
}

pub(in crate::cel) fn namespace<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    narrowed(args, |check, text| check.namespace = text)
}

pub(in crate::cel) fn name<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    narrowed(args, |check, text| check.name = text)
}

pub(in crate::cel) fn field_selector<'a>(
    _: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    narrowed(args, |check, text| check.field_selector = text)
}

pub(in crate::cel) fn label_selector<'a>(
    _: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    narrowed(args, |check, text| check.label_selector = text)
}

pub(in crate::cel) fn check<'a>(
    machine: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    let (target, verb) = on_text(args)?;
    let (account, target) = match target {
        Authorization::Path(account, path) => (account, CheckTarget::Path(path.clone())),
        Authorization::Resource(account, check) => (account, CheckTarget::Resource(check.clone())),
        _ => return Err(Fault::no_such_overload()),
    };
    let check = Check {
        account: account.clone(),
        verb: verb.to_owned(),
        target,
    };
    made(Authorization::Decision(machine.decision(check)?))
}

fn decision<'v>(args: &'v [Value<'_>]) -> Result<&'v Decision> {
    if let [Value::Authorization(value)] = args
        && let Authorization::Decision(decision) = &**value
    {
        return Ok(decision);
    }
    Err(Fault::no_such_overload())
}

pub(in crate::cel) fn allowed<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Bool(decision(args)?.allowed))
}

pub(in crate::cel) fn reason<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(decision(args)?.reason.clone().into())
}

pub(in crate::cel) fn errored<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Bool(decision(args)?.error.is_some()))
}

pub(in crate::cel) fn error<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(decision(args)?.error.clone().unwrap_or_default().into())
}
