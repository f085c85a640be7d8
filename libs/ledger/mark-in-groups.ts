import type { EventId } from '@triplock/payments';
import type { BucketLease, Outbox } from './outbox.ts';

/** An event that the broker acknowledged, and the lease under which it was published. */
export type PublishedMark = BucketLease & { eventId: EventId };

type Mark = {
  lease: BucketLease;
  eventIds: readonly EventId[];
  resolve(marked: number): void;
  reject(error: unknown): void;
};

/**
 * Marks by `Outbox.markPublished`'s contract, in groups: a dispatcher marks each bucket when its
 * publish is acknowledged, and a commit per bucket would cost more than all the marking. While one
 * group is under way, marks gather for the next. `markGroup` gives back the events it marked.
 */
export function markInGroups(
  markGroup: (published: readonly PublishedMark[]) => Promise<readonly EventId[]>,
): Outbox['markPublished'] {
  let gathered: Mark[] = [];
  let underWay = false;

  async function markGathered(): Promise<void> {
    underWay = true;
    while (gathered.length > 0) {
      const group = gathered;
      gathered = [];
      await answer(group);
    }
    underWay = false;
  }

  async function answer(group: readonly Mark[]): Promise<void> {
    const published = group.flatMap(({ lease, eventIds }) =>
      eventIds.map((eventId) => ({ ...lease, eventId })),
    );
    try {
      const marked = new Set(await markGroup(published));
      // Deleting counts an id once, also when two marks of the group name it.
      for (const mark of group)
        mark.resolve(mark.eventIds.filter((id) => marked.delete(id)).length);
    } catch (error) {
      for (const mark of group) mark.reject(error);
    }
  }

  return (lease, eventIds) => {
    if (eventIds.length === 0) return Promise.resolve(0);
    return new Promise((resolve, reject) => {
      gathered.push({ lease, eventIds, resolve, reject });
      if (!underWay) void markGathered();
    });
  };
}
