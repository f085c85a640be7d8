import { Admin } from '@platformatic/kafka';
import type { TestTopic } from '@triplock/testing';

/** Bytes a second that a broker lets a client have; what it had more of, it has to wait for. */
export type Quota = { consumer_byte_rate: number } | { producer_byte_rate: number };

type Limited = { after(cleanup: () => Promise<void>): void };

/** Limits a client, by the id that it gives itself, until the test is over. */
export async function limitClient(
  test: Limited,
  { brokers, clientId }: Pick<TestTopic, 'brokers'> & { clientId: string },
  quota: Quota,
): Promise<void> {
  const admin = new Admin({ clientId: 'test', bootstrapBrokers: brokers });
  const entities = [{ entityType: 'client-id' as const, entityName: clientId }];
  const [[key, value]] = Object.entries(quota) as [[keyof typeof quota, number]];
  const alter = (op: { remove: true } | { value: number; remove: false }) =>
    admin.alterClientQuotas({ entries: [{ entities, ops: [{ key, ...op }] }] });
  test.after(async () => {
    await alter({ remove: true });
    await admin.close();
  });
  await alter({ value, remove: false });
}
