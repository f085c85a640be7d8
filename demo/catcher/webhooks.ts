import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Webhook } from 'standardwebhooks';

/** What a partner's server is made of. */
export type CatcherState = {
  secrets: PartnerSecrets;
  caught: CaughtWebhooks;
  arrivals: Arrivals;
  behaviour: Behaviour;
  /** Who orders how a partner answers has to show it; without one nobody may. */
  controlToken?: string | undefined;
};

/** A request to `POST /hooks/{partner}`. */
type HookRequest = {
  partner: string;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  body: string;
};

type HookAnswer = { status: number; token?: unknown };

/**
 * What a partner does with a webhook, as the Standard Webhooks guide says: verify the signature
 * over the raw body, know a copy by its `webhook-id`, answer 2xx. Returns the status to answer, and
 * the token that a question is answered with, which is no webhook to look at afterwards.
 */
export function receiveWebhook(catcher: CatcherState, request: HookRequest): HookAnswer {
  const { partner, headers } = request;
  const secret = catcher.secrets.get(partner);
  if (secret === undefined) return { status: 404 };
  const id = headers['webhook-id'];
  const body = readBody(request.body);
  if (typeof id !== 'string' || body === undefined) return { status: 400 };
  const verified = isVerified(secret, request);
  if (verified && body.type === 'endpoint.verification') {
    return { status: 200, token: body.data.token };
  }
  const ordered = verified ? catcher.behaviour.next(partner) : 401;
  const status = ordered ?? 204;
  const taken = status >= 200 && status < 300;
  const at = new Date();
  catcher.caught.add({ partner, id, verified, taken, body, at });
  // Before the answer: what the notifier has noted as delivered is in the list.
  catcher.arrivals.add({ partner, id, verified, body: request.body, at });
  return { status };
}

function isVerified(secret: string, { headers, body }: HookRequest): boolean {
  try {
    new Webhook(secret).verify(body, headers as Record<string, string>);
    return true;
  } catch (error) {
    if (error instanceof Error && error.name === 'WebhookVerificationError') return false;
    throw error;
  }
}

function readBody(text: string): WebhookBody | undefined {
  try {
    const body = JSON.parse(text) as Partial<WebhookBody> | null;
    const isWebhook = typeof body?.data === 'object' && body.data !== null;
    return isWebhook ? (body as WebhookBody) : undefined;
  } catch {
    return undefined; // Not JSON, which the sender is told by a 400.
  }
}

/** The body of a webhook, as far as the catcher looks into it. */
type WebhookBody = { type?: unknown; data: { id?: unknown; token?: unknown } };

/** A request that came to a partner's endpoint. */
type Arrival = {
  partner: string;
  id: string;
  /** Whether its signature held, by the official library. */
  verified: boolean;
  /** Whether it was answered with a 2xx, and not with a failure that somebody had ordered. */
  taken: boolean;
  body: WebhookBody;
  at: Date;
};

/** A webhook by its id, however often it came. */
export type CaughtWebhook = {
  id: string;
  partner: string;
  verified: boolean;
  /** Times it came. */
  attempts: number;
  /** What a partner did about it: 1 once it was taken, whatever comes later; never 2. */
  effects: 0 | 1;
  /** Attempts whose body differs from the first one's. */
  altered: number;
  type: string | null;
  txnId: string | null;
  firstAt: Date;
  lastAt: Date;
  body: WebhookBody;
};

/** Which webhooks to list; all when nothing is named. */
export type CaughtFilter = { id?: string; txnId?: string; since?: Date };

/** The webhooks that were caught. */
type CaughtWebhooks = {
  add(arrival: Arrival): CaughtWebhook;
  /** In the order in which they first came. */
  list(filter: CaughtFilter): CaughtWebhook[];
};

