import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { answering, aPayment, type TestAnswer } from '@triplock/testing';
import { openGiro } from './giro.ts';
import { openGiroJournal } from './journal.ts';
import { endToEndId } from './transfers.ts';

const { txnId, partnerId, key, details } = aPayment({ amount: 1_250n, currency: 'EUR' });
const { money } = details;
const intentId = endToEndId('T', txnId);
const caller = { txnId, partnerId, key, attempt: 1 };
const paymentMethod = 'payto://iban/DE89370400440532013000';
const charge = { ...caller, kind: 'payment' as const, money, paymentMethod };
const refund = { ...caller, kind: 'refund' as const, money, intentId };

const transfer = {
  id: intentId,
  status: 'settled',
  amount: 1_250,
  currency: 'EUR',
  reference: partnerId,
  created_at: 1_700_000_000_000,
  booking: 'B1',
};
const given = {
  id: endToEndId('R', txnId),
  transfer: intentId,
  amount: 1_250,
  currency: 'EUR',
  reference: partnerId,
  created_at: 1_700_000_000_000,
};

/** Something that answers every request alike, and whoever takes it for the bank. */
async function takenForTheBank(context: TestContext) {
  const { url: apiUrl, answerBy } = await answering(context);
  const options = { apiUrl, token: 'giro-token-test', timeoutMs: 5_000 };
  const provider = openGiro(options);
  const journal = openGiroJournal({ ...options, requestsPerSecondMax: 1_000 });
  const asked = { txnId, intentId, money };
  const calls = {
    prepare: () => provider.createIntent(charge),
    look: () => provider.findIntent({ ...charge, acceptedAt: new Date(0) }),
    release: () => provider.confirmIntent({ ...charge, intentId }),
    read: () => provider.readIntent(asked),
    cancel: () => provider.cancelIntent(asked),
    refund: () => provider.refund(refund),
    find: () => provider.findRefund(refund),
    list: () => provider.listRefunds(asked),
  };
  type Name = keyof typeof calls;
  const ended = async (call: Name, next: TestAnswer) => {
    answerBy(next);
    return calls[call]();
  };
  const outcome = async (call: Name, next: TestAnswer) => (await ended(call, next)).outcome;
  const failure = async (call: Name, next: TestAnswer) => {
    const seen = await ended(call, next);
    return 'failure' in seen ? seen.failure : undefined;
  };
  const list = async (next: TestAnswer, after?: string) => {
    answerBy(next);
    const query = { kind: 'intent', since: new Date(0) } as const;
    return journal.list({ ...query, ...(after !== undefined && { after }) });
  };
  return { ended, outcome, failure, list, names: Object.keys(calls) as Name[] };
}

test('an answer that is no answer of the bank’s is unknown, whatever was asked', async (context) => {
  const { outcome, names } = await takenForTheBank(context);
  const page = '<!doctype html><title>Please log in</title>';
  const nonsense: TestAnswer[] = [
    ...[200, 404, 409, 422, 502].map((status) => ({ body: page, type: 'text/html', status })),
    ...['', 'null', '[]', '{}', '"ok"', '7', 'true', '{"id":', '{"data":[null]}'].map((body) => {
      return { body };
    }),
    { body: { ok: true }, status: 302 },
    // What stands before the bank says that it knows no such path, or refuses a form.
    ...[404, 409, 422].map((status) => ({ body: { message: 'no' }, status })),
    { body: { code: 7, message: 'no' }, status: 422 },
  ];
  for (const answer of nonsense) {
    for (const name of names) {
      assert.equal(await outcome(name, answer), 'unknown', `${name}: ${JSON.stringify(answer)}`);
    }
  }
});

test('an answer about another transfer, amount or currency is unknown, however it ended', async (context) => {
  const { outcome } = await takenForTheBank(context);
  const others = [
    { id: endToEndId('T', aPayment().txnId) },
    { id: undefined },
    { amount: 1_249 },
    { amount: '1250' },
    { amount: 1_250.5 },
    { currency: 'USD' },
    { created_at: 9e15 },
  ];
  for (const other of others) {
    const [body, back] = [
      { ...transfer, ...other },
      { ...given, ...other },
    ];
    const what = JSON.stringify(other);
    for (const name of ['prepare', 'look', 'release', 'read', 'cancel'] as const) {
      assert.equal(await outcome(name, { body }), 'unknown', `${name}: ${what}`);
    }
    assert.equal(await outcome('refund', { body: back }), 'unknown', what);
    assert.equal(await outcome('find', { body: back }), 'unknown', what);
  }
  for (const other of [{ status: 'a state that is not known' }, { booking: 'B\0' }]) {
    assert.equal(await outcome('read', { body: { ...transfer, ...other } }), 'unknown');
  }
});

