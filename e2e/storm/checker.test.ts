import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type Arrived,
  type AskedKey,
  type Evidence,
  fedTwice,
  judgeStorm,
  type Listed,
  type Row,
} from './checker.ts';

const row = (id: string, kind: Row['kind'], more: Partial<Row> = {}): Row => ({
  id,
  kind,
  partner: 'acme',
  key: `key of ${id}`,
  payment: kind === 'payment' ? null : 'card',
  state: 'succeeded',
  amount: 1_000,
  currency: 'EUR',
  amount_refunded: 0,
  amount_captured: null,
  failure_code: null,
  intent: null,
  charge: null,
  ...more,
});

const rows: readonly Row[] = [
  row('card', 'payment', { intent: 'pi_1', charge: 'ch_1', amount_refunded: 300 }),
  row('given', 'refund', { amount: 300 }),
  row('refused', 'refund', { amount: 900, state: 'failed', failure_code: 'too_much' }),
  row('held', 'payment', {
    intent: 'pi_2',
    state: 'captured',
    charge: 'ch_2',
    amount_captured: 700,
  }),
  row('taken', 'capture', { payment: 'held', amount: 700 }),
  row('late', 'cancellation', { payment: 'held', state: 'failed', failure_code: 'captured' }),
];

const listed = (id: string, amount: number, more: Partial<Listed> = {}): Listed => ({
  id,
  amount,
  status: 'succeeded',
  currency: 'eur',
  ...more,
});

const shownOf = ({ id, state, amount, currency, amount_refunded }: Row) => {
  return { id, status: state, amount, currency, amount_refunded };
};

function told(of: Row, sequence: number, more: object = {}) {
  const data = { ...shownOf(of), amount_refunded: 0, ...(of.payment && { payment: of.payment }) };
  const { amount_refunded: _, ...followUp } = data;
  const body = { type: `${of.kind}.${of.state}`, sequence, data: of.payment ? followUp : data };
  return {
    partner: 'acme',
    id: `of ${of.id}`,
    verified: true,
    body: JSON.stringify({ ...body, ...more }),
  };
}

const [card, given, refused, held, taken, late] = rows as [Row, Row, Row, Row, Row, Row];
const dispute = { id: 'du_1', amount: 50, reason: 'fraudulent' };
const isDisputed = { type: 'payment.disputed', data: { ...shownOf(card), dispute } };

/** The feeds of partners that got these webhooks. */
const fedOf = (webhooks: readonly Arrived[]) =>
  webhooks.map(({ partner, id, body }, n) => ({ partner, id, body, position: `${n}` }));

/** A storm of which nothing is wrong. */
const withoutFeed: Omit<Evidence, 'fed'> = {
  asked: rows.map(({ id, kind, partner, key }): AskedKey => {
    return { partner, kind, key, answers: [{ status: 202, text: JSON.stringify({ id }) }] };
  }),
  rows,
  charges: [
    listed('ch_1', 1_000, { payment_intent: 'pi_1', captured: true, amount_captured: 1_000 }),
    listed('ch_2', 1_000, { payment_intent: 'pi_2', captured: true, amount_captured: 700 }),
  ],
  refunds: [listed('re_1', 300, { payment_intent: 'pi_1', metadata: { txn_id: 'given' } })],
  disputes: [listed('du_1', 50, { payment_intent: 'pi_1', reason: 'fraudulent' })],
  webhooks: [
    told(card, 1),
    told(given, 2),
    told(refused, 3),
    { ...told(card, 4, isDisputed), id: 'of the dispute' },
    told(taken, 1),
    told(held, 2),
    told(late, 3),
  ],
  shown: new Map(
    rows.map((each) => [
      each.id,
      { ...shownOf(each), ...(each.payment && { payment: each.payment }) },
    ]),
  ),
};

const truth: Evidence = { ...withoutFeed, fed: fedOf(withoutFeed.webhooks) };

test('a storm of which nothing is wrong is judged so', () => {
  assert.deepEqual(judgeStorm(truth), []);
});

