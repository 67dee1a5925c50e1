//! A controller for object-storage buckets outside the cluster.
