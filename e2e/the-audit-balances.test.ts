import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { thisMachineFor } from '@triplock/launcher';
import { eventually, stripeControl } from '@triplock/testing';
import { recordRun } from './test/history.ts';
import {
  deleteEndpoints,
  newKey,
  openWebhookReceiver,
  type PartnerRequest,
  sendTo,
} from './test/partner.ts';
import { command, home, onTheSystem } from './test/system.ts';

const on = onTheSystem();

type Audit = {
  ok: boolean;
  counts: Record<string, number>;
  sums: ({ partner: string; currency: string } & Sums)[];
  drift: { check: string; ids: string[] }[];
  waiting: { for: string; ids: string[]; since: string }[];
  notCompared: { part: string; next: string }[];
  history?: { judged: { accepted: number } };
};
type LayerSum = { count: number; amount: number };
type Sums = {
  gross: Record<string, LayerSum>;
  refunds: Record<string, LayerSum>;
  net: number;
  cards: { charged: Record<string, LayerSum>; givenBack: Record<string, LayerSum> };
};

async function audit(wait = '60', ...more: string[]): Promise<{ code: number; result: Audit }> {
  const { code, stdout, stderr } = await command('audit', '--json', '--wait', wait, ...more);
  assert.ok(stdout.startsWith('{'), stdout + stderr);
  return { code, result: JSON.parse(stdout) as Audit };
}

test('every layer has the same payments, whatever was broken before', async () => {
  await on.acme.pay(newKey(), { amount: 1, currency: 'JPY' });
  const { code, result } = await audit();
  assert.deepEqual(result.drift, []);
  assert.equal(code, 0);
  const { accepted, ledger, deadLettered, keyConflicts, events, published, inbox } = result.counts;
  assert.equal(accepted, ledger! + deadLettered! + keyConflicts!);
  // What a customer had to do, and that the money is held, was told of before the end, and each
  // dispute behind it.
  const asked = `
    SELECT (
      count(action_expires_at) + count(authorized_at) + (SELECT count(*) FROM ledger.disputes)
    )::int AS n
    FROM ledger.transactions WHERE state <> 'pending'`;
  const [{ n } = assert.fail('no count')] = await on.look.ledger.query<{ n: number }>(asked);
  const told = ledger! + keyConflicts! + n;
  assert.deepEqual([events, published, inbox], [told, told, told]);
});

test('charges and refunds are in the ledger and at the provider, to the minor unit', async () => {
  const card = { amount: 2_000, currency: 'DKK', payment_method: 'pm_card_visa' };
  const paid = await final(await on.acme.pay(newKey(), card));
  const declined = { ...card, payment_method: 'pm_card_chargeDeclined' };
  await final(await on.acme.pay(newKey(), declined));
  for (const body of [{ amount: 300 }, {}, { amount: 1 }]) {
    const path = `/v1/payments/${paid.id}/refunds`;
    const { status } = await on.acme.send({ method: 'POST', path, key: newKey(), body });
    // The last one is of more than is left, and refused where that is known by then.
    assert.ok(status === 202 || (body.amount === 1 && status === 400), `${status}`);
  }
  // The audit waits for nothing that a partner's server did not take in time and gets once more.
  const taken = `SELECT FROM webhooks.deliveries WHERE txn_id = $1 AND state = 'delivered'`;
  await eventually(async () => (await on.look.database.query(taken, [paid.id])).length > 0, {
    withinMs: 120_000,
    what: 'the webhook of the payment',
  });
  const { code, result } = await audit();
  assert.deepEqual([result.drift, code], [[], 0]);
  const sums = result.sums.find((each) => `${each.partner}/${each.currency}` === 'acme/DKK')!;
  // Nobody else pays in this currency, but this test may have before.
  const times = sums.gross['ledger']!.count;
  const { cards, gross, refunds, net } = sums;
  const [charged, back] = [
    { count: times, amount: times * 2_000 },
    { count: times * 2, amount: times * 2_000 },
  ];
  for (const layer of ['ledger', 'provider']) {
    assert.deepEqual([cards.charged[layer], cards.givenBack[layer]], [charged, back], layer);
  }
  for (const layer of ['ledger', 'published', 'delivered']) {
    assert.deepEqual([gross[layer], refunds[layer]], [charged, back], layer);
  }
  assert.deepEqual([times > 0, net, result.counts['charges']! >= times], [true, 0, true]);
});

test('the audit fails and says so when the provider cannot be asked', async () => {
  const control = stripeControl(on.system.providers.stripe.url, on.system.controlToken);
  await final(
    await on.acme.pay(newKey(), { amount: 500, currency: 'SEK', payment_method: 'pm_card_visa' }),
  );
  await control('POST', '/faults', { fault: 'unavailable', operation: 'charges.list' });
  try {
    const { code, result } = await audit('1');
    assert.deepEqual([code, result.ok], [1, false]);
    assert.deepEqual(result.drift, [{ check: 'not-compared', ids: ['stripe'] }]);
    assert.match(result.notCompared[0]!.next, /audit again/);
  } finally {
    await control('DELETE', '/faults');
  }
});

