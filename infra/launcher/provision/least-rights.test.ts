import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test, type TestContext } from 'node:test';
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
  openEmulator,
  startService,
  testNamespace,
  testWebhookKeys,
} from '@triplock/testing';
import type { Admin, ConfigResourceTypes, Kafka } from 'kafkajs';
import { cloneFolder } from '../home.ts';
import { usualNames, type Names } from '../names.ts';
import { pubsubProject } from '../parts/pubsub.ts';
import { declarations, mainOf, type SubscriptionName } from '../services.ts';
import {
  aclsOf,
  asUsed,
  createKafkaWithAuthorizer,
  type KafkaWithAuthorizer,
} from '../test/kafka-authorizer.ts';
import { createPubSubWithIam, type PubSubWithIam } from '../test/pubsub-iam.ts';
import { settingsOfNames } from '../wiring.ts';
import { kafkaRights } from '../broker-rights.ts';
import { createKafkaTopics } from './topics.ts';

/** A topic and a group that everybody may read, so that an act fails by what it is about alone. */
const common = { topic: 'common', group: 'common' };
const { acceptedTopic, deadLetterTopic, toldTopic } = usualNames;
/** May write and not look. */
const newcomer = 'newcomer';
const everybody = [
  'ingest-gateway',
  'ledger-worker',
  'outbox-dispatcher',
  'auditor',
  'operator',
  'nobody',
];

/**
 * Whoever has no part in a test is in nobody's way there, so one broker does for all. The first
 * test of it sees what each user asked for; later ones ask for more.
 */
let broker: KafkaWithAuthorizer;
const closing: (() => Promise<void>)[] = [];

before(async () => {
  broker = await createKafkaWithAuthorizer(
    { after: (close) => closing.push(close) },
    { ...kafkaRights, nobody: [], [newcomer]: [{ may: ['Write'], topic: acceptedTopic }] },
  );
  await createKafkaTopics(broker.brokers, usualNames);
});
after(() => Promise.all(closing.map((close) => close())));

/** The broker and a Pub/Sub where every service may do what its row says. */
async function brokersWithRights(t: TestContext) {
  const pubsub = await createPubSubWithIam(t);
  const names: Names = { ...usualNames, ...pubsub.names };
  return { broker, pubsub, names };
}
type Brokers = Awaited<ReturnType<typeof brokersWithRights>>;

/**
 * Every service as a process of its own, with its rights alone. One after the other: each asks the
 * broker about its topics while it starts, and starts all the same when the answer comes too late.
 */
async function allServices(t: TestContext, { broker, pubsub, names }: Brokers) {
  const store = await createTestDatabase(t);
  // As on another server: whether it has all that was told is looked up before anything is decided.
  await store
    .open()
    .query(`UPDATE ledger.continuity SET server = 'another', posted_on = 'another'`);
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
  // Some rights are for looks by the clock, the first one soon after a service's start.
  const services = Object.entries(kafkaRights).filter(([user]) => user !== 'operator');
  await eventually(
    async () => {
      for (const [user, rights] of services) assert.deepEqual(broker.usedBy(user), asUsed(rights));
      return true;
    },
    { withinMs: 60_000, what: 'every right that a service has' },
  );
  const ends = await Promise.all(started.map((each) => each.terminate()));
  const hour = new Date(Date.now() - 3_600_000).toISOString();
  await operator(['rewind', '--since', hour, '--yes', ...who]);

  for (const [user, rights] of Object.entries(kafkaRights)) {
    assert.deepEqual(
      broker.refusedTo(user),
      [],
      `${user}: its service.ts, or broker-rights.ts, lacks a right`,
    );
    assert.deepEqual(broker.usedBy(user), asUsed(rights), `${user}: used, and given`);
  }
  for (const [service, { granted, used, refused }] of Object.entries(pubsub.proxies)) {
    assert.deepEqual(
      refused(),
      [],
      `${service}: its service.ts, or broker-rights.ts, lacks a right`,
    );
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
  await producer.send({ topic: names.toldTopic, messages: [{ value: 'no event\n' }] });
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

const produce = (topic: string) => async (kafka: Kafka) => {
  const producer = kafka.producer({ idempotent: true, allowAutoTopicCreation: false });
  await producer.connect();
  const messages = [{ value: 'forged' }];
  await producer.send({ topic, messages }).finally(() => producer.disconnect());
};

/** Joins a group and reads the first record. */
const read =
  (topic: string, groupId = common.group) =>
  async (kafka: Kafka) => {
    const consumer = kafka.consumer({ groupId });
    const got = Promise.withResolvers<void>();
    got.promise.catch(() => undefined); // `run` may have rejected with the same before.
    consumer.on('consumer.crash', ({ payload }) => got.reject(payload.error));
    await consumer.connect();
    try {
      await consumer.subscribe({ topic, fromBeginning: true });
      await consumer.run({ autoCommit: false, eachMessage: async () => got.resolve() });
      await got.promise;
    } finally {
      await consumer.disconnect();
    }
  };

const administer = (work: (admin: Admin) => Promise<unknown>) => async (kafka: Kafka) => {
  const admin = kafka.admin();
  await admin.connect();
  await work(admin).finally(() => admin.disconnect());
};

const deleteRecords = (topic: string) =>
  administer(async (admin) => {
    await admin.fetchTopicOffsets(topic); // kafkajs deletes nothing of a topic that it has not met.
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '0' }] });
  });
