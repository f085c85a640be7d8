import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CrashPointError } from '@triplock/runtime';
import { eventually } from '@triplock/testing';
import { aNotifier, aReceiver } from './test/webhooks.ts';

test('a webhook is sent again under the same id until it is taken', async (context) => {
  const { sender, endpoint, notify, states } = await aNotifier(context);
  const receiver = await aReceiver(context);
  await endpoint('acme', receiver.url);
  receiver.answerWith((response) => {
    response.writeHead(receiver.received.length < 3 ? 500 : 204).end();
  });
  const eventId = await notify('acme');
  for (let pass = 0; pass < 4; pass += 1) {
    await sender.pass();
    await sender.settled();
  }
  assert.deepEqual(
    receiver.received.map(({ headers }) => headers['webhook-id']),
    [eventId, eventId, eventId],
  );
  assert.equal(new Set(receiver.received.map(({ body }) => body)).size, 1);
  assert.deepEqual(await states(), ['delivered 3']);
});

test('without the key of its secret a webhook waits, unsent and not given up, until the key is there', async (context) => {
  const { sender, keyless, endpoint, notify, states, metrics, twoHoursPass } =
    await aNotifier(context);
  const receiver = await aReceiver(context);
  await endpoint('acme', receiver.url);
  await notify('acme');
  const tryBy = async (some: typeof sender) => {
    assert.equal(await some.pass(), 1);
    await some.settled();
    return states();
  };
  receiver.answerWith((response) => void response.writeHead(500).end());
  assert.deepEqual(await tryBy(sender), ['pending 1']);
  for (const attempts of [2, 3]) {
    assert.deepEqual(await tryBy(keyless), [`pending ${attempts}`]);
    assert.equal(await keyless.pass(), 0, 'a key that is missing is looked for at once again');
    // Longer than there is time for all attempts together.
    await twoHoursPass();
  }
  assert.deepEqual([receiver.received.length, metrics.attempts.counted()['not-sent']], [1, 2]);
  assert.deepEqual(await tryBy(sender), ['pending 4'], 'the time ran while nothing could be sent');
  receiver.answerWith((response) => void response.writeHead(204).end());
  assert.deepEqual(await tryBy(sender), ['delivered 5']);
});

test('dead endpoints hold up nobody, also when together they could fill all slots', async (context) => {
  const { sender, endpoint, notify } = await aNotifier(context, { inFlightMax: 12 });
  const [dead, alive] = [await aReceiver(context), await aReceiver(context)];
  dead.answerWith(() => undefined);
  await endpoint('acme', dead.url);
  await endpoint('zeta', dead.url);
  await endpoint('globex', alive.url);
  for (const partner of ['acme', 'zeta', 'globex']) {
    for (let event = 0; event < 30; event += 1) await notify(partner);
  }
  await eventually(async () => {
    await sender.pass();
    return alive.received.length === 30;
  });
  assert.ok(dead.received.length <= 2 * 8, `${dead.received.length} at dead endpoints`);
  sender.giveUp();
  await sender.settled();
});

test('a server that answers 410 Gone is sent nothing until its endpoint is set again', async (context) => {
  const { sender, release, endpoint, notify, states, setUrl, show, verify } =
    await aNotifier(context);
  const receiver = await aReceiver(context);
  await endpoint('acme', receiver.url);
  receiver.answerWith((response) => void response.writeHead(410).end());
  await notify('acme');
  for (let pass = 0; pass < 3; pass += 1) {
    await sender.pass();
    await sender.settled();
  }
  assert.equal(receiver.received.length, 1);
  await notify('acme');
  assert.equal(await sender.pass(), 0);
  assert.deepEqual(await states(), ['parked 1', 'parked 0']);
  assert.equal((await show())?.disabled?.because, 'gone');

  receiver.answerWith((response) => void response.writeHead(204).end());
  const set = await setUrl(receiver.url);
  assert.deepEqual([set.outcome, set.endpoint.disabled], ['changed', undefined]);
  assert.equal(await release(), 0, 'it has yet to say that it wants webhooks after all');
  assert.equal(await verify(), 1);
  assert.equal(await release(), 2);
  await sender.pass();
  await sender.settled();
  assert.deepEqual(await states(), ['delivered 2', 'delivered 1']);
  assert.equal((await show())?.disabled, undefined);
});

