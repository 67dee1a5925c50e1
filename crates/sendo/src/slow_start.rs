//! Slow start: many requests of one kind, begun with few.

use std::future::Future;

use futures::future::join_all;

/// What became of the steps of a [`slow_start`].
#[derive(Debug, PartialEq, Eq)]
pub struct SlowStart<E> {
    /// How many steps succeeded.
    pub succeeded: usize,
    /// How many steps failed, all of them in one batch.
    pub failed: usize,
    /// How many steps were not begun because of a failure.
    pub skipped: usize,
    /// The first failure, if there was one.
    pub failure: Option<E>,
}

impl<E> SlowStart<E> {
    /// The first failure as a result.
    ///
    /// # Errors
    /// If a step failed.
    pub fn into_result(self) -> Result<(), E> {
        match self.failure {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }
}

/// Runs `step` for each of `items` in batches of 1, 2, 4, …, and starts no batch after one with a
/// failure: pods of a template that is refused then cost one request, and not a thousand.
///
/// The steps of a batch run at the same time, on the caller's task.
///
/// ```
/// # async fn example() {
/// let started = sendo::slow_start(1..=100, |number| async move {
///     if number < 3 { Ok(()) } else { Err(number) }
/// });
/// let started = started.await;
/// assert_eq!((started.succeeded, started.failed, started.skipped), (2, 1, 97));
/// assert_eq!(started.failure, Some(3));
/// # }
/// ```
pub async fn slow_start<T, F, E>(
    items: impl IntoIterator<Item = T>,
    step: impl Fn(T) -> F,
) -> SlowStart<E>
where
    F: Future<Output = Result<(), E>>,
{
    let mut items = items.into_iter().peekable();
    let mut started = SlowStart {
        succeeded: 0,
        failed: 0,
        skipped: 0,
        failure: None,
    };
    let mut batch = 1;
    while items.peek().is_some() && started.failure.is_none() {
        let steps: Vec<F> = items.by_ref().take(batch).map(&step).collect();
        for result in join_all(steps).await {
            match result {
                Ok(()) => started.succeeded += 1,
                Err(failure) => {
                    started.failed += 1;
                    started.failure.get_or_insert(failure);
                }
            }
        }
        batch *= 2;
    }
    started.skipped = items.count();
    started
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    use futures::executor::block_on;

    #[test]
    fn a_slow_start_doubles_and_ends_with_the_first_failure() {
        let begun = RefCell::new(0);
        let step = |fails_at: usize| {
            let begun = &begun;
            move |number: usize| {
                *begun.borrow_mut() += 1;
                async move {
                    if number >= fails_at {
                        Err(number)
                    } else {
                        Ok(())
                    }
                }
            }
        };
        let all = block_on(slow_start(1..=10, step(100)));
        assert_eq!((all.succeeded, all.into_result()), (10, Ok(())));
        assert_eq!(begun.take(), 10);
        // 1, then 2, then a batch of 4 of which the last three fail.
        let some = block_on(slow_start(1..=100, step(5)));
        assert_eq!((some.succeeded, some.failed, some.skipped), (4, 3, 93));
        assert_eq!(some.into_result(), Err(5));
        assert_eq!(begun.take(), 7);
    }
}
