import { isCopied, type LedgerSettings } from '@triplock/ledgers';
import { parseWebhookKeys, seedPartner } from '@triplock/partners';
import type { PartnerId } from '@triplock/payments';
import type { PartnerCredentials } from '../home.ts';
import type { Names } from '../names.ts';
import type { Addresses } from '../parts/part.ts';
import type { Report } from '../session.ts';
import { provisionDatabase, type ProvisionedDatabase, withDatabase } from './database.ts';
import { refillTopic } from './ledger.ts';
import { createKafkaTopics, createSubscriptions } from './topics.ts';

/** Where the parts are, what a system calls its things in them, and who its partners are. */
export type SystemToProvision = {
  parts: Addresses;
  names: Names;
  /** `given`: the database is there and is used as it is. */
  origin?: 'given' | 'native';
  /** Of each service: what a role's connections are limited to. Absent: limits stay as they are. */
  replicas?: number;
  partners: readonly PartnerCredentials[];
  /** The URL of the catcher as the notifier reaches it. */
  catcher: string;
  /** What partners' webhook secrets are sealed with, as their file has it. */
  webhookKeys: string;
  /** Where the ledger and its outbox are kept. */
  ledger: LedgerSettings;
};

/** Has everything in the parts that must be there before the first service starts. */
export async function provisionSystem(
  system: SystemToProvision,
  report: Report,
): Promise<ProvisionedDatabase> {
  const { parts, names, origin = 'native', replicas, ledger } = system;
  const copied = isCopied(ledger.LEDGER_STORE);
  const server = { url: parts.postgres, origin, name: names.database, copied };
  const [database, , subscriptions] = await Promise.all([
    provisionDatabase({ ...server, ...(replicas && { replicas }) }, report),
    createKafkaTopics(parts.kafka, names),
    createSubscriptions(parts.pubsub, names),
  ]);
  await seedPartners(database.roles.partners, system);
  // After the subscriptions, or the events would be published to nobody.
  if (subscriptions.outcome === 'made') await refillTopic(ledger, database.owner, report);
  return database;
}

/** Has the demo partners in the database, with webhooks that go to the catcher. */
async function seedPartners(
  partnersUrl: string,
  demo: Pick<SystemToProvision, 'partners' | 'catcher' | 'webhookKeys'>,
): Promise<void> {
  const keys = parseWebhookKeys(demo.webhookKeys);
  await withDatabase(partnersUrl, async (database) => {
    for (const { id, apiKey, webhookSecret } of demo.partners) {
      const webhookUrl = `${demo.catcher}/hooks/${id}`;
      const seed = { id: id as PartnerId, apiKey, webhookUrl, webhookSecret };
      await seedPartner(database, seed, keys);
    }
  });
}
