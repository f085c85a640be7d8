import { topics } from '@triplock/contracts';
import {
  addresses,
  port,
  readSettings,
  serviceSettings,
  text,
  url,
  withDefault,
} from '@triplock/runtime';

/** The gateway's settings. */
const table = {
  ...serviceSettings,
  /** Partners come in here. */
  HTTP_HOST: withDefault(text, '127.0.0.1'),
  HTTP_PORT: port,
  /** Claims. Its maxmemory-policy has to be noeviction. */
  REDIS_URL: url(['redis:', 'rediss:']),
  CLAIM_NAMESPACE: withDefault(text, 'triplock'),
  KAFKA_BROKERS: addresses,
  ACCEPTED_TOPIC: withDefault(text, topics.accepted),
  /** Whose committed offsets tell how far the ledger is, when claims were lost. */
  LEDGER_GROUP: withDefault(text, 'ledger-worker'),
  /** Reads the ledger and the partners; needs no right to write. */
  DATABASE_URL: url(['postgres:', 'postgresql:']),
};
export type Config = ReturnType<typeof readConfig>;

/** @throws SettingsError with every problem at once. */
export function readConfig() {
  return readSettings(process.env, table);
}
