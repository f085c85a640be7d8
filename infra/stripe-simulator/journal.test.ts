import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import {
  createTestStripe,
  eventually,
  freePort,
  testControlToken,
  type TestStripe,
} from '@triplock/testing';
import { Stripe } from 'stripe';
import { aSimulator, stripeAt } from './test/simulator.ts';

// The simulator is the provider in every crash test of the house: it must be the one that forgets
// nothing it has answered, and answers nothing it could forget.

const order = { amount: 500, currency: 'eur', payment_method_types: ['card'] };
const paid = { ...order, payment_method: 'pm_card_visa', confirm: true };

function clientOf({ apiKey, connection }: TestStripe): Stripe {
  return new Stripe(apiKey, { ...connection, maxNetworkRetries: 0, telemetry: false });
}

/** Pays under numbered keys, many at once, until the simulator is gone; gives what was answered. */
async function payUntilKilled(t: TestContext, stripe: TestStripe): Promise<Map<string, string>> {
  const client = clientOf(stripe);
  const answered = new Map<string, string>();
  let count = 0;
  const payer = async () => {
    for (;;) {
      const key = `k-${(count += 1)}`;
      const answer = await client.paymentIntents.create(paid, { idempotencyKey: key }).then(
        ({ id }) => id,
        () => undefined,
      );
      if (answer === undefined) return;
      answered.set(key, answer);
    }
  };
  const payers = Promise.all(Array.from({ length: 8 }, payer));
  await eventually(async () => answered.size > 100);
  await stripe.kill();
  await payers;
  t.diagnostic(`${answered.size} payments were answered before SIGKILL`);
  return answered;
}

test('what was answered before SIGKILL is there after it, once, and is answered the same', async (t) => {
  const stripe = await createTestStripe(t);
  const answered = await payUntilKilled(t, stripe);
  await stripe.start();
  const client = clientOf(stripe);
  for (const [key, id] of answered) {
    const again = await client.paymentIntents.create(paid, { idempotencyKey: key });
    assert.equal(again.id, id);
    assert.equal(again.lastResponse.headers['idempotent-replayed'], 'true');
  }
  const charged: string[] = [];
  for await (const { payment_intent, status } of client.charges.list({ limit: 100 })) {
    if (status === 'succeeded') charged.push(payment_intent as string);
  }
  assert.equal(new Set(charged).size, charged.length);
  assert.deepEqual(
    [...answered.values()].filter((id) => !charged.includes(id)),
    [],
  );
  assert.deepEqual(
    (await stripe.control<{ chargedTwice: string[] }>('GET', '/audit')).chargedTwice,
    [],
  );
});

test('a last line that was cut off is no line, and what comes next is written whole', async (t) => {
  const stripe = await createTestStripe(t);
  const { id } = await clientOf(stripe).paymentIntents.create(paid);
  await stripe.kill();
  await appendFile(stripe.journal, '{"kind":"step","at":17');
  await stripe.start();
  assert.equal((await clientOf(stripe).paymentIntents.retrieve(id)).status, 'succeeded');
  const next = await clientOf(stripe).paymentIntents.create(order);
  await stripe.kill();
  await stripe.start();
  assert.equal((await clientOf(stripe).paymentIntents.retrieve(next.id)).id, next.id);
});

test('a journal is its owner’s alone, also one that others could read before', async (t) => {
  const stripe = await createTestStripe(t);
  const mode = async () => (await stat(stripe.journal)).mode & 0o777;
  assert.equal(await mode(), 0o600);
  await stripe.kill();
  await chmod(stripe.journal, 0o644);
  await stripe.start();
  assert.equal(await mode(), 0o600);
});

test('a journal that is damaged inside is not started on', async (t) => {
  const stripe = await createTestStripe(t);
  await clientOf(stripe).paymentIntents.create(order);
  await stripe.kill();
  await writeFile(stripe.journal, `not json\n${await readFile(stripe.journal, 'utf8')}`);
  await assert.rejects(stripe.start(), /line 1 cannot be read/);
});

