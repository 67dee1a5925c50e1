//! What server and tools know of Kubernetes objects: kinds, schemas, selectors, patches, codecs, Status.
