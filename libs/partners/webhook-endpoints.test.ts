import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { EventId, IdempotencyKey, PartnerId } from '@triplock/payments';
import { createTestDatabase, eventually, testWebhookKeys } from '@triplock/testing';
import { DoneTooOftenError } from './done-too-often.ts';
import { openPartners } from './partners.ts';
import { openWebhookDeliveries } from './webhook-deliveries.ts';
import { firstEndpoint } from './test/webhook-deliveries.ts';
import { openWebhookEndpoints } from './webhook-endpoints.ts';
import { parseWebhookKeys } from './webhook-secrets.ts';

const acme = 'acme' as PartnerId;
const webhookKeys = parseWebhookKeys(testWebhookKeys);
const url = 'https://partner.example/hooks';
/** A rotation of acme's, by default under a key of its own. */
let rotations = 0;
const once = (key = `rotation ${(rotations += 1)}`) => ({
  partnerId: acme,
  key: key as IdempotencyKey,
});

const verifiedSql = `UPDATE partners.webhook_endpoints SET verified_url = url, verified_at = now()
  WHERE verified_url IS DISTINCT FROM url AND disabled_at IS NULL`;

/** Endpoints as the gateway manages them and as the notifier reads them. */
async function endpoints(context: TestContext) {
  const store = await createTestDatabase(context);
  const owner = store.open();
  await owner.query(`INSERT INTO partners.partners (id) VALUES ('acme'), ('globex')`);
  const gateway = store.open('triplock_gateway');
  const notifier = openPartners(store.open('triplock_notifier'), { webhookKeys });
  /** What the notifier knows of an endpoint once its server has said that it wants webhooks. */
  const seenByNotifier = async (partnerId = acme) => {
    await owner.query(verifiedSql);
    return notifier.webhookEndpoint(await firstEndpoint(owner, partnerId));
  };
  return {
    owner,
    gateway,
    endpoints: openWebhookEndpoints(gateway, webhookKeys),
    seenByNotifier,
    notifier,
  };
}