const changed = (id: string, more: Partial<Row>) => ({
  rows: rows.map((each) => (each.id === id ? { ...each, ...more } : each)),
});
const without = <Item extends { id: string }>(items: readonly Item[], id: string) =>
  items.filter((each) => each.id !== id);
const { asked, charges, refunds, webhooks, fed } = truth;
const [first] = charges as [Listed];

const lies: Readonly<Record<string, Partial<Evidence>>> = {
  'a 202 that the ledger lacks': { rows: without(rows, 'refused') },
  'a row that nobody asked for': { asked: asked.slice(1) },
  'a key that was refused and is a row': {
    asked: asked.map((each) => ({ ...each, answers: [{ status: 400, text: '{}' }] })),
  },
  'a row that is not final': changed('given', { state: 'pending' }),
  'two bodies under one key': {
    asked: asked.map((each) => {
      return { ...each, answers: [...each.answers, { status: 202, text: '{"id":"card" }' }] };
    }),
  },
  'a card that was not charged': { charges: charges.slice(1) },
  'a card that was charged twice': { charges: [...charges, { ...first, id: 'ch_3' }] },
  'a card that was charged another amount': {
    charges: [{ ...first, amount_captured: 999 }, ...charges.slice(1)],
  },
  'a charge of another intent than the row’s': {
    charges: [
      ...charges,
      listed('ch_4', 1, { payment_intent: 'pi_9', metadata: { txn_id: 'gone' } }),
    ],
  },
  'a refund that nobody gave back': { refunds: [] },
  'a refund that failed and was given back': changed('given', { state: 'failed' }),
  'a refund of another amount': changed('given', { amount: 301 }),
  'a refund given back twice': { refunds: [...refunds, { ...refunds[0]!, id: 're_2' }] },
  'refunds beyond the payment': changed('given', { amount: 1_001 }),
  'a payment that says another sum': changed('card', { amount_refunded: 0 }),
  'a capture and a cancellation that both succeeded': changed('late', { state: 'succeeded' }),
  'a capture of another amount': changed('taken', { amount: 600 }),
  'a webhook with other bytes under one id': {
    webhooks: [...webhooks, told(given, 2, { more: 1 })],
  },
  'a second end': {
    webhooks: [...webhooks, { ...told(given, 4, { type: 'refund.failed' }), id: 'x' }],
  },
  'a webhook that says otherwise than what is shown': {
    shown: new Map([...truth.shown, ['given', { ...truth.shown.get('given'), amount: 299 }]]),
  },
  'a webhook that never came': { webhooks: without(webhooks, 'of given') },
  'two events of one number': {
    webhooks: [...without(webhooks, 'of refused'), told(refused, 2)],
  },
  'a webhook of another partner': {
    webhooks: webhooks.map((each) => ({ ...each, partner: 'globex' })),
  },
  'a webhook that is not signed': {
    webhooks: webhooks.map((each) => ({ ...each, verified: false })),
  },
  'a dispute that nobody was told of': { webhooks: without(webhooks, 'of the dispute') },
  'an event that never stood in the feed': { fed: without(fed, 'of late') },
  'an event that stands in the feed and was no webhook': {
    fed: [...fed, { ...fed[0]!, id: 'another' }],
  },
  'an event with other bytes than its webhook': {
    fed: fed.map((each) => ({ ...each, body: each.body.replace('1000', '1001') })),
  },
  'an event in the feed of another partner': {
    fed: fed.map((each) => ({ ...each, partner: 'globex' })),
  },
  'events of a payment that stand in another order': { fed: fed.toReversed() },
  'a dispute of another amount': {
    disputes: [listed('du_1', 51, { payment_intent: 'pi_1', reason: 'fraudulent' })],
  },
};

for (const [lie, more] of Object.entries(lies)) {
  test(`${lie} is seen`, () => {
    const lied = { ...truth, ...more };
    assert.notDeepEqual(judgeStorm({ ...lied, fed: more.fed ?? fedOf(lied.webhooks) }), []);
  });
}

test('an event that a reader was given again is named', () => {
  assert.deepEqual(fedTwice(fed), []);
  const again = { ...fed[0]!, partner: 'globex' };
  assert.deepEqual(fedTwice([...fed, again, again]), ['globex of card']);
});