test('a partner that was added just now is waited for, not drift, and gets everything once it has an endpoint', async () => {
  const id = `new-${randomBytes(6).toString('hex')}`;
  const added = await command('partners', 'add', id, '--json');
  assert.equal(added.code, 0, added.stderr);
  const { apiKey } = JSON.parse(added.stdout) as { apiKey: string };
  const authorization = `Bearer ${apiKey}`;
  const ask = (request: PartnerRequest) =>
    sendTo(on.system.gateway, { ...request, headers: { authorization } });
  const ids: string[] = [];
  for (let payment = 0; payment < 3; payment += 1) {
    const body = { amount: 5, currency: 'EUR' };
    const paid = await ask({ method: 'POST', path: '/v1/payments', key: newKey(), body });
    assert.equal(paid.status, 202, paid.body);
    ids.push((JSON.parse(paid.body) as { id: string }).id);
  }
  const before = await audit();
  assert.deepEqual([before.code, before.result.drift], [0, []]);
  const waits = before.result.waiting.find((each) => each.for === `endpoint of ${id}`);
  assert.equal(waits?.ids.length, 3, JSON.stringify(before.result.waiting));
  assert.ok(Date.parse(waits.since) <= Date.now());

  const receiver = await openWebhookReceiver(thisMachineFor(home));
  try {
    const url = { url: receiver.url };
    const set = await ask({ method: 'PUT', path: '/v1/webhook-endpoint', body: url });
    assert.equal(set.status, 201, set.body);
    await eventually(async () => {
      return ids.every((txnId) => receiver.received.some(({ body }) => body.includes(txnId)));
    });
    const after = await audit();
    assert.deepEqual([after.code, after.result.drift], [0, []]);
    assert.ok(after.result.waiting.every((each) => each.for !== `endpoint of ${id}`));
    const sums = after.result.sums.find(({ partner }) => partner === id)!;
    assert.deepEqual(sums.gross['delivered'], { count: 3, amount: 15 });
  } finally {
    await deleteEndpoints(on.system.gateway, apiKey);
    await receiver.close();
  }
});

test('a card whose customer has yet to act is waited for and no drift, until it acts', async () => {
  const body = { amount: 700, currency: 'NOK', payment_method: 'pm_card_authenticationRequired' };
  const accepted = await on.acme.pay(newKey(), body);
  const { id } = JSON.parse(accepted.body) as { id: string };
  const hasToAct = `SELECT FROM ledger.transactions WHERE txn_id = $1 AND action_expires_at > now()`;
  await eventually(async () => (await on.look.ledger.query(hasToAct, [id])).length === 1);
  const asked = await audit();
  assert.deepEqual([asked.code, asked.result.drift], [0, []]);
  const waits = asked.result.waiting.find((each) => each.for === 'customer of acme');
  assert.ok(waits?.ids.includes(id), JSON.stringify(asked.result.waiting));
  const intent = `SELECT provider_intent_id AS id FROM ledger.transactions WHERE txn_id = $1`;
  const [row] = await on.look.ledger.query<{ id: string }>(intent, [id]);
  const act = `/payment_intents/${row!.id}/authenticate`;
  await stripeControl(on.system.providers.stripe.url, on.system.controlToken)('POST', act, {
    outcome: 'succeeded',
  });
  await final(accepted);
  const { code, result } = await audit();
  assert.deepEqual([code, result.drift], [0, []]);
  assert.ok(result.waiting.every(({ ids }) => !ids.includes(id)));
});

test('money that is taken or held for a payment that had failed is named until it is given back', async () => {
  const card = { amount: 777, currency: 'PLN', payment_method: 'pm_card_chargeDeclined' };
  const { id, status } = await final(await on.acme.pay(newKey(), card));
  assert.equal(status, 'failed');
  /** Somebody with a right at the provider charges the customer all the same. */
  const chargeByHand = async (more: Record<string, string>) => {
    const ours = { 'metadata[txn_id]': id, 'metadata[partner_id]': 'acme' };
    const method = { payment_method: 'pm_card_visa', 'payment_method_types[]': 'card' };
    const answer = await fetch(new URL('/v1/payment_intents', on.system.providers.stripe.url), {
      method: 'POST',
      headers: { authorization: 'Bearer sk_test_somebody' },
      body: new URLSearchParams({
        amount: '777',
        currency: 'pln',
        confirm: 'true',
        ...ours,
        ...method,
        ...more,
      }),
    });
    const body = (await answer.json()) as { id: string };
    assert.equal(answer.status, 200, JSON.stringify(body));
    return body.id;
  };
  const intents = [await chargeByHand({}), await chargeByHand({ capture_method: 'manual' })];
  const found = await audit('1');
  assert.equal(found.code, 1);
  const named = found.result.drift.find(({ check }) => check === 'payment-contradicts-provider');
  assert.deepEqual(named?.ids.toSorted(), intents.toSorted());

  const who = ['--by', 'ada', '--why', 'told as failed'];
  const given = await command('give-back', id, ...who, '--yes', '--json');
  assert.equal(given.code, 0, given.stderr);
  const after = await audit();
  assert.deepEqual([after.result.drift, after.code], [[], 0]);
});