/** A memory of the newest webhooks, at most `webhooksMax`. */
export function createCaughtWebhooks(webhooksMax: number): CaughtWebhooks {
  const caught = new Map<string, CaughtWebhook>();
  return {
    add(arrival) {
      // A forged request must not count as an attempt of the real webhook.
      const name = JSON.stringify([arrival.verified, arrival.partner, arrival.id]);
      const webhook = caught.get(name) ?? begin(arrival);
      webhook.attempts += 1;
      webhook.lastAt = arrival.at;
      if (JSON.stringify(arrival.body) !== JSON.stringify(webhook.body)) webhook.altered += 1;
      if (arrival.taken) webhook.effects = 1;
      caught.set(name, webhook);
      if (caught.size > webhooksMax) caught.delete(caught.keys().next().value!);
      return webhook;
    },
    list: ({ id, txnId, since }) =>
      [...caught.values()].filter(
        (each) =>
          (id === undefined || each.id === id) &&
          (txnId === undefined || each.txnId === txnId) &&
          (since === undefined || each.lastAt >= since),
      ),
  };
}

function begin({ id, partner, verified, body, at }: Arrival): CaughtWebhook {
  const text = (value: unknown) => (typeof value === 'string' ? value : null);
  return {
    id,
    partner,
    verified,
    attempts: 0,
    effects: 0,
    altered: 0,
    type: text(body.type),
    txnId: text(body.data.id),
    firstAt: at,
    lastAt: at,
    body,
  };
}

/** One request to an endpoint as it came, byte for byte. */
type ArrivedWebhook = {
  /** 1, 2, 3, … since this catcher was started. */
  number: number;
  partner: string;
  id: string;
  verified: boolean;
  body: string;
  at: Date;
};

/** A page of arrivals. */
export type ArrivalsPage = {
  /** Names this process: another one counts anew. */
  catcher: string;
  /** The number of the newest arrival that there is. */
  last: number;
  arrivals: readonly ArrivedWebhook[];
};

/** Every arrival by its number, for whoever follows them. */
type Arrivals = {
  add(arrival: Omit<ArrivedWebhook, 'number'>): void;
  /** Those that came after that number, oldest first; a page at most. */
  after(number: number): ArrivalsPage;
};

const arrivalsPageMax = 1_000;

/**
 * A list of the newest arrivals, at most `arrivalsMax`. Who asks too late sees by the numbers that
 * some are missing.
 */
export function createArrivals(arrivalsMax: number): Arrivals {
  const catcher = randomUUID();
  const arrivals: ArrivedWebhook[] = [];
  let last = 0;
  return {
    add(arrival) {
      last += 1;
      arrivals.push({ ...arrival, number: last });
      // Half of them at once, so that one arrival costs no move of all others.
      if (arrivals.length > arrivalsMax) arrivals.splice(0, arrivalsMax / 2);
    },
    after(number) {
      const from = Math.max(0, arrivals.length - (last - number));
      return { catcher, last, arrivals: arrivals.slice(from, from + arrivalsPageMax) };
    },
  };
}

/**
 * What a partner's endpoint is to answer next: a status, so many times, instead of taking webhooks.
 */
export type Order = { partner: string; status: number; times: number };

/** How the partners' endpoints behave. */
type Behaviour = {
  order(order: Order): void;
  /** The status ordered for this partner's next answer, used up by asking; undefined: take it. */
  next(partner: string): number | undefined;
};

/**
 * Endpoints that take everything until they are ordered otherwise; a new order replaces the old.
 */
export function createBehaviour(): Behaviour {
  const orders = new Map<string, Order>();
  return {
    order: (order) => void orders.set(order.partner, { ...order }),
    next(partner) {
      const order = orders.get(partner);
      if (order === undefined || order.times <= 0) return undefined;
      order.times -= 1;
      return order.status;
    },
  };
}

/** The webhook secret of each partner that the catcher plays. */
type PartnerSecrets = ReadonlyMap<string, string>;

/** Reads `[{ id, webhookSecret }]`; throws when the file is missing or of another form. */
export function readPartners(file: string): PartnerSecrets {
  const list: unknown = JSON.parse(readFileSync(file, 'utf8'));
  if (!Array.isArray(list)) throw new Error(`${file} is not a JSON array`);
  return new Map(
    list.map((each: { id?: unknown; webhookSecret?: unknown }) => {
      const { id, webhookSecret } = each;
      if (typeof id === 'string' && typeof webhookSecret === 'string') return [id, webhookSecret];
      throw new Error(`${file} has an entry without id or webhookSecret`);
    }),
  );
}
