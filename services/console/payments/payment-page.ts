import { isTxnId, type TxnId } from '@triplock/payments';
import { foldedForm } from '../acts/acts-pages.ts';
import { Refusal, type Answer, type Console, type Session, type Visit } from '../console.ts';
import { html, type Html, type Shown } from '../html/html.ts';
import {
  describeCopy,
  readRawForms,
  viewPayment,
  type Dispute,
  type PaymentView,
  type Webhook,
} from './payment.ts';
import { renderWay } from './payment-way.ts';
import { facts, id, money, number, state, table, time } from '../html/shown.ts';
import { toJson } from '@triplock/command';
import { words } from '../html/words.ts';

const say = words.payment;

/** One payment, refund, capture or cancellation: its whole way, and what follows it. */
export async function showPayment(console: Console, visit: Visit): Promise<Answer> {
  const [view, copy] = await Promise.all([found(console, visit), describeCopy(console)]);
  const { row } = view;
  const main = html`${headline(view)} ${copy && html`<p class="note">${copy}</p>`}
    ${row === undefined ? html`<p class="note">${say.notInLedger}</p>` : factsOf(row, view.disputes)}
    <h2>${say.way}</h2>
    <p class="hint">${say.wayHint}</p>
    ${renderWay(view)} ${row?.paymentId === null && followers(view)}
    <h2>${say.webhooks}</h2>
    ${table(say.webhooks, say.webhookHeads, {
      rows: view.webhooks.map(webhookRow),
      empty: say.noWebhooks,
    })}
    ${row !== undefined && givingBack(row, visit.session)} ${onDemand(view)}`;
  const kind = row?.kind ?? view.accepted[0]?.kind ?? 'payment';
  return {
    is: 'page',
    title: `${kind[0]!.toUpperCase()}${kind.slice(1)} ${view.id}`,
    section: 'payments',
    main,
  };
}

/** The same for programs. */
export async function readPayment(console: Console, visit: Visit): Promise<Answer> {
  return { is: 'json', body: await found(console, visit) };
}

/** A piece of its page: the texts that went out, as they did. */
export async function showRawForms(console: Console, visit: Visit): Promise<Answer> {
  const { id: txnId, row, accepted } = await found(console, visit);
  const forms = await readRawForms(console.database, txnId);
  const fragment = html`<h3>${say.rawRow}</h3>
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
  if (view === undefined) throw new Refusal('not_found', say.notFound);
  return view;
}

/** @throws Refusal for what is no id of a transaction. */
export function txnIdOf(text: string | undefined): TxnId {
  const lower = text?.toLowerCase();
  if (lower !== undefined && isTxnId(lower)) return lower;
  throw new Refusal('invalid_request', say.noId);
}

function headline({ row, accepted: [record], disputes }: PaymentView): Html {
  const { amount, currency } = row ?? record ?? { amount: null, currency: null };
  const shown = amount === null || currency === null ? say.noAmount : money(amount, currency);
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
    (each) => html`${time(each.at)} ${sum(each.amount)} ${each.reason} ${id(each.id)} `,
  );
  const atProvider = [row.intentId, row.chargeId, row.refundId]
    .filter((each) => each !== null)
    .map((each) => html`${id(each)} `);
  const names = say.facts;
  return facts([
    [names.partner, html`<a href="/payments?partner=${row.partner}">${row.partner}</a>`],
    [names.key, id(row.key)],
    [
      names.of,
      row.paymentId && html`<a href="/payments/${row.paymentId}">${id(row.paymentId)}</a>`,
    ],
    [names.reference, row.reference],
    [names.method, row.method],
    [names.accepted, time(row.createdAt, 'milliseconds')],
    [names.settled, row.settledAt && time(row.settledAt, 'milliseconds')],
    [names.failure, failure],
    [names.captured, sum(row.captured) || null],
    [names.refunded, sum(row.refunded) || null],
    [names.action, row.actionExpiresAt && time(row.actionExpiresAt)],
    [names.due, row.dueAt && time(row.dueAt)],
    [names.disputed, disputed.length > 0 ? disputed : null],
    [names.provider, atProvider.length > 0 ? atProvider : null],
    [names.trace, row.traceId && id(row.traceId)],
    [names.description, row.details],
  ]);
}

function followers({ followers: all }: PaymentView): Html {
  const rows = all.map((each): Shown[] => [
    time(each.createdAt),
    each.kind,
    html`<a href="/payments/${each.id}">${id(each.id)}</a>`,
    state(each.state),
    each.amount === null || each.currency === null
      ? say.noAmount
      : money(each.amount, each.currency),
  ]);
  return html`<h2>${say.followers}</h2>
    ${table(say.followers, say.followerHeads, { rows, empty: say.noFollowers })}`;
}

function webhookRow(each: Webhook): Shown[] {
  return [
    id(each.id),
    each.type,
    state(each.state),
    each.url ?? say.gone,
    number(each.attempts.length),
    time(each.finishedAt ?? each.nextAttemptAt),
  ];
}

/** Of a card payment that has ended: the provider may have money of it all the same. */
function givingBack(row: NonNullable<PaymentView['row']>, session: Session): Html | undefined {
  const mayHave = row.paymentId === null && row.method !== null && row.settledAt !== null;
  const form = mayHave && foldedForm(session, 'payments.give-back', { fields: { id: row.id } });
  if (!form) return undefined;
  return html`<h2>${say.atProvider}</h2>
    <p class="hint">${say.giveBackHint}</p>
    ${form}`;
}

/** What is asked for when somebody wants it: a link, or with a script a piece of this page. */
function onDemand({ id: txnId }: PaymentView): Html {
  return html`<h2>${say.layersNow}</h2>
    <p class="hint">${say.layersHint}</p>
    <div id="layers">
      <a
        class="button quiet"
        href="/payments/${txnId}/layers"
        hx-get="/payments/${txnId}/layers"
        hx-target="#layers"
        >${say.askLayers}</a
      >
    </div>
    <h2>${say.raw}</h2>
    <p class="hint">${say.rawHint}</p>
    <div id="raw">
      <a
        class="button quiet"
        href="/payments/${txnId}/raw"
        hx-get="/payments/${txnId}/raw"
        hx-target="#raw"
        >${say.showRaw}</a
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
