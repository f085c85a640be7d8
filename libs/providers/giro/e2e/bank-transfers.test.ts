import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { command, insist, killEach, newKey, onTheSystem } from '@triplock/e2e/test';
import { accounts, bankControl } from '@triplock/provider-giro/test';
import { eventually, stripeControl } from '@triplock/testing';

const transfers = 24;

const on = onTheSystem();
// Whatever became of the test: both providers are well again for those that follow.
afterEach(async () => {
  await bank('DELETE', '/faults');
  await stripe('DELETE', '/faults');
});

const from = (account: keyof typeof accounts) => ({
  currency: 'EUR',
  payment_method: `payto://iban/${accounts[account]}`,
});

/** Each strikes once: a call is carried out and nobody is told, or is not carried out. */
const faults = [
  { fault: 'lose-answer', operation: 'prepare' },
  { fault: 'lose-answer', operation: 'release' },
  { fault: 'lose-answer', operation: 'read' },
  { fault: 'error', operation: 'release' },
  { fault: 'turn-away', retryAfterSeconds: 1 },
];

test('a bank transfer is final once while workers are killed and the bank loses answers', async () => {
  const run = newKey('transfers');
  const before = await bank<BankAudit>('GET', '/audit');
  for (const fault of faults) await bank('POST', '/faults', fault);
  let kills = 0;
  let isOver = false;
  const workers = on.system.services.filter(({ service }) => service === 'ledger-worker');
  const onKill = () => void (kills += 1);
  const storm = { seed: 1, everyMs: 1_500, together: 1, goesOn: () => !isOver, onKill };
  const killing = killEach(workers, storm);
  const sent = new Map<string, boolean>();
  try {
    for (let n = 0; n < transfers; n += 1) {
      const isReturned = n % 4 === 0;
      const method = from(isReturned ? 'hasTooLittle' : 'pays');
      const body = { amount: 1_000 + n, ...method, reference: run };
      sent.set((await pay(body)).id, isReturned);
      // So that some are sent before a kill, and some after it.
      if (n === transfers / 2) await eventually(async () => kills > 0);
    }
  } finally {
    isOver = true;
    await killing;
  }
  const rows = await eventually(
    async () => {
      const found = await on.look.ledger.query<Row>(rowsSql, [run]);
      const isFinal = found.every(({ state }) => state !== 'pending');
      return isFinal && found.length === transfers && found;
    },
    { withinMs: 120_000, what: 'all transfers to be settled or returned' },
  );
  for (const { id, state, failure, provider } of rows) {
    const expected = sent.get(id) ? ['failed', 'insufficient_funds'] : ['succeeded', null];
    assert.deepEqual([state, failure, provider], [...expected, 'giro']);
  }
  const { faults: struck } = await bank<{ faults: { hits: number }[] }>('GET', '/faults');
  assert.ok(struck.every(({ hits }) => hits === 1));
  const after = await bank<BankAudit>('GET', '/audit');
  const [booked] = await on.look.ledger.query<{ amount: number; count: number }>(bookedSql, [run]);
  assert.equal(booked!.count, rows.filter(({ state }) => state === 'succeeded').length);
  assert.equal(after.received - before.received, booked!.amount);
});

test('what was paid by transfer is given back to the account, and the audit agrees with the bank', async () => {
  const { id } = await pay({ amount: 5_000, ...from('pays') });
  const paid = await final(id);
  assert.deepEqual([paid.status, paid.provider?.name], ['succeeded', 'giro']);
  const accepted = await on.acme.refund(id, newKey('refund'), { amount: 2_000 });
  const refund = JSON.parse(accepted.body) as Shown;
  const refunded = JSON.parse((await on.acme.refunded(refund.id, 30)).body) as Shown;
  assert.equal(refunded.status, 'succeeded');
  const audited = await command('audit');
  assert.equal(audited.code, 0, audited.stdout + audited.stderr);
  const traced = await command('trace', id);
  assert.match(traced.stdout, /provider\.giro:clearing/);
});

test('a provider that is away holds up no payment of another’s', async () => {
  await stripe('POST', '/faults', { fault: 'unavailable' });
  const cards = await Promise.all(
    Array.from({ length: 20 }, () =>
      pay({ amount: 100, currency: 'EUR', payment_method: 'pm_card_visa' }),
    ),
  );
  const ids = await Promise.all(
    Array.from({ length: 5 }, () => pay({ amount: 200, ...from('pays') })),
  );
  for (const { id } of ids) assert.equal((await final(id)).status, 'succeeded');
  for (const { id } of cards) {
    const shown = JSON.parse((await on.acme.payment(id)).body) as Shown;
    assert.equal(shown.status, 'pending');
  }
  await stripe('DELETE', '/faults');
  for (const { id } of cards) assert.equal((await final(id)).status, 'succeeded');
});

test('what does not belong to a transfer is refused, and leaves the key unused', async () => {
  const key = newKey('transfer');
  const good = { amount: 300, ...from('pays') };
  for (const [wrong, pointer] of [
    [{ ...good, currency: 'USD' }, '#/currency'],
    [{ ...good, capture_method: 'manual' }, '#/capture_method'],
    [{ ...good, payment_method: 'payto://iban/DE00370400440532013000' }, '#/payment_method'],
    [{ ...good, payment_method: 'payto://bic/DEUTDEFF500' }, '#/payment_method'],
  ] as const) {
    const answer = await on.acme.pay(key, wrong);
    const { errors } = JSON.parse(answer.body) as { errors: { pointer: string }[] };
    assert.deepEqual([answer.status, errors.map((each) => each.pointer)], [400, [pointer]]);
  }
  assert.equal((await on.acme.pay(key, good)).status, 202);
});

async function pay(body: object): Promise<Shown> {
  const key = newKey('payment');
  const answer = await insist(() => on.acme.pay(key, body));
  assert.equal(answer.status, 202, answer.body);
  return JSON.parse(answer.body) as Shown;
}

/** A payment once it is final. */
function final(id: string): Promise<Shown> {
  const look = async () => {
    const shown = JSON.parse((await on.acme.payment(id, 20)).body) as Shown;
    return shown.status !== 'pending' && shown;
  };
  return eventually(look, { withinMs: 120_000, what: `${id} to be final` });
}

type Shown = { id: string; status: string; provider?: { name: string } };
type Row = { id: string; state: string; failure: string | null; provider: string };
type BankAudit = { received: number };

const rowsSql = `
  SELECT txn_id AS id, state, failure_code AS failure, provider FROM ledger.transactions
  WHERE reference = $1`;
const bookedSql = `
  SELECT count(*)::int AS count, sum(entries.amount)::int AS amount
  FROM ledger.entries JOIN ledger.transactions USING (txn_id)
  WHERE reference = $1 AND debit_account = 'provider.giro:clearing'`;

function bank<Answer>(method: string, path: string, body?: object): Promise<Answer> {
  const { providers, controlToken } = on.system;
  return bankControl(providers.giro.url, controlToken)<Answer>(method, path, body);
}

function stripe<Answer>(method: string, path: string, body?: object): Promise<Answer> {
  const { providers, controlToken } = on.system;
  return stripeControl(providers.stripe.url, controlToken)<Answer>(method, path, body);
}
