import { loadSql } from '@triplock/postgres';

/**
 * When a check must find nothing: `always`, because what it compares commits together or one after
 * the other; or `in the end`, because work that is still in flight looks the same as a loss.
 */
export type Holds = 'always' | 'in the end';

/** One question about the whole system. Its statement gives the ids that answer it wrongly. */
export type Check = { name: string; holds: Holds; sql: string };

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
  'delivery-waiting',
];

const always = [
  'ledger-differs-from-accepted',
  'ledger-id-underived',
  'entry-differs-from-ledger',
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
];

/**
 * Every check. Each statement takes no parameters; a row is an offending `id` and `since` when it
 * has been one, oldest first, 100 at most. No row: the check holds.
 */
export const checks: readonly Check[] = [
  ...always.map((name) => load(name, 'always')),
  ...inTheEnd.map((name) => load(name, 'in the end')),
];

function load(name: string, holds: Holds): Check {
  return { name, holds, sql: loadSql(import.meta.url, `checks/${name}.sql`) };
}