const topicConfigs = { type: 2 as ConfigResourceTypes.TOPIC, name: acceptedTopic };
const shorter = [{ name: 'retention.ms', value: '1' }];

/** What can be done in Kafka, and who may: nobody else does. */
const acts: readonly (readonly [string, readonly string[], (kafka: Kafka) => Promise<unknown>])[] =
  [
    ['makes an accepted payment', ['ingest-gateway', 'operator'], produce(acceptedTopic)],
    ['makes a dead letter', ['ledger-worker'], produce(deadLetterTopic)],
    ['says what was told', ['outbox-dispatcher'], produce(toldTopic)],
    ['reads what was told', ['ledger-worker', 'operator'], read(toldTopic)],
    ['reads payments', ['ledger-worker', 'auditor', 'operator'], read(acceptedTopic)],
    ['reads dead letters', ['auditor', 'operator'], read(deadLetterTopic)],
    ['joins the workers', ['ledger-worker', 'operator'], read(common.topic, 'ledger-worker')],
    ['joins the auditors', ['auditor', 'operator'], read(common.topic, 'auditor')],
    ['drops payments', [], deleteRecords(acceptedTopic)],
    ['drops dead letters', [], deleteRecords(deadLetterTopic)],
    [
      'has payments kept for less long',
      [],
      administer((admin) =>
        admin.alterConfigs({
          validateOnly: true,
          resources: [{ ...topicConfigs, configEntries: shorter }],
        }),
      ),
    ],
    [
      'sees how payments are kept',
      ['ingest-gateway', 'ledger-worker', 'auditor'],
      administer((admin) =>
        admin.describeConfigs({ includeSynonyms: false, resources: [topicConfigs] }),
      ),
    ],
    [
      'makes a topic',
      [],
      administer((admin) => admin.createTopics({ topics: [{ topic: 'new' }] })),
    ],
    [
      'adds partitions',
      [],
      administer((admin) =>
        admin.createPartitions({ topicPartitions: [{ topic: acceptedTopic, count: 99 }] }),
      ),
    ],
    ['deletes a topic', [], administer((admin) => admin.deleteTopics({ topics: [acceptedTopic] }))],
    ['forgets a group', [], administer((admin) => admin.deleteGroups(['ledger-worker']))],
    [
      'gives rights',
      [],
      administer((admin) => admin.createAcls({ acl: aclsOf('nobody', kafkaRights.operator) })),
    ],
  ];

