import { deriveTxnId, type IdempotencyKey, type PartnerId, type TxnId } from '@triplock/payments';
import { formatMoney } from '@triplock/operator';
import { FaultDidNotFire, fired, promised } from '../broken-promise.ts';
import { disarmAll, pauseAt, untilFired } from '../faults.ts';
import { describeInbox, describeLedger, describeWebhook } from '../guards.ts';
import type { Answer } from '../partner.ts';
import { lookAt, untilTold, type Sight } from '../sight.ts';
import { auditSystem, type System } from '../system.ts';
import { until } from '../until.ts';
import type { Observation, Scenario } from './scenario.ts';
import { newOrder, otherBody, tellAnswer, type Order } from './send.ts';

/** The one window that guard 1 leaves: the ledger cannot know of a record that is under way. */
export const keysRaceClaimsLoss: Scenario = {
  name: 'keys-race-claims-loss',
  failure: 'two different payments race under one key while the claim store loses everything',
  absorbedBy: 'guard 2: the first to be posted stands, and payment.key_conflict reports the other',
  run,
};

/** The first stands still for so long; the rest of a request's 3 s is for the way to Kafka. */
const site = { service: 'ingest-gateway', point: 'gateway.claimed', pauseMs: 1_500 } as const;

/** Longer than any request takes to its claim. */
const claimWithinMs = 5_000;

/** On a machine so busy that the second came too late. */
const attemptsMax = 5;

async function run(system: System): Promise<Observation> {
  const conflictsBefore = (await auditSystem(system, 0)).counts.keyConflicts;
  const { id, order } = await race(system);
  const sight = await untilConflictTold(system, id);
  promiseOneOfTwo(id, sight);
  const stands = Number(sight.ledger[0]!.amount);
  const bodies = [order.body, otherBody(order).body];
  const refused = bodies.find(({ amount }) => amount !== stands)!;
  const money = (amount: number) => formatMoney(amount, order.body.currency);

  const { counts } = await auditSystem(system, auditWaitMs);
  const conflicts = counts.keyConflicts - conflictsBefore;
  promised('the audit counts the key conflict', conflicts >= 1, { ids: [id], saw: counts });
  const kept = `kept ${money(stands)}: ${describeLedger(sight)}`;
  const letter = `${money(refused.amount)} is a dead letter (${sight.deadLetters[0]!.reason})`;
  return {
    ids: [id],
    guards: {
      claims: 'gave both a 202: the first claim was lost before its record was in Kafka',
      ledger: `${kept}; ${letter}; the audit counts ${conflicts} key conflict more`,
      inbox: describeInbox(sight),
      webhook: `${typesOf(sight).join(' and ')}: ${describeWebhook(sight)}`,
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
    const [first, second] = await pauseAt(system, site, () => raceTwo(system, { id, order }));
    tellAnswer(system, 'the first', first);
    tellAnswer(system, 'the other', second);
    if (first.status === 202 && second.status === 202) return { id, order };
    system.tell('they did not race: this machine is busy; once more with another key');
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
  system.tell(
    `${partner.id} pays ${money[0]} under ${key}; it stands still between claim and Kafka`,
  );
  // The other one must not stand still too.
  await disarmAll(system, site);
  const { command } = await system.claims.forget();
  fired('the claim outlived it', (await system.claims.look(id)) === undefined);
  system.tell(`${command}; ${partner.id} sends ${money[1]} under the same key`);
}

/** Waits until both events of the payment are with the partner, and the loser is a dead letter. */
async function untilConflictTold(system: System, id: string): Promise<Sight> {
  await until({
    what: `the key conflict of ${id}`,
    signal: system.signal,
    check: async () => {
      system.progress('waiting for the partner to be told of the key conflict');
      const { ledger, events, receipts, deadLetters } = await lookAt(system, id);
      promised('one of them is posted', ledger.length <= 1, { ids: [id], saw: ledger });
      return events.length >= 2 && receipts.length >= 2 && deadLetters.length >= 1;
    },
  });
  return untilTold(system, id);
}

function promiseOneOfTwo(id: string, sight: Sight): void {
  const { ledger, entries, events, receipts, deadLetters } = sight;
  const saw = {
    ledger: ledger.map(({ state }) => state),
    moved: entries.map(({ amount }) => amount === ledger[0]?.amount),
    events: typesOf(sight),
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

function typesOf({ events }: Sight): string[] {
  return events.map(({ type }) => type);
}
