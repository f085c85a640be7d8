import { count, formatSpan } from '@triplock/command';
import { askClaimState, describeClaims } from '@triplock/launcher';
import {
  formatMoney,
  deriveTxnId,
  type IdempotencyKey,
  type PartnerId,
  type TxnId,
} from '@triplock/payments';
import {
  describeInbox,
  describeLedger,
  describeWebhook,
  lookAtPayment,
  promiseOneEffect,
  untilDelivered,
  type PaymentSeen,
} from '../effects.ts';
import { bringBack, disarmAll, killAt, pauseAt, untilFired } from '../faults.ts';
import {
  askAgain,
  newCardOrder,
  newOrder,
  otherBody,
  promiseOneRecord,
  promiseReplay,
  promiseReused,
  recordsOf,
  reportAnswer,
  sendFirst,
  type Accepted,
  type Order,
} from '../orders.ts';
import type { Answer } from '../partner.ts';
import { FaultDidNotFire, fired, promised, until } from '../promises.ts';
import { askProvider, describeProvider, requireSimulator } from '../provider.ts';
import type { Observation, Scenario } from '../run-scenario.ts';
import { watchCounter } from '../services.ts';
import { auditSystem, type System } from '../system.ts';

/** Guard 1 loses all its claims; its answers must stay right, not only the effects. */
export const claimsForgotten: Scenario = {
  name: 'claims-forgotten',
  failure: 'the claim store loses everything between a payment and its retry',
  absorbedBy: 'guard 1, which asks the ledger: the same id, the same fingerprint',
  run: loseBetween,
};

async function loseBetween(system: System): Promise<Observation> {
  const first = await sendFirst(system, newOrder(system, 'claims-forgotten'));
  const { id } = first;
  await untilDelivered(system, id);
  const claim = await system.claims.look(id);
  fired('there was no claim to lose', claim?.state === 'completed');
  const { command, keys } = await system.claims.forget();
  fired('the claim outlived it', (await system.claims.look(id)) === undefined);
  system.report(`${command}: ${count(keys, 'key')} gone`);

  const { again, other, unsure } = await askAgain(system, first);
  promiseReplay(first, again);
  promiseReused(first, other);

  const seen = await untilDelivered(system, id);
  promiseOneEffect(id, seen);
  const records = await promiseOneRecord(system, first);
  const patience = unsure === 0 ? '' : ` after ${count(unsure, '503')}`;
  return {
    ids: [id],
    guards: {
      claims: `cold, so it asked the ledger: same bytes in ${formatSpan(again.tookMs)}${patience}`,
      ledger: `answered for it: ${records}, ${describeLedger(seen)}`,
      inbox: describeInbox(seen),
      webhook: describeWebhook(seen),
    },
  };
}

/** Guard 1 loses all its claims, and is warm again by itself long before their day is over. */
export const claimsReadBack: Scenario = {
  name: 'claims-read-back',
  failure: 'the claim store loses everything, and partners go on paying',
  absorbedBy: 'guard 1, which reads back from the ledger which keys were used',
  run: readBack,
};

async function readBack(system: System): Promise<Observation> {
  const first = await sendFirst(system, newOrder(system, 'claims-read-back'));
  const { id } = first;
  await untilDelivered(system, id);
  const { command, keys } = await system.claims.forget();
  fired('the claim outlived it', (await system.claims.look(id)) === undefined);
  system.report(`${command}: ${count(keys, 'key')} gone`);
  await untilFired(system, {
    fault: 'no gateway noticed',
    what: 'a gateway to say that its claims are cold',
    check: async () => (await askClaimState(system.endpoints))?.state === 'cold',
  });
  const lostAtMs = performance.now();
  await until({
    what: 'every gateway to be warm again',
    signal: system.signal,
    check: async () => {
      const claims = await askClaimState(system.endpoints);
      system.progress(`claims are ${describeClaims(claims)}`);
      return claims?.state === 'warm';
    },
  });
  const took = formatSpan(performance.now() - lostAtMs);
  system.report(`warm again after ${took}`);

  const questions = await watchCounter(system, 'ingest-gateway', {
    name: 'triplock_gateway_ledger_questions_total',
  });
  const next = await sendFirst(system, newOrder(system, 'claims-read-back'));
  const asked = await questions.grown();
  promised('of a new key the ledger is not asked', asked === 0, { ids: [next.id], saw: asked });
  const { again, other } = await askAgain(system, first);
  promiseReplay(first, again);
  promiseReused(first, other);

  const seen = await untilDelivered(system, id);
  promiseOneEffect(id, seen);
  const seenNext = await untilDelivered(system, next.id);
  promiseOneEffect(next.id, seenNext);
  return {
    ids: [id, next.id],
    guards: {
      claims: `cold for ${took}, then it knew a new key from a used one without asking`,
      ledger: `told which keys were used, and by whom: ${describeLedger(seen)}`,
      inbox: describeInbox(seen),
      webhook: describeWebhook(seen),
    },
  };
}

