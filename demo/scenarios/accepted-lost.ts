import { killProcess } from '@triplock/launcher';
import { count } from '@triplock/command';
import { recordAcknowledgement, type AuditReport, whoActs } from '@triplock/inspect';
import { openForCommand } from '@triplock/postgres';
import { dropRecords } from '../brokers.ts';
import { describeLedger, lookAtPayment, promiseOneEffect, untilDelivered } from '../effects.ts';
import { stopAll } from '../faults.ts';
import {
  newOrder,
  promiseReplay,
  recordsOf,
  reportAnswer,
  send,
  sendFirst,
  type Accepted,
} from '../orders.ts';
import { fired, promised, until } from '../promises.ts';
import type { Observation, Scenario } from '../run-scenario.ts';
import { watchCounter } from '../services.ts';
import { auditSystem, type System } from '../system.ts';

/**
 * Partners have their 202, and the only record of what they asked for is gone. No guard can post
 * it: that it is seen, and what a person then does, is all that is left.
 */
export const acceptedLost: Scenario = {
  name: 'accepted-lost',
  failure: 'Kafka drops accepted payments that nobody had read, as a lost disk does',
  absorbedBy: 'no guard: the audit names them, until a person acknowledges the loss',
  run: loseAccepted,
};

const payments = 3;
const auditWaitMs = 60_000;

/** One walk looks at 1 000 claims a second, and a system that was under load has many. */
const walkMaxMs = 600_000;

async function loseAccepted(system: System): Promise<Observation> {
  // A group that has never read anything cannot tell what it missed.
  const { id: read } = await sendFirst(system, newOrder(system, 'accepted-lost'));
  await untilDelivered(system, read);
  const before = await auditSystem(system, auditWaitMs);
  fired('the audit was red before: see npm run audit', before.ok);
  const counted = await watchCounter(system, 'ledger-worker', {
    name: 'triplock_worker_lost_records_total',
  });
  const lost = await dropUnread(system);
  const ids = lost.map(({ id }) => id);
  await system.restore();
  system.report('workers and auditors are back');

  await askInVain(system, lost);
  const losses = await untilNamed(system, lost);
  const records = losses.reduce((sum, { from, to }) => sum + to - from + 1, 0);
  const missed = await until({
    what: 'the workers to count what they missed',
    signal: system.signal,
    check: async () => {
      const grown = await counted.grown();
      return grown >= records && grown;
    },
  });
  const again = await payAgain(system, lost.length);
  await acknowledge(system, losses);
  const workers = await stopAll(system, 'ledger-worker');
  await system.restore();
  const counts = await counted.grown();
  promised('a loss is counted once', counts === 0, { ids, saw: counts });
  system.report(`${count(workers.length, 'worker')} started again, which ends their alarm`);
  for (const id of ids) {
    const { ledger, events } = await lookAtPayment(system, id);
    const saw = { ledger, events };
    promised('what is lost has no effect', ledger.length + events.length === 0, { ids, saw });
  }
  return {
    ids,
    guards: {
      claims: 'answers each retry by the same 202 for 24 hours: so nothing is lost silently',
      ledger: `has none of the ${ids.length}; workers counted ${missed} as lost when they came back`,
      inbox: 'not asked: nothing was published',
      webhook: `none for what was lost, ${again.length} for what was paid again: ${again.join('; ')}`,
    },
  };
}

/** Has payments accepted while nobody reads, and Kafka forget them. */
async function dropUnread(system: System): Promise<Accepted[]> {
  const { home } = system;
  const victims = [...system.replicas('ledger-worker'), ...system.replicas('auditor')];
  await Promise.all(victims.map(({ name }) => killProcess({ home, name })));
  system.report(`${victims.map(({ name }) => name).join(', ')} killed`);
  const accepted: Accepted[] = [];
  for (let n = 0; n < payments; n += 1) {
    accepted.push(await sendFirst(system, newOrder(system, 'accepted-lost')));
  }
  const seen = await Promise.all(accepted.map((each) => recordsOf(system, each)));
  fired(
    'a payment was not in Kafka',
    seen.every(({ records }) => records.length > 0),
  );
  const partitions = new Set(seen.map(({ partition }) => partition));
  await dropRecords(system, partitions);
  const left = await Promise.all(accepted.map((each) => recordsOf(system, each)));
  fired(
    'a record outlived it',
    left.every(({ records }) => records.length === 0),
  );
  system.report(`Kafka dropped all records of ${count(partitions.size, 'partition')}`);
  return accepted;
}

