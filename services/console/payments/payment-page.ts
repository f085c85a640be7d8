import { isTxnId, type TxnId } from '@triplock/payments';
import { foldedForm } from '../acts/acts-pages.ts';
import {
  Refusal,
  type Answer,
  type Console,
  type Route,
  type Session,
  type Visit,
} from '../console.ts';
import { page, reading } from '../edge/route.ts';
import { html, type Html, type Shown } from '../html/html.ts';
import {
  describeCopy,
  goneEndpoint,
  paymentSchema,
  readRawForms,
  viewPayment,
  type Dispute,
  type PaymentView,
  type Webhook,
} from './payment.ts';
import { renderWay } from './payment-way.ts';
import { facts, id, money, number, state, table, time } from '../html/shown.ts';
import { toJson } from '@triplock/command';

const noAmount = 'no amount yet';

/** The page of one payment with its pieces, and the same for programs. */
export const paymentRoutes: readonly Route[] = [
  page('/payments/:id', showPayment),
  page('/payments/:id/raw', showRawForms),
  reading('/payments/:id', {
    operationId: 'readPayment',
    summary: 'One payment, refund, capture or cancellation, as every table has it.',
    answers: paymentSchema,
    read: found,
  }),
];

/** One payment, refund, capture or cancellation: its whole way, and what follows it. */
async function showPayment(console: Console, visit: Visit): Promise<Answer> {
  const [view, copy] = await Promise.all([found(console, visit), describeCopy(console)]);
  const { row } = view;
  const main = html`${headline(view)} ${copy && html`<p class="note">${copy}</p>`}
    ${
      row === undefined
        ? html`<p class="note">
            The ledger has no row of it yet: its record was read from Kafka by the auditor, and
            waits for a worker.
          </p>`
        : factsOf(row, view.disputes)
    }
    <h2>Its way</h2>
    <p class="hint">
      Each step by when it happened and how long after the payment was accepted, on a logarithmic
      scale.
    </p>
    ${renderWay(view)} ${row?.paymentId === null && followers(view)}
    <h2>Webhooks</h2>
    ${table(
      'Webhooks',
      ['Webhook-id', 'Event', 'State', 'To', { figure: 'Attempts' }, 'Next or ended'],
      {
        rows: view.webhooks.map(webhookRow),
        empty: 'No webhook was made for it yet.',
      },
    )}
    ${row !== undefined && givingBack(row, visit.session)} ${onDemand(view)}`;
  const kind = row?.kind ?? view.accepted[0]?.kind ?? 'payment';
  return {
    is: 'page',
    title: `${kind[0]!.toUpperCase()}${kind.slice(1)} ${view.id}`,
    section: 'payments',
    main,
  };
}

/** A piece of its page: the texts that went out, as they did. */
async function showRawForms(console: Console, visit: Visit): Promise<Answer> {
  const { id: txnId, row, accepted } = await found(console, visit);
  const forms = await readRawForms(console.database, txnId);
  const fragment = html`<h3>Row of the ledger</h3>
    <pre>${toJson(row ?? accepted, 2)}</pre>
    ${forms.map(
      (form) =>
        html`<h3>${form.what} ${id(form.id)} <small>${time(form.at, 'milliseconds')}</small></h3>
          <pre>${indented(form.text)}</pre>`,
    )}`;
  return { is: 'fragment', html: fragment };
}

/** @throws Refusal for an id that is none, or nobody's. */
async function found({ database }: Console, { params }: Visit): Promise<PaymentView> {
  const view = await viewPayment(database, txnIdOf(params['id']));
  if (view === undefined) {
    throw new Refusal(
      'not_found',
      'No layer has anything of this id. Was it a refused request, or another system’s?',
    );
  }
  return view;
}

/** @throws Refusal for what is no id of a transaction. */
export function txnIdOf(text: string | undefined): TxnId {
  const lower = text?.toLowerCase();
  if (lower !== undefined && isTxnId(lower)) return lower;
  throw new Refusal(
    'invalid_request',
    'This is no id of a payment: those have 36 characters. Search for it by what else you have.',
  );
}

function headline({ row, accepted: [record], disputes }: PaymentView): Html {
  const { amount, currency } = row ?? record ?? { amount: null, currency: null };
  const shown = amount === null || currency === null ? noAmount : money(amount, currency);
  const isHeld = row?.state === 'pending' && row.authorizedAt !== null;
  return html`<div class="title-line">
    <span class="amount">${shown}</span>
    ${state(isHeld ? 'authorized' : (row?.state ?? 'accepted'))}
    ${disputes.length > 0 && state('disputed')}
  </div>`;
}

