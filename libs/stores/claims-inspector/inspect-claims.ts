import type { ClaimsInspector } from './claims-inspector.ts';
import { inspectDynamoClaims, type DynamoTable } from './dynamodb.ts';
import { inspectPostgresClaims } from './postgres.ts';
import { inspectRedisClaims } from './redis.ts';

/** Where a system keeps its claims; the launcher's endpoints have this form. */
export type ClaimsAddress = {
  claims: 'redis' | 'postgres' | 'hybrid' | 'dynamodb';
  redis?: string;
  /** As a role that may read the claims, and change them for whoever changes them. */
  postgres?: string;
  /** The table, or the URL of a server that stands for DynamoDB, with the launcher's. */
  dynamodb?: string | DynamoTable;
  /** Begins every key, as the gateway's CLAIM_NAMESPACE. */
  namespace: string;
};

/** Connects to a claim store when it is first asked. */
export function inspectClaims(address: ClaimsAddress): ClaimsInspector {
  const { claims, namespace, redis: cache = '', postgres: url = '' } = address;
  switch (claims) {
    case 'redis':
      return inspectRedisClaims({ url: cache, namespace });
    case 'postgres':
      return inspectPostgresClaims({ url, namespace });
    case 'hybrid': {
      const inCache = inspectRedisClaims({ url: cache, namespace });
      return withCache(inspectPostgresClaims({ url, namespace }), inCache);
    }
    case 'dynamodb':
      return inspectDynamoClaims({ ...tableAt(address.dynamodb), namespace });
    default:
      return claims satisfies never;
  }
}

function tableAt(dynamodb: ClaimsAddress['dynamodb']): DynamoTable {
  if (dynamodb === undefined) throw new Error('claims in dynamodb need its table');
  if (typeof dynamodb !== 'string') return dynamodb;
  return { region: 'eu-central-1', table: 'triplock-claims', emulator: dynamodb };
}

/** What ends in PostgreSQL ends in the cache before it too. */
function withCache(postgres: ClaimsInspector, cache: ClaimsInspector): ClaimsInspector {
  return {
    ...postgres,
    expire: async (txnId) => {
      await cache.expire(txnId);
      return postgres.expire(txnId);
    },
    forget: async () => {
      const [inCache, { command, keys }] = [await cache.forget(), await postgres.forget()];
      return { command: `${inCache.command} and ${command}`, keys };
    },
    close: async () => void (await Promise.all([cache.close(), postgres.close()])),
  };
}
