//! What simulated containers use, which nobody can measure: what their pod says.
//!
//! Two annotations of a pod, or of the pod template that it is made from:
//!
//! | annotation | meaning |
//! |---|---|
//! | `simulation.sendo.dev/usage-cpu` | the cpu that its containers use, such as `250m` |
//! | `simulation.sendo.dev/usage-memory` | the memory that they use, such as `64Mi` |
//!
//! A single amount is what each container uses; `main=250m,proxy=10m` says it by the containers'
//! names. Containers of which nothing is said use nothing.

use std::collections::BTreeMap;

use sendo_apimachinery::Quantity;
use sendo_apimachinery::quantity::Format;

/// The annotation with the cpu that a pod's containers use.
pub const CPU: &str = "simulation.sendo.dev/usage-cpu";
/// The annotation with the memory that a pod's containers use.
pub const MEMORY: &str = "simulation.sendo.dev/usage-memory";

/// What a container uses.
#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    /// Cpu.
    pub cpu: Quantity,
    /// Memory.
    pub memory: Quantity,
}

impl Usage {
    /// Nothing.
    pub fn none() -> Self {
        Usage {
            cpu: Quantity::from_units(0, Format::Decimal),
            memory: Quantity::from_units(0, Format::Binary),
        }
    }

    /// Adds what another container uses.
    pub fn add(&mut self, other: &Usage) {
        self.cpu.add(&other.cpu);
        self.memory.add(&other.memory);
    }
}

/// What the container of a pod with these annotations uses. An amount that cannot be read counts as
/// absent.
pub fn of_container(annotations: Option<&BTreeMap<String, String>>, container: &str) -> Usage {
    let declared = |annotation: &str| {
        let text = annotations?.get(annotation)?;
        let own = text.split(',').find_map(|part| match part.split_once('=') {
            Some((name, amount)) => (name.trim() == container).then_some(amount),
            None => Some(part),
        });
        own?.trim().parse::<Quantity>().ok()
    };
    let none = Usage::none();
    Usage {
        cpu: declared(CPU).unwrap_or(none.cpu),
        memory: declared(MEMORY).unwrap_or(none.memory),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_of_each_container_or_of_the_one_named() {
        let annotations = |cpu: &str| BTreeMap::from([(CPU.to_owned(), cpu.to_owned())]);
        let cpu = |text: &str, container: &str| {
            let usage = of_container(Some(&annotations(text)), container);
            usage.cpu.to_string()
        };
        assert_eq!(cpu("250m", "main"), "250m");
        assert_eq!(cpu("main=1, proxy=10m", "proxy"), "10m");
        assert_eq!(cpu("main=1", "proxy"), "0");
        assert_eq!(cpu("much", "main"), "0");
        assert_eq!(of_container(None, "main"), Usage::none());
    }
}
