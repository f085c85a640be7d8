import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { followUpEventOf, followUpKeyConflictEventOf, paymentEventOf } from '@triplock/contracts';
import { openPostgresFollowUps, openPostgresLedger } from '@triplock/ledger';
import type { AcceptedPayment, AcceptedFollowUp, JsonValue } from '@triplock/payments';
import { consumers } from '@triplock/pipeline';
import { aPayment, aRefund, createTestDatabase, everyField } from '@triplock/testing';
import { settledAt } from '@triplock/testing/test';
import { checks, everything, findWrong } from './checks.ts';
import { ownersOf, traceparent } from './test/hops.ts';
import { wholeSystem, type System } from './test/whole-system.ts';
import { atOneMoment } from './windows.ts';

const closing: (() => Promise<void>)[] = [];
let system: System;
let read: <Row extends object>(sql: string, parameters?: readonly unknown[]) => Promise<Row[]>;
let find: (check: string) => Promise<Set<string>>;
let owners: ReturnType<typeof ownersOf>;
before(async () => {
  const store = await createTestDatabase({ after: (close) => void closing.push(close) });
  const database = store.open('triplock_auditor');
  owners = ownersOf(store);
  system = wholeSystem(owners);
  read = (sql, parameters) => owners.admin.query(sql, parameters);
  find = async (name) => {
    const check = checks.find((each) => each.name === name)!;
    const rows = await atOneMoment({ database }, (tx) => findWrong(tx, check, everything));
    return new Set(rows.map(({ id }) => id));
  };
  await tellEverything();
});
after(() => Promise.all(closing.map((close) => close())));

/** Names and texts whose order and escapes are easily lost between two languages. */
const oddTexts = {
  ...everyField,
  description: 'a "quoted" \\ / and\nlines, é Ω \u2028 😀',
  // As a record has them: sorted by JavaScript, which takes some names for numbers.
  metadata: Object.fromEntries(
    ['10', '9', '01', '4294967295', 'b', 'B', '😀', '\ue000', '\uffee', 'é', 'a"b']
      .toSorted()
      .map((name) => [name, `${name} "said"`]),
  ),
};