test('the audit fails and names the event when a layer differs', async () => {
  const { body } = await on.acme.pay(newKey(), { amount: 2, currency: 'JPY' });
  const { id } = JSON.parse(body) as { id: string };
  await eventually(async () => (await on.look.webhooks(id)).length === 1);
  await audit();
  const announce = (hash: string) =>
    on.look.database.query<{ event_id: string }>(
      `UPDATE auditor.published SET payload_hash = ${hash} WHERE txn_id = $1 RETURNING event_id`,
      [id],
    );
  const [published] = await announce('reverse(payload_hash)');
  try {
    const { code, result } = await audit();
    assert.equal(code, 1);
    assert.ok(result.drift.some(({ ids }) => ids.includes(published!.event_id)));
  } finally {
    await announce('reverse(payload_hash)');
  }
  assert.equal((await audit()).code, 0);
});

/** A line of a history, or several: what somebody would have to make of it, and what then tells. */
type Line = { what: string; n?: number; key?: string; status?: number; body?: string };
const lies: Readonly<Record<string, (lines: Line[]) => Line[]>> = {
  'history-two-bodies-accepted': (lines) => {
    const accepted = lines.find(({ status }) => status === 202)!;
    const other = accepted.body!.replace('"amount":700', '"amount":701');
    return lines.map((each) =>
      each.status === 422 ? { ...accepted, n: each.n!, body: other } : each,
    );
  },
  'asked-not-in-ledger': (lines) => {
    const n = lines.find(({ what }) => what === 'asked')!.n!;
    const never = lines.filter((each) => each.n === n).map((each) => ({ ...each, n: 9_000 }));
    return [
      ...never.map((each) => (each.key ? { ...each, key: newKey('never') } : each)),
      ...lines,
    ];
  },
  'asked-differs-from-ledger': (lines) =>
    lines.map((each) => (each.body ? { ...each, body: each.body.replace(':700', ':702') } : each)),
  'ledger-not-asked': (lines) => {
    const { key } = lines.find((each) => each.key !== undefined)!;
    const its = new Set(lines.filter((each) => each.key === key).map(({ n }) => n));
    return lines.filter(({ n }) => n === undefined || !its.has(n));
  },
  'arrived-not-delivered': (lines) =>
    lines.map((each) => (each.what === 'webhook' ? { ...each, body: `${each.body} ` } : each)),
  'delivered-not-arrived': (lines) => lines.filter(({ what }) => what !== 'webhook'),
};

test('with a history the audit begins at the clients and ends at their partners, and names whichever lies', async () => {
  const run = await recordRun(on, 'audited');
  const [key, body] = [newKey('audited'), { amount: 700, currency: 'EUR' }];
  const paid = await run.acme.pay(key, body);
  assert.equal((await run.acme.pay(key, body)).body, paid.body);
  assert.equal((await run.acme.pay(key, { ...body, amount: 701 })).status, 422);
  const { id } = await final(paid);
  assert.equal((await run.acme.refund(id, newKey('audited'), { amount: 50 })).status, 202);
  const file = await run.finish({ complete: true });
  const { code, result } = await audit('60', '--history', file);
  assert.deepEqual([code, result.drift, result.history?.judged.accepted], [0, [], 2]);

  const [head, ...lines] = readFileSync(file, 'utf8').trimEnd().split('\n');
  for (const [check, plant] of Object.entries(lies)) {
    const planted = plant(lines.map((line) => JSON.parse(line) as Line));
    const lie = file.replace('.jsonl', `-${check}.jsonl`);
    writeFileSync(lie, [head, ...planted.map((each) => JSON.stringify(each)), ''].join('\n'));
    const told = await audit('60', '--history', lie);
    assert.deepEqual([told.code, told.result.ok], [1, false], check);
    const named = told.result.drift.map((each) => each.check);
    assert.ok(named.includes(check), `${check}: ${JSON.stringify(told.result.drift)}`);
  }
});

/** The payment of a 202 once it is final. */
async function final({ body }: { body: string }): Promise<{ id: string; status: string }> {
  const { id } = JSON.parse(body) as { id: string };
  const payment = JSON.parse((await on.acme.payment(id, 30)).body) as {
    id: string;
    status: string;
  };
  assert.notEqual(payment.status, 'pending');
  return payment;
}
