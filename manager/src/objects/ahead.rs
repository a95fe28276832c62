//! Work on several cores whose results come in the order in which it was given.
//!
//! Owns how far the giver may be ahead of the taker: what waits is bounded by a few pieces, whatever the size of the whole.

use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use parking_lot::Mutex;

use super::{Head, Item, Sink, SplitError, hand_on_as};

/// Takes a piece of work; whether more is wanted.
pub(super) type Give<'a, T> = dyn FnMut(T) -> bool + 'a;

/// Gives pieces on one thread, works on them on as many as there are cores, and takes the results here, in their order.
/// Gives what the giver gave and what the taker said; when the taker fails, no more is given.
pub(super) fn in_order<T: Send, R: Send, G: Send, E>(
    give: impl FnOnce(&mut Give<'_, T>) -> G + Send,
    work: impl Fn(T) -> R + Sync,
    take: impl FnMut(R) -> Result<(), E>,
) -> (G, Result<(), E>) {
    let workers = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let (jobs, queue) = sync_channel::<(T, SyncSender<R>)>(workers);
    let (order, results) = sync_channel::<Receiver<R>>(2 * workers);
    let (queue, work) = (Mutex::new(queue), &work);
    thread::scope(|scope| {
        let giver = scope.spawn(move || {
            give(&mut |piece| {
                let (done, result) = sync_channel(1);
                order.send(result).is_ok() && jobs.send((piece, done)).is_ok()
            })
        });
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    // Locked only until there is a piece: who waits for one waits for all.
                    let job = queue.lock().recv();
                    let Ok((piece, done)) = job else { return };
                    // Nobody waits for it when the taker has failed.
                    let _ = done.send(work(piece));
                }
            });
        }
        let taken = results.iter().map_while(|result| result.recv().ok()).try_for_each(take);
        drop(results);
        let given = giver.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (given, taken)
    })
}

/// Objects on their way to the thread that takes them.
#[derive(Debug, Default)]
pub(super) struct Batch {
    text: Vec<u8>,
    heads: Vec<Head>,
    /// For each object the number of its head, and where it ends.
    items: Vec<(usize, usize)>,
}

impl Batch {
    /// So much text is worth the way.
    pub(super) const ENOUGH: usize = 256 << 10;

    /// Takes a copy of an object.
    pub(super) fn push(&mut self, item: Item<'_>) {
        let is_other = |head: &Head| head.kind != item.kind || head.group() != item.group;
        if self.heads.last().is_none_or(is_other) {
            self.heads.push(Head::of(item.group, item.kind));
        }
        self.text.extend_from_slice(item.json);
        self.items.push((self.heads.len() - 1, self.text.len()));
    }

    /// Whether it is worth the way.
    pub(super) fn is_full(&self) -> bool {
        self.text.len() >= Self::ENOUGH
    }

    /// Hands the objects on.
    pub(super) fn hand_on(&self, sink: &mut Sink<'_>) -> Result<(), SplitError> {
        let mut begin = 0;
        for (head, end) in &self.items {
            hand_on_as(&self.text[begin..*end], &self.heads[*head], sink)?;
            begin = *end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(give: &mut Give<'_, u32>) -> u32 {
        (0..1000).take_while(|number| give(*number)).count().try_into().unwrap()
    }

    #[test]
    fn results_come_in_their_order() {
        let mut taken = Vec::new();
        let (given, said) = in_order(
            all,
            |number| number * 2,
            |result| {
                taken.push(result);
                Ok::<(), ()>(())
            },
        );
        assert_eq!((given, said), (1000, Ok(())));
        assert_eq!(taken, (0..1000).map(|number| number * 2).collect::<Vec<_>>());
    }

    #[test]
    fn no_more_is_given_when_the_taker_fails() {
        let (given, said) =
            in_order(all, |number| number, |result| if result < 5 { Ok(()) } else { Err(result) });
        assert_eq!(said, Err(5));
        assert!(given < 1000, "{given}");
    }

    #[test]
    fn objects_of_a_batch_are_as_they_were() {
        let mut batch = Batch::default();
        let given =
            [("", "Pod", "{1}"), ("", "Pod", "{2}"), ("apps", "Deployment", "{}"), ("", "Pod", "{3}")];
        for (group, kind, json) in given {
            batch.push(Item { group, kind, json: json.as_bytes() });
        }
        let mut taken = Vec::new();
        batch
            .hand_on(&mut |item| {
                let json = String::from_utf8_lossy(item.json).into_owned();
                taken.push((item.group.to_owned(), item.kind.to_owned(), json));
                Ok(())
            })
            .unwrap();
        let taken: Vec<_> = taken.iter().map(|(g, k, j)| (g.as_str(), k.as_str(), j.as_str())).collect();
        assert_eq!(taken, given);
    }
}
