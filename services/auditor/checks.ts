import { loadSql } from '@triplock/postgres';

/**
 * When a check must find nothing: `always`, because what it compares commits together or one after
 * the other; or `in the end`, because work that is still in flight looks the same as a loss.
 */
export type Holds = 'always' | 'in the end';

/** Who has to do something before a check holds. */
export type WaitsFor = 'system' | 'outsider' | 'bank';

/**
 * One question about the whole system. Its statement gives ids that answer it wrongly, the oldest
 * first.
 */
export type Check = {
  name: string;
  holds: Holds;
  sql: string;
  /** Without it: the system alone, within minutes. */
  waitsFor?: WaitsFor;
  /**
   * What must have been asked just now; without it the check would find what is only not known yet.
   */
  needs?: 'provider';
};

const inTheEnd = [
  'accepted-unaccounted',
  'key-conflict-untold',
  'key-conflict-unfounded',
  'refused-record-not-dead-lettered',
  'dead-letter-unfounded',
  'ledger-not-accepted',
  'ledger-unfinished',
  'event-unpublished',
  'published-unseen',
  'inbox-missing',
  'settlement-missing',
];

// A customer has a day to authenticate, and a partner's server a day to take a webhook.
const inTheEndByOutsiders = ['card-unfinished', 'delivery-waiting'];

// A bank may take days.
const inTheEndByBanks = ['refund-at-bank'];

const inTheEndAtTheProvider = ['charge-missing', 'given-back-otherwise'];

const always = [
  'ledger-history-changed',
  'ledger-differs-from-accepted',
  'ledger-id-underived',
  'entry-differs-from-ledger',
  'refunded-differs-from-refunds',
  'refund-unfounded',
  'charged-twice',
  'charge-unfounded',
  'charge-differs-from-ledger',
  'intent-unfounded',
  'given-back-twice',
  'given-back-unfounded',
  'given-back-differs-from-ledger',
  'event-differs-from-ledger',
  'event-tells-otherwise',
  'sequence-has-a-gap',
  'event-parked',
  'published-unfounded',
  'published-differs-from-outbox',
  'published-altered',
  'inbox-unfounded',
  'inbox-altered',
  'cursor-differs-from-inbox',
  'delivery-differs-from-inbox',
  'delivery-tells-otherwise',
  'delivery-given-up',
  'settlement-differs-from-ledger',
];

/**
 * Every check. Each file's statement takes no parameters; a row is an offending `id` and `since`
 * when it has been one. No row: the check holds.
 */
export const checks: readonly Check[] = [
  ...always.map((name) => load(name, 'always')),
  ...inTheEnd.map((name) => load(name, 'in the end')),
  ...inTheEndByOutsiders.map((name) => {
    return { ...load(name, 'in the end'), waitsFor: 'outsider' } as const;
  }),
  ...inTheEndByBanks.map((name) => {
    return { ...load(name, 'in the end'), waitsFor: 'bank' } as const;
  }),
  ...inTheEndAtTheProvider.map((name) => {
    return { ...load(name, 'in the end'), needs: 'provider' } as const;
  }),
];

function load(name: string, holds: Holds): Check {
  return { name, holds, sql: oldestOf(loadSql(import.meta.url, `checks/${name}.sql`)) };
}

/**
 * The oldest 100 of what a check finds. Materialised, because a planner that is asked for the first
 * 100 expects to find them soon and sorts everything to look one by one; there are none to find.
 */
function oldestOf(sql: string): string {
  return `WITH found AS MATERIALIZED (${sql}) SELECT id, since FROM found ORDER BY since LIMIT 100`;
}