test('whoever has the password of a service, or one without rights, does nothing in Kafka but its work', async () => {
  await administer(async (admin) => {
    await admin.createTopics({ topics: [{ topic: common.topic }], waitForLeaders: false });
    const shared = [
      { may: ['Read'], topic: common.topic },
      { may: ['Read'], group: common.group },
    ] as const;
    await admin.createAcls({ acl: aclsOf('*', shared) });
  })(broker.superUser);
  for (const each of [common.topic, acceptedTopic, deadLetterTopic, toldTopic]) {
    await eventually(() => produce(each)(broker.superUser).then(() => true));
  }
  for (const groupId of [common.group, 'ledger-worker', 'auditor']) {
    // Until its coordinator is there, which is asked for a group for the first time.
    const look = administer((admin) => admin.fetchOffsets({ groupId, topics: [common.topic] }));
    await eventually(() => look(broker.superUser).then(() => true));
  }
  const seen: string[] = [];
  const meant: string[] = [];
  for (const [what, may, act] of acts) {
    // One after the other: two in one group would share its partition.
    for (const user of everybody) {
      const outcome = await act(broker.clientAs(user)).then(() => 'done', refusalIn);
      seen.push(`${user} ${what}: ${outcome}`);
      meant.push(`${user} ${what}: ${may.includes(user) ? 'done' : 'refused'}`);
    }
  }
  assert.deepEqual(seen, meant);
  // Some of those outcomes were that no coordinator was found, which has other causes too: here the
  // broker's own log says that it was a refusal.
  const refused = broker.refusedTo('nobody');
  for (const group of ['ledger-worker', 'auditor']) {
    assert.ok(refused.includes(`DESCRIBE Group:LITERAL:${group}`), refused.join());
  }
  const listTopics = administer((admin) => admin.listTopics());
  await listTopics(broker.clientAs('auditor', { mechanism: 'plain' }));
  for (const mechanism of ['plain', 'scram-sha-512'] as const) {
    const wrong = broker.clientAs('auditor', { mechanism, password: 'another' });
    await assert.rejects(listTopics(wrong), { name: 'KafkaJSSASLAuthenticationError' });
  }
});

test('a service that Kafka does not let look at its topic, or log in, does not start in production, and says what to give it', async (t) => {
  const store = await createTestDatabase(t);
  const start = async (more: Readonly<Record<string, string>>) =>
    startService(t, new URL('../../../services/ingest-gateway/main.ts', import.meta.url), {
      ADMIN_PORT: String(await freePort()),
      HTTP_PORT: String(await freePort()),
      ALLOW_INSECURE_DATABASE: 'true',
      DATABASE_URL: store.url('triplock_gateway'),
      CLAIMS: 'postgres',
      CLAIMS_DATABASE_URL: store.url('triplock_claims'),
      ...broker.settingsAs(newcomer),
      ...more,
    });
  const refused = {
    'give newcomer DescribeConfigs on the topic': {},
    'it does not know newcomer with this password': { KAFKA_PASSWORD: 'another' },
  };
  for (const [next, more] of Object.entries(refused)) {
    const { exitCode, stdout, stderr } = await (await start(more)).ended;
    const written = stdout + stderr;
    assert.equal(exitCode, 1, written);
    assert.match(written, new RegExp(`topic ${acceptedTopic}: Kafka refused .*: ${next}`));
    assert.ok(written.includes('docs/operating.md'), written);
  }
  const unknown = await start({ TRIPLOCK_MODE: 'test', KAFKA_PASSWORD: 'another' });
  const answer = await eventually(() => unknown.admin('/readyz'));
  assert.equal(answer.status, 503);
  assert.match(await answer.text(), /kafka.*Authentication failed/);
  const tried = await start({ TRIPLOCK_MODE: 'test' });
  await tried.ready();
  const { stdout } = await tried.terminate();
  assert.match(stdout, /Kafka did not report its replication: not checked/);
});

/** What kafkajs throws about one thing, or about several. */
type KafkajsError = {
  name?: string;
  type?: string;
  errors?: unknown[];
  groups?: { error: unknown }[];
  partitions?: { error: unknown }[];
  cause?: unknown;
};

