import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '@triplock/testing';
import { newKey } from './test/partner.ts';
import { onTheSystem } from './test/system.ts';

type Page = { data: { id: string; reference: string; status: string }[]; has_more: boolean };

const setup = onTheSystem();

/** One page; each call asks the next gateway. */
async function page(query: string): Promise<Page> {
  const answer = await setup.acme.send({ path: `/v1/payments?${query}` });
  assert.equal(answer.status, 200, answer.body);
  return JSON.parse(answer.body) as Page;
}

/** Payments under one reference, one after the other. */
async function pay(reference: string, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n += 1) {
    const { status, body } = await setup.acme.pay(newKey('list'), {
      amount: 7,
      currency: 'EUR',
      reference,
    });
    assert.equal(status, 202, body);
    ids.push((JSON.parse(body) as { id: string }).id);
  }
  return ids;
}

test('pages over two gateways have every payment once, newest first, while new ones arrive', async () => {
  const reference = newKey('list');
  const old = await pay(reference, 24);
  const listed = async () => (await page(`reference=${reference}&limit=100`)).data;
  const whole = await eventually(async () => {
    const all = await listed();
    return all.length === old.length && all.map(({ id }) => id);
  });
  assert.deepEqual(new Set(whole), new Set(old));

  const walked: string[] = [];
  const arrived: string[] = [];
  for (let more = true; more;) {
    const after = walked.length === 0 ? '' : `&starting_after=${walked.at(-1)}`;
    const part = await page(`reference=${reference}&limit=5${after}`);
    assert.ok(part.data.length > 0 && part.data.every((each) => each.reference === reference));
    walked.push(...part.data.map(({ id }) => id));
    more = part.has_more;
    // Posted before the next page is asked for, so that it really is in the way.
    const [next] = await pay(reference, 1);
    arrived.push(next!);
    await eventually(async () => (await listed()).some(({ id }) => id === next));
  }
  assert.deepEqual(walked, whole);
  assert.ok(arrived.length >= 4);

  const afterwards = (await listed()).map(({ id }) => id);
  assert.deepEqual(new Set(afterwards.slice(0, arrived.length)), new Set(arrived));
  assert.deepEqual(afterwards.slice(arrived.length), whole);
});
