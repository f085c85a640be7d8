import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { eventually, freePort } from '@triplock/testing';
import { aSimulator, stripeAt } from './test/simulator.ts';

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
