import { auditedConsumers } from './consumers.ts';
import { harmsToInboxes } from './harm-to-inboxes.ts';
import { harmsToLedger } from './harm-to-ledger.ts';
import { harmsToTopics } from './harm-to-topics.ts';
import { harmsToWebhooks } from './harm-to-webhooks.ts';
import type { Harm } from './harm.ts';

type Harms = Readonly<Record<string, readonly Harm[]>>;

/** For every check some things that it exists to see. */
export const harms = auditedConsumers.reduce<Harms>(
  (known, { harms: brought }) => ({ ...known, ...brought }),
  { ...harmsToTopics, ...harmsToLedger, ...harmsToInboxes, ...harmsToWebhooks },
);
