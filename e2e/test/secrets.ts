import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Message, PubSub } from '@google-cloud/pubsub';
import { topics } from '@triplock/contracts';
import type { Endpoints } from '@triplock/launcher';
import { eventually, openEmulator } from '@triplock/testing';
import { type IHeaders, Kafka, logLevel } from 'kafkajs';
import { newKey, type PartnerRequest } from './partner.ts';
import type { Setup } from './system.ts';

const mark = randomBytes(6).toString('hex');

/** A text that is nowhere else in the world, with the form of an identifier. */
export function planted(what: string): string {
  return `planted_${what}_${mark}`;
}

/** What partners put into requests that are accepted. */
export const submitted = {
  key: planted('key'),
  description: planted('description'),
  reference: planted('reference'),
  metadataName: planted('name'),
  metadataValue: planted('value'),
  reason: planted('reason'),
  paymentMethod: `pm_${planted('method')}`,
};

/** What they, or others, put into requests that are refused. */
export const refused = {
  apiKey: planted('wrong_api_key'),
  password: planted('password'),
  cookie: planted('cookie'),
  queryKey: planted('query_key'),
  cardNumber: cardNumber(),
  groupedCardNumber: cardNumber().replace(/\d{4}(?=\d)/g, '$& '),
  securityCode: planted('security_code'),
  fieldName: planted('field'),
  fieldValue: planted('field_value'),
  otherBody: planted('other_body'),
  urlPassword: planted('url_password'),
  stripeBody: planted('stripe_body'),
  stripeSignature: planted('stripe_signature'),
};

/** A number as a Visa card has one, with a right check digit (ISO/IEC 7812-1, annex B). */
function cardNumber(): string {
  const first = `4000${BigInt(`0x${mark}`).toString().padStart(15, '0').slice(-11)}`;
  const sum = [...first].reduce((total, digit, at) => {
    const doubled = at % 2 === 0 ? Number(digit) * 2 : Number(digit);
    return total + Math.floor(doubled / 10) + (doubled % 10);
  }, 0);
  return `${first}${(10 - (sum % 10)) % 10}`;
}

/** A card's number wherever a partner may write something, and its security code. */
export function requestsWithCardData(): PartnerRequest[] {
  const { cardNumber: alone, groupedCardNumber: grouped, securityCode } = refused;
  const pay = (fields: object, key = newKey()) => {
    const body = { amount: 700, currency: 'EUR', ...fields };
    return { path: '/v1/payments', key, body };
  };
  const refunds = '/v1/payments/00000000-0000-8000-8000-000000000000/refunds';
  const everywhere = [alone, grouped, `card ${alone}, 12/28`].flatMap((text) => [
    pay({ reference: text }),
    pay({ description: text }),
    pay({ metadata: { note: text } }),
    pay({ metadata: { [text]: 'a note' } }),
    pay({ [text]: 1 }),
    pay({}, JSON.stringify(text)),
    { path: refunds, key: newKey(), body: { reason: text } },
  ]);
  const code = pay({ metadata: { cvv: securityCode } });
  return [...everywhere, pay({ payment_method: alone }), code];
}

/** What is about a webhook and not in it. */
export const endpoint = {
  token: planted('token'),
  answerBody: planted('answer_body'),
  answerHeader: planted('answer_header'),
};

/** What a stranger wrote to the brokers. */
export const poison = {
  key: planted('poison_key'),
  value: planted('poison_value'),
  forgedKey: planted('forged_key'),
  header: planted('poison_header'),
  event: planted('poison_event'),
};

/** A trace of 16 bytes and a span of 8 (W3C Trace Context). */
export const traceId = `${mark}${randomBytes(10).toString('hex')}`;
export const traceparent = `00-${traceId}-${mark}0001-01`;

/** What the system itself was made with: credentials of partners, database and provider. */
export function ownSecrets(system: Endpoints): Record<string, string> {
  const urls = Object.entries({ ...system.databases, owner: system.postgres });
  const passwords = urls.map(([role, url]) => [`password of ${role}`, new URL(url).password]);
  const partners = system.partners.flatMap(({ id, apiKey, webhookSecret }) => [
    [`API key of ${id}`, apiKey],
    [`webhook secret of ${id}`, webhookSecret],
  ]);
  return Object.fromEntries([
    ...passwords,
    ...partners,
    ['token of the home', system.controlToken],
    ...sealingKeysOf(system).map((key, n) => [`sealing key ${n}`, key]),
    ['STRIPE_API_KEY', 'sk_test_triplock'],
    ['STRIPE_WEBHOOK_SECRETS', 'whsec_triplock_simulator'],
  ]) as Record<string, string>;
}

/** What secrets are sealed with; of a system in containers only its volumes have it. */
function sealingKeysOf({ home }: Endpoints): string[] {
  const files = ['webhook-keys', 'action-keys'].map((name) => join(home, name)).filter(existsSync);
  const lines = files.map((file) => readFileSync(file, 'utf8')).join('\n');
  return [...lines.matchAll(/:(\S+)/g)].map(([, key]) => key!);
}

