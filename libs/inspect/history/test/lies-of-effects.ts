import type { HistoryEvent } from '../history.ts';
import {
  answered,
  asked,
  change,
  given,
  idOf,
  plain,
  raced,
  random,
  reads,
  refunded,
  rest,
  retried,
  tooMuch,
  webhooks,
  without,
} from './a-true-history.ts';
import type { Lie } from './lies-of-answers.ts';

/** What is not true of what partners were shown, of webhooks, and of all of it. */
export const liesOfEffects: readonly Lie[] = [
  [
    'a payment appears that nobody asked for',
    'effect-unasked',
    (events) => without(events, asked(events, plain), asked(events, plain, 1)),
  ],
  [
    'a payment is there before it is asked for',
    'effect-unasked',
    (events) => {
      const [webhook] = webhooks(events, plain);
      return [webhook!, ...events.filter((each) => each !== webhook)];
    },
  ],
  [
    'a payment has another reference than was asked for',
    'effect-altered',
    (events) => change(reads(events, plain)[0]!, { reference: 'order-6' }),
  ],
  [
    'a refund gives another payment back',
    'effect-altered',
    (events) => change(reads(events, given)[0]!, { payment: idOf(events, plain) }),
  ],
  [
    'a partner reads the payment of another',
    'seen-by-another',
    (events) => {
      const body = reads(events, retried).at(-1)!.body;
      Object.assign(reads(events, retried, 'globex')[0]!, { status: 200, body });
    },
  ],
  [
    'an accepted payment is not found',
    'read-not-found',
    (events) => void Object.assign(reads(events, retried)[0]!, { status: 404 }),
  ],
  [
    'a read shows another payment',
    'read-mismatch',
    (events) =>
      void Object.assign(reads(events, plain)[0]!, { body: reads(events, refunded)[0]!.body }),
  ],
  [
    'a payment that succeeded has failed',
    'final-changed',
    (events) => change(reads(events, plain)[0]!, { status: 'failed' }),
  ],
  [
    'a payment is pending after it was final',
    'final-undone',
    (events) => {
      const [first, ...later] = reads(events, retried);
      later.at(-1)!.body = first!.body;
    },
  ],
  [
    'a final payment was settled at another time',
    'final-altered',
    (events) => change(reads(events, plain)[0]!, { settled_at: '2027-01-01T00:00:00.000Z' }),
  ],
  [
    'an accepted payment is lost',
    'never-final',
    (events) => {
      const gone = new Set<HistoryEvent>(webhooks(events, plain));
      for (const each of reads(events, plain)) change(each, { status: 'pending' });
      return events.filter((each) => !gone.has(each));
    },
  ],
  [
    'more is given back than was paid',
    'refund-exceeds',
    (events) => {
      const given = { status: 'succeeded', currency: 'EUR' };
      for (const each of webhooks(events, tooMuch)) change(each, { data: given });
      for (const each of reads(events, tooMuch)) change(each, given);
    },
  ],
  [
    'a payment that failed is given back',
    'refund-of-failed',
    (events) => {
      for (const each of webhooks(events, refunded)) change(each, { data: { status: 'failed' } });
      for (const each of reads(events, refunded)) change(each, { status: 'failed' });
    },
  ],
  [
    'a payment shows less given back than its refunds add up to',
    'refunded-differs',
    (events) => change(reads(events, refunded).at(-1)!, { amount_refunded: 1 }),
  ],
  [
    'a payment shows money given back that nobody asked back',
    'refunded-differs',
    (events) => change(reads(events, plain)[0]!, { amount_refunded: 1 }),
  ],
  [
    'a webhook never comes',
    'webhook-missing',
    (events) => {
      const gone = new Set<HistoryEvent>(webhooks(events, plain));
      return events.filter((each) => !gone.has(each));
    },
  ],
  [
    'a webhook of a success shows a failure',
    'webhook-malformed',
    (events) => change(webhooks(events, plain)[0]!, { type: 'payment.failed' }),
  ],
  [
    'a webhook is not JSON',
    'webhook-malformed',
    (events) => void Object.assign(webhooks(events, plain)[0]!, { body: 'gone' }),
  ],
  [
    'a webhook is not signed by us',
    'webhook-unverified',
    (events) => void Object.assign(webhooks(events)[0]!, { verified: false }),
  ],
  [
    'a webhook comes twice with other bytes',
    'webhook-copy-differs',
    (events) => void (webhooks(events).at(-1)!.body += ' '),
  ],
  [
    'an event gets a new id',
    'webhook-id-not-derived',
    (events) => void Object.assign(webhooks(events, plain)[0]!, { id: random }),
  ],
  [
    'a webhook goes to another partner',
    'webhook-of-another',
    (events) => void Object.assign(webhooks(events, plain)[0]!, { partner: 'globex' }),
  ],
  [
    'two events of a payment have one number',
    'sequence-repeated',
    (events) => change(webhooks(events, rest)[0]!, { sequence: 2 }),
  ],
  [
    'a number of a payment is left out',
    'sequence-gap',
    (events) => change(webhooks(events, tooMuch)[0]!, { sequence: 5 }),
  ],
  [
    'a key conflict names a request that nobody sent',
    'conflict-unfounded',
    (events) => {
      const conflict = webhooks(events, raced).find(({ body }) => body.includes('key_conflict'));
      change(conflict!, { data: { fingerprint: '0'.repeat(64) } });
    },
  ],
  [
    'a webhook informs of another sum',
    'sums-differ',
    (events) => change(webhooks(events, plain)[0]!, { data: { amount: 4_001 } }),
  ],
  [
    'an answer comes to what nobody asked',
    'answered-unasked',
    (events) => events.filter((each) => each !== asked(events, retried, 2)),
  ],
  [
    'a request has two answers',
    'answered-twice',
    (events) => void events.push({ ...answered(events, retried) }),
  ],
  [
    'two requests have one number',
    'answered-twice',
    (events) => void events.push({ ...asked(events, retried) }),
  ],
  [
    'a run in which nothing was accepted proves something',
    'proves-nothing',
    (events) => {
      const refused = asked(events, plain);
      return events.filter((each) => each.what === 'over' || ('n' in each && each.n === refused.n));
    },
  ],
];
