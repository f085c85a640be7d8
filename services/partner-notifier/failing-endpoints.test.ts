import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import { openWebhookDeliveries } from '@triplock/partners';
import type { Fingerprint, IdempotencyKey, PartnerId } from '@triplock/payments';
import type { Queryable } from '@triplock/postgres';
import { eventually } from '@triplock/testing';
import { Webhook } from 'standardwebhooks';
import { openDeliveries } from './deliveries.ts';
import {
  addEndpoint,
  aNotifier,
  anHour,
  aReceiver,
  delivered,
  insert,
  manyRates,
  notDelivered,
  queues,
  type Received,
  type Receiver,
} from './test/webhooks.ts';

const acme = 'acme' as PartnerId;
const bodyOf = ({ body }: Received) => JSON.parse(body) as { type: string; data: unknown };
const refuse = (receiver: Receiver) =>
  receiver.answerWith((response) => void response.writeHead(500).end());
const take = (receiver: Receiver) =>
  receiver.answerWith((response, webhook) => {
    const { data } = JSON.parse(webhook.body) as { data: { token?: string } };
    response.end(data.token);
  });

/** Has all endpoints that fail have failed for so long. */
const failFor = (owner: Queryable, age: string) =>
  owner.query(
    `UPDATE partners.webhook_endpoints SET failing_since = now() - $1::interval
     WHERE failing_since IS NOT NULL`,
    [age],
  );
/** Has what waits been tried for half a day. */
const tryForHalfADay = (owner: Queryable) =>
  owner.query(`UPDATE webhooks.deliveries SET first_attempt_at = now() - interval '12 hours'
    WHERE state = 'pending' AND first_attempt_at IS NOT NULL`);
const notices = (owner: Queryable) =>
  owner.query<{ partner_id: string; endpoint_id: string; tries: number; done: boolean }>(
    `SELECT partner_id, endpoint_id, tries, delivered_at IS NOT NULL AS done
     FROM partners.endpoint_notices ORDER BY made_at`,
  );

/** A partner whose first endpoint takes nothing, and one more that takes all. */
async function twoEndpoints(context: TestContext) {
  const notifier = await aNotifier(context);
  notifier.giveUpAfter(24 * anHour);
  const [broken, works] = [await aReceiver(context), await aReceiver(context)];
  await notifier.endpoint(acme, broken.url);
  refuse(broken);
  take(works);
  const made = await notifier.endpoints.make({
    partnerId: acme,
    url: works.url,
    wants: ['refund.failed'],
    key: 'one' as IdempotencyKey,
    fingerprint: 'one' as Fingerprint,
  });
  assert.ok(made.outcome === 'made');
  await notifier.ask();
  const attempt = async () => {
    const begun = await notifier.sender.pass();
    await notifier.sender.settled();
    return begun;
  };
  return { ...notifier, broken, works, other: made, attempt };
}

test('an endpoint that takes nothing for five days is disabled by the next attempt that fails', async (context) => {
  const { owner, notify, attempt, show, states, broken, metrics } = await twoEndpoints(context);
  await notify(acme);
  await notify(acme);
  assert.equal((await show())!.failingSince, undefined);
  await attempt();
  assert.ok((await show())!.failingSince instanceof Date, 'it failed once');
  await tryForHalfADay(owner);
  await failFor(owner, '119 hours');
  await attempt();
  assert.equal((await show())!.disabled, undefined);
  await failFor(owner, '120 hours');
  assert.equal(await attempt(), 2);
  const { disabled, failingSince, verified } = (await show())!;
  assert.deepEqual([disabled!.because, verified], ['failing', false]);
  assert.equal(Math.round((disabled!.at.getTime() - failingSince!.getTime()) / anHour), 120);
  assert.deepEqual(await states(), ['parked 3', 'parked 3']);
  assert.equal(await metrics.endpointsFailed.get().then(({ values }) => values[0]!.value), 1);
  const acts = await owner.query(
    `SELECT act, done_by, why ~ '^nothing was taken there since 20' AS says
     FROM partners.acts WHERE act = 'disable-endpoint'`,
  );
  assert.deepEqual(acts, [{ act: 'disable-endpoint', done_by: 'webhook sender', says: true }]);

  // Nothing more is sent there.
  await notify(acme);
  assert.equal(await attempt(), 0);
  assert.equal(broken.received.length, 6);
  assert.deepEqual(await states(), ['parked 3', 'parked 3', 'parked 0']);
});

