import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { pathToFileURL } from 'node:url';
import { parseWebhookKeys, seedPartner } from '@triplock/partners';
import type { PartnerId } from '@triplock/payments';
import { openForCommand, type DatabaseRole } from '@triplock/postgres';
import {
  compileCache,
  createTestDatabase,
  eventually,
  freePort,
  openCommands,
  startService,
  testNamespace,
  testWebhookKeys,
} from '@triplock/testing';
import { cloneFolder } from '../home.ts';
import { usualNames, type Names } from '../names.ts';
import { pubsubProject } from '../parts/pubsub.ts';
import { declarations, mainOf } from '../services.ts';
import { asUsed, createKafkaWithAuthorizer } from '../test/kafka-authorizer.ts';
import { createPubSubWithIam } from '../test/pubsub-iam.ts';
import { settingsOfNames } from '../wiring.ts';
import { kafkaRights } from '../test/broker-rights.ts';
import { createKafkaTopics } from './topics.ts';

/** A broker and a Pub/Sub where every service may do what its row says. */
async function brokersWithRights(t: TestContext) {
  const broker = await createKafkaWithAuthorizer(t, kafkaRights);
  const pubsub = await createPubSubWithIam(t);
  const names: Names = { ...usualNames, ...pubsub.names };
  await createKafkaTopics(broker.brokers, names);
  return { broker, pubsub, names };
}
type Brokers = Awaited<ReturnType<typeof brokersWithRights>>;

/**
 * Every service as a process of its own, with its rights alone. One after the other: each asks the
 * broker about its topics while it starts, and starts all the same when the answer comes too late.
 */
async function allServices(t: TestContext, { broker, pubsub, names }: Brokers) {
  const store = await createTestDatabase(t);
  const apiKey = await aPartner(store.url('triplock_partners'));
  const http = await freePort();
  const started = [];
  for (const declared of declarations) {
    const { name, role, kafka, events, claims, provider } = declared;
    const main = pathToFileURL(join(cloneFolder, mainOf(declared)));
    const service = startService(t, main, {
      TRIPLOCK_MODE: 'test',
      ADMIN_PORT: String(await freePort()),
      HTTP_PORT: String(http),
      ...('CONSOLE_PORT' in declared.settings && {
        CONSOLE_PORT: String(await freePort()),
        CONSOLE_LOGIN: 'none',
      }),
      DATABASE_URL: store.url(role as DatabaseRole),
      ...settingsOfNames(names)[name],
      ...(claims && { CLAIMS: 'postgres' }),
      ...(claims && {
        CLAIMS_DATABASE_URL: store.url(
          claims === 'takes' ? 'triplock_claims' : (role as DatabaseRole),
        ),
      }),
      ...(provider === 'charges' && { STRIPE_API_KEY: 'sk_test_nobody' }),
      // The operator's commands speak to Kafka by the other library.
      ...(kafka && { ...broker.settingsAs(name), KAFKA_CLIENT: 'platformatic' }),
      ...(events && { PUBSUB_PROJECT_ID: pubsubProject }),
      ...(events && { PUBSUB_EMULATOR_HOST: pubsub.proxies[name]!.emulatorHost }),
    });
    await service.ready();
    started.push({ name, ...service });
  }
  const key = testNamespace('order');
  const pay = () =>
    fetch(`http://127.0.0.1:${http}/v1/payments`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${apiKey}`,
        'content-type': 'application/json',
        'idempotency-key': key,
      },
      body: JSON.stringify({ amount: 1999, currency: 'EUR' }),
    });
  return { store, started, pay };
}

/** Makes a partner, and leaves no session behind; gives its API key. */
async function aPartner(url: string): Promise<string> {
  const database = openForCommand({ url, applicationName: 'partners' });
  const apiKey = testNamespace('key');
  const webhookSecret = `whsec_${Buffer.alloc(32, 1).toString('base64')}`;
  const endpoint = { webhookUrl: 'http://127.0.0.1:9/', webhookSecret };
  const seed = { id: 'acme' as PartnerId, apiKey, ...endpoint };
  await seedPartner(database, seed, parseWebhookKeys(testWebhookKeys));
  await database.close();
  return apiKey;
}

type Counts = Readonly<Record<string, number>>;

test('every service works with the rights of its row, over TLS and logged in, and uses each of them', async (t) => {
  const brokers = await brokersWithRights(t);
  const { broker, pubsub } = brokers;
  await appendPoison(brokers);
  const { store, started, pay } = await allServices(t, brokers);
  const id = await accepted(pay);
  const auditor = started.find(({ name }) => name === 'auditor')!;
  await eventually(
    async () => {
      const { counts } = (await (await auditor.admin('/audit', 'POST')).json()) as {
        counts: Counts;
      };
      const expected = { accepted: 2, ledger: 1, deadLettered: 1, published: 1, inbox: 1 };
      assert.partialDeepStrictEqual(counts, expected);
      return true;
    },
    { withinMs: 120_000, what: 'the payment in every layer' },
  );
  const operator = operatorOn(t, brokers, store.url());
  await operator(['trace', id]);
  const who = ['--by', 'ada', '--why', 'to try it'];
  await operator(['dead-letters', 'redrive', await anyDeadLetter(operator), ...who]);
  await refuseMessage(store);
  const refused = 'refused:partner-notifier:1';
  await operator(['dead-letters', 'redrive', refused, ...who]);
  const mistrusting = operatorOn(t, brokers, store.url(), { NODE_EXTRA_CA_CERTS: '' });
  for (const KAFKA_CLIENT of ['kafkajs', 'platformatic']) {
    const list = ['dead-letters', 'list'];
    // By PLAIN, for brokers that know nothing else.
    await operator(list, { KAFKA_CLIENT, KAFKA_SASL: 'plain' });
    await assert.rejects(mistrusting(list, { KAFKA_CLIENT }), /self-signed certificate/);
    const another = operator(list, { KAFKA_CLIENT, KAFKA_PASSWORD: 'another' });
    await assert.rejects(another, /[Aa]uthentication failed/);
  }
  const ends = await Promise.all(started.map((each) => each.terminate()));
  const hour = new Date(Date.now() - 3_600_000).toISOString();
  await operator(['rewind', '--since', hour, '--yes', ...who]);

  for (const [user, rights] of Object.entries(kafkaRights)) {
    assert.deepEqual(broker.refusedTo(user), [], `${user}: broker-rights.ts lacks a right`);
    assert.deepEqual(broker.usedBy(user), asUsed(rights), `${user}: used, and given`);
  }
  for (const [service, { granted, used, refused }] of Object.entries(pubsub.proxies)) {
    assert.deepEqual(refused(), [], `${service}: broker-rights.ts lacks a right`);
    assert.deepEqual(used(), granted, `${service}: used, and given`);
  }
  const written = ends.map(({ stdout, stderr }) => stdout + stderr).join('\n');
  for (const user of Object.keys(kafkaRights)) {
    assert.ok(!written.includes(broker.settingsAs(user)['KAFKA_PASSWORD']!), `${user}'s password`);
  }
});

