import assert from 'node:assert/strict';
import { after, describe, it, test } from 'node:test';
import { createTestDatabase } from '@triplock/testing';
import {
  aTrueHistory,
  asked,
  change,
  idOf,
  order,
  plain,
  retried,
  tooMuch,
  webhooks,
  without,
} from './test/a-true-history.ts';
import type { Finding } from '../audit-report.ts';
import { fileOf } from './test/a-history.ts';
import { gatherKeys, isAccepted, pairRequests } from './asked-keys.ts';
import { compareWithLayers, layerChecks } from './compare-with-layers.ts';
import { type HistoryEvent, parseHistory } from './history.ts';
import { gatherShown, isFinal } from './shown-transactions.ts';

type Transaction = {
  id: string;
  kind: string;
  partner: string;
  key: string;
  fingerprint: string;
  payment?: string | undefined;
  asked?: number | undefined;
  amount?: number | undefined;
  currency?: string | undefined;
  state: string;
  created: string;
};
type Delivery = { id: string; partner: string; transaction: string; body: string; state: string };
type Rows = { ledger: Transaction[]; deliveries: Delivery[] };

/** What a system has in its tables of which all of this is true. */
function rowsOf(events: readonly HistoryEvent[]): Rows {
  const { lines } = parseHistory(fileOf(events));
  const { requests } = pairRequests(lines);
  const shown = gatherShown(lines, requests);
  const ledger = [...gatherKeys(requests).keys.values()].flatMap((key) => {
    const final = shown.transactions.get(key.id)?.find(isFinal);
    if (final === undefined) return [];
    const { amount, currency, payment, created_at: created } = final.fields;
    const won = key.requests.find((each) => {
      const wanted = each.wanted?.fields['amount'];
      return isAccepted(each) && (wanted === undefined || wanted === amount);
    });
    const isRefund = key.kind === 'refund';
    // A refund that did not fit has no amount but the one that was asked for.
    const isReserved = !isRefund || final.status === 'succeeded';
    const row = {
      id: key.id,
      kind: key.kind,
      partner: key.partner,
      key: key.key,
      state: final.status,
      fingerprint: won!.wanted!.fingerprint,
      ...(isRefund && { payment, asked: won!.wanted!.fields['amount'] }),
      ...(isReserved && { amount, currency }),
      created,
    };
    return [row as unknown as Transaction];
  });
  const arrived = new Map(shown.webhooks.map((each) => [each.id, each]));
  const deliveries = [...arrived.values()].map(({ id, partner, body, event }) => {
    return { id, partner, transaction: event!.data.id, body, state: 'delivered' };
  });
  return { ledger, deliveries };
}

const owner = (await createTestDatabase({ after })).open();

/** Takes back what was written for one comparison. */
class TakenBack extends Error {}

/** What the audit finds where the system has these rows and this happened. */
async function compare({ ledger, deliveries }: Rows, events: HistoryEvent[]): Promise<Finding[]> {
  let findings: Finding[] | undefined;
  await owner
    .transaction(async (tx) => {
      await tx.query(insertLedger, [JSON.stringify(ledger)]);
      await tx.query(insertDeliveries, [JSON.stringify(deliveries)]);
      await tx.query('SET LOCAL ROLE triplock_auditor');
      findings = await compareWithLayers(tx, parseHistory(fileOf(events)));
      throw new TakenBack();
    })
    .catch((error: unknown) => {
      if (!(error instanceof TakenBack)) throw error;
    });
  return findings!;
}

const insertLedger = `
  INSERT INTO ledger.transactions (
    txn_id, kind, partner_id, idempotency_key, fingerprint, response_version, payment_id,
    requested_amount, created_at, amount, currency, state, failure_code, settled_at, due_at, events
  )
  SELECT id, kind, partner, key, decode(fingerprint, 'hex'), 1, payment, asked, created, amount,
    currency, state, CASE state WHEN 'failed' THEN 'declined' END,
    CASE WHEN state <> 'pending' THEN created END, CASE state WHEN 'pending' THEN created END, 1
  FROM json_to_recordset($1::json) AS row (
    id uuid, kind text, partner text, key text, fingerprint text, payment uuid, asked bigint,
    created timestamptz, amount bigint, currency text, state text
  )`;

const insertDeliveries = `
  INSERT INTO webhooks.deliveries (event_id, partner_id, txn_id, body, state, finished_at)
  SELECT id, partner, transaction, body, state, CASE WHEN state <> 'pending' THEN now() END
  FROM json_to_recordset($1::json) AS row (
    id uuid, partner text, transaction uuid, body text, state text
  )`;