test('the moved clock, and what is unsettled, outlive a kill', async (t) => {
  const stripe = await createTestStripe(t, { STRIPE_SIMULATOR_SETTLE_AFTER_MS: '3600000' });
  const bank = { ...paid, currency: 'usd', payment_method_types: ['us_bank_account'] };
  const { id } = await clientOf(stripe).paymentIntents.create({
    ...bank,
    payment_method: 'pm_usBankAccount_success',
  });
  await stripe.control('POST', '/clock', { advanceMs: 60_000 });
  await stripe.kill();
  await stripe.start();
  const clock = await stripe.control<{ offsetMs: number }>('GET', '/clock');
  assert.equal(clock.offsetMs, 60_000);
  const statusNow = async () => (await clientOf(stripe).paymentIntents.retrieve(id)).status;
  assert.equal(await statusNow(), 'processing');
  await stripe.control('POST', '/clock', { advanceMs: 3_600_000 });
  await eventually(async () => (await statusNow()) === 'succeeded');
});

test('events that were not sent before a kill are sent after it', async (t) => {
  const stripe = await createTestStripe(t);
  const received: string[] = [];
  const endpoint = createServer((request, response) => {
    request.resume().on('end', () => {
      received.push(String(request.headers['stripe-signature']));
      response.writeHead(200).end();
    });
  });
  t.after(() => endpoint.close());
  await new Promise<void>((resolve) => endpoint.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(endpoint.address() as AddressInfo).port}`;
  await stripe.control('PUT', '/webhooks', { url, paused: true });
  await clientOf(stripe).paymentIntents.create(paid);
  await stripe.kill();
  await stripe.start();
  assert.deepEqual(received, []);
  await stripe.control('PUT', '/webhooks', { url });
  await eventually(async () => received.length === 3);
});

test('the journal can be read while it grows, entry by entry', async (t) => {
  const stripe = await createTestStripe(t);
  const client = clientOf(stripe);
  const { id } = await client.paymentIntents.create(paid, { idempotencyKey: 'k' });
  const read = async (from: number) => {
    const response = await fetch(`${stripe.url}/_simulator/journal?from=${from}`, {
      headers: { authorization: `Bearer ${testControlToken}` },
    });
    const entries = (await response.text()).split('\n').filter((line) => line !== '');
    return {
      size: Number(response.headers.get('journal-size')),
      entries: entries.map((line) => JSON.parse(line)),
    };
  };
  const first = await read(0);
  assert.partialDeepStrictEqual(first.entries, [
    { kind: 'step', by: 'payment_intents.create', answer: { key: 'k', status: 200 } },
  ]);
  assert.deepEqual((await read(first.size)).entries, []);
  await client.refunds.create({ payment_intent: id });
  assert.partialDeepStrictEqual((await read(first.size)).entries, [{ by: 'refunds.create' }]);
});

test('a reset empties the account for good', async (t) => {
  const stripe = await createTestStripe(t);
  await clientOf(stripe).paymentIntents.create(paid, { idempotencyKey: 'k' });
  await stripe.control('POST', '/reset');
  await stripe.kill();
  await stripe.start();
  assert.deepEqual((await clientOf(stripe).charges.list()).data, []);
  const { lastResponse } = await clientOf(stripe).paymentIntents.create(paid, {
    idempotencyKey: 'k',
  });
  assert.equal(lastResponse.headers['idempotent-replayed'], undefined);
});

const program = fileURLToPath(new URL('main.ts', import.meta.url));
// In units of the shell, 512 bytes or 1 KiB: room for some payments, and not for many.
const limited = 'ulimit -f 64; exec "$0" "$1"';

test('a journal that cannot be written ends the simulator, and what it answered is there', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'triplock-stripe-full-'));
  const journal = join(folder, 'journal.jsonl');
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const simulator = spawn('sh', ['-c', limited, process.execPath, program], {
    env: {
      ...process.env,
      STRIPE_SIMULATOR_PORT: String(port),
      STRIPE_SIMULATOR_JOURNAL: journal,
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  t.after(async () => {
    simulator.kill('SIGKILL');
    await rm(folder, { recursive: true, force: true });
  });
  let output = '';
  simulator.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const ended = once(simulator, 'exit');
  await eventually(async () => (await fetch(`${url}/readyz`)).ok);

  const answered: string[] = [];
  const order = { amount: 500, currency: 'eur', payment_method_types: ['card'], confirm: true };
  for (;;) {
    const paid = await stripeAt(url)
      .paymentIntents.create({ ...order, payment_method: 'pm_card_visa' })
      .catch(() => undefined);
    if (paid === undefined) break;
    answered.push(paid.id);
  }
  assert.deepEqual(await ended, [1, null]);
  assert.match(output, /the journal cannot be written/);
  assert.ok(answered.length > 0);

  const { stripe } = await aSimulator(t, { journal });
  for (const id of answered) {
    assert.equal((await stripe.paymentIntents.retrieve(id)).status, 'succeeded');
  }
});
