import { rulesOfServices, type Outsider, type Rule, type Rules } from '@triplock/pipeline';
import type { ProviderName } from '@triplock/payments';
import { loadStatements, type Queryable } from '@triplock/postgres';
import { withPairs } from './provider-pairs.ts';

/**
 * One question about the whole system. Its statement gives ids that answer it wrongly, the oldest
 * first.
 */
export type Check = Rule & {
  name: string;
  sql: string;
  /** Whether it looks at a window; else an index finds whatever there is, however old. */
  takesWindow: boolean;
};

/**
 * From when on and before when, in PostgreSQL's words. What a check looks at is of the window in
 * which it was first seen, was published or was settled; all that it is compared with may be of any
 * time. What is not settled yet is in the window without an end.
 */
export type Window = { from: string; until: string };

/** All there ever was. */
export const everything: Window = { from: '-infinity', until: 'infinity' };

const always: Rule = { holds: 'always' };
const inTheEnd: Rule = { holds: 'in the end' };
const onceItsProviderWasAsked: Rule = { holds: 'in the end', needs: 'provider' };
const onceActed = (waitsFor: Outsider): Rule => ({ holds: 'once others acted', waitsFor });

/** By the file in `checks` that has the statements, each named with `_` for `-`. */
const rules: Readonly<Record<string, Rules>> = {
  accepted: {
    'accepted-lost': always,
    'claim-unaccounted': always,
    'accepted-unaccounted': inTheEnd,
    'key-conflict-untold': inTheEnd,
    'key-conflict-unfounded': inTheEnd,
    'refused-record-not-dead-lettered': inTheEnd,
    'dead-letter-unfounded': inTheEnd,
  },
  ledger: {
    'ledger-not-accepted': inTheEnd,
    'ledger-unfinished': inTheEnd,
    'told-otherwise': inTheEnd,
    'card-unfinished': onceActed('customer'),
    'partner-unfinished': onceActed('partner'),
    'bank-unfinished': onceActed('bank'),
    'ledger-history-changed': always,
    'ledger-differs-from-accepted': always,
    'ledger-id-underived': always,
    'entry-differs-from-ledger': always,
    'refunded-differs-from-refunds': always,
    'captured-differs-from-captures': always,
    'refund-unfounded': always,
    'events-differ-from-settled': always,
  },
  provider: {
    'payment-contradicts-provider': always,
    'payment-differs-from-provider': onceItsProviderWasAsked,
    'given-back-otherwise': onceItsProviderWasAsked,
    'charged-twice': always,
    'charge-unfounded': always,
    'charge-differs-from-ledger': always,
    'given-back-twice': always,
    'given-back-unfounded': always,
    'given-back-differs-from-ledger': always,
    'dispute-untold': onceItsProviderWasAsked,
    'dispute-unfounded': onceItsProviderWasAsked,
    'dispute-differs-from-ledger': always,
    'dispute-ended-otherwise': onceItsProviderWasAsked,
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
    'published-differs-from-ledger': always,
    'published-altered': always,
  },
  consumers: {
    'event-early': inTheEnd,
    'inbox-unfounded': always,
    'inbox-altered': always,
    'cursor-differs-from-inbox': always,
    'reaped-differs-from-missing': { ...always, whole: true },
    ...rulesOfServices,
  },
};

/**
 * Every check. A statement takes the window, as $1 and $2, or nothing, and one that needs a
 * provider leaves out what those have, $3, that could not be asked; a row is an offending `id` and
 * `since` when it has been one. No row: the check holds. One that takes a window is planned without
 * nested loops: what it looks up by an id it has to look up by LATERAL or with OFFSET 0.
 */
export const checks: readonly Check[] = Object.entries(rules).flatMap(([file, ofFile]) => {
  const idOf = (name: string) => name.replaceAll('-', '_');
  const names = Object.keys(ofFile);
  const sql = loadStatements(import.meta.url, `checks/${file}.sql`, names.map(idOf));
  return names.map((name) => {
    const rule = ofFile[name]!;
    const statement = withPairs(sql[idOf(name)]!);
    const takesWindow = statement.includes('$1');
    const only = rule.holds === 'once others acted' ? oldestOfEach : oldestOf;
    return { ...rule, name, takesWindow, sql: only(statement) };
  });
});

/**
 * An id that a check found, and since when; with the partner where somebody of it is waited for,
 * and for how long a customer's time is over, in milliseconds by the database's clock.
 */
export type FoundRow = { id: string; since: Date; partner?: string; overMs?: number };

/** Providers whose journals could not be read: nothing is said of what only these would show. */
export type Unread = readonly ProviderName[];

/**
 * What a check finds in a window, the oldest first, but for what needs a provider that could not be
 * asked. `tx` is in a transaction.
 */
export function findWrong(
  tx: Queryable,
  { sql, takesWindow, needs }: Pick<Check, 'sql' | 'takesWindow' | 'needs'>,
  window: Window,
  unread: Unread = [],
): Promise<FoundRow[]> {
  if (!takesWindow) return tx.query(sql);
  return withoutNestedLoops(tx, () => tx.query(sql, parametersOf({ needs }, window, unread)));
}

/** What the statement of a check takes that takes a window. */
export function parametersOf(
  { needs }: Pick<Check, 'needs'>,
  { from, until }: Window,
  unread: Unread = [],
): unknown[] {
  return needs === 'provider' ? [from, until, unread] : [from, until];
}

/**
 * Runs what compares windows. Of one that is newer than the statistics the planner expects a row,
 * and would compare each with each; what is to be looked up by its id has a LATERAL or an OFFSET 0,
 * which leave it no other way.
 */
export async function withoutNestedLoops<Result>(
  tx: Queryable,
  work: (tx: Queryable) => Promise<Result>,
): Promise<Result> {
  await tx.query('SET LOCAL enable_nestloop = off');
  const result = await work(tx);
  await tx.query('SET LOCAL enable_nestloop = on');
  return result;
}

/**
 * The oldest 100 of what a check finds. Materialised, because a planner that is asked for the first
 * 100 expects to find them soon and sorts everything to look one by one; there are none to find.
 */
function oldestOf(sql: string): string {
  return `WITH found AS MATERIALIZED (${sql}) SELECT id, since FROM found ORDER BY since LIMIT 100`;
}

/** The oldest 100 of each partner, so that none is hidden behind another, and 10 000 in all. */
function oldestOfEach(sql: string): string {
  return `
    SELECT * FROM (
      SELECT found.*, row_number() OVER (PARTITION BY partner ORDER BY since) AS nth
      FROM (${sql}) AS found
    ) AS ranked
    WHERE nth <= 100 ORDER BY since LIMIT 10000`;
}
