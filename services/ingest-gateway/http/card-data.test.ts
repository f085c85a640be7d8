import assert from 'node:assert/strict';
import { test } from 'node:test';
import { transactionEdge } from '../test/route-edges.ts';

const card = '4242 4242 4242 4242';
const payment = { amount: 1_250, currency: 'EUR' };
const path = '/v1/payments';

/** Bodies with a card's data in them, and where it is. */
const bodies: readonly [pointer: string, fields: object][] = [
  ['#/reference', { reference: `order ${card}` }],
  ['#/description', { description: `paid with ${card.replaceAll(' ', '-')}\nthanks` }],
  ['#/metadata/note', { metadata: { order: '1001', note: card.replaceAll(' ', '') } }],
  ['#/metadata', { metadata: { [card]: 'a note' } }],
  ['#/metadata/card_cvv', { metadata: { card_cvv: '123' } }],
];

test("a card's number or code in a payment is a 400 that says where, and nothing of it is kept", async (t) => {
  const { gateway, appended, post } = await transactionEdge(t);
  const { claims } = gateway;
  let asked = 0;
  gateway.claims = {
    ...claims,
    claim(request) {
      asked += 1;
      return claims.claim(request);
    },
  };
  for (const [pointer, fields] of bodies) {
    const { status, body } = await post(path, {
      key: pointer,
      body: { ...payment, ...fields },
    });
    assert.deepEqual([status, body['code']], [400, 'invalid_request']);
    assert.deepEqual(
      (body['errors'] as { pointer: string }[]).map((each) => each.pointer),
      [pointer],
    );
    // An id of ours may have any digits.
    assert.doesNotMatch(JSON.stringify({ ...body, request_id: '' }), /4242|123/);
  }
  assert.equal(await appended(), 0n);
  assert.equal(asked, 0);
  const accepted = await post(path, { key: '#/reference', body: payment });
  assert.equal(accepted.status, 202);
});

test('so it is in the reason of a refund, in a key, and in the name of an unknown field', async (t) => {
  const { appended, post } = await transactionEdge(t);
  const refunds = `${path}/37585521-60c9-8d90-a37f-2e1b8a7081e6/refunds`;
  const answers = [
    await post(refunds, { key: 'a', body: { reason: card } }),
    await post(path, { key: JSON.stringify(card), body: payment }),
    await post(refunds, { key: card.replaceAll(' ', ''), body: {} }),
    await post(path, { key: 'b', body: { ...payment, [card]: '1' } }),
    await post(path, { key: 'c', body: `{"${card}":1,"${card}":2}` }),
  ];
  const key = 'idempotency_key_invalid';
  const codes = ['invalid_request', key, key, 'invalid_request', 'invalid_request'];
  assert.deepEqual(
    answers.map(({ body }) => body['code']),
    codes,
  );
  for (const { status, text } of answers) {
    assert.equal(status, 400);
    assert.doesNotMatch(text, /4242 ?4242/);
  }
  assert.equal(await appended(), 0n);
});

test('a partner that is allowed such references may send them, and no other', async (t) => {
  const { post } = await transactionEdge(t);
  const asked = { key: '4242424242424242', body: { ...payment, reference: card } };
  assert.equal((await post(path, { ...asked, as: 'globex-unchecked' })).status, 202);
  assert.equal((await post(path, { ...asked, as: 'acme' })).status, 400);
});

test('a field that is exempt may look like a card number, and no other', async (t) => {
  const { post } = await transactionEdge(t);
  const send = (fields: object, key = '4242424242424242') =>
    post(path, { as: 'globex-exempt', key, body: { ...payment, ...fields } });
  const exempt = { reference: card, metadata: { kid: card, order: '1001' } };
  assert.equal((await send(exempt)).status, 202);
  const refused: readonly [pointer: string, fields: object][] = [
    ['#/description', { reference: card, description: card }],
    ['#/metadata/other', { metadata: { kid: card, other: card } }],
    ['#/metadata', { metadata: { [card]: 'a note' } }],
    ['#/metadata/cvv', { metadata: { cvv: '123' } }],
  ];
  for (const [pointer, fields] of refused) {
    const { status, body } = await send(fields, `4242424242424242 ${pointer}`);
    assert.equal(status, 400);
    const errors = body['errors'] as { pointer: string }[];
    assert.deepEqual(
      errors.map((each) => each.pointer),
      [pointer],
    );
  }
});
