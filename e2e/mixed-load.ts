import { setTimeout as delay } from 'node:timers/promises';
import { createRandom, shuffled, type Random } from '@triplock/runtime';
import { eventually } from '@triplock/testing';
import { type Answer, newKey, type Partner } from './test/partner.ts';

/** What a partner asks for under a key; a refund names its payment. */
export type Asked = {
  from: Partner;
  kind: 'payment' | 'refund';
  key: string;
  paymentId?: string;
  /** Payments carry a mark of their own as reference, refunds as reason. */
  body: Readonly<Record<string, unknown>> & { amount: number };
};

/**
 * One request and what came of it. One without an answer may have taken effect or not, which its
 * partner knows as little as we do.
 */
export type Attempt = Asked & { sentAt: Date; answer?: Answer; unanswered?: string };

/** Requests under way, and everything that was asked and accepted by now. */
export type MixedLoad = {
  attempts: Attempt[];
  /** Ids that a 202 was given for the first time, the latest last. */
  accepted: readonly string[];
  /** Waits until there are so many more: the load is real, and the system is back from a fault. */
  accepts(more: number): Promise<void>;
  /** No new story begins; resolves when those under way have ended. */
  stop(): Promise<void>;
};

/** On a machine that is slow, stories wait for others to end instead of piling up. */
const underWayMax = 100;
/** After so many requests without a 202 partners hold back, as a 503 asks them to. */
const patience = { requests: 150, pauseMs: 500 };

/**
 * Partners that pay, ask for refunds and retry, up to `perSecond` new stories a second, whatever
 * becomes of them. Which stories, which partner and how patient is drawn from the seed. Every key
 * begins with `run`.
 */
export function sendMixed(
  partners: readonly Partner[],
  { perSecond, seed, run }: { perSecond: number; seed: number; run: string },
): MixedLoad {
  const attempts: Attempt[] = [];
  const accepted: string[] = [];
  const underWay = new Set<Promise<void>>();
  const ended = new AbortController();
  const beginStories = async () => {
    for (let story = 0; !ended.signal.aborted; story += 1) {
      const told = tell({ partners, run, attempts, accepted }, createRandom(seed + story));
      underWay.add(told);
      void told.finally(() => underWay.delete(told));
      if (underWay.size >= underWayMax) await Promise.race(underWay);
      const latest = attempts.slice(-patience.requests);
      const isVain = latest.length === patience.requests && !latest.some(isAccepted);
      await delay(isVain ? patience.pauseMs : 1_000 / perSecond);
    }
  };
  const beginning = beginStories();
  return {
    attempts,
    accepted,
    accepts: async (more) => {
      const enough = accepted.length + more;
      const limits = { withinMs: 120_000, what: `${more} more accepted requests` };
      await eventually(async () => accepted.length >= enough, limits);
    },
    stop: async () => {
      ended.abort();
      await beginning;
      await Promise.all(underWay);
    },
  };
}

/** A partner with a day's luck: how patient it is, and what it asks for. */
type Teller = {
  random: Random;
  /** A key that nobody used before. */
  fresh(): string;
  from: Partner;
  other: Partner;
  /** Sends it once. */
  send(asked: Asked): Promise<Attempt>;
  /** Sends it, again while nothing is known of it and patience lasts; the 202, should it come. */
  insist(asked: Asked): Promise<Answer | undefined>;
};

type Story = (teller: Teller) => Promise<unknown>;

/** A book transfer, or of a card. */
function aPayment({ random, from, fresh }: Teller, method?: string): Asked {
  const card = method !== undefined && { payment_method: method };
  return marked({ from, kind: 'payment', key: fresh(), body: card || {} }, 100 + drawn(random));
}

const drawn = (random: Random) => Math.floor(random() * 900);

/** The same of another amount, under the same key. */
const another = (asked: Asked): Asked => marked(asked, asked.body.amount + 1);

/** The mark tells apart what is asked for under one key. */
function marked(asked: Omit<Asked, 'body'> & { body: object }, amount: number): Asked {
  const mark = `${asked.key}/${amount}`;
  const body = { ...asked.body, amount };
  return asked.kind === 'refund'
    ? { ...asked, body: { ...body, reason: mark } }
    : { ...asked, body: { ...body, currency: 'EUR', reference: mark } };
}

const pay = (method?: string): Story => {
  return (teller) => teller.insist(aPayment(teller, method));
};

/** Right after the 202, when the payment may be in no ledger yet. */
const payAndRefund = (method?: string): Story => {
  return async (teller) => {
    const asked = aPayment(teller, method);
    const paid = await teller.insist(asked);
    if (paid === undefined) return;
    const { id: paymentId } = JSON.parse(paid.body) as { id: string };
    const refund = { kind: 'refund', from: asked.from, key: teller.fresh(), paymentId } as const;
    await teller.insist(marked({ ...refund, body: {} }, Math.ceil(asked.body.amount / 2)));
  };
};

const payTwiceAtOnce: Story = (teller) => {
  const asked = aPayment(teller);
  return Promise.all([teller.insist(asked), teller.insist(asked)]);
};

const payAndRetryLater: Story = async (teller) => {
  const asked = aPayment(teller);
  await teller.insist(asked);
  await delay(teller.random() * 5_000);
  await teller.send(asked);
};