test('a history and the system that it is of agree', async () => {
  const events = aTrueHistory();
  assert.deepEqual(await compare(rowsOf(events), events), []);
});

test('what others asked for, and what came for it, is no difference unless nobody else was there', async () => {
  const events = aTrueHistory();
  const some = without(events, ...[0, 1].map((n) => asked(events, plain, n)));
  const over = some.at(-1) as { complete: boolean };
  over.complete = false;
  assert.deepEqual(await compare(rowsOf(events), some), []);
  over.complete = true;
  const [found] = await compare(rowsOf(events), some);
  assert.deepEqual(found, { check: 'ledger-not-asked', ids: [idOf(events, plain)] });
});

type Lie = readonly [
  lie: string,
  is: keyof typeof layerChecks,
  plant: (rows: Rows, events: HistoryEvent[]) => HistoryEvent[] | void,
];

/** The row of a transaction. */
function rowOf({ ledger }: Rows, id: string): Transaction {
  return ledger.find((each) => each.id === id)!;
}

const anId = 'f47ac10b-58cc-8372-a567-0e02b2c3d479';
const lies: readonly Lie[] = [
  [
    'the ledger lacks what was accepted',
    'asked-not-in-ledger',
    (rows, events) =>
      void rows.ledger.splice(rows.ledger.indexOf(rowOf(rows, idOf(events, plain))), 1),
  ],
  [
    'the ledger has another amount',
    'asked-differs-from-ledger',
    (rows, events) => void (rowOf(rows, idOf(events, plain)).amount = 4_001),
  ],
  [
    'the ledger has another currency',
    'asked-differs-from-ledger',
    (rows, events) => void (rowOf(rows, idOf(events, plain)).currency = 'USD'),
  ],
  [
    'the ledger has the payment under another partner',
    'asked-differs-from-ledger',
    (rows, events) => void (rowOf(rows, idOf(events, plain)).partner = 'globex'),
  ],
  [
    'the ledger has the body that was refused by 422',
    'asked-differs-from-ledger',
    (rows, events) => {
      const { lines } = parseHistory(fileOf(events));
      const { keys } = gatherKeys(pairRequests(lines).requests);
      const { requests } = keys.get(idOf(events, retried) as never)!;
      const refused = requests.find(({ outcome }) => outcome === 'reused')!;
      rowOf(rows, idOf(events, retried)).fingerprint = refused.wanted!.fingerprint;
    },
  ],
  [
    'a refund was asked for with another amount',
    'asked-differs-from-ledger',
    (rows, events) => void (rowOf(rows, idOf(events, tooMuch)).asked = 3_999),
  ],
  [
    'a payment failed of which its partner was shown that it succeeded',
    'shown-differs-from-ledger',
    (rows, events) => void (rowOf(rows, idOf(events, plain)).state = 'failed'),
  ],
  [
    'a payment is pending of which its partner was shown that it succeeded',
    'shown-differs-from-ledger',
    (rows, events) => void (rowOf(rows, idOf(events, plain)).state = 'pending'),
  ],
  [
    'a client does not know of a payment',
    'ledger-not-asked',
    (rows, events) => {
      const row = rowOf(rows, idOf(events, plain));
      rows.ledger.push({ ...row, id: anId, key: order(77).key });
    },
  ],
  [
    'a webhook came that is no delivery',
    'arrived-not-delivered',
    (rows) => void rows.deliveries.pop(),
  ],
  [
    'a webhook came with other bytes than are kept',
    'arrived-not-delivered',
    (_, events) => change(webhooks(events, plain)[0]!, { timestamp: 'x' }),
  ],
  [
    'a webhook came to another partner than it is kept for',
    'arrived-not-delivered',
    (rows) => void (rows.deliveries[0]!.partner = 'initech'),
  ],
  [
    'a webhook is called delivered and never came',
    'delivered-not-arrived',
    (_, events) => {
      const gone = new Set<HistoryEvent>(webhooks(events, plain));
      return events.filter((each) => !gone.has(each));
    },
  ],
];

describe('each lie between a history and its system is named', () => {
  for (const [lie, is, plant] of lies) {
    it(`${lie}: ${is}`, async () => {
      const events = aTrueHistory();
      const rows = rowsOf(events);
      const findings = await compare(rows, plant(rows, events) ?? events);
      const named = findings.map(({ check }) => check);
      assert.ok(named.includes(is), JSON.stringify(findings));
    });
  }
  it('and every check has a lie that it names', () => {
    const named = new Set<string>(lies.map(([, is]) => is));
    assert.deepEqual(
      Object.keys(layerChecks).filter((each) => !named.has(each)),
      [],
    );
  });
});