test('an endpoint that failed once, and then was sent nothing for days, is disabled by no failure of a moment', async (context) => {
  const { owner, notify, attempt, show, states, giveUpAfter, broken } = await twoEndpoints(context);
  giveUpAfter(0);
  await notify(acme);
  await attempt();
  await failFor(owner, '7 days');
  giveUpAfter(24 * anHour);
  await notify(acme);
  await attempt();
  await attempt();
  assert.equal((await show())!.disabled, undefined);
  assert.deepEqual(await states(), ['failed 1', 'pending 2']);
  take(broken);
  await attempt();
  assert.equal((await show())!.failingSince, undefined);

  await notify(acme);
  refuse(broken);
  await attempt();
  await failFor(owner, '7 days');
  await owner.query(`UPDATE webhooks.deliveries SET first_attempt_at = now() - interval '11 hours'
    WHERE state = 'pending'`);
  await attempt();
  assert.equal((await show())!.disabled, undefined);
  await tryForHalfADay(owner);
  await attempt();
  assert.equal((await show())!.disabled!.because, 'failing');
});

test('where webhooks are tried for less than a day, half of that is enough', async (context) => {
  const { owner, notify, attempt, show, giveUpAfter } = await twoEndpoints(context);
  giveUpAfter(anHour);
  await notify(acme);
  await attempt();
  await failFor(owner, '5 days');
  const tried = (age: string) =>
    owner.query(`UPDATE webhooks.deliveries SET first_attempt_at = now() - $1::interval`, [age]);
  await tried('29 minutes');
  await attempt();
  assert.equal((await show())!.disabled, undefined);
  await tried('30 minutes');
  await attempt();
  assert.equal((await show())!.disabled!.because, 'failing');
});

test('its partner is told of it once, at another open endpoint whatever that wants, until that takes it', async (context) => {
  const { owner, notify, attempt, show, ask, works, other } = await twoEndpoints(context);
  await notify(acme);
  await attempt();
  await failFor(owner, '120 hours');
  await tryForHalfADay(owner);
  await attempt();
  const { id, disabled, failingSince } = (await show())!;
  works.received.length = 0;
  refuse(works);
  assert.equal(await ask(), 1);
  assert.equal(await ask(), 0, 'it was asked again at once');
  const later = `UPDATE partners.endpoint_notices SET next_at = next_at - interval '1 hour'`;
  await owner.query(later);
  take(works);
  assert.equal(await ask(), 1);
  await owner.query(later);
  assert.equal(await ask(), 0, 'what was taken was sent again');

  const [first, second, ...more] = works.received;
  assert.deepEqual(more, []);
  assert.equal(first!.headers['webhook-id'], second!.headers['webhook-id']);
  assert.equal(first!.body, second!.body);
  new Webhook(other.secret).verify(second!.body, second!.headers as Record<string, string>);
  assert.deepEqual(bodyOf(second!), {
    type: 'endpoint.disabled',
    timestamp: disabled!.at.toISOString(),
    data: {
      object: 'webhook_endpoint',
      id,
      disabled_at: disabled!.at.toISOString(),
      disabled_reason: 'failing',
      failing_since: failingSince!.toISOString(),
    },
  });
  assert.deepEqual(await notices(owner), [
    { partner_id: acme, endpoint_id: id, tries: 2, done: true },
  ]);
});

