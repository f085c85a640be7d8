import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { PartnerId } from '@triplock/payments';
import { openDatabase } from '@triplock/postgres';
import { createTestDatabase, freePort, testWebhookKeys } from '@triplock/testing';
import { generateApiKey, PartnersUnavailableError } from './api-keys.ts';
import { openPartners } from './partners.ts';
import { seedPartner, type PartnerSeed } from './partner-registry.ts';
import { parseWebhookKeys } from './webhook-endpoints.ts';

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
  assert.deepEqual(await partners.authenticate(seed.apiKey), {
    outcome: 'authenticated',
    cardNumbersAllowed: false,
    partnerId: 'acme',
  });
  assert.deepEqual(await partners.authenticate(generateApiKey(acme)), { outcome: 'refused' });
  await assert.rejects(partners.webhookEndpoint(acme), /permission denied/);
});

test('the notifier knows where webhooks go and never sees an API key', async (context) => {
  const { store, seed } = await seeded(context);
  const notifier = store.open('triplock_notifier');
  assert.partialDeepStrictEqual(
    await openPartners(notifier, { webhookKeys }).webhookEndpoint(acme),
    {
      url: seed.webhookUrl,
      secrets: [seed.webhookSecret],
    },
  );
  assert.equal(
    await openPartners(notifier, { webhookKeys }).webhookEndpoint('globex' as PartnerId),
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
  assert.deepEqual((await partners.webhookEndpoint(acme))?.secrets, [seed.webhookSecret]);
  const next = 'whsec_c2VjcmV0LXR3by1vZi1hY21lLTI0Ynl0ZXM=';
  await seedPartner(
    owner,
    { ...seed, webhookSecret: next, webhookUrl: 'http://127.0.0.1:2/' },
    webhookKeys,
  );
  assert.partialDeepStrictEqual(await partners.webhookEndpoint(acme), {
    url: 'http://127.0.0.1:2/',
    secrets: [next, seed.webhookSecret],
  });
  await seedPartner(owner, seed, webhookKeys);
  const { secrets } = (await partners.webhookEndpoint(acme))!;
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
