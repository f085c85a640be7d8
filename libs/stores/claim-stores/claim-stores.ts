import { randomUUID } from 'node:crypto';
import {
  openRedisClaims,
  openRedisWalk,
  partnerLimits,
  type BucketEpoch,
  type Claims,
  type ClaimsOptions,
  type ClaimWalk,
  type OwnerToken,
  type PartnerLimits,
} from '@triplock/claims';
import { openDynamoClaims, openDynamoWalk } from '@triplock/claims-dynamodb';
import { openHybridClaims } from '@triplock/claims-hybrid';
import {
  openPostgresClaims,
  openPostgresWalk,
  type PostgresClaims,
} from '@triplock/claims-postgres';
import {
  integer,
  isSet,
  oneOf,
  refusedInProduction,
  runLoop,
  text,
  url,
  withDefault,
  type Logger,
  type Service,
  type SettingsOf,
} from '@triplock/runtime';

/** Settings that claim stores are opened by, but for which of them it is. */
const settingsOfStores = {
  /** Claims in `redis`, where its maxmemory-policy has to be noeviction; the cache of `hybrid`. */
  REDIS_URL: withDefault(url(['redis:', 'rediss:']), undefined),
  /**
   * Claims in `postgres` and `hybrid`: as the role triplock_claims, or as triplock_auditor of
   * whoever only compares them.
   */
  CLAIMS_DATABASE_URL: withDefault(url(['postgres:', 'postgresql:']), undefined),
  /**
   * Claims in `dynamodb`. The endpoint is that of a server that stands for the service; without one
   * it is the service's.
   */
  DYNAMODB_TABLE: withDefault(text, 'triplock-claims'),
  DYNAMODB_REGION: withDefault(text, undefined),
  DYNAMODB_ENDPOINT: withDefault(url(['http:', 'https:']), undefined),
  CLAIM_NAMESPACE: withDefault(text, 'triplock'),
  /**
   * How many of its keys one partner may have in the store at once, of 24 hours and at most 400
   * bytes each, and, but in `dynamodb`, how many bytes of what it sent, for a minute or while the
   * ledger is behind. Then it gets 429, so that the store is full for nobody else.
   */
  CLAIMS_PER_PARTNER: withDefault(
    integer({ min: 64, max: 1_000_000_000 }),
    partnerLimits.claimsPerPartner,
  ),
  SHOWN_BYTES_PER_PARTNER: withDefault(
    integer({ min: 8 * 1024 * 1024, max: 1_000_000_000_000 }),
    partnerLimits.shownBytesPerPartner,
  ),
};

type StoreSettings = SettingsOf<typeof settingsOfStores> & { INSTANCE_NAME: string };

/** How a store is opened, and by which settings at least. */
type Opening<Opened> = {
  needs: readonly (keyof typeof settingsOfStores)[];
  open(settings: StoreSettings, options: ClaimsOptions): Opened | Promise<Opened>;
};

/** `claims` is for gateways; `walk` can only read. */
type ClaimStore = { claims: Opening<Claims>; walk: Opening<ClaimWalk> };

/** What CLAIMS can name: a store goes with its folder in libs/stores and its line. */
export const claimStores = {
  redis: {
    claims: { needs: ['REDIS_URL'], open: openRedis },
    walk: { needs: ['REDIS_URL'], open: walkRedis },
  },
  postgres: {
    claims: { needs: ['CLAIMS_DATABASE_URL'], open: openPostgres },
    walk: { needs: ['CLAIMS_DATABASE_URL'], open: walkPostgres },
  },
  hybrid: {
    claims: { needs: ['CLAIMS_DATABASE_URL', 'REDIS_URL'], open: openHybrid },
    // PostgreSQL has all of them.
    walk: { needs: ['CLAIMS_DATABASE_URL'], open: walkPostgres },
  },
  dynamodb: {
    claims: { needs: ['DYNAMODB_REGION'], open: openDynamo },
    walk: { needs: ['DYNAMODB_REGION'], open: walkDynamo },
  },
  none: { claims: { needs: [], open: openNone }, walk: { needs: [], open: walkNone } },
} as const satisfies Record<string, ClaimStore>;

export type ClaimStoreName = keyof typeof claimStores;

const names = Object.keys(claimStores) as [ClaimStoreName, ...ClaimStoreName[]];

/** Settings of every service that touches the claims, for its settings table. */
export const claimSettings = {
  /** Where claims are kept. `none` takes guard 1 away and is refused in production. */
  CLAIMS: refusedInProduction(withDefault(oneOf(names), 'redis'), (store) =>
    store === 'none' ? 'nothing would stop a duplicate at the door: name a store' : undefined,
  ),
  ...settingsOfStores,
};

/** The settings as read. */
export type ClaimSettings = SettingsOf<typeof claimSettings> & { INSTANCE_NAME: string };

/** What is missing of an environment for the claims that it names, as a gateway's or a reader's. */
export function missingForClaims(environment: NodeJS.ProcessEnv, use: keyof ClaimStore): string[] {
  const store = environment['CLAIMS']?.trim() || 'redis';
  // Another name is malformed, which the table says.
  const named = names.find((name) => name === store);
  if (named === undefined) return [];
  return claimStores[named][use].needs
    .filter((name) => !isSet(environment, name))
    .map((name) => `${name} is missing: CLAIMS=${store} needs it`);
}

