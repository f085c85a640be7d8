import type { Endpoints } from '@triplock/launcher';
import { formatMoney } from '@triplock/payments';
import { formatSpan, renderTable, style, type Terminal } from '@triplock/command';
import { renderAudit, type AuditReport } from '@triplock/inspect';
import {
  describeInbox,
  describeLifetime,
  describeWebhook,
  promiseOneEffect,
  promiseOneFailure,
  untilDelivered,
} from './effects.ts';
import { newCardOrder, newOrder, recordsOf, sendFirst, sendRefund } from './orders.ts';
import { promised } from './promises.ts';
import { askProvider, askProviderRefunds, describeProvider } from './provider.ts';
import {
  renderHeading,
  renderOutcome,
  runScenario,
  type ScenarioReport,
  type Step,
} from './run-scenario.ts';
import { storyScenarios } from './scenarios/all.ts';
import { auditSystem, type System } from './system.ts';

/** The story as it went; printed by `--json`. */
type StoryReport = {
  /** Every step held, and so did the audit. */
  ok: boolean;
  steps: readonly ScenarioReport[];
  audit: AuditReport;
};

const auditWaitMs = 60_000;

/** Tells the story from the first payment to the audit; a step that fails does not end it. */
export async function tellStory(system: System, terminal: Terminal): Promise<StoryReport> {
  const steps: ScenarioReport[] = [];
  for (const scenario of [firstPayment, cardPayments, ...storyScenarios]) {
    for (const line of renderHeading(scenario, steps.length + 1)) terminal.line(line);
    const step = await runScenario(scenario, system);
    for (const line of [...renderOutcome(step), '']) terminal.line(line);
    steps.push(step);
  }
  terminal.line(`${style.title(`${steps.length + 1}  audit`)} · every layer, to the minor unit`);
  const audit = await auditSystem(system, auditWaitMs);
  for (const line of renderAudit(audit)) terminal.line(line === '' ? '' : `   ${line}`);
  terminal.line();
  return { ok: audit.ok && steps.every(({ held }) => held), steps, audit };
}

/** The end of a story, and where its system goes on running. */
export type StoryEnd = { story: StoryReport; endpoints: Endpoints };

/** What a person who saw the story can try next, ready to be pasted. */
export function renderInvitation(
  { story, endpoints }: StoryEnd,
  { home, staysUp }: { home: string | undefined; staysUp: boolean },
): string[] {
  const acme = endpoints.partners.find(({ id }) => id === 'acme')!;
  const run = (command: string, words = '') => {
    const rest = [words, ...(home === undefined ? [] : [`--home '${home}'`])].join(' ').trim();
    return `npm run ${command}${rest === '' ? '' : ` -- ${rest}`}`;
  };
  const killed = story.steps.find(({ name }) => name === 'dispatcher-killed');
  const [seen] = killed?.observation?.ids ?? [];
  const offers = [
    [run('trace', 'acme my-first-payment'), 'follow it through every layer'],
    ...(seen === undefined ? [] : [[run('trace', seen), 'one whose event was published twice']]),
    [run('scenario', 'worker-killed'), 'break something again; --list shows what'],
    [run('audit'), 'reconcile every layer'],
    [`${endpoints.gateway}/docs`, 'read about the API'],
    ...(endpoints.console === undefined
      ? []
      : [[`${endpoints.console}/`, 'the console: what operators see and do']]),
    ...(endpoints.agent === undefined
      ? []
      : [[`${endpoints.console}/break`, 'break it there, and watch the guards']]),
  ];
  const [, ...lines] = renderTable([{ head: '' }, { head: '' }], offers);
  return [
    `${style.title(staysUp ? 'It stays up, also after Ctrl-C.' : 'It stays up until Ctrl-C.')} From another terminal, send this twice:`,
    '',
    `   curl -i ${endpoints.gateway}/v1/payments \\`,
    `     -H 'Authorization: Bearer ${acme.apiKey}' \\`,
    `     -H 'Idempotency-Key: my-first-payment' -H 'Content-Type: application/json' \\`,
    `     -d '{"amount":1250,"currency":"EUR"}'`,
    '',
    ...lines.map((line) => `   ${line}`),
    '',
  ];
}

/** The story begins with nothing going wrong. */
const firstPayment: Step = {
  name: 'payment',
  failure: 'no failure yet: from HTTP to a signed webhook',
  run: async (system) => {
    const accepted = await sendFirst(system, newOrder(system, 'payment'));
    const { id, sentAt } = accepted;
    const seen = await untilDelivered(system, id);
    promiseOneEffect(id, seen);
    const { partition, records } = await recordsOf(system, accepted);
    const claim = await system.claims.look(id);
    const { settledAt } = seen.ledger[0]!;
    const { deliveredAt } = seen.events[0]!;
    const after = (date: Date | null) => formatSpan(date === null ? 0 : +date - +sentAt);
    const where = `partition ${partition}, offset ${records[0]?.offset}`;
    return {
      ids: [id],
      guards: {
        claims: `new key: claimed, written to Kafka (${where}); the claim ${describeLifetime(claim)}`,
        ledger: `1 row, 1 balanced entry and 1 event in one commit, ${after(settledAt)} after the request`,
        inbox: describeInbox(seen),
        webhook: `${describeWebhook(seen)}, ${after(deliveredAt)} after the request`,
      },
    };
  },
};

/** What cards add to the story, before anything goes wrong with them. */
const cardPayments: Step = {
  name: 'cards',
  failure: 'no failure yet: a card is charged, one is declined, and money is given back',
  run: async (system) => {
    const declinedCard = 'pm_card_chargeDeclinedInsufficientFunds';
    const paid = await sendFirst(system, newCardOrder(system, 'cards'));
    const declined = await sendFirst(system, newCardOrder(system, 'cards', declinedCard));
    const amount = (paid.body.amount * 4) / 10;
    const money = formatMoney(amount, paid.body.currency);
    const refund = await sendRefund(system, paid, { amount });
    system.report(`${paid.partner.id} gives ${money} of the first one back`);

    const ids = [paid.id, declined.id, refund];
    const [charge, decline, gaveBack] = await Promise.all(
      ids.map((id) => untilDelivered(system, id)),
    );
    promiseOneEffect(paid.id, charge!);
    promiseOneFailure('payment', { txnId: declined.id, seen: decline! });
    promiseOneEffect(refund, gaveBack!, 'refund');
    const atProvider = await askProvider(system, paid.id);
    const returned = await askProviderRefunds(system, [refund]);
    const once = atProvider.charges.length === 1 && returned.length === 1 && returned[0] === amount;
    promised('charged once, given back once', once, { ids, saw: { atProvider, returned } });
    return {
      ids,
      guards: {
        claims: '3 new keys, 3 records; the refund is in the partition of its payment, behind it',
        ledger: `intent stored, then confirmed: ${describeProvider(atProvider)}; the decline moved no money; ${money} given back once`,
        inbox: `of the refund: ${describeInbox(gaveBack!)}`,
        webhook: `payment.succeeded, payment.failed, refund.succeeded: the last in ${describeWebhook(gaveBack!)}`,
      },
    };
  },
};
