import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestSubscription } from '@triplock/testing';
import { openPublisher } from '../pubsub/publisher.ts';
import { openSubscriber, type SubscriberOptions } from '../pubsub/subscriber.ts';
import type { IncomingMessage } from '../pubsub/in-flight-messages.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

/** A topic, its subscription, and what its subscribers saw. */
export async function aSubscription(t: TestContext) {
  const connection = await createTestSubscription(t);
  const publisher = openPublisher(connection);
  t.after(() => publisher.close());
  const publish = async (key: string, ...texts: string[]) => {
    const messages = texts.map((text) => ({
      orderingKey: key,
      data: Buffer.from(text),
      attributes: { event_id: text },
    }));
    for (const { outcome } of await publisher.publishInOrder(messages)) {
      assert.equal(outcome, 'published');
    }
  };
  const seen: string[] = [];
  const subscribe = (wish: Partial<SubscriberOptions> = {}) => {
    const handle = async (message: IncomingMessage) => {
      seen.push(message.data.toString());
      return 'ack' as const;
    };
    const subscriber = openSubscriber({ ...connection, maxInFlight: 100, logger, handle, ...wish });
    t.after(() => subscriber.close());
    return subscriber;
  };
  return { connection, publish, seen, subscribe };
}
