import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  deriveEventId,
  deriveTxnId,
  followUpKinds,
  type IdempotencyKey,
  type PartnerId,
  maskCardNumbers,
} from '@triplock/payments';
import type { Queryable } from '@triplock/postgres';
import { createTestDatabase } from '@triplock/testing';
import { Refusal } from '../console.ts';
import { viewPayment } from './payment.ts';
import { findTransactions, listPayments, type PaymentFilter } from './payments.ts';

const partners = ['acme', 'globex', 'initech'] as const;
const each = 40;
const start = Date.parse('2026-11-20T08:00:00Z');
const idOf = (partner: string, key: string) =>
  deriveTxnId('payment', partner as PartnerId, key as IdempotencyKey);

/** As the console's own role, so that what it may not read fails here. */
let database: Queryable;
let owner: Queryable;
const all: { id: string; partner: string; nth: number; state: string; amount: bigint }[] = [];

const drops: (() => Promise<void>)[] = [];
after(() => Promise.all(drops.map((drop) => drop())));

before(async () => {
  const store = await createTestDatabase({ after: (drop) => void drops.push(drop) });
  for (const partner of partners) {
    for (let nth = 0; nth < each; nth += 1) {
      const state = nth % 10 === 3 ? 'failed' : 'succeeded';
      all.push({ id: idOf(partner, `key-${nth}`), partner, nth, state, amount: BigInt(100 + nth) });
    }
  }
  owner = store.open();
  await owner.query('INSERT INTO partners.partners (id) SELECT unnest($1::text[])', [partners]);
  await owner.query(
    `INSERT INTO ledger.transactions (txn_id, kind, partner_id, idempotency_key, fingerprint,
       response_version, created_at, amount, currency, state, failure_code, settled_at, events,
       reference, provider_intent_id, payment_method, provider)
     SELECT id, 'payment', partner, 'key-' || nth, sha256(id::text::bytea), 3,
       $6::timestamptz + nth / 2 * interval '1 second', amount, 'EUR', state,
       CASE state WHEN 'failed' THEN 'declined' END, now(), 1, 'order-' || nth % 4,
       'pi_' || partner || nth, 'pm_card_visa', 'stripe'
     FROM unnest($1::uuid[], $2::text[], $3::int[], $4::text[], $5::bigint[])
       AS made (id, partner, nth, state, amount)`,
    [
      all.map(({ id }) => id),
      all.map(({ partner }) => partner),
      all.map(({ nth }) => nth),
      all.map(({ state }) => state),
      all.map(({ amount }) => amount),
      new Date(start).toISOString(),
    ],
  );
  database = store.open('triplock_console');
});

async function everyPage(filter: PaymentFilter, size: number): Promise<string[]> {
  const ids: string[] = [];
  for (let cursor: string | undefined; ;) {
    const at = cursor === undefined ? {} : { cursor };
    const page = await listPayments(database, filter, { ...at, size });
    ids.push(...page.payments.map(({ id }) => id));
    if (page.next === undefined) return ids;
    cursor = page.next;
  }
}

const idsWhere = (fits: (payment: (typeof all)[number]) => boolean) =>
  new Set(all.filter(fits).map(({ id }) => id));

const filters: [string, PaymentFilter, (payment: (typeof all)[number]) => boolean][] = [
  ['all partners', {}, () => true],
  ['a partner', { partner: 'acme' }, ({ partner }) => partner === 'acme'],
  ['a status', { status: 'failed' }, ({ state }) => state === 'failed'],
  ['nothing', { status: 'authorized' }, () => false],
  [
    'a time',
    { from: new Date(start + 5_000), until: new Date(start + 9_000) },
    ({ nth }) => nth >= 10 && nth < 18,
  ],
  [
    'a reference',
    { partner: 'globex', reference: 'order-1' },
    ({ partner, nth }) => partner === 'globex' && nth % 4 === 1,
  ],
  [
    'an amount',
    { partner: 'acme', currency: 'EUR', amount: { least: 105n, greatest: 120n } },
    ({ partner, amount }) => partner === 'acme' && amount >= 105n && amount <= 120n,
  ],
];

