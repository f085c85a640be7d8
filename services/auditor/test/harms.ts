import { auditedConsumers } from './consumers.ts';
import { harmsToInboxes } from './harm-to-inboxes.ts';
import { harmsToLedger } from './harm-to-ledger.ts';
import { harmsToTopics } from './harm-to-topics.ts';
import type { Harm } from './harm.ts';

type Harms = Readonly<Record<string, readonly Harm[]>>;

/** For every check some things that it exists to see, from whoever knows any. */
export const harms = [
  harmsToTopics,
  harmsToLedger,
  harmsToInboxes,
  ...auditedConsumers.map((each) => each.harms),
].reduce<Harms>(
  (known, brought) => ({
    ...known,
    ...Object.fromEntries(
      Object.entries(brought).map(([check, ofCheck]) => [
        check,
        [...(known[check] ?? []), ...ofCheck],
      ]),
    ),
  }),
  {},
);
