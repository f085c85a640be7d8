import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '@triplock/testing';
import { recordRun } from '../test/history.ts';
import { newKey, type Partner } from '../test/partner.ts';
import { stormLoadOf } from '../storms.ts';
import { onTheSystem } from '../test/system.ts';

const on = onTheSystem();

test('a thousand identical requests at once over two gateways are one payment', async () => {
  const run = await recordRun(on, 'identical-at-once');
  const key = newKey('identical');
  const body = { amount: 4_200, currency: 'USD', reference: 'thousand' };
  const length = stormLoadOf(on.system).identical;
  const answers = await Promise.all(
    Array.from({ length }, () => payUntilKnown(run.acme, key, body)),
  );

  const byStatus = Object.groupBy(answers, (answer) => answer.status);
  assert.deepEqual(
    Object.keys(byStatus).filter((status) => status !== '202' && status !== '409'),
    [],
    'every answer is the 202 or says that one is in flight',
  );
  assert.equal(new Set(byStatus[202]!.map((answer) => answer.body)).size, 1);
  for (const refused of byStatus[409] ?? []) assert.ok(Number(refused.headers['retry-after']) >= 1);

  const { id } = JSON.parse(byStatus[202]![0]!.body) as { id: string };
  const once = { ledger: 1, entries: 1, outbox: 1, published: 1, inbox: 1, deliveries: 1 };
  await eventually(async () => {
    assert.deepEqual(await on.look.counts(id), once);
    return (await on.look.webhooks(id)).length === 1;
  });
  const retry = await run.acme.pay(key, body);
  assert.equal(retry.body, byStatus[202]![0]!.body);
  await run.finish({ complete: true });
});

/** For a store that cannot answer all within its 3 s the gateway says 503: the partner retries. */
async function payUntilKnown(acme: Partner, key: string, body: unknown) {
  return eventually(
    async () => {
      const answer = await acme.pay(key, body);
      return answer.status !== 503 && answer;
    },
    { withinMs: 60_000, what: 'an answer other than 503' },
  );
}
