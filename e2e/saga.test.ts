import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openShop } from '@triplock/demo';
import { continueProcess, pauseProcess } from '@triplock/launcher';
import { command, home, interruptAt, onTheSystem } from './test/system.ts';
import { newKey } from './test/partner.ts';

const on = onTheSystem();

type End = { outcome: string; payment: string; refund?: string };

/** Runs an order that dies after each of these steps in turn, and then twice more to its end. */
async function runDying(article: string, steps: readonly string[]): Promise<End> {
  const order = newKey('order');
  const run = (...more: string[]) =>
    command('saga', order, '--article', article, '--json', ...more);
  for (const step of steps) {
    const died = await run('--die-after', step);
    assert.notEqual(died.code, 0, `${step}: ${died.stdout}`);
    assert.equal(died.stdout, '', step);
  }
  const [one, other] = [await run(), await run()];
  assert.equal(one.code, 0, one.stderr);
  assert.equal(other.stdout, one.stdout);
  return JSON.parse(one.stdout) as End;
}

test('an order that dies after every step is paid once and handed over once, or paid back once', async (t) => {
  const shop = await openShop(on.system.postgres);
  t.after(() => shop.close());
  const before = await shop.stock();
  const [sold, missed] = await Promise.all([
    runDying('book', ['decided']),
    runDying('rare-book', ['payment-accepted', 'paid', 'decided', 'refund-accepted', 'refunded']),
  ]);
  assert.equal(sold.outcome, 'fulfilled');
  assert.equal(missed.outcome, 'refunded');
  assert.deepEqual(await shop.stock(), { ...before, book: before['book']! - 1 });

  const entriesOf = await on.look.ledger.query<{ txn_id: string; amount: number }>(
    `SELECT entry.txn_id, entry.amount::int FROM ledger.entries AS entry
     JOIN ledger.transactions AS transaction USING (txn_id)
     WHERE coalesce(transaction.payment_id, transaction.txn_id) = ANY ($1::uuid[])`,
    [[sold.payment, missed.payment]],
  );
  const moved = entriesOf.map(({ txn_id: id, amount }) => [id, amount]).sort();
  const expected = [sold.payment, missed.payment, missed.refund].map((id) => [id, 1_999]).sort();
  assert.deepEqual(moved, expected);
});

test('Ctrl-C ends an order that waits for its payment, and the next run goes on', async () => {
  const order = newKey('order');
  const workers = ['ledger-worker-1', 'ledger-worker-2'].map((name) => ({ home, name }));
  await Promise.all(workers.map(pauseProcess));
  try {
    const { code, output } = await interruptAt(/payment-accepted/, ['saga', order]);
    assert.equal(code, 130, output);
    assert.doesNotMatch(output, /^paid/m, 'it was interrupted while it waited');
  } finally {
    await Promise.all(workers.map(continueProcess));
  }
  const { code, stdout } = await command('saga', order, '--json');
  assert.equal(code, 0, stdout);
  assert.equal((JSON.parse(stdout) as End).outcome, 'fulfilled');
});