test('an endpoint that answers 410 Gone is told of too, and one that is the only one is not', async (context) => {
  const { owner, notify, attempt, ask, broken, works, endpoint } = await twoEndpoints(context);
  const lonely = await aReceiver(context);
  await endpoint('globex', lonely.url);
  for (const each of [broken, lonely]) {
    each.answerWith((response) => void response.writeHead(410).end());
  }
  await notify(acme);
  await notify('globex');
  await attempt();
  await ask();
  assert.partialDeepStrictEqual(bodyOf(works.received.at(-1)!), {
    type: 'endpoint.disabled',
    data: { disabled_reason: 'gone', failing_since: null },
  });
  assert.deepEqual(
    (await notices(owner)).map(({ partner_id: partner, done }) => [partner, done]),
    [[acme, true]],
  );
});

test('nobody is told of an endpoint that was enabled or deleted meanwhile, but of one that was disabled once more', async (context) => {
  const { owner, ask, setUrl, endpoints, show, broken, works } = await twoEndpoints(context);
  const { id } = (await show())!;
  const disableIt = () =>
    owner.query(
      'UPDATE partners.webhook_endpoints SET disabled_at = now() WHERE endpoint_id = $1',
      [id],
    );
  const told = () =>
    works.received.filter((each) => bodyOf(each).type === 'endpoint.disabled').length;
  const left = () =>
    owner.query(`SELECT tries, next_at IS NULL AS ended, delivered_at IS NOT NULL AS done
      FROM partners.endpoint_notices ORDER BY made_at`);
  const enable = async () => {
    await setUrl(broken.url);
    await owner.query(`UPDATE partners.webhook_endpoints
      SET verified_url = url, verified_at = now()`);
  };
  const unsaid = { tries: 0, ended: true, done: false };

  await disableIt();
  await enable();
  await ask();
  assert.deepEqual([told(), await left()], [0, [unsaid]]);

  await disableIt();
  await enable();
  await disableIt();
  await ask();
  const said = { tries: 1, ended: true, done: true };
  assert.deepEqual([told(), await left()], [1, [unsaid, unsaid, said]]);

  await enable();
  await disableIt();
  assert.equal(await endpoints.delete({ partnerId: acme, id }), true);
  await ask();
  assert.deepEqual([told(), await left()], [1, [unsaid, unsaid, said, unsaid]]);
});

test('a partner of whom many endpoints were disabled is told five things at once, and holds up no other', async (context) => {
  const { owner, ask, works, endpoint, show } = await twoEndpoints(context);
  const other = await aReceiver(context);
  await endpoint('globex', other.url);
  const tell = (ofUrl: string, times: number) =>
    owner.query(
      `INSERT INTO partners.endpoint_notices (partner_id, endpoint_id, disabled_at, body, next_at)
       SELECT partner_id, endpoint_id, disabled_at, '{"type":"endpoint.disabled"}', made_at
       FROM partners.webhook_endpoints, generate_series(1, $2) WHERE url = $1`,
      [ofUrl, times],
    );
  const gone = 'https://gone.example';
  await addEndpoint(owner, 'globex', { host: 'gone.example' });
  const { url } = (await show())!;
  await owner.query(
    'UPDATE partners.webhook_endpoints SET disabled_at = now() WHERE url = ANY ($1)',
    [[url, gone]],
  );
  await owner.query('DELETE FROM partners.endpoint_notices');
  await tell(url, 12);
  await tell(gone, 1);
  refuse(works);
  works.received.length = 0;
  assert.equal(await ask(), 6);
  assert.deepEqual([works.received.length, other.received.length], [5, 1]);
  assert.equal(await ask(), 0);
  const later = `UPDATE partners.endpoint_notices SET tried_at = tried_at - interval '10 seconds'`;
  await owner.query(later);
  assert.equal(await ask(), 5);
  await owner.query(later);
  assert.equal(await ask(), 2);
  assert.equal(new Set(works.received.map(({ headers }) => headers['webhook-id'])).size, 12);
});

test('a notice whose answer is just being noted is not sent again', async (context) => {
  const { owner, notify, attempt, ask, broken, works } = await twoEndpoints(context);
  broken.answerWith((response) => void response.writeHead(410).end());
  await notify(acme);
  await attempt();
  works.received.length = 0;
  let asked: Promise<number>;
  await owner.transaction(async (tx) => {
    await tx.query(
      'SELECT partners.answer_endpoint_notice(notice_id) FROM partners.endpoint_notices',
    );
    asked = ask();
    const waits = `SELECT FROM pg_locks
      WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))`;
    await eventually(async () => (await tx.query(waits)).length > 0);
  });
  assert.equal(await asked!, 0);
  assert.deepEqual(works.received, []);
});

