import assert from 'node:assert/strict';
import { eventually } from '@triplock/testing';
import { command } from './command.ts';
import type { Sent } from './kill-storm.ts';
import type { Stage } from './stage.ts';

/** Ids of what was accepted, copies once. Nothing but 202, 409 and 503 may have been answered. */
export function acceptedIds(sent: readonly Sent[], atLeast: number): string[] {
  const odd = sent.filter(({ answer }) => ![202, 409, 503].includes(answer.status));
  assert.deepEqual(odd, []);
  const accepted = sent.filter(({ answer }) => answer.status === 202);
  const ids = accepted.map(({ answer }) => (JSON.parse(answer.body) as { id: string }).id);
  assert.ok(ids.length >= atLeast, `only ${ids.length} were accepted`);
  return [...new Set(ids)];
}

/** Waits until every id is in the ledger, each with one entry, and until the audit is green. */
export async function becomeFinalOnce({ look }: Stage, ids: readonly string[]): Promise<void> {
  await eventually(async () => (await look.inLedger(ids)).size === ids.length, {
    withinMs: 60_000,
    what: `all ${ids.length} accepted payments in the ledger`,
  });
  const [entries] = await look.ledger.query<{ n: number; once: number }>(
    `SELECT count(*)::int AS n, count(DISTINCT txn_id)::int AS once
     FROM ledger.entries WHERE txn_id = ANY($1::uuid[])`,
    [ids],
  );
  assert.deepEqual(entries, { n: ids.length, once: ids.length });
  const audit = await command('audit', '--wait', '60');
  assert.equal(audit.code, 0, audit.stdout + audit.stderr);
}
