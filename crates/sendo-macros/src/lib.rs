//! The attribute macro `sendo_test::test`.

use proc_macro::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Ident, ItemFn, LitInt, Token, parse_macro_input};

/// The arguments of the attribute.
#[derive(Default)]
struct Arguments {
    seed: Option<u64>,
    seeds: Option<u64>,
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut arguments = Arguments::default();
        while !input.is_empty() {
            let name: Ident = input.parse()?;
            input.parse::<Token![=]>()?;
            let value: LitInt = input.parse()?;
            let slot = match name.to_string().as_str() {
                "seed" => &mut arguments.seed,
                "seeds" => &mut arguments.seeds,
                _ => {
                    return Err(syn::Error::new(
                        name.span(),
                        "unknown option: write `seed = 7` for one seed, or `seeds = 100` for that many",
                    ));
                }
            };
            *slot = Some(value.base10_parse()?);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(arguments)
    }
}

/// A test on a live cluster in virtual time.
///
/// The function takes the cluster:
/// `#[sendo_test::test] async fn name(cluster: TestCluster) { … }`.
/// It runs on a single thread with paused time, which advances only when all tasks wait, so that a
/// day passes in seconds and a seed gives the same run every time. With
/// `seed = N` it runs with that seed instead of 0, with `seeds = N` once for
/// each seed below N; a failure names the seed.
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let arguments = parse_macro_input!(arguments as Arguments);
    let function = parse_macro_input!(item as ItemFn);
    expand(&arguments, &function)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

fn expand(arguments: &Arguments, function: &ItemFn) -> syn::Result<proc_macro2::TokenStream> {
    let signature = &function.sig;
    if signature.asyncness.is_none() || signature.inputs.len() != 1 {
        return Err(syn::Error::new(
            signature.span(),
            "a test on a cluster takes it: `async fn name(cluster: TestCluster)`",
        ));
    }
    let name = &signature.ident;
    let attributes = &function.attrs;
    let mut body = function.clone();
    body.attrs.clear();
    let (first, count) = match (arguments.seed, arguments.seeds) {
        (Some(seed), _) => (seed, 1),
        (None, seeds) => (0, seeds.unwrap_or(1)),
    };
    Ok(quote! {
        #[::core::prelude::v1::test]
        #(#attributes)*
        fn #name() {
            #body
            for seed in #first..#first + #count {
                ::sendo_test::run_with_seed(seed, #name);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{Arguments, expand};

    fn expanded(arguments: &str, function: &str) -> String {
        let expand = || {
            let arguments = syn::parse_str::<Arguments>(arguments)?;
            expand(&arguments, &syn::parse_str(function)?)
        };
        expand().map_or_else(|error| error.to_string(), |tokens| tokens.to_string())
    }

    const TEST: &str = "async fn works(cluster: TestCluster) {}";

    #[core::prelude::v1::test]
    fn a_test_runs_once_or_for_each_seed() {
        assert!(expanded("", TEST).contains("in 0u64 .. 0u64 + 1u64"));
        assert!(expanded("seed = 7", TEST).contains("in 7u64 .. 7u64 + 1u64"));
        assert!(expanded("seeds = 100", TEST).contains("in 0u64 .. 0u64 + 100u64"));
    }

    #[core::prelude::v1::test]
    fn errors_name_the_fix() {
        let takes_it = "a test on a cluster takes it: `async fn name(cluster: TestCluster)`";
        assert_eq!(expanded("", "async fn works() {}"), takes_it);
        assert_eq!(expanded("", "fn works(cluster: TestCluster) {}"), takes_it);
        let options =
            "unknown option: write `seed = 7` for one seed, or `seeds = 100` for that many";
        assert_eq!(expanded("times = 3", TEST), options);
    }
}
