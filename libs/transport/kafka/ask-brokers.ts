import { withDeadline } from '@triplock/runtime';
import type { Admin } from 'kafkajs';
import { openKafkaClient, type BrokerConnection, type KafkaClient } from './kafka-client.ts';

/** Questions to the brokers on a connection that is made when the first one is asked. */
export type Inquiry = {
  /** Asks within `limitMs`. A question that fails closes the connection; the next makes another. */
  ask<Answer>(question: (admin: Admin) => Promise<Answer>): Promise<Answer>;
  /** Resolves when a broker answers and knows the topic. */
  ping(topic: string): Promise<void>;
  close(): Promise<void>;
};

/** Opens an inquiry; nothing is sent until something is asked. `limitMs` is 2 s by default. */
export function openInquiry(connection: BrokerConnection, limitMs = 2_000): Inquiry {
  let open: { client: KafkaClient; admin: Promise<Admin> } | undefined;

  const drop = (dropped: typeof open) => {
    if (open === dropped) open = undefined;
    dropped?.client.destroy();
  };
  const ask: Inquiry['ask'] = async (question) => {
    const asked = (open ??= connectAdmin(connection, limitMs));
    try {
      const answer = asked.admin.then(question);
      return await withDeadline(answer, { ms: limitMs, what: 'Kafka' });
    } catch (error) {
      drop(asked);
      throw error;
    }
  };
  return {
    ask,
    ping: (topic) =>
      ask(async (admin) => void (await admin.fetchTopicMetadata({ topics: [topic] }))),
    close: async () => drop(open),
  };
}

function connectAdmin(connection: BrokerConnection, limitMs: number) {
  const client = openKafkaClient(connection, {
    requestTimeoutMs: limitMs,
    retry: { retries: 3, initialRetryTime: 50, maxRetryTime: 300 },
  });
  const admin = client.kafka.admin();
  const connected = admin.connect().then(() => admin);
  // The asker gets this rejection too; without a listener of its own it would end the process when
  // the asker's time was over first.
  connected.catch((error: unknown) => {
    connection.logger.debug({ err: error }, 'could not connect to ask Kafka');
  });
  return { client, admin: connected };
}
