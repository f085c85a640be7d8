import { topics } from '@triplock/contracts';
import type { Endpoints } from '@triplock/launcher';
import { openEmulator } from '@triplock/testing';
import { Kafka, logLevel } from 'kafkajs';
import { poison } from './planted-secrets.ts';

/** Writes to both brokers what no service of ours would: two records and an event. */
export async function writePoison(system: Endpoints): Promise<void> {
  const kafka = new Kafka({ brokers: [system.kafka], logLevel: logLevel.NOTHING });
  const producer = kafka.producer();
  const headers = { 'x-told': poison.header, partner_id: 'acme' };
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
  const pubsub = openEmulator({ projectId, emulatorHost });
  const event = { data: Buffer.from(poison.event), attributes: { [poison.event]: poison.event } };
  await pubsub.topic(topics.events).publishMessage(event);
  await pubsub.close();
}
