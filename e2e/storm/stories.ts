import { setTimeout as delay } from 'node:timers/promises';
import { createRandom, shuffled, type Random } from '@triplock/runtime';
import { eventually, stripeControl } from '@triplock/testing';
import { type Answer, newKey, type Partner } from '../test/partner.ts';
import type { Setup } from '../test/system.ts';
import type { AskedKey, Listed } from './checker.ts';
import { readJson } from './evidence.ts';

/** A storm of everything that can be asked for, and what was asked and answered by now. */
export type MixedStorm = {
  asked: readonly AskedKey[];
  /** How many requests got a 202 for the first time. */
  accepted(): number;
  /** Waits until so many more are accepted. */
  accepts(more: number): Promise<void>;
  /** No new story begins; resolves when those under way have ended and every customer has acted. */
  stop(): Promise<void>;
};

type Kind = AskedKey['kind'];
type Asked = Omit<AskedKey, 'answers'> & { answers: { status: number; text: string }[] };

/** A partner, and what it may do in a story. */
type Teller = {
  random: Random;
  from: Partner;
  /** Asks until it knows that it was accepted; the id. */
  ask(kind: Exclude<Kind, 'refund'>, body: object, payment?: string): Promise<string>;
  /** Asks in the same way for money back, or until it knows that none is left. */
  refund(body: object, payment: string): Promise<unknown>;
  /** Waits until a payment's status is one of these. */
  becomes(id: string, ...statuses: string[]): Promise<void>;
  /** The bank's customer wants the money back, where it was taken. */
  dispute(id: string): Promise<void>;
  rest(): Promise<void>;
};
type Story = (teller: Teller) => Promise<unknown>;

const pay = (method?: string, currency = 'EUR', more: object = {}) => ({
  amount: 1_000,
  currency,
  ...(method !== undefined && { payment_method: method }),
  ...more,
});

/** A part, and then all that is left, and then once more for nothing. */
const refundInTurns =
  (body: object, ready = true): Story =>
  async ({ ask, refund, becomes, rest }) => {
    const payment = await ask('payment', body);
    if (ready) await becomes(payment, 'succeeded', 'captured');
    await refund({ amount: 300 }, payment);
    await rest();
    await refund({}, payment);
    await rest();
    await refund({}, payment);
  };

/** More at once than was paid. */
const refundAtOnce =
  (body: object): Story =>
  async ({ ask, refund, rest }) => {
    const payment = await ask('payment', body);
    await rest();
    const amounts = [600, 600, undefined, 200];
    await Promise.all(amounts.map((amount) => refund({ amount }, payment)));
  };

const manual = pay('pm_card_visa', 'EUR', { capture_method: 'manual' });

const captureAndRefund: Story = async ({ ask, refund, becomes, random, rest }) => {
  const payment = await ask('payment', manual);
  await becomes(payment, 'authorized', 'captured', 'canceled');
  await ask('capture', random() < 0.5 ? { amount: 700 } : {}, payment);
  await rest();
  await Promise.all([400, 400].map((amount) => refund({ amount }, payment)));
};

const cancelAtOnce: Story = async ({ ask, rest }) => {
  const payment = await ask('payment', manual);
  await rest();
  await Promise.all([ask('cancellation', {}, payment), ask('cancellation', {}, payment)]);
};

const captureOrCancel: Story = async ({ ask, becomes }) => {
  const payment = await ask('payment', manual);
  await becomes(payment, 'authorized', 'captured', 'canceled');
  await Promise.all([
    ask('capture', { amount: 500 }, payment),
    ask('cancellation', {}, payment),
    ask('capture', { amount: 400 }, payment),
  ]);
};

const disputed: Story = async ({ ask, refund, becomes, dispute, rest }) => {
  const payment = await ask('payment', pay('pm_card_visa'));
  await becomes(payment, 'succeeded');
  await refund({ amount: 100 }, payment);
  await rest();
  await dispute(payment);
};

const stories: readonly (readonly [times: number, story: Story])[] = [
  [3, ({ ask }) => ask('payment', pay())],
  [2, refundInTurns(pay())],
  [2, refundAtOnce(pay())],
  [2, refundInTurns(pay('pm_card_visa'))],
  [2, refundAtOnce(pay('pm_card_visa'))],
  [2, refundInTurns(pay('pm_usBankAccount_success', 'USD'))],
  [1, refundAtOnce(pay('pm_usBankAccount_success', 'USD'))],
  [1, refundInTurns(pay('pm_card_authenticationRequired'), false)],
  [1, ({ ask }) => ask('payment', pay('pm_card_chargeDeclined'))],
  [2, captureAndRefund],
  [2, cancelAtOnce],
  [1, captureOrCancel],
  [2, disputed],
];
const deck = stories.flatMap(([times, story]) => Array.from({ length: times }, () => story));

const paths: Readonly<Record<Kind, (payment?: string) => string>> = {
  payment: () => '/v1/payments',
  refund: (payment) => `/v1/payments/${payment}/refunds`,
  capture: (payment) => `/v1/payments/${payment}/captures`,
  cancellation: (payment) => `/v1/payments/${payment}/cancellations`,
};

/** More than is left was asked back, and that was known at once. */
function isTooMuch({ status, body }: Answer): boolean {
  if (status !== 400) return false;
  const { errors = [] } = JSON.parse(body) as { errors?: { pointer: string }[] };
  return errors.some(({ pointer }) => pointer === '#/amount');
}

