import type { HistoryCheck, HistoryEvent } from '../history.ts';
import {
  answered,
  asked,
  change,
  given,
  more,
  order,
  plain,
  random,
  retried,
  webhooks,
  without,
} from './a-true-history.ts';

/**
 * A sentence that is not true any more, the check that has to name it, and how it is planted: it
 * changes the events of a true history, or gives others.
 */
export type Lie = [
  lie: string,
  is: HistoryCheck,
  plant: (events: HistoryEvent[]) => HistoryEvent[] | void,
];

/** What is not true of the answers that clients got. */
export const liesOfAnswers: readonly Lie[] = [
  [
    'an id is made at random',
    'id-not-derived',
    (events) => change(answered(events, plain, 1), { id: random }),
  ],
  [
    'a 202 shows another amount',
    'answer-altered',
    (events) => change(answered(events, plain, 1), { amount: 1 }),
  ],
  [
    'a 202 says that it has succeeded',
    'answer-altered',
    (events) => change(answered(events, plain, 1), { status: 'succeeded' }),
  ],
  [
    'a payment of nothing is accepted',
    'accepted-invalid',
    (events) =>
      void Object.assign(answered(events, plain), {
        status: 202,
        body: answered(events, plain, 1).body,
      }),
  ],
  [
    "a payment with a card's number is accepted",
    'accepted-invalid',
    (events) => {
      const first = asked(events, plain, 1);
      first.body = first.body!.replace(/order-\d+/, '4242 4242 4242 4242');
    },
  ],
  [
    'a payment without a key is accepted',
    'accepted-invalid',
    (events) => void delete asked(events, plain, 1).key,
  ],
  [
    'a 422 is stored as the answer',
    'refusal-replayed',
    (events) => void Object.assign(answered(events, retried, 3), { replayed: true }),
  ],
  [
    'a payment is answered by 200',
    'answer-unknown',
    (events) => void Object.assign(answered(events, retried, 2), { status: 200 }),
  ],
  [
    'a 409 does not say when to ask again',
    'retry-after-missing',
    (events) => void delete answered(events, retried, 1).retryAfter,
  ],
  [
    'a replay has one more space',
    'replay-differs',
    (events) => {
      const replay = answered(events, retried, 2);
      replay.body = replay.body.replace(',', ', ');
    },
  ],
  [
    'another body is accepted under a used key',
    'two-bodies-accepted',
    (events) => {
      const { body } = answered(events, retried);
      Object.assign(answered(events, retried, 3), {
        status: 202,
        body: body.replace('1000', '1001'),
      });
    },
  ],
  [
    'the first answer is a replay',
    'replay-of-nothing',
    (events) => void Object.assign(answered(events, plain, 1), { replayed: true }),
  ],
  [
    'a retry is accepted once more',
    'accepted-again',
    (events) => void delete answered(events, retried, 2).replayed,
  ],
  [
    'a 409 comes when the first request is long answered',
    'in-use-unfounded',
    (events) => {
      const late = answered(events, retried, 2);
      Object.assign(late, { status: 409, retryAfter: 1, replayed: false });
    },
  ],
  [
    'a 409 comes for a key that nobody else used',
    'in-use-unfounded',
    (events) => more(events, order(9), { status: 409, retryAfter: 1 }),
  ],
  [
    'a key is held for longer than its lease',
    'in-use-unfounded',
    (events) => void (asked(events, order(2), 1).at += 200_000),
  ],
  [
    'another body under a used key gets 409',
    'in-use-unfounded',
    (events) => void Object.assign(answered(events, retried, 3), { status: 409, retryAfter: 1 }),
  ],
  [
    'a 422 comes for a key that nobody else used',
    'reused-unfounded',
    (events) => more(events, order(9), { status: 422 }),
  ],
  [
    'a 422 comes for the same body',
    'reused-unfounded',
    (events) =>
      void Object.assign(asked(events, retried, 3), { body: asked(events, retried).body }),
  ],
  [
    'the body that was refused is the one that is paid',
    'refused-took-effect',
    (events) => {
      for (const each of webhooks(events, retried)) change(each, { data: { amount: 1_001 } });
    },
  ],
  [
    'a payment takes effect although its only request was refused',
    'refused-took-effect',
    (events) => without(events, asked(events, plain, 1)),
  ],
  [
    'a request is refused after it was accepted',
    'accepted-then-refused',
    (events) => void Object.assign(answered(events, retried, 2), { status: 400, replayed: false }),
  ],
  [
    'a refund does not find the payment that was accepted',
    'refund-not-found',
    (events) => void Object.assign(answered(events, given), { status: 404 }),
  ],
];
