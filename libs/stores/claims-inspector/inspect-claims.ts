import { inspectDynamoClaims, type DynamoTable } from './dynamodb.ts';
import { inspectPostgresClaims } from './postgres.ts';
import { inspectRedisClaims } from './redis.ts';

/** Where a system keeps its claims; the launcher's endpoints have this form. */
export type ClaimsAddress = {
  claims: 'redis' | 'postgres' | 'hybrid' | 'dynamodb';
  redis?: string;
  /** As a role that may read the claims, and change them for whoever changes them. */
  postgres?: string;
  /** The table, or the URL of DynamoDB Local with the launcher's. */
  dynamodb?: string | DynamoTable;
  /** Begins every key, as the gateway's CLAIM_NAMESPACE. */
  namespace: string;
};

/** A claim as its store holds it. */
export type ClaimSeen = {
  state: string;
  partner: string;
  fingerprint: string;
  acceptedAt: Date;
  /** How long it still lives. */
  leftMs: number;
  /** The stored answer, once there is one. */
  answer: { status: number; body: string } | undefined;
};

/**
 * A claim store reached past the gateways: operators look at a claim, and the demo and tests do to
 * it what time and losses do.
 */
export type ClaimsInspector = {
  /** A claim that lives; nothing when there is none. */
  look(txnId: string): Promise<ClaimSeen | undefined>;
  /** Ends a claim's life at once, as 24 hours do; returns whether there was one. */
  expire(txnId: string): Promise<boolean>;
  /** Loses all that the store holds; tells by what, and how many claims and markers it cost. */
  forget(): Promise<Forgotten>;
  /** How many claims and markers it holds. */
  count(): Promise<number>;
  /** Makes its warm markers so much older, as time without a loss does; tells how many. */
  ageMarkers(ms: number): Promise<number>;
  /** What one of its claims takes in the store, all claims being alike: see each store. */
  bytesPerClaim(): Promise<number>;
  close(): Promise<void>;
};

/** What was done to a store, e.g. `FLUSHALL`, and how many keys it cost. */
export type Forgotten = { command: string; keys: number };

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
