import { randomBytes } from 'node:crypto';
import type { Message, PubSub } from '@google-cloud/pubsub';
import { topics } from '@triplock/contracts';
import { openEmulator } from '@triplock/testing';
import { Kafka, logLevel, type IHeaders } from 'kafkajs';
import type { Stage } from './stage.ts';

/** Where words of a running system go that somebody other than their owner may read. */
export const places = [
  ...['log', 'accepted record', 'dead letter', 'event', 'metrics', 'error answer'],
  ...['audit', 'trace', 'dead-letters list'],
] as const;
export type Place = (typeof places)[number];

/** Everything that went to each place. */
export type WentOut = ReadonlyMap<string, Buffer>;

/** What the brokers took from a moment on. */
export type Listening = {
  records(topic: string): Buffer;
  events(): Buffer;
  close(): Promise<void>;
};

/** Begins to listen to both Kafka topics and to the events, as one more consumer of each. */
export async function listen({ system }: Stage): Promise<Listening> {
  const name = `e2e-listener-${randomBytes(6).toString('hex')}`;
  const since = Date.now();
  const events: Message[] = [];
  const pubsub = openEmulator({ projectId: system.pubsubProject, emulatorHost: system.pubsub });
  const subscription = await subscribe(pubsub, name, (message) => void events.push(message));

  const kafka = new Kafka({ clientId: name, brokers: [system.kafka], logLevel: logLevel.NOTHING });
  const consumer = kafka.consumer({ groupId: name });
  const records: { topic: string; bytes: Buffer }[] = [];
  await consumer.connect();
  await consumer.subscribe({ topics: [topics.accepted, topics.deadLetter], fromBeginning: true });
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
export async function allMetrics({ system }: Stage): Promise<Buffer> {
  const urls = system.services.flatMap(({ metrics, ready, health }) => [metrics, ready, health]);
  const texts = urls.map(async (url) => (await fetch(url)).text());
  return Buffer.from((await Promise.all(texts)).join('\n'));
}

/** In which of the places a text stands: as it is, in base64, or as part of a URL. */
export function placesOf(text: string, wentOut: WentOut): string[] {
  const forms = [text, Buffer.from(text).toString('base64'), encodeURIComponent(text)];
  const bytes = forms.map((form) => Buffer.from(form.replace(/=+$/, '')));
  return [...wentOut]
    .filter(([, everything]) => bytes.some((form) => everything.includes(form)))
    .map(([place]) => place);
}

function linesOf(parts: readonly (Buffer | null)[]): Buffer {
  const end = Buffer.from('\n');
  return Buffer.concat(parts.flatMap((part) => (part === null ? [] : [part, end])));
}
