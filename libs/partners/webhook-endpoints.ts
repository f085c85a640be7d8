import { randomUUID } from 'node:crypto';
import {
  deriveId,
  type EndpointId,
  type EventType,
  type Fingerprint,
  type IdempotencyKey,
  type PartnerId,
} from '@triplock/payments';
import { loadStatements, type Database } from '@triplock/postgres';
import { tellTooOften } from './done-too-often.ts';
import type { PartnerActor } from './partner-registry.ts';
import { targetHost } from './target-policy.ts';
import { generateWebhookSecret, type SealedSecret, type WebhookKeys } from './webhook-secrets.ts';

const sql = loadStatements(import.meta.url, 'postgres/webhook-endpoints.sql', [
  'showEndpoints',
  'makeEndpoint',
  'setFirstEndpoint',
  'changeEndpoint',
  'deleteEndpoint',
  'rotateWebhookSecret',
  'rotateSecretAs',
  'askTest',
  'readTest',
]);

/** Of one partner: each event makes a delivery for each of its endpoints that wants it. */
export const endpointsMax = 16;

/** Which events an endpoint wants: every one, those of later versions too, or these types. */
export type WantedEvents = 'all' | readonly EventType[];

/** A webhook endpoint as its partner may see it. */
export type ShownEndpoint = {
  id: EndpointId;
  url: string;
  /** A note of its partner's. */
  description?: string;
  wants: WantedEvents;
  /** Whether its server has proved that it wants webhooks; nothing is sent there before. */
  verified: boolean;
  /** Until when the secret before the newest signs too. */
  previousSecretUntil?: Date;
  madeAt: Date;
  /** When its URL or its secret was last set. */
  updatedAt: Date;
  /** When the first attempt failed since one was taken, or since it was set. */
  failingSince?: Date;
  /**
   * Since when nothing is sent there, until its partner sets it again: `gone`, because its server
   * answered 410 Gone; `failing`, because nothing was taken there since `failingSince`.
   */
  disabled?: { at: Date; because: 'gone' | 'failing' };
};

/**
 * The answer is the only time that a secret is shown: no one with the gateway's rights reads it.
 */
export type SetEndpoint =
  | { outcome: 'made'; endpoint: ShownEndpoint; secret: string }
  | { outcome: 'changed'; endpoint: ShownEndpoint };

/** A new endpoint, and the key and the fingerprint of the request that makes it once. */
export type EndpointOrder = {
  partnerId: PartnerId;
  key: IdempotencyKey;
  fingerprint: Fingerprint;
  url: string;
  description?: string;
  wants: WantedEvents;
};

/**
 * What making an endpoint came to. `replayed`: this request had made it; its first secret is there
 * while it is one of the last two. `deleted`: it had, and the endpoint is no more. `reused`: the
 * key made another one. `too-many`: the partner has as many as it may, and nothing was done.
 */
export type MadeEndpoint =
  | { outcome: 'made'; id: EndpointId; madeAt: Date; secret: string }
  | { outcome: 'replayed'; id: EndpointId; madeAt: Date; secret?: string }
  | { outcome: 'reused' | 'deleted' | 'too-many' };

/** What is named is changed; `null` takes a description away. */
export type EndpointChanges = { url?: string; description?: string | null; wants?: WantedEvents };

/** What a rotation made: the new secret signs at once, beside the one before it. */
export type Rotation = { secret: string; previousSecretUntil: Date };

/** What rotating came to. `replayed`: the key had rotated before, to this; nothing was written. */
export type RotatedSecret =
  ({ outcome: 'rotated' | 'replayed' } & Rotation) | { outcome: 'no-endpoint' };

/** Which endpoint to rotate, under which key; the oldest unless one is named. */
export type RotationOrder = { partnerId: PartnerId; id?: EndpointId; key: IdempotencyKey };

/** What came back of a test: as a delivery's attempt, with the HTTP status of an answer. */
export type TestResult = {
  outcome: 'delivered' | 'refused' | 'unanswered' | 'unsendable';
  status: number | null;
  tookMs: number;
};

type OfPartner = { partnerId: PartnerId; id: EndpointId };

/**
 * Webhook endpoints as partners manage them. Every method rejects without PostgreSQL; what makes,
 * changes or rotates does so with a DoneTooOftenError when the partner did 200 of that within a
 * day: each leaves rows that are kept.
 */
