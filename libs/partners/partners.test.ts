import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import type { EndpointId, Fingerprint, IdempotencyKey, PartnerId } from '@triplock/payments';
import { openDatabase } from '@triplock/postgres';
import { createTestDatabase, freePort, testWebhookKeys } from '@triplock/testing';
import { generateApiKey, PartnersUnavailableError } from './api-keys.ts';
import { openPartners } from './partners.ts';
import { seedPartner, type PartnerSeed } from './partner-registry.ts';
import { endpointsMax, openWebhookEndpoints } from './webhook-endpoints.ts';
import { firstEndpoint } from './test/webhook-deliveries.ts';
import { parseWebhookKeys } from './webhook-secrets.ts';

const acme = 'acme' as PartnerId;
const webhookKeys = parseWebhookKeys(testWebhookKeys);

function aSeed(wish: Partial<PartnerSeed> = {}): PartnerSeed {
  return {
    id: acme,
    apiKey: generateApiKey(wish.id ?? acme),
    webhookUrl: 'http://127.0.0.1:1/hooks/acme',
    webhookSecret: 'whsec_c2VjcmV0LW9uZS1vZi1hY21lLTI0Ynl0ZXM=',
    ...wish,
  };
}

async function seeded(context: TestContext) {
  const store = await createTestDatabase(context);
  const owner = store.open();
  const seed = aSeed();
  await seedPartner(owner, seed, webhookKeys);
  return { store, owner, seed };
}

test('the gateway knows a partner by its key and never sees a webhook secret', async (context) => {
  const { store, seed } = await seeded(context);
  const gateway = store.open('triplock_gateway');
  const partners = openPartners(gateway);
  assert.partialDeepStrictEqual(await partners.authenticate(seed.apiKey), {
    outcome: 'authenticated',
    cardNumbersIn: [],
    scope: 'full',
    partnerId: 'acme',
    expiresAtMs: Infinity,
  });
  assert.deepEqual(await partners.authenticate(generateApiKey(acme)), { outcome: 'refused' });
  await assert.rejects(partners.webhookEndpoint(await firstEndpoint(store.open())), /permission/);
});

test('the notifier knows where webhooks go and never sees an API key', async (context) => {
  const { store, seed } = await seeded(context);
  const notifier = store.open('triplock_notifier');
  assert.partialDeepStrictEqual(
    await openPartners(notifier, { webhookKeys }).webhookEndpoint(
      await firstEndpoint(store.open()),
    ),
    {
      url: seed.webhookUrl,
      secrets: [seed.webhookSecret],
    },
  );
  assert.equal(
    await openPartners(notifier, { webhookKeys }).webhookEndpoint(
      await firstEndpoint(store.open(), 'globex'),
    ),
    undefined,
  );
  await assert.rejects(notifier.query('SELECT FROM partners.api_keys'), /permission denied/);
});

test('neither an API key nor a webhook secret is readable to the auditor', async (context) => {
  const { store } = await seeded(context);
  const auditor = store.open('triplock_auditor');
  await auditor.query('SELECT url FROM partners.open_webhook_endpoints');
  for (const column of [
    'webhook_endpoints.secrets',
    'open_webhook_endpoints.secrets',
    'api_keys.sha256',
  ]) {
    const [table] = column.split('.');
    const sql = `SELECT ${column} FROM partners.${table}`;
    await assert.rejects(auditor.query(sql), /permission denied/, column);
  }
});

test('no API key is stored as it is', async (context) => {
  const { owner, seed } = await seeded(context);
  const rows = await owner.query<{ row: string }>(
    'SELECT encode(sha256, $1) || api_keys::text AS row FROM partners.api_keys',
    ['escape'],
  );
  assert.equal(rows.length, 1);
  assert.ok(!rows[0]!.row.includes(seed.apiKey));
});

test('endpoints that are asked for together are each their own, and one secret that cannot be opened is its partner’s alone', async (context) => {
  const { store, owner, seed } = await seeded(context);
  const globex = { ...seed, id: 'globex' as PartnerId, apiKey: generateApiKey(acme) };
  const otherKeys = parseWebhookKeys(testWebhookKeys.replace('test', 'other'));
  await seedPartner(owner, { ...globex, webhookUrl: 'http://127.0.0.1:2/' }, otherKeys);
  const partners = openPartners(store.open('triplock_notifier'), { webhookKeys });
  const ofAcme = await firstEndpoint(owner, 'acme');
  const ids = [ofAcme, await firstEndpoint(owner, 'globex'), randomUUID() as EndpointId, ofAcme];
  const asked = await Promise.allSettled(ids.map((id) => partners.webhookEndpoint(id)));
  const answers = asked.map((each) =>
    each.status === 'fulfilled' ? each.value?.url : (each.reason as Error).name,
  );
  const url = seed.webhookUrl;
  assert.deepEqual(answers, [url, 'MissingWebhookKeyError', undefined, url]);
});

