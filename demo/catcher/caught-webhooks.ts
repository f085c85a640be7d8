/** The body of a webhook, as far as the catcher looks into it. */
export type WebhookBody = { type?: unknown; data: { id?: unknown } };

/** A request that came to a partner's endpoint. */
export type Arrival = {
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
export type CaughtWebhooks = {
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
