import type { KeyScope } from '@triplock/contracts';
import type { CardNumbersIn, EndpointId, PartnerId } from '@triplock/payments';
import { loadStatements, type Database } from '@triplock/postgres';
import { inBatches } from '@triplock/runtime';
import {
  createAuthenticator,
  openKeyUses,
  versionOf,
  type Authentication,
  type KeyHolder,
} from './api-keys.ts';
import type { TestResult } from './webhook-endpoints.ts';
import type { SealedSecret, WebhookKeys } from './webhook-secrets.ts';

const sql = loadStatements(import.meta.url, 'postgres/partners.sql', [
  'findApiKeys',
  'noteKeyUses',
  'findWebhookEndpoints',
  'disableWebhookEndpoint',
  'takeEndpointQuestions',
  'verifyWebhookEndpoint',
  'answerWebhookTest',
  'answerEndpointNotice',
]);

/** Where an endpoint's webhooks go. More than one secret only while they rotate, newest first. */
export type WebhookEndpoint = {
  url: string;
  /** The URL's host, by which webhooks have a rate (`targetHost`). */
  host: string;
  secrets: readonly string[];
  /** Another one whenever the endpoint was changed. */
  version: string;
};

/**
 * An endpoint that is to be asked, once: whether its server wants webhooks, or with a test; or told
 * that another one was disabled.
 */
export type EndpointQuestion = {
  id: EndpointId;
  partnerId: PartnerId;
  url: string;
  version: string;
  /** Which question it is, from 1, since the endpoint was changed. */
  asks: number;
  /**
   * Its partner asked for this test, or is to be told this notice; null: the question is whether it
   * wants webhooks.
   */
  testId: string | null;
  /** The body of a notice; null: it is none. */
  notice: string | null;
  /** @throws MissingWebhookKeyError when a secret is sealed with a key that is not there. */
  openSecrets(): readonly string[];
};

/** An endpoint as it was when something was asked of it. */
export type EndpointVersion = { id: EndpointId; version: string };

/** Partners as the other services need them: who sends, and where their webhooks go. */
export type Partners = {
  /**
   * Whose key it is, from this process's cache for 5 s and then from PostgreSQL. While PostgreSQL
   * cannot be reached, a key that was good goes on being good.
   *
   * @throws PartnersUnavailableError within 2 s when the key is unknown here and PostgreSQL
   * cannot be reached.
   */
  authenticate(apiKey: string): Promise<Authentication>;
  /**
   * Writes down when keys were last used, a thousand at once, and returns how many more wait; new
   * keys that could be shown again for a day are shown no longer by it. It is called about once a
   * minute, in use or not: authenticating writes nothing.
   *
   * @throws when PostgreSQL cannot be reached; the next call writes it down.
   */
  storeKeyUses(): Promise<number>;
  /**
   * Asked at every call, so that a new URL or secret counts at once. Calls at the same time share
   * a question that none of them came after. `undefined`: nothing may be sent, because its server
   * has yet to prove that it wants webhooks, or answered 410 Gone, or it was deleted.
   *
   * @throws MissingWebhookKeyError when a secret is sealed with a key that is not there.
   */
  webhookEndpoint(id: EndpointId): Promise<WebhookEndpoint | undefined>;
  /**
   * Endpoints that nobody else asks now, `endpointsMax` of them, as many that are to be told of
   * another one, and all tests that were asked for.
   * `paced`: each at most once in ten seconds, and at most five of one partner or host;
   * `take_endpoint_questions` says how often. `all` is for who asks nobody.
   */
  takeQuestions(endpointsMax: number, which: 'paced' | 'all'): Promise<EndpointQuestion[]>;
  /**
   * Has webhooks sent to an endpoint from now on; `because` says by what it is known to want them.
   * Returns whether this call opened it: not so when it was changed since it had this version.
   */
  verifyEndpoint(endpoint: EndpointVersion, because: string): Promise<boolean>;
  /**
   * Sends nothing more to an endpoint until its partner sets it again. Returns whether this call
   * disabled it: not so when it was disabled before, or when it was changed since it had this
   * version.
   */
  disableEndpoint(endpoint: EndpointVersion): Promise<boolean>;
  /** Says what came back of a test, to whoever waits for it. */
  answerTest(id: EndpointId, testId: string, result: TestResult): Promise<void>;
  /** Says that a notice was delivered: it is not sent again. */
  answerNotice(noticeId: string): Promise<void>;
  /**
   * Calls `onChange` when a partner has set an endpoint or asked for webhooks again, and once when
   * it has begun to listen; resolves when `signal` aborts. What is changed in other ways, and while
   * a connection is lost, is not announced: look by yourself too, if seldom.
   */
  listen(onChange: () => void, signal: AbortSignal): Promise<void>;
  /** Whether answers come from the cache: PostgreSQL did not answer when it was last asked. */
  stale(): boolean;
  /** Whether any key is known to be good: its partner gets in while PostgreSQL is unreachable. */
  warm(): boolean;
  /** Resolves when PostgreSQL answers, and ends being stale; throws when it does not. */
  ping(): Promise<void>;
};