test('nothing is tried without an endpoint, and all of it is sent once there is one', async (context) => {
  const { sender, release, endpoint, notify, states, metrics } = await aNotifier(context);
  const ids = [await notify('acme'), await notify('acme')];
  for (let pass = 0; pass < 3; pass += 1) {
    assert.deepEqual([await release(), await sender.pass()], [0, 0]);
  }
  assert.deepEqual(await states(), ['parked 0', 'parked 0']);
  const receiver = await aReceiver(context);
  await endpoint('acme', receiver.url);
  assert.equal(await release(), 2);
  await sender.pass();
  await sender.settled();
  assert.deepEqual(await states(), ['delivered 1', 'delivered 1']);
  const received = receiver.received.map(({ headers }) => headers['webhook-id']);
  assert.deepEqual(received.sort(), ids.sort());
  assert.deepEqual(metrics.attempts.counted(), { delivered: 2 });
});

test('an endpoint that is gone between a lease and its attempt parks the webhook untried', async (context) => {
  const { sender, endpoint, notify, states, disable, metrics } = await aNotifier(context);
  const receiver = await aReceiver(context);
  await endpoint('acme', receiver.url);
  await notify('acme');
  await disable();
  await sender.pass();
  await sender.settled();
  assert.deepEqual(await states(), ['parked 1']);
  assert.deepEqual([receiver.received, metrics.attempts.counted()], [[], { 'not-sent': 1 }]);
});

test('a webhook that was leased in the rate of one host is not sent to another, and is leased again', async (context) => {
  const { sender, moving, endpoint, notify, states, metrics } = await aNotifier(context);
  const receiver = await aReceiver(context);
  await endpoint('acme', receiver.url);
  await notify('acme');
  await moving.pass();
  await moving.settled();
  assert.deepEqual([receiver.received, await states()], [[], ['pending 1']]);
  assert.deepEqual(metrics.attempts.counted(), { 'not-sent': 1 });
  await sender.pass();
  await sender.settled();
  assert.deepEqual(await states(), ['delivered 2']);
});

test('a delivery that fails to the end is given up and counted', async (context) => {
  const { sender, endpoint, notify, states, metrics, giveUpAfter } = await aNotifier(context);
  const receiver = await aReceiver(context);
  receiver.answerWith((response) => void response.writeHead(500).end());
  await endpoint('acme', receiver.url);
  giveUpAfter(-1);
  await notify('acme');
  await sender.pass();
  await sender.settled();
  assert.deepEqual(await states(), ['failed 1']);
  assert.equal((await metrics.givenUp.get()).values[0]!.value, 1);
});

test('a sender that dies after the answer sends again under the same id', async (context) => {
  const { sender, overtaker, crashPoints, endpoint, notify, states } = await aNotifier(context, {
    leaseMs: 0,
  });
  const receiver = await aReceiver(context);
  await endpoint('acme', receiver.url);
  const eventId = await notify('acme');
  crashPoints.arm({ name: 'webhook.answered', action: { do: 'throw' } });
  await sender.pass();
  await sender.settled();
  assert.deepEqual(await states(), ['pending 1']);
  await overtaker.pass();
  await overtaker.settled();
  assert.deepEqual(
    receiver.received.map(({ headers }) => headers['webhook-id']),
    [eventId, eventId],
  );
  assert.deepEqual(await states(), ['delivered 2']);
});