/**
 * Opens the claim store that the settings name, and closes it with the service.
 *
 * @throws RedisPolicyError, PostgresDurabilityError or DynamoTableError when the store is there and
 * may lose claims unnoticed.
 */
export async function openClaims(
  settings: ClaimSettings,
  { logger, onClose }: Pick<Service, 'logger' | 'onClose'>,
): Promise<Claims> {
  const { CLAIMS, CLAIM_NAMESPACE: namespace } = settings;
  const claims = await claimStores[CLAIMS].claims.open(settings, { namespace, logger });
  onClose('claims', () => claims.close());
  return claims;
}

/**
 * Opens the same store to read: whoever has this can take and change no claim.
 *
 * @throws RedisPolicyError or DynamoTableError when the store is there and may lose claims
 * unnoticed.
 */
export async function openClaimWalk(settings: ClaimSettings, logger: Logger): Promise<ClaimWalk> {
  const { CLAIMS, CLAIM_NAMESPACE: namespace } = settings;
  return claimStores[CLAIMS].walk.open(settings, { namespace, logger });
}

function limitsOf(settings: StoreSettings): PartnerLimits {
  return {
    claimsPerPartner: settings.CLAIMS_PER_PARTNER,
    shownBytesPerPartner: settings.SHOWN_BYTES_PER_PARTNER,
  };
}

function openRedis(settings: StoreSettings, options: ClaimsOptions): Promise<Claims> {
  return openRedisClaims({ ...options, ...limitsOf(settings), url: settings.REDIS_URL! });
}

function walkRedis({ REDIS_URL }: StoreSettings, options: ClaimsOptions): Promise<ClaimWalk> {
  return openRedisWalk({ ...options, url: REDIS_URL! });
}

function inPostgres(settings: StoreSettings, options: ClaimsOptions) {
  const { CLAIMS_DATABASE_URL: url, INSTANCE_NAME: applicationName } = settings;
  return { ...options, ...limitsOf(settings), url: url!, applicationName };
}

async function openPostgres(settings: StoreSettings, options: ClaimsOptions): Promise<Claims> {
  return reaped(await openPostgresClaims(inPostgres(settings, options)), options);
}

async function openHybrid(settings: StoreSettings, options: ClaimsOptions): Promise<Claims> {
  const cached = { ...inPostgres(settings, options), cacheUrl: settings.REDIS_URL! };
  return reaped(await openHybridClaims(cached), options);
}

function walkPostgres(settings: StoreSettings, options: ClaimsOptions): ClaimWalk {
  return openPostgresWalk(inPostgres(settings, options));
}

function inDynamo(settings: StoreSettings, options: ClaimsOptions) {
  const { DYNAMODB_REGION, DYNAMODB_TABLE: table, DYNAMODB_ENDPOINT: emulator } = settings;
  const endpoint = emulator === undefined ? {} : { emulator };
  return { ...options, region: DYNAMODB_REGION!, table, ...endpoint };
}

function openDynamo(settings: StoreSettings, options: ClaimsOptions): Promise<Claims> {
  return openDynamoClaims({ ...inDynamo(settings, options), ...limitsOf(settings) });
}

function walkDynamo(settings: StoreSettings, options: ClaimsOptions): Promise<ClaimWalk> {
  return openDynamoWalk(inDynamo(settings, options));
}

/**
 * Guard 1 taken away: it remembers nothing, so every request is the first under its key, and is
 * sure of it. For showing what then escapes, and what the guards behind it still hold.
 */
async function openNone(_settings: StoreSettings, { logger }: ClaimsOptions): Promise<Claims> {
  logger.warn('CLAIMS is none: every request is treated as the first with its key');
  // An epoch that never ends, with nothing before it: no bucket is ever cold.
  const marker = { epoch: 'none' as BucketEpoch, barrier: '{}' };
  return {
    claim: async ({ acceptedAt, responseVersion }) => {
      const token = randomUUID() as OwnerToken;
      return { outcome: 'claimed', token, acceptedAt, responseVersion };
    },
    complete: async () => 'completed',
    release: async () => 'released',
    read: async () => ({ outcome: 'unknown' }),
    renewShown: async () => undefined,
    noteLoss: async () => marker,
    setBarrier: async () => undefined,
    markCold: async () => undefined,
    ping: async () => undefined,
    close: async () => undefined,
  };
}

function walkNone(): ClaimWalk {
  return {
    walk: async () => ({ claims: [] }),
    close: async () => undefined,
  };
}

// A statement of so many is over in a fraction of a second; every gateway reaps, and they share.
const reapRowsMax = 1_000;
const reapEveryMs = 60_000;

/** Takes expired claims out for as long as the service runs. */
function reaped(claims: PostgresClaims, { logger }: { logger: Logger }): Claims {
  const reap = () => claims.reap({ rowsMax: reapRowsMax });
  const reaper = runLoop(reap, { name: 'reap claims', idleMs: reapEveryMs, logger });
  const close = async () => {
    await reaper.stop();
    await claims.close();
  };
  return { ...claims, close };
}