const underWayMax = 60;
/** A system that was set back is away for minutes on a busy machine. */
const patienceMs = 600_000;

/**
 * Sends up to so many stories a second until it is stopped, whatever becomes of the system. Whoever
 * does not know what became of a request asks again under its key until it does.
 */
export function sendStorm(
  { acme, globex, system }: Pick<Setup, 'acme' | 'globex' | 'system'>,
  { perSecond, seed, run }: { perSecond: number; seed: number; run: string },
): MixedStorm {
  const asked: Asked[] = [];
  const accepted = new Set<string>();
  const underWay = new Set<Promise<unknown>>();
  const failures: unknown[] = [];
  const ended = new AbortController();
  const provider = stripeControl(system.providers.stripe.url, system.controlToken);

  const send = (from: Partner, { kind, key, payment }: Asked, body: object) =>
    from.send({ method: 'POST', path: paths[kind](payment), key, body });
  const ask = async (from: Partner, kind: Kind, given: { body: object; payment?: string }) => {
    const { body, payment } = given;
    const key = newKey(run);
    const about = payment === undefined ? {} : { payment };
    const each: Asked = { partner: from.id, kind, key, ...about, answers: [] };
    asked.push(each);
    const { id } = await eventually(
      async () => {
        const answer = await send(from, each, body).catch((): undefined => undefined);
        if (answer === undefined) return undefined;
        each.answers.push({ status: answer.status, text: answer.body });
        if (answer.status === 202) return JSON.parse(answer.body) as { id: string };
        if (kind === 'refund' && isTooMuch(answer)) return { id: undefined };
        if ([409, 503].includes(answer.status)) return undefined;
        // Right after a restore a gateway may not know the payment yet: its claim or row comes.
        if (answer.status === 404 && kind !== 'payment') return undefined;
        throw new Error(`${kind} ${key}: ${answer.status} ${answer.body}`);
      },
      { withinMs: patienceMs, what: `an answer to ${kind} ${key}` },
    );
    if (id !== undefined) accepted.add(id);
    return id;
  };
  const statusOf = async (from: Partner, id: string) => {
    const answer = await from.payment(id).catch((): Answer | undefined => undefined);
    return answer?.status === 200 ? (JSON.parse(answer.body) as { status: string }).status : '';
  };
  const intentOf = async (id: string) => {
    const url = `${system.providers.stripe.url}/v1/payment_intents?limit=100`;
    const { data } = await readJson<{ data: Listed[] }>(url);
    return data.find(({ metadata }) => metadata?.['txn_id'] === id)?.id;
  };
  const tellerFor = (random: Random): Teller => {
    const [from] = shuffled([acme, globex], random) as [Partner];
    return {
      random,
      from,
      ask: async (kind, body, payment) =>
        (await ask(from, kind, { body, ...(payment === undefined ? {} : { payment }) }))!,
      refund: (body, payment) => ask(from, 'refund', { body, payment }),
      becomes: async (id, ...statuses) => {
        const limits = { withinMs: patienceMs, what: `${id} to be ${statuses.join(' or ')}` };
        await eventually(async () => statuses.includes(await statusOf(from, id)), limits);
      },
      dispute: async (id) => {
        const intent = await intentOf(id);
        // One that was given back whole is not disputed any more, says the simulator.
        if (intent === undefined) return;
        await provider('POST', `/payment_intents/${intent}/dispute`, { amount: 300 }).catch(
          (error: unknown) => {
            if (!String(error).includes(': 409 ')) throw error;
          },
        );
      },
      rest: () => delay(random() * 1_500),
    };
  };
  const begin = async () => {
    for (let story = 0; !ended.signal.aborted; story += 1) {
      const random = createRandom(seed + story);
      const told = deck[Math.floor(random() * deck.length)]!(tellerFor(random));
      const watched = told.catch((error: unknown) => void failures.push(error));
      underWay.add(watched);
      void watched.finally(() => underWay.delete(watched));
      if (underWay.size >= underWayMax) await Promise.race(underWay);
      await delay(1_000 / perSecond);
    }
  };
  const beginning = begin();
  return {
    asked,
    accepted: () => accepted.size,
    accepts: async (more) => {
      const enough = accepted.size + more;
      const limits = { withinMs: 240_000, what: `${more} more accepted requests` };
      await eventually(async () => accepted.size >= enough, limits);
    },
    stop: async () => {
      ended.abort();
      await beginning;
      await Promise.all(underWay);
      if (failures.length > 0) throw new AggregateError(failures, String(failures[0]));
    },
  };
}

/** Has every customer act that still has to, of whatever payment. */
export async function allCustomersAct({ system }: Pick<Setup, 'system'>): Promise<number> {
  const provider = stripeControl(system.providers.stripe.url, system.controlToken);
  let acted = 0;
  for (let after = ''; ;) {
    const url = `${system.providers.stripe.url}/v1/payment_intents?limit=100${after}`;
    const { data, has_more: more } = await readJson<{ data: Listed[]; has_more: boolean }>(url);
    for (const { id, status } of data) {
      if (status !== 'requires_action') continue;
      await provider('POST', `/payment_intents/${id}/authenticate`, { outcome: 'succeeded' });
      acted += 1;
    }
    if (!more) return acted;
    after = `&starting_after=${data.at(-1)!.id}`;
  }
}