/** One event of every type, each as the services write it, all the way to its webhook. */
async function tellEverything() {
  const [ledger, followUps] = [
    openPostgresLedger(owners.ledger),
    openPostgresFollowUps(owners.ledger),
  ];
  const failure = { code: 'card_declined', message: 'it "said" no \\ Ω' };
  const versionOf = async ({ txnId }: { txnId: AcceptedPayment['txnId'] }) =>
    ((await ledger.find(txnId)) ?? (await followUps.find(txnId)))!.version;
  const begin = async (payment: AcceptedPayment, intentId?: string) => {
    await system.accept(payment);
    await system.begin(payment);
    if (intentId !== undefined) await system.storeIntent(payment, intentId);
    return payment;
  };
  const sequences = new Map<string, number>();
  const next = (payment: AcceptedPayment | string) => {
    const id = typeof payment === 'string' ? payment : payment.txnId;
    sequences.set(id, (sequences.get(id) ?? 0) + 1);
    return sequences.get(id)!;
  };
  const follow = async (followUp: AcceptedFollowUp) => {
    await system.accept(followUp);
    await system.beginRefund(followUp);
    return followUp;
  };
  const settleFollowUp = async (
    followUp: AcceptedFollowUp,
    end: Omit<
      Parameters<typeof followUps.settle>[0],
      'txnId' | 'version' | 'settledAt' | 'traceparent'
    >,
  ) => {
    const { txnId } = followUp;
    const version = await versionOf(followUp);
    const at = { settledAt: settledAt(followUp), traceparent };
    await followUps.settle({ txnId, version, ...at, ...end });
    const orderedBy = followUp.paymentId;
    const told = { followUp: (await followUps.find(txnId))!, orderedBy };
    await system.publish(followUpEventOf({ ...told, sequence: next(orderedBy) }));
  };
  const settle = async (
    payment: AcceptedPayment,
    end: Omit<
      Parameters<typeof ledger.settle>[0],
      'txnId' | 'version' | 'settledAt' | 'traceparent'
    >,
  ) => {
    const { txnId } = payment;
    const version = await versionOf(payment);
    await ledger.settle({ txnId, version, settledAt: settledAt(payment), traceparent, ...end });
    const row = (await ledger.find(txnId))!;
    const type = `payment.${row.state}` as 'payment.succeeded';
    await system.publish(paymentEventOf(row, type, next(payment)));
  };

  // A book transfer with every text, its refunds, and one that does not fit.
  const { paymentMethod: _, captureMethod: __, returnUrl: ___, ...texts } = oddTexts;
  const paid = aPayment({ ...texts, amount: 1_250n });
  await system.pay(paid);
  next(paid);
  for (const wish of [{ amount: 250n, reason: 'it "broke" \\ Ω' }, { reason: 'no' }, {}]) {
    await system.giveBack(aRefund(paid, wish), next(paid));
  }
  // A card that its customer confirms, that is given back in part, and disputed before and after.
  const { captureMethod: ____, ...atOnce } = oddTexts;
  const card = await begin(aPayment({ ...atOnce, amount: 1_250n }), 'pi_card');
  await system.publish(await system.awaitCustomer(card.txnId));
  next(card);
  await settle(card, { result: { state: 'succeeded' }, chargeId: 'ch_card' });
  const dispute = async (disputeId: string) => {
    const money = { amount: 625n, currency: 'EUR', reason: 'fraudulent' };
    await system.noteDispute({ provider: 'stripe', intentId: 'pi_card', disputeId, ...money });
    await publishNewest(card.txnId);
    next(card);
  };
  await dispute('du_before');
  const back = await follow(aRefund(card, { amount: 300n, reason: 'a part' }));
  await settleFollowUp(back, { result: { state: 'succeeded' }, refundId: 're_card' });
  await dispute('du_after');
  const refused = await follow(aRefund(card, { amount: 100n }));
  await settleFollowUp(refused, { result: { state: 'failed', failure }, refundId: 're_refused' });
  // Held money: captured in part, let go, and a capture that was refused.
  const capturedOf = await begin(aPayment({ ...oddTexts, amount: 1_250n }));
  await system.publish(await system.authorize(capturedOf, 'pi_captured'));
  next(capturedOf);
  const early = await follow(aRefund(capturedOf, { kind: 'capture', amount: 1_000n }));
  await settleFollowUp(early, { result: { state: 'failed', failure } });
  const capture = await follow(aRefund(capturedOf, { kind: 'capture', amount: 600n }));
  const events = await system.settleCapture(capture, 'ch_captured');
  await publishAll(capturedOf.txnId, events.length);
  const letGo = await begin(aPayment({ ...oddTexts, amount: 1_250n }));
  await system.publish(await system.authorize(letGo, 'pi_let_go'));
  const cancellation = await follow(aRefund(letGo, { kind: 'cancellation', reason: 'sold out' }));
  const version = await versionOf(cancellation);
  await followUps.settle({
    txnId: cancellation.txnId,
    version,
    settledAt: settledAt(cancellation),
    traceparent,
    result: { state: 'succeeded' },
    payment: { result: { state: 'canceled', failure } },
  });
  await publishAll(letGo.txnId, 2);
  // One that failed, and two that lost their keys.
  const failed = await begin(aPayment({ ...atOnce, amount: 1_250n }), 'pi_failed');
  await settle(failed, { result: { state: 'failed', failure } });
  const loser = aPayment({ key: paid.key, amount: 7n });
  await system.loseKey(loser);
  const first = aRefund(card, { amount: 5n });
  const second = aRefund(card, { key: first.key, amount: 6n, reason: 'twice "over"' });
  await follow(first);
  await settleFollowUp(first, { result: { state: 'succeeded' }, refundId: 're_first' });
  const dead = await system.accept(second);
  await followUps.recordKeyConflict({ followUp: second, traceparent, settledAt: new Date() });
  await system.deadLetter(dead, 'key_conflict');
  await system.publish(followUpKeyConflictEventOf(second));
}

