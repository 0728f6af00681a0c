//! The dice of a simulation: the thread's own generator, from which jitter is drawn, too, so that a seed decides everything.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};

thread_local! {
    static DRAWN: Cell<bool> = const { Cell::new(false) };
}

/// From here on this thread's awaits are choices of the seed.
pub(crate) fn begin(seed: u64) {
    fastrand::seed(seed);
    DRAWN.set(true);
}

pub(crate) fn is_drawn() -> bool {
    DRAWN.get()
}

/// True `n` times of a thousand.
pub(super) fn per_mille(n: u32) -> bool {
    fastrand::u32(..1_000) < n
}

/// One of them.
pub(super) fn of<T>(choices: &[T]) -> &T {
    &choices[fastrand::usize(..choices.len())]
}

/// Lets all others who are ready go first, now and then: so tasks overtake each other between any two awaits.
pub(crate) async fn at_each_poll<F: Future>(work: F) -> F::Output {
    let mut work = Box::pin(work);
    std::future::poll_fn(move |context| jolted(work.as_mut(), context)).await
}

fn jolted<F: Future>(work: Pin<&mut F>, context: &mut Context<'_>) -> Poll<F::Output> {
    if is_drawn() && fastrand::u8(..) < 50 {
        context.waker().wake_by_ref();
        return Poll::Pending;
    }
    work.poll(context)
}