const payAndReuseTheKey: Story = async (teller) => {
  const asked = aPayment(teller);
  await teller.insist(asked);
  await teller.send(another(asked));
  await delay(teller.random() * 3_000);
  await Promise.all([teller.send(another(asked)), teller.send(asked)]);
};

const payTwoThingsUnderOneKey: Story = (teller) => {
  const asked = aPayment(teller);
  return Promise.all([teller.insist(asked), teller.insist(another(asked))]);
};

const payUnderAnothersKey: Story = (teller) => {
  const asked = aPayment(teller);
  return Promise.all([
    teller.insist(asked),
    teller.insist({ ...another(asked), from: teller.other }),
  ]);
};

/** Each so often among all of them. */
const stories: readonly (readonly [times: number, story: Story])[] = [
  [8, pay()],
  [2, pay('pm_card_visa')],
  [1, pay('pm_card_chargeDeclined')],
  [2, payAndRefund()],
  [1, payAndRefund('pm_card_visa')],
  [2, payTwiceAtOnce],
  [2, payAndRetryLater],
  [2, payAndReuseTheKey],
  [1, payTwoThingsUnderOneKey],
  [1, payUnderAnothersKey],
];
const deck = stories.flatMap(([times, story]) => Array.from({ length: times }, () => story));

type Run = {
  partners: readonly Partner[];
  run: string;
  attempts: Attempt[];
  accepted: string[];
};

async function tell({ partners, run, attempts, accepted }: Run, random: Random): Promise<void> {
  const [from, other] = shuffled(partners, random);
  const triesMax = 1 + Math.floor(random() * 3);
  const send = async (asked: Asked) => {
    const made = await attempt(attempts, asked);
    if (isAccepted(made) && made.answer!.headers['idempotency-replayed'] === undefined) {
      accepted.push((JSON.parse(made.answer!.body) as { id: string }).id);
    }
    return made;
  };
  const insist = async (asked: Asked) => {
    for (let tries = 1; ; tries += 1) {
      const { answer } = await send(asked);
      if (answer?.status === 202) return answer;
      if (tries === triesMax || answer?.status === 422) return undefined;
      await delay(200 + random() * 1_800);
    }
  };
  const story = deck[Math.floor(random() * deck.length)]!;
  const fresh = () => newKey(run);
  await story({ random, fresh, from: from!, other: other!, send, insist });
}

async function attempt(attempts: Attempt[], asked: Asked): Promise<Attempt> {
  const { from, kind, key, paymentId, body } = asked;
  const request = paymentId === undefined ? {} : { paymentId };
  const made: Attempt = { from, kind, key, ...request, body, sentAt: new Date() };
  attempts.push(made);
  try {
    made.answer = await (kind === 'payment'
      ? from.pay(key, body)
      : from.refund(paymentId!, key, body));
  } catch (error) {
    made.unanswered = String(error);
  }
  return made;
}

/**
 * Has every partner that does not know what became of its key ask again, until it knows: a body of
 * the key gets its 202, now or again.
 *
 * @returns how many keys were asked again, and how many of them had taken effect before.
 * @throws when a key stays unknown for longer than `withinMs`, or all of its bodies are refused.
 */
export async function askAgain(
  { attempts }: MixedLoad,
  withinMs: number,
): Promise<{ unknown: number; replayed: number }> {
  const keys = Map.groupBy(attempts, ({ from, kind, key }) => `${from.id} ${kind} ${key}`);
  const unknown = [...keys].filter(([, of]) => !of.some(isAccepted));
  const left = unknown.values();
  let replayed = 0;
  const ask = async () => {
    for (const [key, of] of left) {
      const { headers } = await askUntilAccepted(attempts, { key, of, withinMs });
      if (headers['idempotency-replayed'] === 'true') replayed += 1;
    }
  };
  await Promise.all(Array.from({ length: 16 }, ask));
  return { unknown: unknown.length, replayed };
}

async function askUntilAccepted(
  attempts: Attempt[],
  { key, of, withinMs }: { key: string; of: readonly Attempt[]; withinMs: number },
): Promise<Answer> {
  for (const [asked] of Map.groupBy(of, markOf).values()) {
    const answer = await eventually(
      async () => {
        const again = (await attempt(attempts, asked!)).answer;
        return again !== undefined && [202, 422].includes(again.status) && again;
      },
      { withinMs, what: `an answer to ${key}` },
    );
    if (answer.status === 202) return answer;
  }
  throw new Error(`every body of ${key} was refused`);
}

/** What tells the bodies of one key apart, in the request and in the ledger. */
export function markOf({ body }: Asked): string {
  return String(body['reference'] ?? body['reason']);
}

export const isAccepted = ({ answer }: Attempt): boolean => answer?.status === 202;

/** A payment that was sent, and what came of it. */
type Paid = { key: string; body: unknown; answer: Answer };

/** Has clients pay, each one payment after the other, until it is told to stop. */
export function payInTurns(
  from: Partner,
  { clients, idleMs }: { clients: number; idleMs: number },
): { sent: Paid[]; stop(): Promise<void> } {
  const sent: Paid[] = [];
  let stopping = false;
  const pay = async () => {
    while (!stopping) {
      const [key, body] = [newKey('still'), { amount: 300, currency: 'EUR' }];
      sent.push({ key, body, answer: await from.pay(key, body) });
      await delay(idleMs);
    }
  };
  const paying = Array.from({ length: clients }, pay);
  const stop = async () => {
    stopping = true;
    await Promise.all(paying);
  };
  return { sent, stop };
}
