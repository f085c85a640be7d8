import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually } from '@triplock/testing';
import { newKey, partner, type Partner } from './partner.ts';
import { upSystem } from './system.ts';
import { witness, type Witness } from './witness.ts';

let acme: Partner;
let look: Witness;

before(async () => {
  const system = await upSystem();
  acme = partner(system, 'acme');
  look = witness(system);
});
after(() => look.close());

test('1 000 identical requests at once over two gateways are one payment', async () => {
  const key = newKey('identical');
  const body = { amount: 4_200, currency: 'USD', reference: 'thousand' };
  const answers = await Promise.all(Array.from({ length: 1_000 }, () => acme.pay(key, body)));

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
    assert.deepEqual(await look.sightings(id), once);
    return (await look.webhooks(id)).length === 1;
  });
  const retry = await acme.pay(key, body);
  assert.equal(retry.body, byStatus[202]![0]!.body);
});
