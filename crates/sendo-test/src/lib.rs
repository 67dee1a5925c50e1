//! Tests of controllers on a live cluster under virtual time.
