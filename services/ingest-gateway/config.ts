import { claimSettings, missingForClaims } from '@triplock/claim-stores';
import { topics } from '@triplock/contracts';
import { ledgerSettings, missingForLedger } from '@triplock/ledgers';
import { webhookKeys } from '@triplock/partners';
import { offeredSettings } from '@triplock/providers';
import {
  integer,
  port,
  readSettings,
  sealingKeys,
  serviceSettings,
  text,
  url,
  withDefault,
  type Setting,
} from '@triplock/runtime';
import { kafkaSettings, missingForKafka } from '@triplock/transport';
import { isIP } from 'node:net';

const rate = integer({ min: 1, max: 1_000_000 });
const many = integer({ min: 1, max: 100_000 });

/**
 * How much a gateway holds at once unless its settings say otherwise. Bodies are at most 64 KiB and
 * are read of authenticated requests alone, heads at most 16 KiB: together less than 200 MiB.
 */
export const usualLimits = {
  // Every request under way has one; each that is open takes 20 KiB, whatever it does.
  connectionsMax: 2_048,
  requestsMax: 2_000,
  perPartnerMax: 1_000,
  perConnectionMax: 100,
};

/**
 * Addresses and networks (CIDR) of proxies, separated by commas. Never names: they can change; and
 * no network larger than those that are kept for private use (RFC 1918, RFC 4193), because nobody
 * can vouch for everybody in it, and two halves are all there is.
 */
export const trustedProxies: Setting<readonly string[]> = {
  expected: 'addresses or networks such as 10.0.0.0/8 and no larger, separated by commas',
  parse(text) {
    const list = text.split(',').map((each) => each.trim());
    return list.every(isNetwork) ? list : undefined;
  },
};

function isNetwork(text: string): boolean {
  const [address = '', bits, ...rest] = text.split('/');
  const version = isIP(address);
  if (version === 0 || rest.length > 0) return false;
  if (bits === undefined) return true;
  const [bitsMin, bitsMax] = version === 4 ? [8, 32] : [bitsMinOf(address), 128];
  return /^[1-9]\d{0,2}$/.test(bits) && Number(bits) >= bitsMin && Number(bits) <= bitsMax;
}

/** Of IPv6. An IPv4 address that is written as one has its 32 bits behind the first 96. */
function bitsMinOf(address: string): number {
  const canonical = new URL(`http://[${address}]`).hostname;
  if (/^\[f[cd]/.test(canonical)) return 7;
  return canonical.startsWith('[::') ? 96 + 8 : 16;
}

/** The gateway's settings. */
export const settings = {
  ...serviceSettings,
  /** Partners come in here. */
  HTTP_HOST: withDefault(text, '127.0.0.1'),
  HTTP_PORT: port,
  ...offeredSettings,
  ...claimSettings,
  ...kafkaSettings,
  ACCEPTED_TOPIC: withDefault(text, topics.accepted),
  /** Whose committed offsets show how far the ledger is, when claims were lost. */
  LEDGER_GROUP: withDefault(text, 'ledger-worker'),
  ...ledgerSettings,
  /** Reads the partners, and the ledger in `postgres`; needs no right to write. */
  DATABASE_URL: url(['postgres:', 'postgresql:']),
  /** What webhook secrets are sealed with, from a file: WEBHOOK_KEYS_FILE. */
  WEBHOOK_KEYS: webhookKeys,
  /** What customers have to do is sealed with, as workers do, from a file: ACTION_KEYS_FILE. */
  ACTION_KEYS: sealingKeys,
  /**
   * What one partner may send to this process, as so many payments, and how many at once after a
   * rest: what a process gets through with a core of its own, and others beside it.
   */
  RATE_LIMIT_PER_SECOND: withDefault(rate, 1_000),
  RATE_LIMIT_BURST: withDefault(rate, 2_000),
  /** Open connections; for one more, the one makes way that has sent nothing whole for longest. */
  CONNECTIONS_MAX: withDefault(many, usualLimits.connectionsMax),
  /** Requests under way at once, those that wait for a final state too: beyond it 503. */
  REQUESTS_IN_FLIGHT_MAX: withDefault(many, usualLimits.requestsMax),
  /** Of one partner, and on one connection: beyond it 429. */
  REQUESTS_PER_PARTNER_MAX: withDefault(many, usualLimits.perPartnerMax),
  REQUESTS_PER_CONNECTION_MAX: withDefault(many, usualLimits.perConnectionMax),
  /**
   * How often one address may send no valid API key, or ask for nothing that is here, before 429.
   */
  FAILED_AUTHENTICATION_PER_SECOND: withDefault(rate, 20),
  FAILED_AUTHENTICATION_BURST: withDefault(rate, 100),
  /** How often one address may ask for what needs no API key, such as the document, before 429. */
  PUBLIC_REQUESTS_PER_SECOND: withDefault(rate, 50),
  PUBLIC_REQUESTS_BURST: withDefault(rate, 500),
  /** Proxies whose X-Forwarded-For and Request-Id are believed; nobody's unless set. */
  TRUSTED_PROXIES: withDefault(trustedProxies, []),
};
export type Config = ReturnType<typeof readConfig>;

/** @throws SettingsError with every problem at once. */
export function readConfig() {
  const missing = [
    ...missingForClaims(process.env, 'claims'),
    ...missingForLedger(process.env),
    ...missingForKafka(process.env),
  ];
  return readSettings(process.env, settings, missing);
}