for (const [name, filter, fits] of filters) {
  test(`the pages of a list by ${name} give each payment once, the newest first`, async () => {
    for (const size of [1, 7, 200]) {
      const ids = await everyPage(filter, size);
      assert.equal(ids.length, new Set(ids).size, `size ${size}`);
      assert.deepEqual(new Set(ids), idsWhere(fits), `size ${size}`);
      const times = ids.map((id) => Math.floor(all.find((one) => one.id === id)!.nth / 2));
      assert.deepEqual(
        times,
        [...times].sort((one, other) => other - one),
        `size ${size}`,
      );
    }
  });
}

test('a cursor is good in its own list alone', async () => {
  const { next } = await listPayments(database, { partner: 'acme' }, { size: 5 });
  const cursor = next!;
  for (const filter of [
    {},
    { partner: 'globex' },
    { partner: 'acme', status: 'failed' },
  ] as const) {
    await assert.rejects(listPayments(database, filter, { cursor }), Refusal);
  }
  for (const forged of ['', 'x', `${cursor}x`, Buffer.from('1 2 3').toString('base64url')]) {
    const asked = listPayments(database, { partner: 'acme' }, { cursor: forged });
    await assert.rejects(asked, Refusal, forged);
  }
});

test('a payment is found by its id, key, reference and what the provider calls it', async () => {
  const { id, partner } = all[5]!;
  const found = async (words: string, by?: string) =>
    (await findTransactions(database, { words, ...(by && { partner: by }) })).map((one) => one.id);
  assert.deepEqual(await found(id), [id]);
  assert.deepEqual(await found(id.toUpperCase()), [id]);
  assert.deepEqual(await found(`  pi_${partner}5 `), [id]);
  assert.deepEqual(await found('key-5', partner), [id]);
  assert.equal((await found('key-5')).length, partners.length);
  assert.equal((await found('order-1', 'acme')).length, each / 4);
  assert.deepEqual(await found(deriveEventId(idOf('acme', 'none'), 'payment.succeeded')), []);
});

test('what follows a payment is found by its key, whatever kind it is', async () => {
  const { id, partner } = all[7]!;
  const follows = followUpKinds.map((kind) => ({
    kind,
    id: deriveTxnId(kind, partner as PartnerId, 'follows-7' as IdempotencyKey),
  }));
  await owner.query(
    `INSERT INTO ledger.transactions (txn_id, kind, partner_id, idempotency_key, fingerprint,
       response_version, created_at, payment_id, state, events, due_at)
     SELECT txn_id, kind, $3, 'follows-7', sha256(txn_id::text::bytea), 1, now(), $4, 'pending', 0,
            now()
     FROM unnest($1::uuid[], $2::text[]) AS made (txn_id, kind)`,
    [follows.map((each) => each.id), follows.map(({ kind }) => kind), partner, id],
  );
  const found = await findTransactions(database, { words: 'follows-7', partner });
  assert.deepEqual(found.map((one) => one.kind).toSorted(), [...followUpKinds].toSorted());
});

test('hostile search texts find nothing and break nothing', async () => {
  const texts = ['', ' ', "' OR 1=1 --", '\0', '\ud800', '<script>', '%', 'x'.repeat(10_000), 'é'];
  for (const words of texts) assert.deepEqual(await findTransactions(database, { words }), []);
});

test('a payment is viewed with the console’s rights; one that nobody knows is none', async () => {
  const { id, partner } = all[3]!;
  const view = await viewPayment(database, idOf(partner, 'key-3'));
  assert.equal(view?.row?.id, id);
  assert.equal(view?.row?.failureCode, 'declined');
  assert.equal(await viewPayment(database, idOf(partner, 'nobody')), undefined);
});

test('what looks like a card’s number is masked, whatever is around it', () => {
  const number = '4242 4242 4242 4242';
  for (const text of [
    number,
    `order ${number}!`,
    '{"a":"4242424242424242"}',
    '４２４２424242424242',
  ]) {
    assert.doesNotMatch(maskCardNumbers(text).normalize('NFKC'), /4242/);
  }
  assert.equal(maskCardNumbers('order 4711, 2026-11-20'), 'order 4711, 2026-11-20');
});