/** Writes to both brokers what no service of ours would: two records and an event. */
export async function writePoison(system: Endpoints): Promise<void> {
  const kafka = new Kafka({ brokers: [system.kafka], logLevel: logLevel.NOTHING });
  const producer = kafka.producer();
  const headers = { 'x-note': poison.header, partner_id: 'acme' };
  const forged = { schema: 1, kind: 'payment', idempotency_key: poison.forgedKey };
  await producer.connect();
  await producer.send({
    topic: topics.accepted,
    messages: [
      { key: poison.key, value: `{"half": "${poison.value}`, headers },
      { key: poison.key, value: JSON.stringify(forged), headers },
    ],
  });
  await producer.disconnect();

  const { pubsub: emulatorHost, pubsubProject: projectId } = system;
  const pubsub = await openEmulator({ projectId, emulatorHost });
  const event = { data: Buffer.from(poison.event), attributes: { [poison.event]: poison.event } };
  await pubsub.topic(topics.events).publishMessage(event);
  await pubsub.close();
}

/** Where words of a running system go that somebody other than their owner may read. */
export const outlets = [
  ...['log', 'accepted record', 'dead letter', 'event', 'metrics', 'error answer'],
  ...['audit', 'trace', 'dead-letters list'],
] as const;
export type Outlet = (typeof outlets)[number];

/** Everything that went to each outlet. */
type WentOut = ReadonlyMap<string, Buffer>;

/** What the brokers took from a moment on. */
export type Listener = {
  records(topic: string): Buffer;
  events(): Buffer;
  close(): Promise<void>;
};

/** Begins to listen to both Kafka topics and to the events, as one more consumer of each. */
export async function listen({ system }: Setup): Promise<Listener> {
  const name = `e2e-listener-${randomBytes(6).toString('hex')}`;
  const since = Date.now();
  const events: Message[] = [];
  const pubsub = await openEmulator({
    projectId: system.pubsubProject,
    emulatorHost: system.pubsub,
  });
  const subscription = await subscribe(pubsub, name, (message) => void events.push(message));

  const kafka = new Kafka({ clientId: name, brokers: [system.kafka], logLevel: logLevel.NOTHING });
  const consumer = kafka.consumer({ groupId: name });
  const records: { topic: string; bytes: Buffer }[] = [];
  await consumer.connect();
  await consumer.subscribe({
    topics: [topics.accepted, topics.deadLetter, topics.told],
    fromBeginning: true,
  });
  await consumer.run({
    eachMessage: async ({ topic, message }) => {
      if (Number(message.timestamp) < since) return;
      const { key, value, headers = {} } = message;
      records.push({ topic, bytes: linesOf([key, headerBytes(headers), value]) });
    },
  });
  return {
    records: (topic) =>
      linesOf(records.filter((each) => each.topic === topic).map(({ bytes }) => bytes)),
    events: () =>
      linesOf(
        events.flatMap(({ data, attributes }) => [data, Buffer.from(JSON.stringify(attributes))]),
      ),
    async close() {
      await consumer.disconnect();
      await subscription.close();
      await subscription.delete();
      await pubsub.close();
    },
  };
}

async function subscribe(pubsub: PubSub, name: string, take: (message: Message) => void) {
  const [subscription] = await pubsub.topic(topics.events).createSubscription(name);
  subscription.on('message', (message: Message) => {
    take(message);
    message.ack();
  });
  // An emulator that was killed meanwhile is no matter of this listener's.
  subscription.on('error', () => undefined);
  return subscription;
}

function headerBytes(headers: IHeaders): Buffer {
  const values = Object.entries(headers).flatMap(([name, value]) => [name, value ?? []].flat());
  return linesOf(values.map((each) => Buffer.from(each)));
}

/** What every service's operators' port answers. */
export async function allMetrics({ system }: Setup): Promise<Buffer> {
  const urls = system.services.flatMap(({ metrics, ready, health }) => [metrics, ready, health]);
  const texts = urls.map(async (url) => (await fetch(url)).text());
  return Buffer.from((await Promise.all(texts)).join('\n'));
}

/** In which of the outlets a text stands: as it is, in base64, or as part of a URL. */
export function outletsOf(text: string, wentOut: WentOut): string[] {
  const forms = [text, Buffer.from(text).toString('base64'), encodeURIComponent(text)];
  const bytes = forms.map((form) => Buffer.from(form.replace(/=+$/, '')));
  return [...wentOut]
    .filter(([, everything]) => bytes.some((form) => everything.includes(form)))
    .map(([outlet]) => outlet);
}

function linesOf(parts: readonly (Buffer | null)[]): Buffer {
  const end = Buffer.from('\n');
  return Buffer.concat(parts.flatMap((part) => (part === null ? [] : [part, end])));
}

/** Its partner is shown it, and the secret, by `GET` alone. */
export async function pageToAuthenticateOn(
  read: (path: string) => Promise<object>,
  { txnId, intent }: { txnId: string; intent: { client_secret: string } },
): Promise<string> {
  type Shown = { next_action?: { client_secret: string; redirect_to_url: { url: string } } };
  const path = `/v1/payments/${txnId}`;
  const { next_action: next } = await eventually(async () => {
    const shown = (await read(path)) as Shown;
    return shown.next_action !== undefined && shown;
  });
  assert.equal(next?.client_secret, intent.client_secret);
  const listed = JSON.stringify(await read('/v1/payments'));
  assert.ok(listed.includes(txnId) && !listed.includes('next_action'));
  return next.redirect_to_url.url;
}
