import { loadSql, type Database } from '@triplock/postgres';
import type { ShownEndpoint, WebhookEndpoints } from '../webhook-endpoints.ts';
import { generateWebhookSecret } from '../webhook-secret.ts';

const showEndpoint = loadSql(import.meta.url, 'show-webhook-endpoint.sql');
const setWebhookUrl = loadSql(import.meta.url, 'set-webhook-url.sql');
const rotateWebhookSecret = loadSql(import.meta.url, 'rotate-webhook-secret.sql');

type Row = {
  url: string;
  second_secret_until: Date | null;
  updated_at: Date;
  disabled_at: Date | null;
};

type RotationRow = { secret: string; previous_secret_until: Date };

/** Webhook endpoints in PostgreSQL, where all clocks are the database's. */
export function openWebhookEndpoints(database: Database): WebhookEndpoints {
  return {
    async show(partnerId) {
      const [row] = await database.query<Row>(showEndpoint, [partnerId]);
      return row && fromRow(row);
    },
    async setUrl({ partnerId, url }) {
      const secret = generateWebhookSecret();
      const parameters = [partnerId, url, secret];
      const [row] = await database.query<Row & { made: boolean }>(setWebhookUrl, parameters);
      const endpoint = fromRow(row!);
      if (row!.made) return { outcome: 'made', endpoint, secret };
      return { outcome: 'changed', endpoint };
    },
    async rotateSecret({ partnerId, key }) {
      const offered = generateWebhookSecret();
      const [row] = await database.query<RotationRow>(rotateWebhookSecret, [
        partnerId,
        key,
        offered,
      ]);
      if (row === undefined) return { outcome: 'no-endpoint' };
      const { secret, previous_secret_until: previousSecretUntil } = row;
      const outcome = secret === offered ? 'rotated' : 'replayed';
      return { outcome, secret, previousSecretUntil };
    },
  };
}

function fromRow(row: Row): ShownEndpoint {
  const { url, second_secret_until: until, updated_at: updatedAt, disabled_at: disabledAt } = row;
  return {
    url,
    updatedAt,
    ...(until === null ? {} : { previousSecretUntil: until }),
    ...(disabledAt === null ? {} : { disabledAt }),
  };
}
