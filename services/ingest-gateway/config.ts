import { topics } from '@triplock/contracts';
import {
  addresses,
  integer,
  oneOf,
  port,
  readSettings,
  serviceSettings,
  SettingsError,
  text,
  url,
  withDefault,
} from '@triplock/runtime';
import { trustedProxies } from './trusted-proxies.ts';

const rate = integer({ min: 1, max: 1_000_000 });

/** The gateway's settings. */
const table = {
  ...serviceSettings,
  /** Partners come in here. */
  HTTP_HOST: withDefault(text, '127.0.0.1'),
  HTTP_PORT: port,
  /** Where claims are kept. `none` takes guard 1 away and is refused in production. */
  CLAIMS: withDefault(oneOf(['redis', 'none']), 'redis'),
  /** Claims. Its maxmemory-policy has to be noeviction. */
  REDIS_URL: url(['redis:', 'rediss:']),
  CLAIM_NAMESPACE: withDefault(text, 'triplock'),
  KAFKA_BROKERS: addresses,
  ACCEPTED_TOPIC: withDefault(text, topics.accepted),
  /** Whose committed offsets tell how far the ledger is, when claims were lost. */
  LEDGER_GROUP: withDefault(text, 'ledger-worker'),
  /** Reads the ledger and the partners; needs no right to write. */
  DATABASE_URL: url(['postgres:', 'postgresql:']),
  /** What one partner may send to this process, and how many at once after a rest. */
  RATE_LIMIT_PER_SECOND: withDefault(rate, 10_000),
  RATE_LIMIT_BURST: withDefault(rate, 20_000),
  /** How often one address may send no valid API key before it is told 429 instead of 401. */
  FAILED_AUTHENTICATION_PER_SECOND: withDefault(rate, 20),
  FAILED_AUTHENTICATION_BURST: withDefault(rate, 100),
  /** Proxies whose X-Forwarded-For tells a caller's address; nobody's unless set. */
  TRUSTED_PROXIES: withDefault(trustedProxies, []),
};
export type Config = ReturnType<typeof readConfig>;

/** @throws SettingsError with every problem at once. */
export function readConfig() {
  const config = readSettings(process.env, table);
  if (config.CLAIMS === 'none' && config.TRIPLOCK_MODE === 'production') {
    throw new SettingsError(['CLAIMS=none is refused: TRIPLOCK_MODE is production']);
  }
  return config;
}