test('an endpoint is made with a secret of its own, which is shown once', async (context) => {
  const { endpoints: store, seenByNotifier } = await endpoints(context);
  assert.equal(await store.show(acme), undefined);
  const made = await store.setUrl({ partnerId: acme, url });
  assert.ok(made.outcome === 'made');
  assert.match(made.secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  assert.deepEqual(await store.show(acme), made.endpoint);
  assert.equal('previousSecretUntil' in made.endpoint, false);
  assert.partialDeepStrictEqual(await seenByNotifier(), { url, secrets: [made.secret] });

  const again = await store.setUrl({ partnerId: acme, url: `${url}/v2` });
  assert.equal(again.outcome, 'changed');
  assert.equal('secret' in again, false);
  assert.partialDeepStrictEqual(await seenByNotifier(), {
    url: `${url}/v2`,
    secrets: [made.secret],
  });
  assert.equal(await seenByNotifier('globex' as PartnerId), undefined);
});

test('an endpoint that is gone is as good as none until it is set again, and only the one that was asked', async (context) => {
  const { owner, endpoints: store, seenByNotifier, notifier } = await endpoints(context);
  await store.setUrl({ partnerId: acme, url });
  await store.setUrl({ partnerId: 'globex' as PartnerId, url });
  const id = await firstEndpoint(owner);
  const disable = (version: string) => notifier.disableEndpoint({ id, version });
  const { version: early } = (await seenByNotifier())!;
  await store.setUrl({ partnerId: acme, url });
  assert.equal(
    await disable(early),
    false,
    'it was set again, to the same URL, since it was asked',
  );
  const { version } = (await seenByNotifier())!;
  assert.equal(await disable(version), true);
  assert.equal(await disable(version), false);
  assert.equal(await seenByNotifier(), undefined);
  assert.equal((await seenByNotifier('globex' as PartnerId))!.url, url);
  assert.equal((await store.show(acme))!.disabled!.because, 'gone');
  await store.setUrl({ partnerId: acme, url });
  assert.equal(await disable(version), false, 'an answer that came late');
  assert.equal((await seenByNotifier())!.url, url);
  const rows = await owner.query(
    'SELECT FROM partners.webhook_endpoints WHERE disabled_at IS NULL',
  );
  assert.equal(rows.length, 2);
});

test('notifiers are told of endpoints that are set, and of webhooks that are asked for again', async (context) => {
  const { endpoints: store, notifier, gateway } = await endpoints(context);
  const stopping = new AbortController();
  let told = 0;
  const listening = notifier.listen(() => (told += 1), stopping.signal);
  await eventually(async () => told === 1);
  await store.setUrl({ partnerId: acme, url });
  await eventually(async () => told === 2);
  const eventId = '328391a9-46c9-8809-a8b6-3591db80e499' as EventId;
  await openWebhookDeliveries(gateway).redeliver({ partnerId: acme, eventId, ordinal: 1 });
  await eventually(async () => told === 3);
  stopping.abort();
  await listening;
});

test('two who make an endpoint at once make one, and only one is shown its secret', async (context) => {
  const { endpoints: store, seenByNotifier } = await endpoints(context);
  const attempts = Array.from({ length: 8 }, () => store.setUrl({ partnerId: acme, url }));
  const secrets = (await Promise.all(attempts)).flatMap((set) =>
    set.outcome === 'made' ? [set.secret] : [],
  );
  assert.equal(secrets.length, 1);
  assert.deepEqual((await seenByNotifier())!.secrets, secrets);
});

test('a rotated secret signs beside the one before it, and never with a third', async (context) => {
  const { endpoints: store, seenByNotifier } = await endpoints(context);
  const made = await store.setUrl({ partnerId: acme, url });
  assert.ok(made.outcome === 'made');
  const first = await store.rotateSecret(once());
  assert.ok(first.outcome === 'rotated');
  assert.deepEqual((await seenByNotifier())!.secrets, [first.secret, made.secret]);
  const { previousSecretUntil } = (await store.show(acme))!;
  assert.deepEqual(previousSecretUntil, first.previousSecretUntil);
  const hours = (previousSecretUntil.getTime() - Date.now()) / 3_600_000;
  assert.ok(hours > 23.9 && hours < 24.1, `${hours}`);

  const second = await store.rotateSecret(once());
  assert.ok(second.outcome === 'rotated');
  assert.deepEqual((await seenByNotifier())!.secrets, [second.secret, first.secret]);
});

test('a rotation under a known key is answered again, and makes and ends no secret', async (context) => {
  const { endpoints: store, seenByNotifier, owner } = await endpoints(context);
  await store.setUrl({ partnerId: acme, url });
  await store.setUrl({ partnerId: 'globex' as PartnerId, url });
  const first = await store.rotateSecret(once('key'));
  const [before, shown] = [await seenByNotifier(), await store.show(acme)];
  assert.deepEqual(await store.rotateSecret(once('key')), { ...first, outcome: 'replayed' });
  assert.deepEqual([await seenByNotifier(), await store.show(acme)], [before, shown]);
  const theirs = await store.rotateSecret({ ...once('key'), partnerId: 'globex' as PartnerId });
  assert.equal(theirs.outcome, 'rotated');

  const second = await store.rotateSecret(once('another'));
  // The day of both is over: what was answered is answered all the same.
  await owner.query('UPDATE partners.webhook_endpoints SET second_secret_until = now()');
  assert.deepEqual(await store.rotateSecret(once('key')), { ...first, outcome: 'replayed' });
  assert.deepEqual(await store.rotateSecret(once('another')), { ...second, outcome: 'replayed' });
});

test('one rotation that is asked for many times at once is one', async (context) => {
  const { endpoints: store, seenByNotifier } = await endpoints(context);
  const made = await store.setUrl({ partnerId: acme, url });
  assert.ok(made.outcome === 'made');
  const asked = Array.from({ length: 12 }, () => store.rotateSecret(once('storm')));
  const outcomes = await Promise.all(asked);
  assert.equal(outcomes.filter(({ outcome }) => outcome === 'rotated').length, 1);
  const secrets = new Set(outcomes.map((each) => 'secret' in each && each.secret));
  assert.deepEqual((await seenByNotifier())!.secrets, [...secrets, made.secret]);
});

test('rotations at the same time leave the two that came last', async (context) => {
  const { endpoints: store, seenByNotifier } = await endpoints(context);
  await store.setUrl({ partnerId: acme, url });
  const rotated = await Promise.all(Array.from({ length: 8 }, () => store.rotateSecret(once())));
  const shown = rotated.map((each) => (each.outcome === 'rotated' ? each.secret : 'none'));
  const { secrets } = (await seenByNotifier())!;
  assert.equal(new Set(secrets).size, 2);
  assert.ok(secrets.every((secret) => shown.includes(secret)));
});

test('the secret before the newest stops signing when its day is over', async (context) => {
  const { owner, endpoints: store, seenByNotifier } = await endpoints(context);
  await store.setUrl({ partnerId: acme, url });
  const rotated = await store.rotateSecret(once());
  assert.ok(rotated.outcome === 'rotated');
  await owner.query('UPDATE partners.webhook_endpoints SET second_secret_until = now()');
  assert.deepEqual((await seenByNotifier())!.secrets, [rotated.secret]);
  assert.equal((await store.show(acme))!.previousSecretUntil, undefined);
});

test('a partner without an endpoint has no secret to rotate', async (context) => {
  const { endpoints: store, seenByNotifier } = await endpoints(context);
  assert.deepEqual(await store.rotateSecret(once()), { outcome: 'no-endpoint' });
  assert.equal(await seenByNotifier(), undefined);
});

test('the gateway can neither read nor write a secret but by setting and rotating, nor verify an endpoint', async (context) => {
  const { gateway, endpoints: store } = await endpoints(context);
  await store.setUrl({ partnerId: acme, url });
  for (const forbidden of [
    'SELECT secrets FROM partners.webhook_endpoints',
    'SELECT rotations FROM partners.webhook_endpoints',
    `UPDATE partners.webhook_endpoints SET secrets = '["whsec_mine"]'`,
    'UPDATE partners.webhook_endpoints SET verified_url = url',
    'SELECT FROM partners.take_endpoint_questions(1, false)',
    'SELECT FROM partners.open_webhook_endpoints',
    `SELECT FROM partners.rotate_secret_as('acme', NULL, 'key', '{}', 'ada', 'lost', true)`,
    `SELECT partners.verify_webhook_endpoint(gen_random_uuid(), now(), 'mine')`,
    `SELECT partners.answer_webhook_test(NULL, NULL, 'delivered', 200, 1)`,
    'UPDATE partners.webhook_endpoints SET second_secret_until = now()',
    'DELETE FROM partners.webhook_endpoints',
  ]) {
    await assert.rejects(gateway.query(forbidden), /permission denied/, forbidden);
  }
});

test('nobody else may rotate a secret', async (context) => {
  const store = await createTestDatabase(context);
  const rotate = `SELECT * FROM partners.rotate_webhook_secret('acme', NULL, 'key', '{}'::jsonb)`;
  for (const role of ['triplock_notifier', 'triplock_auditor', 'triplock_ledger'] as const) {
    await assert.rejects(store.open(role).query(rotate), /permission denied/, role);
  }
});

const anotherKey = `newer:${Buffer.alloc(32, 8).toString('base64')}`;

test('no webhook secret is stored as it is: neither its own row nor another table shows one', async (context) => {
  const { owner, endpoints: store } = await endpoints(context);
  const made = await store.setUrl({ partnerId: acme, url });
  assert.ok(made.outcome === 'made');
  const rotated = await store.rotateSecret(once());
  assert.ok(rotated.outcome === 'rotated');
  const tables = await owner.query<{ name: string }>(
    `SELECT format('%I.%I', table_schema, table_name) AS name FROM information_schema.tables
     WHERE table_schema = 'partners' AND table_type = 'BASE TABLE'`,
  );
  assert.ok(tables.length >= 4);
  for (const { name } of tables) {
    const rows = await owner.query<{ row: string }>(`SELECT t::text AS row FROM ${name} AS t`);
    for (const secret of [made.secret, rotated.secret]) {
      const bytes = Buffer.from(secret.slice('whsec_'.length), 'base64');
      for (const form of [secret, secret.slice(6), bytes.toString('hex')]) {
        assert.ok(!JSON.stringify(rows).includes(form), name);
      }
    }
  }
  for (const plain of ['["whsec_plain"]', '[{"id": "1", "key": "k"}]', '[[{}]]']) {
    await assert.rejects(
      owner.query('UPDATE partners.webhook_endpoints SET secrets = $1::jsonb', [plain]),
      { code: '23514' },
      plain,
    );
  }
});

test('a secret opens for its own partner only, and only as it was sealed', () => {
  const globex = 'globex' as PartnerId;
  const sealed = webhookKeys.seal(acme, 'whsec_one');
  assert.equal(webhookKeys.open(acme, sealed), 'whsec_one');
  assert.notEqual(webhookKeys.seal(acme, 'whsec_one').box, sealed.box, 'a nonce is used once');
  const other = webhookKeys.seal(acme, 'whsec_two');
  const bytes = Buffer.from(sealed.box, 'base64');
  bytes[15]! ^= 1;
  for (const [partner, altered] of [
    [globex, sealed],
    [acme, { ...sealed, id: other.id }],
    [acme, { ...sealed, box: bytes.toString('base64') }],
    [acme, { ...sealed, box: sealed.box.slice(0, 8) }],
  ] as const) {
    assert.throws(() => webhookKeys.open(partner, altered), /is not what was sealed/);
  }
  const another = parseWebhookKeys(anotherKey);
  assert.throws(() => another.open(acme, sealed), {
    name: 'MissingWebhookKeyError',
    message: /acme's webhook secret is sealed with the key test, which WEBHOOK_KEYS lacks: add it/,
  });
  for (const malformed of [
    '',
    'a',
    'a:b',
    `${anotherKey},${anotherKey}`,
    ` : ${'A'.repeat(43)}=`,
  ]) {
    assert.throws(() => parseWebhookKeys(malformed), /expected ID:KEY on a line/);
  }
});

test('a partner does as much to its endpoints within a day as it may, may delete them, and keeps nobody else from theirs', async (context) => {
  const { owner, endpoints: store } = await endpoints(context);
  // What it did yesterday does not count.
  await owner.query(`INSERT INTO partners.acts (act, partner_id, done_by, done_at)
    SELECT 'set-endpoint', 'acme', 'partner acme', now() - interval '25 hours'
    FROM generate_series(1, 300)`);
  await owner.query(`INSERT INTO partners.acts (act, partner_id, done_by, done_at)
    SELECT 'set-endpoint', 'acme', 'partner acme', now() - interval '23 hours'
    FROM generate_series(1, 190)`);
  const made = await store.setUrl({ partnerId: acme, url });
  const tries = await Promise.allSettled(
    Array.from({ length: 30 }, (_, n) => store.setUrl({ partnerId: acme, url: `${url}/${n}` })),
  );
  const refused = tries.filter(({ status }) => status === 'rejected');
  assert.deepEqual([tries.length - refused.length, refused.length], [9, 21]);
  for (const { reason } of refused as PromiseRejectedResult[]) {
    assert.ok(reason instanceof DoneTooOftenError, String(reason));
    const hour = 3_600;
    assert.ok(reason.retryAfterSeconds > hour / 2 && reason.retryAfterSeconds <= hour);
  }
  await assert.rejects(store.rotateSecret(once()), DoneTooOftenError);
  const same = { partnerId: acme, url: (await store.show(acme))!.url };
  assert.equal((await store.setUrl(same)).outcome, 'changed', 'what changes nothing is no act');
  assert.equal(await store.delete({ partnerId: acme, id: made.endpoint.id }), true);
  const other = await store.setUrl({ partnerId: 'globex' as PartnerId, url });
  assert.equal(other.outcome, 'made');
});