test('a revoked key is refused', async (context) => {
  const { store, owner, seed } = await seeded(context);
  await owner.query('UPDATE partners.api_keys SET revoked_at = now()');
  const partners = openPartners(store.open('triplock_gateway'));
  assert.deepEqual(await partners.authenticate(seed.apiKey), { outcome: 'refused' });
});

test('seeding again changes nothing, and another secret rotates', async (context) => {
  const { owner, seed } = await seeded(context);
  await seedPartner(owner, seed, webhookKeys);
  const partners = openPartners(owner, { webhookKeys });
  const first = await firstEndpoint(owner);
  assert.deepEqual((await partners.webhookEndpoint(first))?.secrets, [seed.webhookSecret]);
  const next = 'whsec_c2VjcmV0LXR3by1vZi1hY21lLTI0Ynl0ZXM=';
  await seedPartner(
    owner,
    { ...seed, webhookSecret: next, webhookUrl: 'http://127.0.0.1:2/' },
    webhookKeys,
  );
  assert.partialDeepStrictEqual(await partners.webhookEndpoint(first), {
    url: 'http://127.0.0.1:2/',
    secrets: [next, seed.webhookSecret],
  });
  await seedPartner(owner, seed, webhookKeys);
  const { secrets } = (await partners.webhookEndpoint(first))!;
  assert.deepEqual(secrets, [next, seed.webhookSecret]);
});

test('a key is not given to a second partner', async (context) => {
  const { owner, seed } = await seeded(context);
  const globex = aSeed({ id: 'globex' as PartnerId, apiKey: seed.apiKey });
  await assert.rejects(seedPartner(owner, globex, webhookKeys), /another partner/);
  assert.deepEqual(await owner.query('SELECT id FROM partners.partners'), [{ id: 'acme' }]);
});

test('a database that is not there is distinguished from a wrong key', async (context) => {
  const database = openDatabase({
    url: `postgres://nobody@127.0.0.1:${await freePort()}/triplock`,
    applicationName: 'test',
    onIdleError: () => undefined,
  });
  context.after(() => database.close());
  const partners = openPartners(database);
  await assert.rejects(partners.authenticate('key'), PartnersUnavailableError);
  await assert.rejects(partners.ping());
  assert.equal(partners.stale(), true);
});

const url = 'https://partner.example/hooks';

/** Endpoints that partners set, as the notifier asks them, and moves of the clock of that. */
async function unverified(context: TestContext) {
  const database = await createTestDatabase(context);
  const owner = database.open();
  await owner.query(`INSERT INTO partners.partners (id) VALUES ('acme'), ('globex')`);
  const store = openWebhookEndpoints(database.open('triplock_gateway'), webhookKeys);
  const notifier = openPartners(database.open('triplock_notifier'), { webhookKeys });
  const take = async () =>
    (await notifier.takeQuestions(100, 'paced')).map(({ partnerId, url: to, asks }) => [
      partnerId,
      to,
      asks,
    ]);
  const later = (seconds: number) => owner.query(laterSql, [seconds]);
  return { owner, notifier, store, take, later };
}
const laterSql = `UPDATE partners.endpoint_verifications SET
  asked_at = asked_at - $1 * interval '1 second', next_at = next_at - $1 * interval '1 second'`;
const pauseSql = `SELECT extract(epoch FROM next_at - asked_at)::float8 AS pause
  FROM partners.endpoint_verifications`;

test('an endpoint that was set is asked at once, then after growing pauses, for about a day', async (context) => {
  const { store, take, later, owner } = await unverified(context);
  await store.setUrl({ partnerId: acme, url });
  assert.deepEqual([await take(), await take()], [[[acme, url, 1]], []]);
  await later(29);
  assert.deepEqual(await take(), []);
  let hours = 0;
  for (let asks = 2; asks <= 28; asks += 1) {
    const [{ pause } = assert.fail()] = await owner.query<{ pause: number }>(pauseSql);
    assert.equal(pause, Math.min(3_600, 30 * 2 ** (asks - 2)));
    hours += pause / 3_600;
    await later(pause);
    assert.deepEqual(await take(), [[acme, url, asks]]);
  }
  assert.ok(hours > 20 && hours < 25, `${hours}`);
  await later(86_400);
  assert.deepEqual(await take(), [], 'that was the last time');
  await store.setUrl({ partnerId: acme, url });
  assert.deepEqual(await take(), [[acme, url, 1]], 'until it is set, to the same URL too');
});

