//! A Kubernetes controller framework: manager, controllers, cache, queue, election, events, metrics, probes.