type EndpointRow = Omit<WebhookEndpoint, 'secrets'> & {
  endpoint_id: EndpointId;
  partner_id: PartnerId;
  secrets: readonly SealedSecret[];
};
type QuestionRow = {
  endpoint_id: EndpointId;
  partner_id: PartnerId;
  url: string;
  secrets: readonly SealedSecret[];
  version: string;
  asks: number;
  test_id: string | null;
  notice: string | null;
};
type Verified = { verified: boolean };
type Disabled = { disabled: boolean };
type KeyRow = {
  sha256: Buffer;
  partner_id: PartnerId;
  card_numbers_in: CardNumbersIn;
  scope: KeyScope;
  api_version: string | null;
  key_id: string;
  expires_at: Date | null;
};

function holderOf(row: KeyRow): KeyHolder {
  const { key_id: keyId, partner_id: partnerId, card_numbers_in: cardNumbersIn, scope } = row;
  const expiresAtMs = row.expires_at?.getTime() ?? Infinity;
  const apiVersion = versionOf(row.api_version);
  return { partnerId, cardNumbersIn, scope, keyId, apiVersion, expiresAtMs };
}

/** The statements of webhook-endpoints.sql and webhook-deliveries.sql notify it. */
const webhooksChannel = 'triplock_webhooks';

/**
 * A flood of made-up keys takes one connection and a bounded number of statements, of a few
 * milliseconds each, and a good key waits behind one statement, never behind ten thousand. Only a
 * store that hangs lets so many wait that the next one is refused.
 */
const lookUpLimits = { itemsMax: 1_000, waitingMax: 10_000 };

/** Whoever asks has a slot of a sender, so no more wait than there are slots. */
const endpointLimits = { itemsMax: 1_000 };

/**
 * Partners in PostgreSQL. `clock` gives milliseconds, `wallClock` those since 1970, by which keys
 * expire; the machine's own by default. `webhookKeys`
 * open webhook secrets: only who sends webhooks needs them.
 */
export function openPartners(
  database: Database,
  {
    clock = () => performance.now(),
    wallClock,
    webhookKeys,
  }: { clock?: () => number; wallClock?: () => number; webhookKeys?: WebhookKeys } = {},
): Partners {
  const find = inBatches(async (hashes: readonly Buffer[]) => {
    const rows = await database.query<KeyRow>(sql.findApiKeys, [hashes]);
    const known = new Map(
      rows.map((row): [string, KeyHolder] => [row.sha256.toString('base64'), holderOf(row)]),
    );
    return hashes.map((hash) => known.get(hash.toString('base64')));
  }, lookUpLimits);
  const uses = openKeyUses(
    (ids, secondsAgo) => database.query(sql.noteKeyUses, [ids, secondsAgo]),
    clock,
  );
  const authenticator = createAuthenticator(find, clock, { wallClock, onUse: uses.note });
  const openAll = (partnerId: PartnerId, secrets: readonly SealedSecret[]) => {
    if (webhookKeys === undefined) throw new Error('these partners were opened without keys');
    return secrets.map((each) => webhookKeys.open(partnerId, each));
  };
  const findEndpoint = inBatches(async (ids: readonly EndpointId[]) => {
    const parameters = [[...new Set(ids)]];
    const rows = await database.query<EndpointRow>(sql.findWebhookEndpoints, parameters);
    const found = new Map(
      rows.map(({ endpoint_id: id, partner_id: partnerId, secrets, ...endpoint }) => {
        let opened: WebhookEndpoint | undefined;
        // A secret that cannot be opened is its own partner's trouble alone.
        return [id, () => (opened ??= { ...endpoint, secrets: openAll(partnerId, secrets) })];
      }),
    );
    return ids.map((id) => found.get(id));
  }, endpointLimits);
  return {
    authenticate: (apiKey) => authenticator.authenticate(apiKey),
    storeKeyUses: uses.store,
    webhookEndpoint: async (id) => (await findEndpoint(id))?.(),
    async takeQuestions(endpointsMax, which) {
      const parameters = [endpointsMax, which === 'paced'];
      const rows = await database.query<QuestionRow>(sql.takeEndpointQuestions, parameters);
      return rows.map(({ endpoint_id: id, partner_id: partnerId, test_id: testId, ...rest }) => {
        const openSecrets = () => openAll(partnerId, rest.secrets);
        const { url, version, asks, notice } = rest;
        return { id, partnerId, testId, notice, url, version, asks, openSecrets };
      });
    },
    async verifyEndpoint({ id, version }, because) {
      const asked = [id, version, because];
      const [row] = await database.query<Verified>(sql.verifyWebhookEndpoint, asked);
      return row!.verified;
    },
    async disableEndpoint({ id, version }) {
      const asked = [id, version];
      const [row] = await database.query<Disabled>(sql.disableWebhookEndpoint, asked);
      return row!.disabled;
    },
    async answerTest(id, testId, { outcome, status, tookMs }) {
      const parameters = [testId, id, outcome, status, Math.round(tookMs)];
      await database.query(sql.answerWebhookTest, parameters);
    },
    async answerNotice(noticeId) {
      await database.query(sql.answerEndpointNotice, [noticeId]);
    },
    listen: (onChange, signal) => database.listen(webhooksChannel, onChange, signal),
    stale: () => authenticator.stale(),
    warm: () => authenticator.warm(),
    async ping() {
      try {
        await database.ping();
      } catch (error) {
        authenticator.noteStore('unreachable');
        throw error;
      }
      authenticator.noteStore('answers');
    },
  };
}