export type WebhookEndpoints = {
  /** The oldest first. */
  list(partnerId: PartnerId): Promise<ShownEndpoint[]>;
  find(endpoint: OfPartner): Promise<ShownEndpoint | undefined>;
  /** The oldest. */
  show(partnerId: PartnerId): Promise<ShownEndpoint | undefined>;
  make(order: EndpointOrder): Promise<MadeEndpoint>;
  /** `undefined`: the partner has no such endpoint. With a URL the endpoint is enabled, too. */
  change(endpoint: OfPartner, changes: EndpointChanges): Promise<ShownEndpoint | undefined>;
  /** Whether it was there. What waits for it is canceled; what is under way comes to its end. */
  delete(endpoint: OfPartner): Promise<boolean>;
  /**
   * Sets the URL of the partner's oldest endpoint, which was judged before, and enables it; makes
   * one when there is none. The next attempt at every delivery goes there, once it is verified.
   */
  setUrl(endpoint: { partnerId: PartnerId; url: string }): Promise<SetEndpoint>;
  /**
   * A new secret, once per key; of the oldest endpoint unless one is named. The last two keys are
   * known, and of older ones no secret signs. The secret before it signs too for 24 h or until the
   * next rotation, so that a receiver may change over at any time in between; at most two sign.
   *
   * @throws MissingWebhookKeyError for a key of before whose secret was sealed with one that is not
   * there.
   */
  rotateSecret(rotation: RotationOrder): Promise<RotatedSecret>;
  /**
   * Has a notifier send a test to an endpoint, one in ten seconds. `not-open`: its server has not
   * proved that it wants webhooks, or wants none.
   */
  askTest(
    endpoint: OfPartner,
    testId: string,
  ): Promise<'asked' | 'too-soon' | 'not-open' | 'no-endpoint'>;
  /** What came back of the test; `undefined`: not yet, or nobody sends it. */
  readTest(id: EndpointId, testId: string): Promise<TestResult | undefined>;
};

type Row = {
  endpoint_id: EndpointId;
  made_at: Date;
  url: string;
  description: string | null;
  event_types: EventType[] | null;
  verified: boolean;
  second_secret_until: Date | null;
  updated_at: Date;
  failing_since: Date | null;
  disabled_at: Date | null;
  disabled_because: 'gone' | 'failing' | null;
};

type MadeRow = {
  outcome: MadeEndpoint['outcome'];
  made_at: Date;
  secret: SealedSecret | null;
};
type RotationRow = { secret: SealedSecret; previous_secret_until: Date };
type TestRow = Omit<TestResult, 'tookMs'> & { took_ms: number };

/** Webhook endpoints in PostgreSQL, where all clocks are the database's. */
export function openWebhookEndpoints(database: Database, keys: WebhookKeys): WebhookEndpoints {
  return {
    async list(partnerId) {
      return (await database.query<Row>(sql.showEndpoints, [partnerId, null])).map(fromRow);
    },
    find: ({ partnerId, id }) => firstOf(database, [partnerId, id]),
    show: (partnerId) => firstOf(database, [partnerId, null]),
    make: (order) => makeEndpoint(database, keys, order),
    async change({ partnerId, id }, changes) {
      const parameters = [partnerId, id, JSON.stringify(asChanges(changes))];
      const changing = database.query<Row>(sql.changeEndpoint, parameters);
      const [row] = await changing.catch(tellTooOften);
      return row && fromRow(row);
    },
    async delete({ partnerId, id }) {
      const parameters = [partnerId, id];
      const [row] = await database.query<{ deleted: boolean }>(sql.deleteEndpoint, parameters);
      return row!.deleted;
    },
    async setUrl({ partnerId, url }) {
      const secret = generateWebhookSecret();
      const sealed = JSON.stringify(keys.seal(partnerId, secret));
      const id = randomUUID();
      const parameters = [partnerId, id, url, targetHost(new URL(url)), sealed];
      const setting = database.query<Row>(sql.setFirstEndpoint, parameters);
      const [row] = await setting.catch(tellTooOften);
      const endpoint = fromRow(row!);
      return endpoint.id === id
        ? { outcome: 'made', endpoint, secret }
        : { outcome: 'changed', endpoint };
    },
    rotateSecret: (order) => rotate(database, keys, { ...order, sql: sql.rotateWebhookSecret }),
    async askTest({ partnerId, id }, testId) {
      type Asked = { outcome: Awaited<ReturnType<WebhookEndpoints['askTest']>> };
      const [row] = await database.query<Asked>(sql.askTest, [partnerId, id, testId]);
      return row!.outcome;
    },
    async readTest(id, testId) {
      const [row] = await database.query<TestRow>(sql.readTest, [id, testId]);
      return row && { outcome: row.outcome, status: row.status, tookMs: row.took_ms };
    },
  };
}