/** A partner that asks again learns nothing: its claim remembers the 202, and nobody the rest. */
async function askInVain(system: System, lost: readonly Accepted[]): Promise<void> {
  const [first] = lost as [Accepted];
  const { answer: again } = await send(system, first);
  reportAnswer(system, 'the same again', again);
  promiseReplay(first, again);
  const read = await first.partner.read(first.id);
  const { status } = JSON.parse(read.body) as { status?: string };
  system.report(`GET ${first.id} → ${read.status}, ${status ?? 'no payment'}`);
  const evidence = { ids: [first.id], saw: read };
  // What a read shows is remembered for a minute; then it says that it does not know.
  const isHonest = status === 'pending' || read.status === 503;
  promised('a lost payment is said to be neither final nor unknown', isHonest, evidence);
}

/** What the audit says of one gap: the first and the last offset that were lost, and when. */
type Loss = { id: string; partition: number; from: number; to: number };

/** Waits until the audit names everything that was lost, and holds it to what was. */
async function untilNamed(system: System, lost: readonly Accepted[]): Promise<Loss[]> {
  const ids = lost.map(({ id }) => id);
  const report = await until({
    what: 'the audit to name the ids of the payments',
    withinMs: walkMaxMs,
    signal: system.signal,
    check: async () => {
      const report = await auditSystem(system, 0);
      const isSeen = !report.ok && foundBy(report, 'accepted-lost').length > 0;
      promised('the audit fails as soon as records are lost', isSeen, { ids, saw: report.drift });
      const named = foundBy(report, 'claim-unaccounted');
      return ids.every((id) => named.includes(id)) && report;
    },
  });
  const losses = foundBy(report, 'accepted-lost').map((text) => parseLoss(text, system));
  const saw = { lost: report.lost, drift: report.drift };
  const same = JSON.stringify(losses.map(spanOf)) === JSON.stringify(report.lost.map(spanOf));
  promised('the audit lists what was lost', losses.length > 0 && same, { ids, saw });
  system.report(`audit: claim-unaccounted ${ids.join(' ')}`);
  return losses;
}

function spanOf({ partition, from, to }: Omit<Loss, 'id'>): string {
  return `${partition}: ${from} to ${to}`;
}

function foundBy({ drift }: AuditReport, name: string): readonly string[] {
  return drift.find(({ check }) => check === name)?.ids ?? [];
}

/** Reads `ID/topic/partition/first-last/why/lost after/found`, and shows it. */
function parseLoss(text: string, system: System): Loss {
  const [id, , partition, offsets, why, after, found] = text.split('/');
  const [from, to] = offsets!.split('-').map(Number);
  const what = `partition ${partition}, offsets ${from} to ${to}`;
  system.report(`audit: accepted-lost ${what}, ${why} between ${after} and ${found}`);
  return { id: id!, partition: Number(partition), from: from!, to: to! };
}

/** What their partners do once they are told the ids: the same payments under keys of their own. */
async function payAgain(system: System, times: number): Promise<string[]> {
  system.report('the partner is told the ids, and pays again under new keys');
  const again: string[] = [];
  for (let n = 0; n < times; n += 1) {
    const { id } = await sendFirst(system, newOrder(system, 'accepted-lost'));
    const seen = await untilDelivered(system, id);
    promiseOneEffect(id, seen);
    again.push(describeLedger(seen));
  }
  return again;
}

/** Says, as a person does, that the partners are served; after that the audit is green. */
async function acknowledge(system: System, losses: readonly Loss[]): Promise<void> {
  const database = openForCommand({
    url: system.endpoints.postgres,
    applicationName: 'demo',
    connectionsMax: 1,
  });
  try {
    const act = { by: whoActs(undefined), why: 'scenario accepted-lost: paid again' };
    for (const { id } of losses) {
      const outcome = await recordAcknowledgement(database, { lost: id }, act);
      promised('a loss can be acknowledged', outcome === 'acknowledged', { ids: [], saw: outcome });
      system.report(`npm run audit -- acknowledge ${id} --reason '${act.why}'`);
    }
  } finally {
    await database.close();
  }
  const after = await auditSystem(system, auditWaitMs);
  promised('what is acknowledged is drift no longer', after.ok, { ids: [], saw: after.drift });
}