function factsOf(row: NonNullable<PaymentView['row']>, disputes: readonly Dispute[]): Html {
  const { currency } = row;
  const sum = (amount: bigint | null) =>
    amount !== null && amount !== 0n && currency !== null && money(amount, currency);
  const failure = [row.failureCode, row.failureMessage].filter((each) => each !== null).join(': ');
  const disputed = disputes.map(
    (each) =>
      html`${time(each.at)} ${sum(each.amount)} ${each.reason} ${id(each.id)} ${each.status}
      ${each.endedAt && time(each.endedAt)} `,
  );
  const atProvider = [row.intentId, row.chargeId, row.refundId]
    .filter((each) => each !== null)
    .map((each) => html`${id(each)} `);
  return facts([
    ['Partner', html`<a href="/payments?partner=${row.partner}">${row.partner}</a>`],
    ['Idempotency key', id(row.key)],
    [
      'Of payment',
      row.paymentId && html`<a href="/payments/${row.paymentId}">${id(row.paymentId)}</a>`,
    ],
    ['Reference', row.reference],
    ['Payment method', row.method],
    ['Accepted', time(row.createdAt, 'milliseconds')],
    ['Settled', row.settledAt && time(row.settledAt, 'milliseconds')],
    ['Failure', failure],
    ['Captured', sum(row.captured) || null],
    ['Refunded', sum(row.refunded) || null],
    ['Customer may act until', row.actionExpiresAt && time(row.actionExpiresAt)],
    ['Looked after at', row.dueAt && time(row.dueAt)],
    ['Disputed', disputed.length > 0 ? disputed : null],
    ['At the provider', atProvider.length > 0 ? atProvider : null],
    ['Trace', row.traceId && id(row.traceId)],
    ['Details', row.details],
  ]);
}

function followers({ followers: all }: PaymentView): Html {
  const rows = all.map((each): Shown[] => [
    time(each.createdAt),
    each.kind,
    html`<a href="/payments/${each.id}">${id(each.id)}</a>`,
    state(each.state),
    each.amount === null || each.currency === null ? noAmount : money(each.amount, each.currency),
  ]);
  return html`<h2>Refunds, captures and cancellations</h2>
    ${table(
      'Refunds, captures and cancellations',
      ['Asked for', 'Kind', 'Id', 'Status', { figure: 'Amount' }],
      { rows, empty: 'Nothing follows this payment.' },
    )}`;
}

function webhookRow(each: Webhook): Shown[] {
  return [
    id(each.id),
    each.type,
    state(each.state),
    each.url ?? goneEndpoint,
    number(each.attempts.length),
    time(each.finishedAt ?? each.nextAttemptAt),
  ];
}

/** Of a card payment that has ended: the provider may have money of it all the same. */
function givingBack(row: NonNullable<PaymentView['row']>, session: Session): Html | undefined {
  const mayHave = row.paymentId === null && row.method !== null && row.settledAt !== null;
  const form = mayHave && foldedForm(session, 'payments.give-back', { fields: { id: row.id } });
  if (!form) return undefined;
  return html`<h2>Money at the provider</h2>
    <p class="hint">
      Refunds whole what the provider took for this payment, cancels what it holds or could still
      take, and leaves alone the intent that paid it. What partners were told of the payment stays.
      Done twice it gives nothing back twice.
    </p>
    ${form}`;
}

/** What is asked for when somebody wants it: a link, or with a script a piece of this page. */
function onDemand({ id: txnId }: PaymentView): Html {
  return html`<h2>What the layers have now</h2>
    <p class="hint">
      The claim, every record in Kafka with its duplicates, and what the provider says: asked when
      you ask.
    </p>
    <div id="layers">
      <a
        class="button quiet"
        href="/payments/${txnId}/layers"
        hx-get="/payments/${txnId}/layers"
        hx-target="#layers"
        >Ask the layers</a
      >
    </div>
    <h2>Raw forms</h2>
    <p class="hint">The row, the events and the webhooks as they went out, without card numbers.</p>
    <div id="raw">
      <a
        class="button quiet"
        href="/payments/${txnId}/raw"
        hx-get="/payments/${txnId}/raw"
        hx-target="#raw"
        >Show the raw forms</a
      >
    </div>`;
}

function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    // What went out is shown as it did, also where it is no JSON.
    return text;
  }
}
