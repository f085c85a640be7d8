import { loadStatements } from '@triplock/postgres';

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

type Rule = Pick<Check, 'holds' | 'waitsFor' | 'needs'>;

const always: Rule = { holds: 'always' };
const inTheEnd: Rule = { holds: 'in the end' };
// A customer has a day to authenticate, and a partner's server a day to take a webhook.
const onceOutsidersActed: Rule = { ...inTheEnd, waitsFor: 'outsider' };
// A bank may take days.
const onceBanksActed: Rule = { ...inTheEnd, waitsFor: 'bank' };
const onceTheProviderWasAsked: Rule = { ...inTheEnd, needs: 'provider' };

/** By the file in `checks` that has the statements, each named with `_` for `-`. */
const rules: Readonly<Record<string, Readonly<Record<string, Rule>>>> = {
  accepted: {
    'accepted-lost': always,
    'accepted-unaccounted': inTheEnd,
    'key-conflict-untold': inTheEnd,
    'key-conflict-unfounded': inTheEnd,
    'refused-record-not-dead-lettered': inTheEnd,
    'dead-letter-unfounded': inTheEnd,
  },
  ledger: {
    'ledger-not-accepted': inTheEnd,
    'ledger-unfinished': inTheEnd,
    'card-unfinished': onceOutsidersActed,
    'refund-at-bank': onceBanksActed,
    'ledger-history-changed': always,
    'ledger-differs-from-accepted': always,
    'ledger-id-underived': always,
    'entry-differs-from-ledger': always,
    'refunded-differs-from-refunds': always,
    'refund-unfounded': always,
  },
  provider: {
    'charge-missing': onceTheProviderWasAsked,
    'given-back-otherwise': onceTheProviderWasAsked,
    'charged-twice': always,
    'charge-unfounded': always,
    'charge-differs-from-ledger': always,
    'intent-unfounded': always,
    'given-back-twice': always,
    'given-back-unfounded': always,
    'given-back-differs-from-ledger': always,
  },
  events: {
    'event-unpublished': inTheEnd,
    'published-unseen': inTheEnd,
    'event-differs-from-ledger': always,
    'event-tells-otherwise': always,
    'sequence-has-a-gap': always,
    'event-parked': always,
    'published-unfounded': always,
    'published-differs-from-outbox': always,
    'published-altered': always,
  },
  consumers: {
    'inbox-missing': inTheEnd,
    'settlement-missing': inTheEnd,
    'delivery-waiting': onceOutsidersActed,
    'inbox-unfounded': always,
    'inbox-altered': always,
    'cursor-differs-from-inbox': always,
    'delivery-differs-from-inbox': always,
    'delivery-tells-otherwise': always,
    'delivery-given-up': always,
    'settlement-differs-from-ledger': always,
  },
};

/**
 * Every check. A statement takes no parameters; a row is an offending `id` and `since` when it has
 * been one. No row: the check holds.
 */
export const checks: readonly Check[] = Object.entries(rules).flatMap(([file, ofFile]) => {
  const idOf = (name: string) => name.replaceAll('-', '_');
  const names = Object.keys(ofFile);
  const sql = loadStatements(import.meta.url, `checks/${file}.sql`, names.map(idOf));
  return names.map((name) => ({ ...ofFile[name]!, name, sql: oldestOf(sql[idOf(name)]!) }));
});

/**
 * The oldest 100 of what a check finds. Materialised, because a planner that is asked for the first
 * 100 expects to find them soon and sorts everything to look one by one; there are none to find.
 */
function oldestOf(sql: string): string {
  return `WITH found AS MATERIALIZED (${sql}) SELECT id, since FROM found ORDER BY since LIMIT 100`;
}