/** Has everybody receive what the outbox has of a payment and nobody was given yet. */
async function publishAll(paymentId: string, number: number): Promise<void> {
  const rows = await read<{ payload: string }>(
    `SELECT payload FROM ledger.outbox
     WHERE payment_id = $1 AND state = 'pending' ORDER BY sequence`,
    [paymentId],
  );
  assert.equal(rows.length, number);
  for (const { payload } of rows) await system.publish(JSON.parse(payload));
}
const publishNewest = (paymentId: string) => publishAll(paymentId, 1);

/** A document of the same, but for one path; and where that is. */
type Altered = { path: string; text: string };

/** Every value changed, every name taken out or put in, and the bytes alone. */
function alterations(text: string): Altered[] {
  const altered: Altered[] = [{ path: 'a space', text: `${text} ` }];
  const whole = () => JSON.parse(text) as JsonValue;
  const visit = (value: JsonValue, path: readonly string[]) => {
    const put = (made: (parent: Record<string, JsonValue>, name: string) => void, what: string) => {
      const copy = whole();
      let parent = copy as Record<string, JsonValue>;
      for (const name of path.slice(0, -1)) parent = parent[name] as Record<string, JsonValue>;
      made(parent, path.at(-1)!);
      altered.push({ path: `${path.join('.')} ${what}`, text: JSON.stringify(copy) });
    };
    if (typeof value === 'object' && value !== null) {
      const inside = Object.entries(value as Record<string, JsonValue>);
      for (const [name, inner] of inside) visit(inner, [...path, name]);
      visitAdded(path);
    } else {
      put((parent, name) => (parent[name] = another(value)), 'changed');
    }
    if (path.length > 0) put((parent, name) => void delete parent[name], 'removed');
  };
  const visitAdded = (path: readonly string[]) => {
    const copy = whole();
    let inner = copy as Record<string, JsonValue>;
    for (const name of path) inner = inner[name] as Record<string, JsonValue>;
    inner['added'] = 'x';
    altered.push({ path: `${path.join('.')} added`, text: JSON.stringify(copy) });
  };
  visit(whole(), []);
  return altered;
}

/** Another value of the same form: what would be taken for true. */
function another(value: unknown): JsonValue {
  if (typeof value === 'number') return value + 1;
  const text = String(value);
  return /^\d{4}-\d\d-\d\dT/.test(text) ? text.replace(/^20/, '21') : `${text}x`;
}

type Document = { id: string; key: string; kind: string; text: string };

/** A column of documents: its rows, the check that has to see what is altered, and how to alter. */
type DocumentColumn = {
  check: string;
  rows: string;
  update: string;
  /** What of a document no row says, by its kind and path. */
  known?: (document: Document, path: string) => boolean;
};

const documentColumns: Readonly<Record<string, DocumentColumn>> = {
  'ledger.outbox.payload': {
    check: 'event-tells-otherwise',
    rows: 'SELECT event_id::text AS id, event_id::text AS key, event_type AS kind, payload AS text FROM ledger.outbox',
    update: 'UPDATE ledger.outbox SET payload = $2 WHERE event_id = $1',
    known: ({ kind, text }, path) =>
      // Sealed with the rest, and erased with it.
      (kind === 'payment.requires_action' && path.startsWith('data.next_action.type ')) ||
      // When a payment came that lost its key: its hash has much else.
      (kind === 'payment.key_conflict' &&
        text.includes('"object":"payment"') &&
        path === 'timestamp changed'),
  },
  'ledger.transactions.details': {
    check: 'ledger-differs-from-accepted',
    rows: `SELECT txn_id::text AS id, txn_id::text AS key, kind, details AS text
           FROM ledger.transactions WHERE details IS NOT NULL`,
    update: 'UPDATE ledger.transactions SET details = $2 WHERE txn_id = $1',
  },
  'webhooks.deliveries.body': {
    check: 'delivery-tells-otherwise',
    rows: `SELECT event_id::text AS id, event_id::text AS key, kind, body AS text
           FROM webhooks.deliveries CROSS JOIN LATERAL (SELECT body::json ->> 'type' AS kind) AS its`,
    update: 'UPDATE webhooks.deliveries SET body = $2 WHERE event_id = $1',
  },
};

