import { html, type Html, type Shown } from '../html/html.ts';
import { formatSpan } from '@triplock/command';
import { consumers } from '@triplock/pipeline';
import { goneEndpoint, type PaymentView } from './payment.ts';
import { id, money, time } from '../html/shown.ts';

/** Every layer that a transaction passes. */
export const layerTitles = {
  claim: 'Guard 1 · claim',
  kafka: 'Kafka',
  ledger: 'Guard 2 · ledger',
  provider: 'Provider',
  outbox: 'Guard 3a · outbox',
  pubsub: 'Pub/Sub',
  inbox: 'Guard 3b · inbox',
  webhook: 'Webhook',
  dead: 'Dead letter',
} as const;

/** Something that happened to a transaction, in one of the layers. */
export type Step = {
  at: Date | null;
  layer: keyof typeof layerTitles;
  what: string;
  detail?: Shown;
  /** What should not have happened, or has to be looked at. */
  bad?: true;
};

/**
 * The way of a transaction through the layers, in order of time. What has no time of its own stays
 * behind the step before it.
 */
function wayOf(view: PaymentView): Step[] {
  const steps = [
    ...acceptedSteps(view),
    ...ledgerSteps(view),
    ...view.journal.map(({ kind, id: providers, status, amount, currency, createdAt }): Step => ({
      at: createdAt,
      layer: 'provider',
      what: `${kind} ${status}`,
      detail: html`${id(providers)} ${money(amount, currency)}, by the provider’s clock, in whole
      seconds`,
      ...(status === 'failed' && { bad: true }),
    })),
    ...view.events.flatMap(eventSteps),
    ...view.webhooks.flatMap(webhookSteps),
    ...view.deadLetters.map(({ reason, partition, offset, at }): Step => ({
      at,
      layer: 'dead',
      what: reason,
      detail: `Set aside from partition ${partition}, offset ${offset}`,
      bad: true,
    })),
  ];
  return inOrderOfTime(steps);
}

function inOrderOfTime(steps: readonly Step[]): Step[] {
  let latest = 0;
  const dated = steps.map((step) => ({ step, at: (latest = step.at?.getTime() ?? latest) }));
  return dated.sort((one, other) => one.at - other.at).map(({ step }) => step);
}

/** Only the auditor's look at a record has a time here, and it may look long after the worker. */
function acceptedSteps({ row, accepted }: PaymentView): Step[] {
  const records = accepted.map(({ partition, offset, at }, nth): Step => {
    const after = row && formatSpan(Math.max(0, at.getTime() - row.createdAt.getTime()));
    const seen =
      after === undefined
        ? 'read by the auditor; no worker has posted it yet'
        : `read by the auditor ${after} after the payment was accepted`;
    return {
      at: row === undefined ? at : null,
      layer: 'kafka',
      what: `Record in partition ${partition}, offset ${offset}`,
      detail: nth === 0 ? seen : 'another request under the same key: it loses',
      ...(nth > 0 && { bad: true }),
    };
  });
  if (row === undefined) return records;
  return [
    { at: row.createdAt, layer: 'claim', what: 'The gateway claimed the key and answered 202' },
    ...records,
  ];
}

function ledgerSteps({ row, entries }: PaymentView): Step[] {
  const moved = entries.map(({ debit, credit, amount, currency, at }): Step => ({
    at,
    layer: 'ledger',
    what: 'Money moved',
    detail: html`${debit} → ${credit}, ${money(amount, currency)}`,
  }));
  if (row?.settledAt == null) return moved;
  const { state, failureCode, settledAt } = row;
  const isBad = state === 'failed';
  const end: Step = { at: settledAt, layer: 'ledger', what: `The row is ${state}, for ever` };
  return [...moved, { ...end, detail: failureCode, ...(isBad && { bad: true }) }];
}

function eventSteps(event: PaymentView['events'][number]): Step[] {
  const { eventId, type, sequence, createdAt, publishedAt, copies, altered, firstSeenAt } = event;
  const name = `${type}${sequence === null ? '' : ` #${sequence}`}`;
  const seen: Step = {
    at: firstSeenAt,
    layer: 'pubsub',
    what:
      copies === 1
        ? 'One copy seen by the auditor'
        : `${copies} copies seen by the auditor: the inbox catches all but one`,
    ...(altered > 0 && { detail: `${altered} of them ALTERED`, bad: true }),
  };
  const received = (at: Date | null, what: string): Step[] =>
    at === null ? [] : [{ at, layer: 'inbox', what, detail: name }];
  return [
    { at: createdAt, layer: 'outbox', what: name, detail: id(eventId) },
    {
      at: publishedAt,
      layer: 'outbox',
      what:
        publishedAt === null
          ? 'written with the row, waits to be published'
          : 'published and marked',
      detail: name,
    },
    ...(copies > 0 ? [seen] : []),
    ...consumers.flatMap(({ trace }) => received(event[trace.receivedAt], trace.says)),
  ];
}

function webhookSteps({ attempts, url, type }: PaymentView['webhooks'][number]): Step[] {
  return attempts.map(({ attempt, status, error, tookMs, at }): Step => {
    const answer = status === null ? (error ?? 'no answer') : `HTTP ${status}`;
    const isGood = status !== null && status >= 200 && status < 300;
    return {
      at,
      layer: 'webhook',
      what: `Attempt ${attempt}: ${answer}`,
      detail: html`${type} to ${url ?? goneEndpoint}, took ${tookMs} ms`,
      ...(!isGood && { bad: true }),
    };
  });
}

/**
 * The way as a list, each step with its place on a scale of time that it shares with the others.
 * The scale is logarithmic: what matters happens within milliseconds, and some of it days later.
 */
export function renderWay(view: PaymentView): Html {
  const steps = wayOf(view);
  const start = view.row?.createdAt.getTime() ?? steps[0]?.at?.getTime() ?? 0;
  const after = (at: Date) => Math.max(0, at.getTime() - start);
  const longest = Math.max(1, ...steps.map(({ at }) => (at === null ? 0 : after(at))));
  const place = (ms: number) => (Math.log1p(ms) / Math.log1p(longest)) * 100;
  return html`<ol class="way">
    ${steps.map(
      ({ at, layer, what, detail, bad }) =>
        html`<li class="${bad && 'bad'}">
          <span class="layer">${layerTitles[layer]}</span>
          <span class="after"
            >${
              at === null
                ? 'no time'
                : html`${time(at, 'milliseconds')}<br />+ ${formatSpan(after(at))}`
            }</span
          >
          <span class="what">${what}${detail && html`<span>${detail}</span>`}</span>
          ${at !== null && track(place(after(at)))}
        </li>`,
    )}
  </ol>`;
}

function track(place: number): Html {
  const x = place.toFixed(1);
  return html`<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
    <line class="track" x1="0" x2="100" y1="5" y2="5" />
    <line class="passed" x1="0" x2="${x}" y1="5" y2="5" />
    <line class="dot" x1="${x}" x2="${x}" y1="5" y2="5" />
  </svg>`;
}
