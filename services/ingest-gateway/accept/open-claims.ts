import { openNoClaims, openRedisClaims, type Claims } from '@triplock/claims';
import { openDynamoClaims } from '@triplock/claims-dynamodb';
import { openHybridClaims } from '@triplock/claims-hybrid';
import { openPostgresClaims, type PostgresClaims } from '@triplock/claims-postgres';
import { runLoop, type Service } from '@triplock/runtime';
import type { Config } from '../config.ts';

type ClaimSettings = Pick<
  Config,
  | 'CLAIMS'
  | 'CLAIM_NAMESPACE'
  | 'CLAIMS_DATABASE_URL'
  | 'DYNAMODB_ENDPOINT'
  | 'DYNAMODB_REGION'
  | 'DYNAMODB_TABLE'
  | 'INSTANCE_NAME'
  | 'REDIS_URL'
>;

/**
 * Opens the claim store that the settings name, and closes it with the service.
 *
 * @throws RedisPolicyError, PostgresDurabilityError or DynamoTableError when the store is there and
 * may lose claims unnoticed.
 */
export async function openClaims(
  config: ClaimSettings,
  service: Pick<Service, 'logger' | 'onClose'>,
): Promise<Claims> {
  const claims = await openStore(config, service);
  service.onClose('claims', () => claims.close());
  return claims;
}

async function openStore(
  config: ClaimSettings,
  { logger }: Pick<Service, 'logger'>,
): Promise<Claims> {
  const named = { namespace: config.CLAIM_NAMESPACE, logger };
  // The settings that a store needs are there: readConfig saw to it.
  switch (config.CLAIMS) {
    case 'redis':
      return openRedisClaims({ ...named, url: config.REDIS_URL! });
    case 'postgres':
      return reaped(await openPostgresClaims({ ...named, ...postgresPlace(config) }), logger);
    case 'hybrid': {
      const cacheUrl = config.REDIS_URL!;
      const place = { ...postgresPlace(config), cacheUrl };
      return reaped(await openHybridClaims({ ...named, ...place }), logger);
    }
    case 'dynamodb': {
      const { DYNAMODB_ENDPOINT: emulator } = config;
      const place = { region: config.DYNAMODB_REGION!, table: config.DYNAMODB_TABLE };
      return openDynamoClaims({ ...named, ...place, ...(emulator !== undefined && { emulator }) });
    }
    case 'none':
      logger.warn('CLAIMS is none: every request is treated as the first with its key');
      return openNoClaims();
    default:
      return config.CLAIMS satisfies never;
  }
}

function postgresPlace({ CLAIMS_DATABASE_URL, INSTANCE_NAME }: ClaimSettings) {
  return { url: CLAIMS_DATABASE_URL!, applicationName: INSTANCE_NAME };
}

// A statement of so many is over in a fraction of a second; every gateway reaps, and they share.
const reapRowsMax = 1_000;
const reapEveryMs = 60_000;

/** Takes expired claims out for as long as the service runs. */
function reaped(claims: PostgresClaims, logger: Service['logger']): Claims {
  const reap = () => claims.reap({ rowsMax: reapRowsMax });
  const reaper = runLoop(reap, { name: 'reap claims', idleMs: reapEveryMs, logger });
  const close = async () => {
    await reaper.stop();
    await claims.close();
  };
  return { ...claims, close };
}
