import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { answering, aPayment, type TestAnswer } from '@triplock/testing';
import { openStripeJournal } from './journal.ts';
import { openStripe } from './stripe.ts';

const { txnId, partnerId, key, details } = aPayment({ amount: 1_250n, currency: 'EUR' });
const { money } = details;
const caller = { txnId, partnerId, key, attempt: 1 };
const charge = { ...caller, kind: 'payment' as const, money, paymentMethod: 'pm_card_visa' };
const refund = { ...caller, kind: 'refund' as const, money, intentId: 'pi_1' };

const intent = {
  id: 'pi_1',
  object: 'payment_intent',
  amount: 1_250,
  currency: 'eur',
  status: 'succeeded',
  latest_charge: 'ch_1',
  metadata: { txn_id: txnId },
};
const given = {
  id: 're_1',
  object: 'refund',
  amount: 1_250,
  currency: 'eur',
  status: 'succeeded',
  payment_intent: 'pi_1',
  metadata: { txn_id: txnId },
};
const listed = (object: unknown) => ({ object: 'list', url: '/', has_more: false, data: [object] });

/** Something that answers every request alike, and the provider that takes it for Stripe. */
async function takenForStripe(context: TestContext) {
  const { url: apiUrl, answerBy } = await answering(context);
  const account = { apiKey: 'sk_test', apiUrl, timeoutMs: 5_000 };
  const provider = openStripe(account);
  const journal = openStripeJournal({ ...account, requestsPerSecondMax: 1_000 });
  const asked = { txnId, intentId: 'pi_1', money };
  const calls = {
    charge: () => provider.charge!(charge),
    create: () => provider.createIntent(charge),
    confirm: () => provider.confirmIntent({ ...charge, intentId: 'pi_1' }),
    read: () => provider.readIntent(asked),
    cancel: () => provider.cancelIntent(asked),
    refund: () => provider.refund(refund),
    find: () => provider.findRefund(refund),
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
  const since = new Date(0);
  const list = async (body: unknown, after?: string) => {
    answerBy({ body });
    return journal.list({ kind: 'intent', since, ...(after !== undefined && { after }) });
  };
  const disputes = async (body: unknown, after?: string) => {
    answerBy({ body });
    return provider.listDisputes({ since, ...(after !== undefined && { after }) });
  };
  return { outcome, failure, ended, list, disputes, names: Object.keys(calls) as Name[] };
}

test('an answer that is no answer of Stripe’s is unknown, whatever was asked', async (context) => {
  const { outcome, names } = await takenForStripe(context);
  const page = '<!doctype html><title>Please log in</title>';
  const nonsense: TestAnswer[] = [
    { body: page, type: 'text/html' },
    { body: page, type: 'text/html', status: 502 },
    { body: page, type: 'text/html', status: 404 },
    ...[
      '',
      'null',
      '[]',
      '{}',
      '"ok"',
      '7',
      'true',
      '{"error":7}',
      '{"id":',
      '{"data":[null]}',
    ].map((body) => ({ body })),
    { body: { error: 'no object' }, status: 400 },
    { body: { ok: true }, status: 302 },
  ];
  for (const answer of nonsense) {
    for (const name of names) {
      assert.equal(await outcome(name, answer), 'unknown', `${name}: ${JSON.stringify(answer)}`);
    }
  }
});

test('the times of a hold are those of its charge, and none where they make no sense', async (context) => {
  const { ended } = await takenForStripe(context);
  const read = (latest_charge: unknown) =>
    ended('read', { body: { ...intent, status: 'requires_capture', latest_charge } });
  const until = (capture_before: unknown) => ({
    created: 1_700_000_000,
    payment_method_details: { type: 'card', card: { capture_before } },
  });
  const heldSince = new Date(1_700_000_000_000);
  const heldUntil = new Date(1_700_604_800_000);
  const outcome = 'authorized';
  assert.deepEqual(await read(until(1_700_604_800)), { outcome, heldSince, heldUntil });
  for (const wrong of [undefined, null, 0, -1, 1.5, '1700604800', {}]) {
    assert.deepEqual(await read(until(wrong)), { outcome, heldSince });
  }
  for (const wrong of ['ch_1', null, 7, {}, { created: 'now', payment_method_details: null }]) {
    assert.deepEqual(await read(wrong), { outcome });
  }
});

test('an answer about another payment, amount or currency is unknown, however it ended', async (context) => {
  const { outcome } = await takenForStripe(context);
  const others = [
    { amount: 1_251 },
    { amount: '1250' },
    { currency: 'usd' },
    { metadata: { txn_id: aPayment().txnId } },
    { metadata: null },
    { id: undefined },
    { status: 'a state that is not known' },
  ];
  for (const other of others) {
    const body = { ...intent, ...other };
    const what = JSON.stringify(other);
    for (const name of ['confirm', 'read', 'cancel'] as const) {
      assert.equal(await outcome(name, { body }), 'unknown', `${name}: ${what}`);
    }
    if (!('status' in other)) assert.equal(await outcome('create', { body }), 'unknown', what);
    const answer = { ...given, ...other };
    assert.equal(await outcome('refund', { body: answer }), 'unknown', what);
    // One of another transaction is not the one that is looked for.
    const expected = 'metadata' in other ? 'none' : 'unknown';
    assert.equal(await outcome('find', { body: listed(answer) }), expected, what);
  }
  for (const body of [
    { ...intent, id: 'pi_2' },
    { ...intent, latest_charge: null },
  ]) {
    assert.equal(await outcome('read', { body }), 'unknown');
  }
  const elsewhere = { ...given, payment_intent: 'pi_2' };
  assert.equal(await outcome('refund', { body: elsewhere }), 'unknown');
});

test('a text that a ledger would refuse is made storable, and kept short', async (context) => {
  const { failure } = await takenForStripe(context);
  const odd = { code: 'card\0declined', message: `no\0 \ud800 ${'long '.repeat(1_000)}` };
  const declined = { ...intent, status: 'requires_payment_method', last_payment_error: odd };
  const refused = { error: { ...odd, type: 'invalid_request_error', param: 'amount' } };
  const failures = [
    await failure('read', { body: declined }),
    await failure('create', { body: refused, status: 400 }),
    await failure('refund', { body: refused, status: 400 }),
    await failure('refund', { body: { ...given, status: 'failed', failure_reason: odd.code } }),
  ];
  for (const each of failures) {
    assert.equal(each?.code, 'card\ufffddeclined');
    assert.ok(each.message.isWellFormed() && !each.message.includes('\0'));
    assert.ok(each.message.length <= 500);
  }
  assert.match(failures[0]!.message, /^no\ufffd \ufffd long/);
});

test('an id that no ledger would store makes an answer unknown', async (context) => {
  const { outcome } = await takenForStripe(context);
  assert.equal(await outcome('create', { body: { ...intent, id: 'pi_\0' } }), 'unknown');
  assert.equal(await outcome('read', { body: { ...intent, latest_charge: 'ch \0' } }), 'unknown');
  const long = 're_'.padEnd(300, 'x');
  assert.equal(await outcome('refund', { body: { ...given, id: long } }), 'unknown');
});

test('a list that does not say how it goes on is none, so that nothing is taken for missing', async (context) => {
  const { list, disputes } = await takenForStripe(context);
  const more = (data: unknown[]) => ({ object: 'list', url: '/', has_more: true, data });
  const created = { ...intent, created: 1_700_000_000 };
  assert.equal((await list(more([created]))).outcome, 'page');
  for (const [body, after] of [
    [more([])],
    [more([created]), 'pi_1'],
    [more([null])],
    [{}],
    [{ data: 'none' }],
  ] as const) {
    await assert.rejects(list(body, after), { name: 'ProviderError' }, JSON.stringify(body));
    assert.equal((await disputes(body, after)).outcome, 'unknown', JSON.stringify(body));
  }
});

test('the same answers about ours are believed', async (context) => {
  const { outcome } = await takenForStripe(context);
  assert.equal(await outcome('create', { body: intent }), 'created');
  assert.equal(await outcome('read', { body: intent }), 'succeeded');
  assert.equal(await outcome('refund', { body: given }), 'succeeded');
  assert.equal(await outcome('find', { body: listed(given) }), 'succeeded');
  assert.equal(await outcome('find', { body: { ...listed(given), data: [] } }), 'none');
});

const refusal = (error: object, status = 400): TestAnswer => {
  return { status, body: { error: { type: 'invalid_request_error', message: 'no', ...error } } };
};

test('what Stripe refuses of a request for good is refused, with its code or type', async (context) => {
  const { failure } = await takenForStripe(context);
  const refusals = [
    [refusal({}), 'invalid_request_error'],
    [refusal({ code: 'payment_method_unactivated' }), 'payment_method_unactivated'],
    [refusal({ code: 'amount_too_small', param: 'amount' }), 'amount_too_small'],
    [refusal({ code: 'amount_too_large', param: 'amount_to_capture' }), 'amount_too_large'],
    [refusal({ code: 'resource_missing', param: 'payment_method' }), 'resource_missing'],
  ] as const;
  for (const [answer, code] of refusals) {
    assert.equal((await failure('create', answer))?.code, code);
    assert.equal((await failure('refund', answer))?.code, code);
  }
});

test('a charge that is refused with the intent that it made has made it, and says why it is refused', async (context) => {
  const { ended } = await takenForStripe(context);
  const refused = { code: 'payment_method_provider_decline', message: 'no' };
  const reopened = { ...intent, status: 'requires_payment_method', latest_charge: null };
  for (const [type, status] of [
    ['card_error', 402],
    ['invalid_request_error', 402],
    ['invalid_request_error', 400],
  ] as const) {
    const body = { error: { type, ...refused, payment_intent: reopened } };
    const made = { outcome: 'made', intentId: 'pi_1' };
    const seen = { outcome: 'reopened', failure: refused };
    assert.deepEqual(
      await ended('charge', { status, body }),
      { ...made, seen },
      `${type} ${status}`,
    );
  }
});

test('a hold that Stripe let go has expired, by either of the reasons that it gives', async (context) => {
  const { failure } = await takenForStripe(context);
  for (const cancellation_reason of ['automatic', 'expired']) {
    const body = { ...intent, status: 'canceled', cancellation_reason };
    assert.equal((await failure('read', { body }))?.code, 'authorization_expired');
  }
});

test('what Stripe refuses whatever the payment is says nothing of it, and waits until it is mended', async (context) => {
  const { ended, names } = await takenForStripe(context);
  const mistakes = [
    refusal({ message: 'Invalid API Key provided' }, 401),
    refusal({ message: 'The provided key does not have the required permissions' }, 403),
    refusal({ code: 'resource_missing', param: 'intent' }, 404),
    refusal({ code: 'parameter_unknown', param: 'automatic_payment_methods' }),
    refusal({ code: 'balance_insufficient' }),
    refusal({ code: 'testmode_charges_only' }),
  ];
  for (const answer of mistakes) {
    for (const name of names) {
      const outcome = await ended(name, answer);
      const what = `${name}: ${JSON.stringify(answer)}`;
      assert.ok(outcome.outcome === 'unknown' && outcome.untilMended, what);
    }
  }
  for (const answer of [{ status: 500 }, { status: 503 }, { status: 429 }, { status: 409 }]) {
    const body = { error: { type: 'api_error', message: 'later' } };
    for (const name of names) {
      const outcome = await ended(name, { ...answer, body });
      assert.ok(outcome.outcome === 'unknown' && !outcome.untilMended, `${name} ${answer.status}`);
    }
  }
});

test('an intent whose confirmation is refused for good, and that cannot be taken back, is not failed', async (context) => {
  const { ended } = await takenForStripe(context);
  // Each call is refused, so nobody knows whether the intent could still be confirmed.
  assert.equal((await ended('confirm', refusal({}))).outcome, 'unknown');
});