test('a refund of another transfer, or in another currency, is none of the transfer that was asked about', async (context) => {
  const { outcome } = await takenForTheBank(context);
  const list = (other: object) => outcome('list', { body: { data: [{ ...given, ...other }] } });
  assert.equal(await list({}), 'listed');
  assert.equal(await list({ transfer: endToEndId('T', aPayment().txnId) }), 'unknown');
  assert.equal(await list({ currency: 'USD' }), 'unknown');
  assert.equal(await list({ amount: 0 }), 'unknown');
  assert.equal(await outcome('refund', { body: { ...given, transfer: 'T1' } }), 'unknown');
});

test('a text that a ledger would refuse is made storable, and kept short', async (context) => {
  const { failure } = await takenForTheBank(context);
  const refused = { code: 'no\0 account', message: `no\0 \ud800 ${'long '.repeat(1_000)}` };
  for (const name of ['prepare', 'refund'] as const) {
    const seen = await failure(name, { status: 422, body: refused });
    assert.equal(seen?.code, 'no\ufffd account');
    assert.match(seen.message, /^no\ufffd \ufffd long/);
    assert.ok(seen.message.length <= 500 && seen.message.isWellFormed());
  }
  const returned = { ...transfer, status: 'returned', reason: 'X\0\ud800' };
  const seen = await failure('read', { body: returned });
  assert.ok(seen !== undefined && !`${seen.code}${seen.message}`.includes('\0'));
  assert.ok(seen.code.isWellFormed() && seen.message.isWellFormed());
});

test('what no later call will change waits for a person, and an outage does not', async (context) => {
  const { ended, names } = await takenForTheBank(context);
  const missing = { status: 404, body: { code: 'not_found' } };
  for (const [name, answer] of [
    ...names.flatMap((name) => [
      [name, { status: 401, body: { message: 'no' } }] as const,
      // A URL at which there is something else.
      [name, { status: 404, body: { message: 'no such path' } }] as const,
    ]),
    ['prepare', { status: 409, body: { code: 'id_in_use' } }],
    ['refund', { status: 409, body: { code: 'id_in_use' } }],
    ['release', missing],
    ['read', missing],
    ['cancel', missing],
    ['refund', missing],
    ['list', missing],
  ] as const) {
    const seen = await ended(name, answer);
    assert.ok(seen.outcome === 'unknown' && seen.untilMended, `${name} ${JSON.stringify(answer)}`);
    // Who has to mend it reads this in the log.
    assert.match(String(seen.error), new RegExp(`[a-z]+_[a-z_]+ ${answer.status}`));
  }
  for (const status of [429, 500, 503]) {
    for (const name of names) {
      const seen = await ended(name, { status, body: { message: 'later' } });
      assert.ok(seen.outcome === 'unknown' && !seen.untilMended, `${name} ${status}`);
    }
  }
});

test('the same answers about ours are believed', async (context) => {
  const { outcome } = await takenForTheBank(context);
  const missing = { status: 404, body: { code: 'not_found' } };
  assert.equal(await outcome('prepare', { body: { ...transfer, status: 'prepared' } }), 'created');
  assert.equal(await outcome('look', { body: transfer }), 'found');
  assert.equal(await outcome('look', missing), 'none');
  assert.equal(await outcome('read', { body: transfer }), 'succeeded');
  assert.equal(await outcome('refund', { body: given }), 'succeeded');
  assert.equal(await outcome('find', { body: given }), 'succeeded');
  assert.equal(await outcome('find', missing), 'none');
});

test('a list that does not say how it goes on is none, so that nothing is taken for missing', async (context) => {
  const { list } = await takenForTheBank(context);
  const whole = await list({ body: { data: [transfer], more: false } });
  assert.deepEqual(whole.outcome === 'page' && [whole.rows.length, whole.next], [1, undefined]);
  for (const body of [
    { data: [], more: true },
    { data: [transfer] },
    { data: [transfer], more: 'no' },
    { data: [{ ...transfer, currency: 'E\0' }], more: false },
    { data: [{ ...transfer, created_at: 9e15 }], more: false },
  ]) {
    await assert.rejects(list({ body }), { name: 'ProviderError' }, JSON.stringify(body));
  }
  // From the wrong place: it never comes to its end.
  const again = { data: [transfer], more: true };
  await assert.rejects(list({ body: again }, transfer.id), { name: 'ProviderError' });
});