test('however often a partner sets its endpoint, one question in ten seconds leaves', async (context) => {
  const { store, take, later } = await unverified(context);
  const aims = Array.from({ length: 8 }, (_, n) => `https://victim-${n}.example/`);
  const taken: unknown[] = [];
  for (const aim of aims) {
    await store.setUrl({ partnerId: acme, url: aim });
    taken.push(...(await take()));
  }
  assert.deepEqual(taken, [[acme, aims[0], 1]]);
  await later(10);
  assert.deepEqual(await take(), [[acme, aims.at(-1), 1]]);
});

test('however many partners name one host, in whatever writing, it is asked five times in ten seconds', async (context) => {
  const { owner, store, take, later } = await unverified(context);
  const writings = ['victim.example', 'VICTIM.example', 'victim.example.', 'victim.example:8443'];
  const many = Array.from({ length: 19 }, (_, n) => `many-${n}` as PartnerId);
  for (const [n, partnerId] of many.entries()) {
    await owner.query('INSERT INTO partners.partners (id) VALUES ($1)', [partnerId]);
    await store.setUrl({ partnerId, url: `https://${writings[n % writings.length]}/${n}` });
  }
  await store.setUrl({ partnerId: acme, url });
  const atVictim = (taken: unknown[][]) => taken.filter(([, to]) => /victim/i.test(String(to)));
  const taken = (await Promise.all(Array.from({ length: 4 }, () => take()))).flat();
  assert.deepEqual([atVictim(taken).length, taken.length], [5, 6]);

  // Who leads elsewhere by now has asked the host all the same.
  for (const partnerId of many) await store.setUrl({ partnerId, url: 'https://other.example/' });
  await store.setUrl({ partnerId: 'globex' as PartnerId, url: 'https://victim.example/globex' });
  assert.deepEqual(atVictim(await take()), []);
  await later(10);
  assert.equal(atVictim(await take()).length, 1);
});

test('what was proved opens the version of the endpoint that was asked, and no other', async (context) => {
  const { store, notifier, owner } = await unverified(context);
  await store.setUrl({ partnerId: acme, url });
  const [{ id, version } = assert.fail()] = await notifier.takeQuestions(1, 'paced');
  const proved = { id, version };
  await store.setUrl({ partnerId: acme, url: `${url}/other` });
  assert.equal(await notifier.verifyEndpoint(proved, 'a test'), false, 'it leads elsewhere by now');
  assert.equal(await notifier.webhookEndpoint(id), undefined);
  await store.setUrl({ partnerId: acme, url });
  assert.equal(await notifier.verifyEndpoint(proved, 'a test'), false, 'it was set again since');
  assert.equal((await store.show(acme))!.verified, false);

  await owner.query('DELETE FROM partners.endpoint_verifications');
  const [again = assert.fail()] = await notifier.takeQuestions(1, 'paced');
  const anew = { ...proved, version: again.version };
  const other = { ...anew, id: randomUUID() as EndpointId };
  assert.equal(await notifier.verifyEndpoint(other, 'a test'), false);
  const opened = [
    await notifier.verifyEndpoint(anew, 'a test'),
    await notifier.verifyEndpoint(anew, 'a test'),
  ];
  assert.deepEqual(opened, [true, false]);
  assert.equal((await notifier.webhookEndpoint(id))!.url, url);
  const acts = `SELECT partner_id, subject, done_by, why FROM partners.acts
    WHERE act = 'verify-endpoint'`;
  assert.deepEqual(await owner.query(acts), [
    { partner_id: acme, subject: url, done_by: 'webhook sender', why: 'a test' },
  ]);
  assert.deepEqual(await notifier.takeQuestions(1, 'paced'), []);
});

test('of many endpoints of a partner five are asked in ten seconds, and each of them in the end', async (context) => {
  const { store, take, later, notifier } = await unverified(context);
  for (let n = 0; n < endpointsMax; n += 1) {
    await store.make({
      partnerId: acme,
      key: `key-${n}` as IdempotencyKey,
      fingerprint: 'one' as Fingerprint,
      url: `https://host-${n}.example`,
      wants: 'all',
    });
  }
  const [{ id } = assert.fail()] = await notifier.takeQuestions(1, 'paced');
  // Whoever deletes one has asked all the same.
  assert.equal(await store.delete({ partnerId: acme, id }), true);
  const asked = new Set<unknown>();
  for (let round = 0; round < 4; round += 1) {
    const taken = await take();
    assert.deepEqual([taken.length, await take()], [round === 0 ? 4 : 5, []]);
    for (const [, to] of taken) asked.add(to);
    await later(10);
  }
  assert.equal(asked.size, endpointsMax - 1);
});