/**
 * Guard 1 forgets a payment that guard 2 has not finished: the money has moved, the row is pending.
 */
export const claimsLostInACard: Scenario = {
  name: 'claims-lost-in-a-card',
  failure:
    'the claim store loses everything while a card is charged, the worker dies, and the partner retries',
  absorbedBy: 'guard 1, which waits for the ledger; guard 2, whose key has the charge',
  run: loseWhileCharging,
};

const site = { service: 'ledger-worker', point: 'worker.charged' } as const;

async function loseWhileCharging(system: System): Promise<Observation> {
  requireSimulator(system);
  let accepted: Accepted | undefined;
  const died = await killAt(system, site, async () => {
    accepted = await sendFirst(system, newCardOrder(system, 'claims-lost-in-a-card'));
  });
  const first = accepted!;
  const { id } = first;
  const charged = await askProvider(system, id);
  fired('the card was not charged', charged.charges.length === 1);
  fired(
    'the payment was settled',
    (await lookAtPayment(system, id)).ledger[0]?.state === 'pending',
  );
  system.report(`${died.name} (pid ${died.pid}) killed itself; ${describeProvider(charged)}`);
  const { command, keys } = await system.claims.forget();
  fired('the claim outlived it', (await system.claims.look(id)) === undefined);
  system.report(`${command}: ${count(keys, 'key')} gone`);

  const back = await bringBack(system, died);
  system.report(`${back.name} is back (pid ${back.pid})`);
  const { again, other, unsure } = await askAgain(system, first);
  promiseReplay(first, again);
  promiseReused(first, other);
  const seen = await untilDelivered(system, id);
  const after = await askProvider(system, id);
  promised('a card is charged once', after.charges.length === 1, { ids: [id], saw: after });
  promiseOneEffect(id, seen);
  const { records } = await recordsOf(system, first);
  const patience = unsure === 0 ? '' : ` after ${count(unsure, '503')}`;
  return {
    ids: [id],
    guards: {
      claims: `cold, so it asked the ledger: same bytes in ${formatSpan(again.tookMs)}${patience}`,
      ledger: `resumed by the same key: ${count(records.length, 'Kafka record')}, ${describeProvider(after)}; ${describeLedger(seen)}`,
      inbox: describeInbox(seen),
      webhook: describeWebhook(seen),
    },
  };
}

/** The one window that guard 1 leaves: the ledger cannot know of a record that is under way. */
export const keysRaceClaimsLoss: Scenario = {
  name: 'keys-race-claims-loss',
  failure: 'two different payments race under one key while the claim store loses everything',
  absorbedBy: 'guard 2: the first to be posted stands, and payment.key_conflict reports the other',
  run: loseWhileRacing,
};

/** The first stands still for so long; the rest of a request's 3 s is for the way to Kafka. */
const claiming = { service: 'ingest-gateway', point: 'gateway.claimed', pauseMs: 1_500 } as const;

/** Longer than any request takes to its claim. */
const claimWithinMs = 5_000;

/** On a machine so busy that the second came too late. */
const attemptsMax = 5;

async function loseWhileRacing(system: System): Promise<Observation> {
  const conflictsBefore = (await auditSystem(system, 0)).counts.keyConflicts;
  const { id, order } = await race(system);
  const seen = await untilConflictDelivered(system, id);
  promiseOneOfTwo(id, seen);
  const stands = Number(seen.ledger[0]!.amount);
  const bodies = [order.body, otherBody(order).body];
  const refused = bodies.find(({ amount }) => amount !== stands)!;
  const money = (amount: number) => formatMoney(amount, order.body.currency);

  const { counts } = await auditSystem(system, auditWaitMs);
  const conflicts = counts.keyConflicts - conflictsBefore;
  promised('the audit counts the key conflict', conflicts >= 1, { ids: [id], saw: counts });
  const kept = `kept ${money(stands)}: ${describeLedger(seen)}`;
  const deadLetter = `${money(refused.amount)} is a dead letter (${seen.deadLetters[0]!.reason})`;
  return {
    ids: [id],
    guards: {
      claims: 'gave both a 202: the first claim was lost before its record was in Kafka',
      ledger: `${kept}; ${deadLetter}; the audit counts ${conflicts} key conflict more`,
      inbox: describeInbox(seen),
      webhook: `${typesOf(seen).join(' and ')}: ${describeWebhook(seen)}`,
    },
  };
}