/** What a broker refuses has a code of its own for each kind of thing; all else is no refusal. */
function refusalIn(error: unknown): string {
  const { name, type, errors = [], groups = [], partitions = [], cause } = error as KafkajsError;
  if (type?.endsWith('_AUTHORIZATION_FAILED')) return 'refused';
  // All that kafkajs says when it may not ask who coordinates a group; here every group has one.
  if (name === 'KafkaJSGroupCoordinatorNotFound') return 'refused';
  const inner = [...errors, ...[...groups, ...partitions].map((each) => each.error), cause];
  const known = inner.filter((each) => each !== undefined && each !== null).map(refusalIn);
  return known.find((each) => each === 'refused') ?? String(error);
}

const path = (name: string) => `projects/${pubsubProject}/${name}`;

/** Calls of Pub/Sub's API, each of what is there, and who may make them. */
function callsTo({ eventsTopic, subscriptions }: PubSubWithIam['names']): readonly Call[] {
  const topic = path(`topics/${eventsTopic}`);
  const publishers = declarations.filter(({ events }) => events?.does === 'publish');
  const withInbox = declarations.filter(({ inbox }) => inbox);
  const getsTopic = [...publishers, ...withInbox].map(({ name }) => name);
  return [
    // The operator's own are messages that a consumer refused, published again.
    [
      'publish',
      [...publishers.map(({ name }) => name), 'operator'],
      { topic, messages: [{ data: Buffer.from('forged') }] },
    ],
    ['getTopic', getsTopic, { topic }],
    ['createTopic', [], { name: path(`topics/${eventsTopic}-new`) }],
    ['updateTopic', [], { topic: { name: topic }, updateMask }],
    ['deleteTopic', [], { topic }],
    ['createSubscription', [], { name: path(`subscriptions/${eventsTopic}-new`), topic }],
    ...declarations.flatMap(({ name, events }) =>
      events?.does === 'receive'
        ? callsOfConsumer(name, subscriptions[events.subscription as SubscriptionName])
        : [],
    ),
  ];
}
type Call = readonly [method: string, may: readonly string[], request: object];

const updateMask = { paths: ['labels'] };
const pushConfig = { pushEndpoint: 'https://evil.example/' };

/** Those to the subscription of one consumer. */
function callsOfConsumer(consumer: string, name: string): readonly Call[] {
  const subscription = path(`subscriptions/${name}`);
  const may = [consumer, 'operator'];
  return [
    ['pull', may, { subscription, maxMessages: 1, returnImmediately: true }],
    ['acknowledge', may, { subscription, ackIds: ['nothing'] }],
    ['modifyAckDeadline', may, { subscription, ackIds: ['nothing'], ackDeadlineSeconds: 10 }],
    ['seek', may, { subscription, time: { seconds: 1 } }],
    ['getSubscription', [consumer], { subscription }],
    ['updateSubscription', [], { subscription: { name: subscription }, updateMask }],
    ['modifyPushConfig', [], { subscription, pushConfig }],
    ['deleteSubscription', [], { subscription }],
    ['createSnapshot', [], { name: path('snapshots/new'), subscription }],
  ];
}

/** Statuses of gRPC (grpc.io/docs/guides/status-codes). */
const permissionDenied = 7;
/** What says nothing about rights: out of time, an error inside, and nobody there. */
const broken = [4, 13, 14];

test('whoever has the account of a service calls nothing of Pub/Sub but its work', async (t) => {
  const { names, proxies } = await createPubSubWithIam(t);
  for (const [service, { emulatorHost }] of Object.entries(proxies)) {
    const pubsub = await openEmulator({ projectId: pubsubProject, emulatorHost });
    t.after(() => pubsub.close());
    for (const [method, may, reqOpts] of callsTo(names)) {
      const client = /topic$|publish/i.test(method) ? 'PublisherClient' : 'SubscriberClient';
      const gaxOpts = { timeout: 10_000, retry: null };
      const { promise: code, resolve } = Promise.withResolvers<number>();
      pubsub.request<object>({ client, method, reqOpts, gaxOpts }, (error) => {
        resolve(error?.code ?? 0);
      });
      const what = `${service}: ${method} ${JSON.stringify(reqOpts)} got ${await code}`;
      assert.equal((await code) === permissionDenied, !may.includes(service), what);
      assert.ok(!broken.includes(await code), what);
    }
  }
});