test('a sender that dies after leasing sent nothing, and one that dies after recording repeats nothing', async (context) => {
  const { sender, overtaker, crashPoints, endpoint, notify, states } = await aNotifier(context, {
    leaseMs: 0,
  });
  const receiver = await aReceiver(context);
  await endpoint('acme', receiver.url);
  await notify('acme');
  crashPoints.arm({ name: 'webhook.leased', action: { do: 'throw' } });
  await assert.rejects(sender.pass(), CrashPointError);
  assert.deepEqual([receiver.received.length, await states()], [0, ['pending 1']]);
  crashPoints.arm({ name: 'webhook.recorded', action: { do: 'throw' } });
  await overtaker.pass();
  await overtaker.settled();
  assert.deepEqual(await states(), ['delivered 2']);
  assert.equal(await sender.pass(), 0);
  assert.equal(receiver.received.length, 1);
});

test('what was delivered or given up is sent again when its partner asks for it', async (context) => {
  const { sender, endpoint, notify, states, giveUpAfter, askAgain } = await aNotifier(context);
  const receiver = await aReceiver(context);
  await endpoint('acme', receiver.url);
  giveUpAfter(-1);
  receiver.answerWith((response) => void response.writeHead(500).end());
  const eventId = await notify('acme');
  const sendOnce = async () => {
    await sender.pass();
    await sender.settled();
    return states();
  };
  assert.deepEqual(await sendOnce(), ['failed 1']);
  receiver.answerWith((response) => void response.writeHead(204).end());
  assert.equal((await askAgain(eventId))!.lastError, 'refused');
  assert.deepEqual(await sendOnce(), ['delivered 2']);
  assert.deepEqual(await sendOnce(), ['delivered 2']);
  await Promise.all([askAgain(eventId), askAgain(eventId)]);
  assert.deepEqual(await sendOnce(), ['delivered 3']);
  assert.deepEqual(await sendOnce(), ['delivered 3']);
  assert.deepEqual(
    receiver.received.map(({ headers }) => headers['webhook-id']),
    [eventId, eventId, eventId],
  );
});

test('what is not answered when a sender gives up is recorded and comes again', async (context) => {
  const { sender, overtaker, endpoint, notify, states } = await aNotifier(context);
  const receiver = await aReceiver(context);
  receiver.answerWith(() => undefined);
  await endpoint('acme', receiver.url);
  await notify('acme');
  await sender.pass();
  await eventually(async () => receiver.received.length === 1);
  sender.giveUp();
  await sender.settled();
  assert.deepEqual(await states(), ['pending 1']);
  receiver.answerWith((response) => void response.writeHead(204).end());
  await overtaker.pass();
  await overtaker.settled();
  assert.deepEqual(await states(), ['delivered 2']);
});

test('a sender without a free slot knows at once when an attempt has ended', async (context) => {
  const { sender, endpoint, notify } = await aNotifier(context, { perPartnerMax: 1 });
  const receiver = await aReceiver(context);
  const held: (() => void)[] = [];
  receiver.answerWith((response) => held.push(() => void response.writeHead(204).end()));
  await endpoint('acme', receiver.url);
  await notify('acme');
  await notify('acme');
  assert.equal(await sender.pass(), 1);
  assert.equal(await sender.pass(), 0);
  assert.equal(await sender.somethingWithin(0), 0);
  await eventually(async () => held.length === 1);
  held[0]!();
  assert.equal(await sender.somethingWithin(60_000), 1);
  assert.equal(await sender.pass(), 1);
  await eventually(async () => held.length === 2);
  held[1]!();
  await sender.settled();
});

test('a sender that rests knows at once of what was made, also when it was told before', async (context) => {
  const { sender } = await aNotifier(context);
  assert.equal(await sender.somethingWithin(0), 0);
  const resting = sender.somethingWithin(60_000);
  sender.wake();
  assert.equal(await resting, 1);
  sender.wake();
  assert.equal(await sender.somethingWithin(60_000), 1);
  assert.equal(await sender.somethingWithin(0), 0);
});