suite('an altered document is named, whatever path of it was altered', () => {
  for (const [column, { check, rows, update, known }] of Object.entries(documentColumns)) {
    test(column, async () => {
      const documents = await read<Document>(rows);
      assert.ok(documents.length > 5);
      assert.deepEqual([...(await find(check))], [], 'as the services wrote them');
      const open = documents.map((document) => ({ document, todo: alterations(document.text) }));
      const unseen: string[] = [];
      // One of each document at a time: they do not depend on each other.
      for (let round = 0; open.some(({ todo }) => todo.length > round); round += 1) {
        const altered = open.flatMap(({ document, todo }) => {
          const each = todo[round];
          return each === undefined ? [] : [{ document, ...each }];
        });
        for (const { document, text } of altered) await system.break(update, [document.key, text]);
        const found = await find(check);
        for (const { document, path } of altered) {
          const isKnown = known?.(document, path) ?? false;
          if (found.has(document.id) === isKnown) unseen.push(`${document.kind} ${path}`);
          await system.break(update, [document.key, document.text]);
        }
      }
      assert.deepEqual(unseen, []);
    });
  }
});

/** Columns that hold a document and are none of those above, and what makes that harmless. */
const otherDocuments: Readonly<Record<string, string>> = {
  'auditor.audit_slices.counts': 'hashed with its slice: slices.test.ts alters one',
  'auditor.audit_slices.sums': 'the same',
  'auditor.refused_messages.attributes': 'kept for people; an event of ours is missing elsewhere',
  'ledger.continuity.archived': 'offsets: from there on what was told is looked for once more',
  'ledger.continuity.posted': 'offsets: from there on what was accepted is looked for once more',
  'auditor.scheduled_audit.drift': 'the result of the last audit, which the next one replaces',
  'auditor.scheduled_audit.in_flight': 'the same',
  'auditor.scheduled_audit.in_flight_since': 'the same',
  'auditor.scheduled_audit.waiting': 'the same',
  'auditor.scheduled_audit.waiting_since': 'the same',
};

test('every column that holds a document is among them', async () => {
  const columns = await read<{ name: string; type: string; path: string }>(
    `
    SELECT concat_ws('.', table_schema, table_name, column_name) AS name, data_type AS type,
           format('%I.%I', table_schema, table_name) AS path
    FROM information_schema.columns
    JOIN information_schema.tables USING (table_schema, table_name)
    WHERE table_schema = ANY ($1)
      AND table_type = 'BASE TABLE' AND data_type IN ('json', 'jsonb', 'text')`,
    [['ledger', 'auditor', 'webhooks', ...consumers.map(({ schema }) => schema)]],
  );
  const holding: string[] = [];
  for (const { name, type, path } of columns) {
    const column = name.split('.').at(-1)!;
    const texts = `SELECT FROM ${path} WHERE ${column}::text ~ '^\\s*[\\[{]' LIMIT 1`;
    if (type !== 'text' || (await read(texts)).length > 0) holding.push(name);
  }
  // Kept for people as the auditor's own is; and each early one is in flight, and what it became is
  // compared.
  const ofInboxes = consumers.flatMap(({ schema }) =>
    ['refused_messages.attributes', 'early_events.event'].map((name) => `${schema}.${name}`),
  );
  const known = [...Object.keys(documentColumns), ...Object.keys(otherDocuments)];
  const expected = [...known, ...ofInboxes];
  assert.deepEqual(holding.toSorted(), expected.toSorted());
});