test('a notice that nobody takes is sent for a day, and then no more', async (context) => {
  const { owner, notify, attempt, ask, broken, works } = await twoEndpoints(context);
  broken.answerWith((response) => void response.writeHead(410).end());
  refuse(works);
  await notify(acme);
  await attempt();
  const next = `UPDATE partners.endpoint_notices SET next_at = now()
    WHERE next_at IS NOT NULL RETURNING made_at`;
  let sent = 0;
  for (; (await owner.query(next)).length > 0; sent += 1) await ask();
  assert.equal(sent, 28);
  assert.deepEqual(
    (await notices(owner)).map(({ tries, done }) => [tries, done]),
    [[28, false]],
  );

  const reap = 'SELECT webhooks.reap_settings(100) AS reaped';
  assert.deepEqual(await owner.query(reap), [{ reaped: 0 }]);
  await owner.query(`UPDATE partners.endpoint_notices SET made_at = now() - interval '91 days'`);
  assert.deepEqual(await owner.query(reap), [{ reaped: 1 }]);
});

test('what was parked is sent when it is enabled, and what was given up by a window that its partner asks for', async (context) => {
  const { owner, notify, attempt, show, ask, release, states, setUrl, broken, giveUpAfter } =
    await twoEndpoints(context);
  giveUpAfter(-1);
  const lost = await notify(acme);
  await attempt();
  assert.deepEqual(await states(), ['failed 1']);
  giveUpAfter(24 * anHour);
  const parked = await notify(acme);
  await attempt();
  await tryForHalfADay(owner);
  await failFor(owner, '6 days');
  const [made] = await owner.query<{ at: Date }>(
    `UPDATE webhooks.deliveries SET created_at = created_at - interval '6 days'
     WHERE state = 'failed' RETURNING created_at AS at`,
  );
  await attempt();
  const { disabled, failingSince } = (await show())!;
  assert.equal(disabled!.because, 'failing');
  assert.ok(made!.at < failingSince!, 'it was made before the first attempt at it failed');

  take(broken);
  broken.received.length = 0;
  const { endpoint } = await setUrl(broken.url);
  assert.deepEqual([endpoint.disabled, endpoint.failingSince], [undefined, undefined]);
  assert.equal(await release(), 0, 'its server has yet to answer, after so long');
  await owner.query(`UPDATE partners.endpoint_verifications
    SET asked_at = asked_at - interval '1 hour'`);
  await ask();
  assert.equal(await release(), 1);
  await attempt();
  const asked = await openWebhookDeliveries(owner).redeliverWindow({
    partnerId: acme,
    key: 'again' as IdempotencyKey,
    fingerprint: 'again' as Fingerprint,
    since: new Date(failingSince!.getTime() - 24 * anHour).toISOString(),
    state: 'failed',
    limit: 1_000,
  });
  assert.partialDeepStrictEqual(asked, { redelivery: { deliveries: 1, nextSince: null } });
  await attempt();
  assert.deepEqual(
    broken.received.map((each) => [bodyOf(each).type, each.headers['webhook-id']]).slice(1),
    [
      ['payment.succeeded', parked],
      ['payment.succeeded', lost],
    ],
  );
});

/** Two deliveries to one endpoint that has failed for longer than it may. */
async function almostDisabled(context: TestContext) {
  const queue = await queues(context, { acme: 2 });
  const [one, two] = await queue.lease();
  await queue.deliveries.record(one!, { ...notDelivered, nextInMs: 0 });
  await failFor(queue.owner, '6 days');
  await tryForHalfADay(queue.owner);
  const [again] = await queue.lease();
  const endpoints = () =>
    queue.owner
      .query(`SELECT xmin::text, failing_since IS NULL AS takes, disabled_at IS NULL AS open
      FROM partners.webhook_endpoints`);
  return { ...queue, one: again!, two: two!, endpoints };
}