/** Tries again as a partner does: a gateway that hears nothing of Kafka in time answers 503. */
async function accepted(pay: () => Promise<Response>): Promise<string> {
  const { id } = await eventually(
    async () => {
      const answer = await pay();
      const body = await answer.text();
      if (answer.status !== 202) throw new Error(`${answer.status}: ${body}`);
      return JSON.parse(body) as { id: string };
    },
    { withinMs: 60_000, what: 'the 202' },
  );
  return id;
}

async function appendPoison({ broker, names }: Brokers): Promise<void> {
  const producer = broker.superUser.producer();
  await producer.connect();
  await producer.send({ topic: names.acceptedTopic, messages: [{ value: 'no payment' }] });
  await producer.disconnect();
}

/**
 * The operators' commands as they are run elsewhere, as the user `operator`; all in one process,
 * which trusts the certificates that it was started with.
 */
function operatorOn(t: TestContext, { broker, pubsub }: Brokers, database: string, more = {}) {
  const environment = {
    ...compileCache(),
    TRIPLOCK_MODE: 'test',
    DATABASE_URL: database,
    CLAIMS: 'postgres',
    CLAIMS_DATABASE_URL: database,
    PUBSUB_PROJECT_ID: pubsubProject,
    PUBSUB_EMULATOR_HOST: pubsub.proxies['operator']!.emulatorHost,
    EVENTS_TOPIC: pubsub.names.eventsTopic,
    EVENTS_SUBSCRIPTIONS: Object.values(pubsub.names.subscriptions).join(','),
    ...broker.settingsAs('operator'),
    ...more,
  };
  const operate = new URL('../../../services/operator/operate.ts', import.meta.url);
  const run = openCommands(t, { module: operate, name: 'operateByWords' }, environment);
  return async (words: readonly string[], settings: Readonly<Record<string, string>> = {}) => {
    const ran = await run([...words, '--json'], { ...environment, ...settings });
    if (ran.code !== 0) throw new Error(ran.stderr);
    return ran.stdout;
  };
}

/** As a consumer keeps a message that is no event. */
async function refuseMessage(store: Awaited<ReturnType<typeof createTestDatabase>>): Promise<void> {
  await store.open().query(
    `INSERT INTO notifier.refused_messages
       (consumer, message_id, reason, detail, data, attributes)
     VALUES ('partner-notifier', '1', 'not_json', '', 'no event', '{"event_id": "1"}')`,
  );
}

async function anyDeadLetter(operator: ReturnType<typeof operatorOn>): Promise<string> {
  const { letters } = JSON.parse(await operator(['dead-letters', 'list'])) as {
    letters: { id: string }[];
  };
  return letters[0]!.id;
}