/**
 * Rotates a partner's secret for it, by the role that manages partners: as `rotateSecret`, and
 * recorded with who and why. Unless it may be `even-early`, a secret that was rotated less than a
 * day ago is left alone: another rotation would end the one before it, which may be all that the
 * partner's server knows.
 */
export async function rotateSecretAs(
  database: Database,
  keys: WebhookKeys,
  order: RotationOrder & { actor: PartnerActor; when: 'rested' | 'even-early' },
): Promise<RotatedSecret | { outcome: 'two-sign'; until: Date }> {
  const { partnerId, id = null, actor, when } = order;
  const more = [actor.by, actor.why, when === 'even-early'];
  const rotated = await rotate(database, keys, { ...order, sql: sql.rotateSecretAs, more });
  if (rotated.outcome !== 'no-endpoint') return rotated;
  const until = (await firstOf(database, [partnerId, id]))?.previousSecretUntil;
  return until ? { outcome: 'two-sign', until } : rotated;
}

type Named = [partnerId: PartnerId, id: EndpointId | null];

async function firstOf(database: Database, of: Named): Promise<ShownEndpoint | undefined> {
  const [row] = await database.query<Row>(sql.showEndpoints, of);
  return row && fromRow(row);
}

async function rotate(
  database: Database,
  keys: WebhookKeys,
  {
    partnerId,
    id,
    key,
    sql: statement,
    more = [],
  }: RotationOrder & { sql: string; more?: unknown[] },
): Promise<RotatedSecret> {
  const offered = keys.seal(partnerId, generateWebhookSecret());
  const parameters = [partnerId, id ?? null, key, JSON.stringify(offered), ...more];
  const rotating = database.query<RotationRow>(statement, parameters);
  const [row] = await rotating.catch(tellTooOften);
  if (row === undefined) return { outcome: 'no-endpoint' };
  const { secret, previous_secret_until: previousSecretUntil } = row;
  const outcome = secret.id === offered.id ? 'rotated' : 'replayed';
  return { outcome, secret: keys.open(partnerId, secret), previousSecretUntil };
}

async function makeEndpoint(
  database: Database,
  keys: WebhookKeys,
  order: EndpointOrder,
): Promise<MadeEndpoint> {
  const { partnerId, key, fingerprint, url, description = null, wants } = order;
  const id = deriveId('endpoint', partnerId, key) as EndpointId;
  const types = wants === 'all' ? null : wants;
  const sealed = JSON.stringify(keys.seal(partnerId, generateWebhookSecret()));
  const host = targetHost(new URL(url));
  const making = database.query<MadeRow>(sql.makeEndpoint, [
    ...[partnerId, id, fingerprint, url, host, types, description, sealed],
    endpointsMax,
  ]);
  const [row] = await making.catch(tellTooOften);
  const { outcome, made_at: madeAt, secret } = row!;
  switch (outcome) {
    case 'made':
      return { outcome, id, madeAt, secret: keys.open(partnerId, secret!) };
    case 'replayed': {
      const shown = secret && { secret: keys.open(partnerId, secret) };
      return { outcome, id, madeAt, ...shown };
    }
    case 'reused':
    case 'deleted':
    case 'too-many':
      return { outcome };
    default:
      return outcome satisfies never;
  }
}

/** As `change_webhook_endpoint` takes them: what is not named stays. */
function asChanges({ url, description, wants }: EndpointChanges): object {
  return {
    ...(url === undefined ? {} : { url, host: targetHost(new URL(url)) }),
    ...(description === undefined ? {} : { description }),
    ...(wants === undefined ? {} : { event_types: wants === 'all' ? null : wants }),
  };
}

function fromRow(row: Row): ShownEndpoint {
  const { description, second_secret_until: until, failing_since: failingSince } = row;
  const { disabled_at: at, disabled_because: because } = row;
  return {
    id: row.endpoint_id,
    url: row.url,
    ...(description === null ? {} : { description }),
    wants: row.event_types ?? 'all',
    verified: row.verified,
    madeAt: row.made_at,
    updatedAt: row.updated_at,
    ...(until === null ? {} : { previousSecretUntil: until }),
    ...(failingSince === null ? {} : { failingSince }),
    ...(at === null || because === null ? {} : { disabled: { at, because } }),
  };
}