test('a success that is recorded with the failure keeps an endpoint open', async (context) => {
  const { deliveries, one, two, endpoints } = await almostDisabled(context);
  assert.deepEqual(
    await Promise.all([deliveries.record(one, notDelivered), deliveries.record(two, delivered)]),
    ['pending', 'delivered'],
  );
  assert.partialDeepStrictEqual(await endpoints(), [{ takes: true, open: true }]);
});

test('a success that is about to be committed is waited for, and keeps an endpoint open', async (context) => {
  const { owner, database, one, two, endpoints } = await almostDisabled(context);
  const [first, second] = [0, 1].map(() => openDeliveries(database, manyRates));
  let failure: Promise<string>;
  await owner.transaction(async (tx) => {
    // The sender of the success has got as far as this.
    await tx.query(
      `SELECT partners.note_attempts(ARRAY[endpoint_id], ARRAY[true], ARRAY[false], interval '5 days')
       FROM partners.webhook_endpoints`,
    );
    failure = first!.record(one, notDelivered);
    const waits = `SELECT FROM pg_locks
      WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))`;
    await eventually(async () => (await tx.query(waits)).length > 0);
  });
  assert.equal(await failure!, 'pending');
  assert.partialDeepStrictEqual(await endpoints(), [{ open: true }]);
  assert.equal(await second!.record(two, delivered), 'delivered');
  assert.partialDeepStrictEqual(await endpoints(), [{ takes: true, open: true }]);
});

test('an endpoint is written to when it begins to fail and when it takes something again, and by no attempt between', async (context) => {
  const { owner, database, lease, deliveries } = await queues(context, { acme: 1 });
  const version = async () => {
    const [row] = await owner.query<{ xmin: string }>(
      'SELECT xmin::text FROM partners.webhook_endpoints',
    );
    return row!.xmin;
  };
  const versions = [await version()];
  for (const outcome of [delivered, notDelivered, notDelivered, delivered, delivered]) {
    await insert(database, acme, 1);
    const [leased] = await lease();
    await deliveries.record(leased!, { ...outcome, nextInMs: anHour });
    versions.push(await version());
  }
  const [made, taken, failed, again, recovered, well] = versions;
  assert.deepEqual([made, failed, recovered], [taken, again, well]);
  assert.equal(new Set(versions).size, 3);
});

test('endpoints of a partner that are disabled together have nobody to tell', async (context) => {
  const { owner, database, deliveries, lease } = await queues(context, { acme: 1, globex: 1 });
  await addEndpoint(owner, acme, { host: 'other.example' });
  await database.query(`INSERT INTO webhooks.deliveries (event_id, partner_id, endpoint_id, txn_id, body)
    SELECT gen_random_uuid(), partner_id, endpoint_id, gen_random_uuid(), '{}'
    FROM partners.open_webhook_endpoints WHERE host = 'other.example'`);
  const now = { ...notDelivered, nextInMs: 0 };
  const all = async () => {
    const leased = await lease();
    return Promise.all(leased.map((each) => deliveries.record(each, now)));
  };
  assert.deepEqual(await all(), ['pending', 'pending', 'pending']);
  await failFor(owner, '5 days');
  await tryForHalfADay(owner);
  assert.deepEqual(await all(), ['disabled', 'disabled', 'disabled']);
  assert.deepEqual(await notices(owner), []);
});

test('a test that is taken ends failing, and so does another URL', async (context) => {
  const { notify, attempt, show, ask, endpoints, setUrl, broken } = await twoEndpoints(context);
  await notify(acme);
  const fail = async () => {
    refuse(broken);
    await attempt();
    return (await show())!;
  };
  const { id, failingSince } = await fail();
  assert.ok(failingSince instanceof Date);
  take(broken);
  assert.equal(await endpoints.askTest({ partnerId: acme, id }, randomUUID()), 'asked');
  await ask();
  assert.equal((await show())!.failingSince, undefined);
  assert.ok((await fail()).failingSince instanceof Date);
  await setUrl(`${broken.url}/moved`);
  assert.equal((await show())!.failingSince, undefined);
});
