import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '@triplock/testing';
import { notifyPartners, type Delivery, type WhoSends } from './deliveries.ts';
import { aNotifier, aReceiver, anHour, queues } from './test/webhooks.ts';

const many = (partner: string, events: number) => Array.from({ length: events }, () => partner);

test('what events make is sent without a look for it, and leaves nothing to look for', async (context) => {
  const { sender, endpoint, notifyAll, states } = await aNotifier(context);
  const receiver = await aReceiver(context);
  await endpoint('acme', receiver.url);
  const ids = await notifyAll(['acme', 'acme', 'nobody'], sender);
  await sender.settled();
  const received = receiver.received.map(({ headers }) => headers['webhook-id']);
  assert.deepEqual(received.sort(), ids.slice(0, 2).sort());
  const [{ body } = assert.fail('nothing came')] = receiver.received;
  assert.equal((JSON.parse(body) as { type: string }).type, 'payment.succeeded');
  assert.deepEqual((await states()).sort(), ['delivered 1', 'delivered 1', 'parked 0']);
  assert.equal(await sender.somethingWithin(0), 0);
});

test('nothing is sent before its event is committed, nor what was never committed', async (context) => {
  const { sender, endpoint, notifyAll, states } = await aNotifier(context);
  const receiver = await aReceiver(context);
  await endpoint('acme', receiver.url);
  let seen: Promise<string[]> | undefined;
  const watching: WhoSends = {
    request: sender.request,
    take(lease) {
      seen = states();
      sender.take(lease);
    },
  };
  const dying: typeof notifyPartners = (deliveries, by) => async (tx, events) => {
    await notifyPartners(deliveries, by)(tx, events);
    throw new Error('the notifier died');
  };
  await assert.rejects(notifyAll(['acme'], watching, dying), /the notifier died/);
  assert.deepEqual([seen, await states()], [undefined, []]);
  const [eventId] = await notifyAll(['acme'], watching);
  await sender.settled();
  assert.deepEqual(await seen, ['pending 1']);
  assert.deepEqual(
    receiver.received.map(({ headers }) => headers['webhook-id']),
    [eventId],
  );
});

test('what a notifier made and leased before it died is sent by another, once, when the lease ends', async (context) => {
  const { sender, overtaker, crashPoints, endpoint, notify, states } = await aNotifier(context, {
    leaseMs: 0,
  });
  const receiver = await aReceiver(context);
  await endpoint('acme', receiver.url);
  crashPoints.arm({ name: 'webhook.leased', action: { do: 'throw' } });
  const eventId = await notify('acme', sender);
  await sender.settled();
  assert.deepEqual([receiver.received.length, await states()], [0, ['pending 1']]);
  assert.equal(await overtaker.pass(), 1);
  await overtaker.settled();
  assert.deepEqual(await states(), ['delivered 2']);
  assert.deepEqual([await overtaker.pass(), await sender.pass()], [0, 0]);
  assert.deepEqual(
    receiver.received.map(({ headers }) => headers['webhook-id']),
    [eventId],
  );
});

for (const [limit, rates] of Object.entries({
  'in flight to a partner': { partner: { inFlight: 5 } },
  'in flight to a host': { host: { inFlight: 5 } },
  'begun to a partner': { partner: { aSecond: 5 } },
  'begun to a host': { host: { aSecond: 5 } },
})) {
  test(`notifiers that send what they make at once have no more ${limit} than there may be`, async (context) => {
    const { sender, overtaker, endpoint, notifyAll, states } = await aNotifier(context, {
      perPartnerMax: 1_000,
      rates,
    });
    const receiver = await aReceiver(context);
    receiver.answerWith(() => undefined);
    await endpoint('acme', receiver.url);
    const started = performance.now();
    const both = [sender, overtaker];
    await Promise.all([...both, ...both].map((by) => notifyAll(many('acme', 8), by)));
    const seconds = limit.startsWith('begun') ? (performance.now() - started) / 1_000 : 0;
    const begun = (await states()).filter((state) => state === 'pending 1').length;
    assert.ok(begun >= 5 && begun <= 5 * (1 + seconds), `${begun} in ${seconds} s`);
    await eventually(async () => receiver.received.length === begun);
    for (const each of both) each.giveUp();
    await Promise.all(both.map((each) => each.settled()));
  });
}

test('a flood of one partner takes its share, leaves the others theirs, and is sent as it gets room', async (context) => {
  const { sender, endpoint, notifyAll } = await aNotifier(context, { inFlightMax: 32 });
  const [flooded, others] = [await aReceiver(context), await aReceiver(context)];
  const held: (() => void)[] = [];
  flooded.answerWith((response) => held.push(() => void response.writeHead(204).end()));
  await endpoint('acme', flooded.url);
  await endpoint('globex', others.url);
  await endpoint('zeta', others.url);
  await notifyAll([...many('acme', 30), 'globex'], sender);
  await notifyAll(['globex', ...many('acme', 30), 'zeta'], sender);
  await eventually(async () => others.received.length === 3 && held.length === 8);
  const answer = () => held.splice(0).forEach((each) => each());
  // It was woken when it heard that there is no room.
  await sender.somethingWithin(0);
  answer();
  assert.equal(await sender.somethingWithin(60_000), 1, 'nobody knows that there is room');
  await eventually(async () => {
    answer();
    await sender.pass();
    return flooded.received.length === 60;
  });
  answer();
  await sender.settled();
});

test('what waits is sent before what was just made, with the body that it was made with', async (context) => {
  const { sender, endpoint, notify, states } = await aNotifier(context, { inFlightMax: 1 });
  const receiver = await aReceiver(context);
  await endpoint('acme', receiver.url);
  const waiting = await notify('acme');
  const made = await notify('acme', sender);
  await sender.settled();
  assert.deepEqual(await states(), ['delivered 1', 'pending 0']);
  assert.equal(await sender.pass(), 1);
  await sender.settled();
  assert.deepEqual(
    receiver.received.map(({ headers }) => headers['webhook-id']),
    [waiting, made],
  );
  for (const { body } of receiver.received) assert.ok('data' in (JSON.parse(body) as object), body);
});

test('an event that has a delivery already leaves it as it is, and sends nothing', async (context) => {
  const { database, deliveries, lease } = await queues(context, { acme: 1 });
  const [{ eventId, partnerId, txnId } = assert.fail('nothing is due')] = await lease();
  const again: Delivery = { eventId, partnerId, txnId, body: '{}', traceparent: null };
  const request = { owner: 'b', leaseMs: anHour, deliveriesMax: 10 };
  const read = await database.transaction((tx) => deliveries.make(tx, [again], request));
  assert.deepEqual((await read()).leased, []);
  const rows = 'SELECT attempts, lease_owner, body FROM deliveries';
  const body = '{"type":"payment.failed"}';
  assert.deepEqual(await database.query(rows), [{ attempts: 1, lease_owner: 'a', body }]);
});

test('a notifier that stands still before its commit holds up the others for seconds, and has sent nothing', async (context) => {
  const { database, deliveries, lease } = await queues(context, { acme: 1 });
  const standing = Promise.withResolvers<void>();
  const request = { owner: 'b', leaseMs: anHour, deliveriesMax: 10 };
  const holding = Promise.withResolvers<void>();
  const made = database.transaction(async (tx) => {
    await deliveries.make(tx, [], request);
    holding.resolve();
    await standing.promise;
  });
  await holding.promise;
  // The lease of the one that stands still went with its transaction.
  assert.equal((await lease()).length, 1);
  standing.resolve();
  await assert.rejects(made);
});
