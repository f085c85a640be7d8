import { systemStatus } from '@triplock/launcher';
import type { AuditReport } from '@triplock/inspect';
import {
  describeInbox,
  describeLedger,
  describeWebhook,
  promiseTold,
  untilDelivered,
  untilFinal,
  type PaymentSeen,
} from '../effects.ts';
import { bringBack, killAt } from '../faults.ts';
import { newCardOrder, sendFirst, type Accepted } from '../orders.ts';
import { fired, promised } from '../promises.ts';
import {
  askCustomer,
  askProvider,
  describeProvider,
  requireSimulator,
  withProviderClock,
} from '../provider.ts';
import type { Observation, Scenario } from '../run-scenario.ts';
import { auditSystem, type System } from '../system.ts';

/** Somebody outside decides, when they like. Nobody may be charged because a worker forgot them. */
export const customersAct: Scenario = {
  name: 'customers-act',
  failure:
    'customers authenticate, give up, or come back a day too late, and workers die meanwhile',
  absorbedBy:
    'guard 2: the stored intent says what became of it, and the time to act is the ledger’s',
  run: letCustomersAct,
};

const asks = 'pm_card_authenticationRequired';
const auditWaitMs = 60_000;
const dayMs = 25 * 3_600_000;
// Once it is over, a worker looks at the row within half a minute.
const actionExpiresMs = 4_000;

async function letCustomersAct(system: System): Promise<Observation> {
  requireSimulator(system);
  const before = await auditSystem(system, auditWaitMs);
  fired('the audit was red before: see npm run audit', before.ok);
  const acts = await authenticate(system);
  const leaves = await giveUp(system);
  const ended = [acts, leaves];
  const { runsIn } = await systemStatus({ home: system.home });
  if (runsIn === 'processes') {
    const settings = { 'ledger-worker': { ACTION_EXPIRES_MS: String(actionExpiresMs) } };
    ended.push(await system.withSettings(settings, () => comeBackTooLate(system)));
  } else {
    system.report('nobody comes too late here: a container’s settings are those of its file');
  }
  const ids = ended.map(({ id }) => id);
  const after = await auditSystem(system, auditWaitMs);
  promised('the provider’s books and ours are equal', after.ok, { ids, saw: after.drift });
  const stillWaits = ids.filter((id) => waitingIn(after).includes(id));
  promised('nobody is waited for any more', stillWaits.length === 0, { ids, saw: stillWaits });
  const [paid] = ended;
  return {
    ids,
    guards: {
      claims: 'not asked again: each partner has its 202, and GET says what the customer has to do',
      ledger: ended.map(({ name, became }) => `${name}: ${became}`).join('; '),
      inbox: `of who authenticated: ${describeInbox(paid!.seen)}`,
      webhook: `payment.requires_action, then the end: ${describeWebhook(paid!.seen)}`,
    },
  };
}

type Ended = { name: string; id: string; became: string; seen: PaymentSeen };

/** The worker that heard that the bank asks dies before it noted that. */
async function authenticate(system: System): Promise<Ended> {
  let accepted: Accepted | undefined;
  const died = await killAt(
    system,
    { service: 'ledger-worker', point: 'worker.charged' },
    async () => {
      accepted = await sendFirst(system, newCardOrder(system, 'customers-act', asks));
    },
  );
  const { id } = accepted!;
  system.report(`${died.name} killed itself: it was told that the bank asks the customer`);
  await bringBack(system, died);
  await untilAsked(system, accepted!);
  const report = await auditSystem(system, auditWaitMs);
  const saw = { drift: report.drift, waiting: report.waiting };
  const isListed = report.ok && waitingIn(report).includes(id);
  promised('the audit lists who is waited for, and is green', isListed, { ids: [id], saw });
  system.report('audit: no drift; it waits for a customer of acme');
  const did = await askCustomer(system, id, 'succeeded');
  fired('the customer could not authenticate', did === 'done');
  system.report('the customer authenticates');
  return untilEnded(system, 'authenticated', { id, state: 'succeeded' });
}

/** The worker that wrote the end dies before it could tell anybody. */
async function giveUp(system: System): Promise<Ended> {
  const accepted = await sendFirst(system, newCardOrder(system, 'customers-act', asks));
  const { id } = accepted;
  await untilAsked(system, accepted);
  const died = await killAt(
    system,
    { service: 'ledger-worker', point: 'worker.settled' },
    async () => {
      const did = await askCustomer(system, id, 'failed');
      fired('the customer could not give up', did === 'done');
    },
  );
  system.report(`the customer gives up; ${died.name} settled that and killed itself`);
  await bringBack(system, died);
  const code = 'payment_intent_authentication_failure';
  return untilEnded(system, 'gave up', { id, state: 'failed', code });
}

/** Whoever comes back after the time finds an intent that charges nobody any more. */
async function comeBackTooLate(system: System): Promise<Ended> {
  system.report(`workers now give customers ${actionExpiresMs / 1_000} s instead of a day`);
  let accepted: Accepted | undefined;
  const died = await killAt(
    system,
    { service: 'ledger-worker', point: 'worker.settled' },
    async () => {
      accepted = await sendFirst(system, newCardOrder(system, 'customers-act', asks));
      await untilAsked(system, accepted);
    },
  );
  const { id } = accepted!;
  system.report(`the time is over; ${died.name} gave the payment up and killed itself`);
  await bringBack(system, died);
  const did = await withProviderClock(system, dayMs, () => askCustomer(system, id, 'succeeded'));
  promised('who comes too late is asked nothing', did === 'not-asked', { ids: [id], saw: did });
  system.report('a day later the customer wants to authenticate, and is no longer asked to');
  return untilEnded(system, 'too late', { id, state: 'failed', code: 'authentication_required' });
}

/** Waits until the partner was told, and reads what its customer has to do. */
async function untilAsked(system: System, { partner, id }: Accepted): Promise<void> {
  await untilDelivered(system, id);
  const answer = await partner.read(id);
  type Shown = { status: string; next_action?: { type: string; expires_at: string } };
  const { status, next_action: next } = JSON.parse(answer.body) as Shown;
  const isAsked = status === 'pending' && next !== undefined;
  promised('GET says what the customer has to do', isAsked, { ids: [id], saw: status });
  system.report(`GET says pending, ${next.type} until ${next.expires_at}`);
}

/** Waits for the end, and holds it to one effect here and at the provider. */
async function untilEnded(
  system: System,
  name: string,
  { id, state, code }: { id: string; state: 'succeeded' | 'failed'; code?: string },
): Promise<Ended> {
  const seen = await untilFinal(system, id);
  const charges = state === 'succeeded' ? 1 : 0;
  const events = ['payment.requires_action', `payment.${state}`] as const;
  promiseTold({ state, events: [...events], entries: charges }, { txnId: id, seen });
  const failure = seen.ledger[0]?.failure ?? undefined;
  promised('a customer’s failure says why', failure === code, { ids: [id], saw: failure });
  const provider = await askProvider(system, id);
  const isEqual = provider.intents.length === 1 && provider.charges.length === charges;
  promised('who authenticated is charged once, nobody else ever', isEqual, {
    ids: [id],
    saw: provider,
  });
  const became = `${describeProvider(provider)}, ${describeLedger(seen)}`;
  return { name, id, became, seen };
}

function waitingIn({ waiting }: AuditReport): readonly string[] {
  return waiting.flatMap(({ ids }) => ids);
}