const auditWaitMs = 60_000;

type Race = { id: TxnId; order: Order };

/** Races pairs until both of one were accepted. */
async function race(system: System): Promise<Race> {
  for (let attempt = 1; attempt <= attemptsMax; attempt += 1) {
    const order = newOrder(system, 'keys-race-claims-loss');
    const id = deriveTxnId('payment', order.partner.id as PartnerId, order.key as IdempotencyKey);
    const [first, second] = await pauseAt(system, claiming, () => raceTwo(system, { id, order }));
    reportAnswer(system, 'the first', first);
    reportAnswer(system, 'the other', second);
    if (first.status === 202 && second.status === 202) return { id, order };
    system.report('they did not race: this machine is busy; once more with another key');
  }
  throw new FaultDidNotFire('no two payments were accepted under one key');
}

/** Sends both; the first stands still behind its claim until the second has come. */
async function raceTwo(system: System, { id, order }: Race): Promise<[Answer, Answer]> {
  const { partner, key, body } = order;
  let isOver = false;
  const first = partner.pay(key, body).finally(() => (isOver = true));
  const second = loseClaim(system, { id, order }).then(() =>
    // "Ask again" is no loss, as long as there is a race.
    until({
      what: `an answer other than 503 for ${key}`,
      signal: system.signal,
      check: async () => {
        const answer = await partner.pay(key, otherBody(order).body);
        return (isOver || answer.status !== 503) && answer;
      },
    }),
  );
  return Promise.all([first, second]);
}

/** The store forgets the first payment's claim while its record is not yet in Kafka. */
async function loseClaim(system: System, { id, order }: Race): Promise<void> {
  const { partner, key, body } = order;
  const other = otherBody(order).body;
  const money = [body, other].map(({ amount, currency }) => formatMoney(amount, currency));
  await untilFired(system, {
    fault: 'there was no claim to lose',
    what: `the claim of ${id}`,
    withinMs: claimWithinMs,
    check: () => system.claims.look(id),
  });
  system.report(
    `${partner.id} pays ${money[0]} under ${key}; it stands still between claim and Kafka`,
  );
  // The other one must not stand still too.
  await disarmAll(system, claiming);
  const { command } = await system.claims.forget();
  fired('the claim outlived it', (await system.claims.look(id)) === undefined);
  system.report(`${command}; ${partner.id} sends ${money[1]} under the same key`);
}

/** Waits until both events of the payment are with the partner, and the loser is a dead letter. */
async function untilConflictDelivered(system: System, id: string): Promise<PaymentSeen> {
  await until({
    what: `the key conflict of ${id}`,
    signal: system.signal,
    check: async () => {
      system.progress('waiting for the webhook of the key conflict');
      const { ledger, events, receipts, deadLetters } = await lookAtPayment(system, id);
      promised('one of them is posted', ledger.length <= 1, { ids: [id], saw: ledger });
      return events.length >= 2 && receipts.length >= 2 && deadLetters.length >= 1;
    },
  });
  return untilDelivered(system, id);
}

function promiseOneOfTwo(id: string, seen: PaymentSeen): void {
  const { ledger, entries, events, receipts, deadLetters } = seen;
  const saw = {
    ledger: ledger.map(({ state }) => state),
    moved: entries.map(({ amount }) => amount === ledger[0]?.amount),
    events: typesOf(seen),
    inboxRows: events.map(({ inboxRows }) => inboxRows),
    webhooks: receipts.map(({ verified, effects }) => ({ verified, effects })),
    deadLetters: deadLetters.map(({ reason }) => reason),
  };
  const wanted: typeof saw = {
    ledger: ['succeeded'],
    moved: [true],
    events: ['payment.succeeded', 'payment.key_conflict'],
    inboxRows: [1, 1],
    webhooks: [
      { verified: true, effects: 1 },
      { verified: true, effects: 1 },
    ],
    deadLetters: ['key_conflict'],
  };
  const same = JSON.stringify(saw) === JSON.stringify(wanted);
  promised('of two payments under one key one takes effect', same, { ids: [id], saw });
}

function typesOf({ events }: PaymentSeen): string[] {
  return events.map(({ type }) => type);
}
