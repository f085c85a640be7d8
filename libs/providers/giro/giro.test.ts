import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Currency, PaymentDetails } from '@triplock/payments';
import { providerConformance, requestOf, type LosableCall } from '@triplock/provider/conformance';
import { giroProvider } from './giro-provider.ts';
import { openGiro } from './giro.ts';
import { openGiroJournal } from './journal.ts';
import { accounts, createTestBank, type TestBank } from './test/test-bank.ts';

let bank: TestBank;
let stopBank: () => unknown = () => undefined;
before(async () => {
  bank = await createTestBank({ after: (stop) => void (stopBank = stop) });
});
after(() => stopBank());

const method = (account: keyof typeof accounts) => `payto://iban/${accounts[account]}`;

/** The bank, which has forgotten what the tests before did. */
async function aBank(timeoutMs = 5_000) {
  await bank.control('POST', '/reset');
  const { apiUrl, token } = bank;
  const strike = async (fault: object) => void (await bank.control('POST', '/faults', fault));
  const settle = async () => void (await bank.control('POST', '/settle'));
  return { provider: openGiro({ apiUrl, token, timeoutMs }), strike, settle };
}

const operations = {
  prepare: 'prepare',
  confirm: 'release',
  read: 'read',
  cancel: 'cancel',
  refund: 'refund',
  find: 'read',
} as const satisfies Record<LosableCall, string>;

providerConformance(
  async () => {
    const { provider, strike, settle } = await aBank();
    const { apiUrl, token } = bank;
    const limits = { timeoutMs: 5_000, requestsPerSecondMax: 1_000, pageMax: 10 };
    return {
      provider,
      journal: openGiroJournal({ apiUrl, token, ...limits }),
      methods: {
        succeeds: method('pays'),
        declined: [
          [method('hasTooLittle'), 'insufficient_funds'],
          [method('isClosed'), 'account_closed'],
        ],
        nonexistent: method('isNowhere'),
      },
      refused: 'has ended',
      errors: 'are forgotten',
      settle,
      loseAnswer: (call) => strike({ fault: 'lose-answer', operation: operations[call] }),
      failOnce: () => strike({ fault: 'error', operation: 'release' }),
      turnAway: (retryAfterSeconds) => strike({ fault: 'turn-away', retryAfterSeconds }),
      advanceMs: async (ms) => void (await bank.control('POST', '/clock', { advanceMs: ms })),
    };
  },
  { customersAct: false, chargesAtOnce: false },
);

async function aTransfer() {
  const { provider, settle, strike } = await aBank();
  const request = requestOf(method('pays'));
  const created = await provider.createIntent(request);
  assert.ok(created.outcome === 'created');
  return { provider, settle, strike, request: { ...request, intentId: created.intentId } };
}

test('a transfer is under way until the bank says what came of it, and then cannot be cancelled', async () => {
  const { provider, settle, request } = await aTransfer();
  const waits = { outcome: 'waiting', waitsFor: 'provider' };
  assert.deepEqual(await provider.confirmIntent(request), waits);
  assert.deepEqual(await provider.cancelIntent(request), waits);
  await settle();
  assert.equal((await provider.cancelIntent(request)).outcome, 'succeeded');
});

test('what the bank has told outlives its death, and a call that comes again changes nothing', async () => {
  const { provider, settle, request } = await aTransfer();
  await provider.confirmIntent(request);
  await bank.kill();
  await bank.start();
  assert.deepEqual(await provider.createIntent(request), {
    outcome: 'created',
    intentId: request.intentId,
  });
  await provider.confirmIntent({ ...request, attempt: 2 });
  await settle();
  const audit = await bank.control('GET', '/audit');
  assert.deepEqual(audit, { transfers: { settled: 1 }, received: 1_250, refunded: 0 });
});

test('a refund whose answer is lost was made, and is found', async () => {
  const { provider, settle, strike, request } = await aTransfer();
  await provider.confirmIntent(request);
  await settle();
  const refund = { ...request, kind: 'refund', money: { ...request.money, amount: 400n } } as const;
  await strike({ fault: 'lose-answer', operation: 'refund' });
  assert.equal((await provider.refund(refund)).outcome, 'unknown');
  assert.equal((await provider.findRefund(refund)).outcome, 'succeeded');
  const listed = await provider.listRefunds(request);
  assert.deepEqual(listed.outcome === 'listed' && listed.refunds.map(({ txnId }) => txnId), [
    request.txnId,
  ]);
});

test('a charge is found however long ago it was prepared, and one about other money is nobody’s', async () => {
  const { provider, request } = await aTransfer();
  const { intentId } = request;
  const acceptedAt = new Date(Date.now() - 30 * 86_400_000);
  assert.deepEqual(await provider.findIntent({ ...request, acceptedAt }), {
    outcome: 'found',
    intentId,
  });
  const money = { ...request.money, amount: 1n };
  const other = await provider.findIntent({ ...request, acceptedAt, money });
  assert.ok(other.outcome === 'unknown' && other.untilMended);
  const none = requestOf(method('pays'));
  assert.deepEqual(await provider.findIntent({ ...none, acceptedAt }), { outcome: 'none' });
});

test('a bank that is not there, is silent or knows no such token says nothing of a payment', async () => {
  const { request } = await aTransfer();
  const { apiUrl, token } = bank;
  for (const [options, needsPerson] of [
    [{ apiUrl: 'http://127.0.0.1:1', token, timeoutMs: 1_000 }, undefined],
    [{ apiUrl, token: 'nonsense', timeoutMs: 1_000 }, true],
    [{ apiUrl, token, timeoutMs: 0 }, undefined],
  ] as const) {
    const answer = await openGiro(options).confirmIntent(request);
    assert.ok(answer.outcome === 'unknown');
    assert.deepEqual([answer.kept, answer.untilMended], [false, needsPerson]);
  }
});

test('what does not belong to a transfer is refused at the door, and the field is named', () => {
  const money = { amount: 1_250n, currency: 'EUR' as Currency };
  const good = { money, paymentMethod: method('pays') };
  const why = (changes: Partial<PaymentDetails>) =>
    giroProvider.whyUnpayable({ ...good, ...changes })?.field;
  assert.equal(why({}), undefined);
  const { pays } = accounts;
  for (const account of [
    `DE00${pays.slice(4)}`,
    pays.toLowerCase(),
    pays.slice(1),
    '',
    `${pays}/x`,
  ]) {
    assert.equal(why({ paymentMethod: `payto://iban/${account}` }), 'payment_method', account);
  }
  assert.equal(why({ captureMethod: 'manual' }), 'capture_method');
  assert.equal(why({ returnUrl: 'https://shop.example' }), 'return_url');
  assert.equal(why({ money: { ...money, currency: 'USD' as Currency } }), 'currency');
  assert.equal(why({ money: { ...money, amount: 100_000_000_000n } }), 'amount');
});
