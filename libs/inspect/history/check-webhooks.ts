import { type EventType, type TxnId, eventIdOf, eventTypes } from '@triplock/payments';
import { type AskedKey, mayHaveClaimed, nameOf } from './asked-keys.ts';
import type { HistoryCheck, HistoryFinding } from './history.ts';
import {
  type ShownInHistory,
  type Webhook,
  isFinal,
  keyConflict,
  statusesOf,
} from './shown-transactions.ts';

/** What the webhooks in a history are judged by. */
export type WebhooksOfHistory = {
  keys: ReadonlyMap<TxnId, AskedKey>;
  shown: ShownInHistory;
  delivered: boolean;
};

/** A webhook that has the form of one and whose signature holds. */
type Event = Webhook & { event: NonNullable<Webhook['event']> };

/**
 * Judges what came to the partners' endpoints: each event under the id that follows from it, every
 * copy the same bytes, those of a payment numbered 1 to n without a gap or a repeat, and for
 * everything that became final its webhook. Their order of arrival means nothing.
 */
export function checkWebhooks(history: WebhooksOfHistory): HistoryFinding[] {
  const { keys, shown, delivered } = history;
  const formed = shown.webhooks.filter(isFormed);
  const copies = Map.groupBy(formed, ({ partner, id }) => `${partner} ${id}`);
  const events = [...copies.values()].map(([first]) => first!);
  return [
    ...shown.webhooks.flatMap(checkForm),
    ...[...copies.values()].flatMap(checkCopies),
    ...events.flatMap((each) => checkEvent(each)),
    ...checkSequences(events, { keys, delivered }),
    ...checkConflicts(events, keys),
    ...(delivered ? findMissing(history, events) : []),
  ];
}

/** Fingerprints that lost their key to another, by the transaction's id. */
export function gatherLostKeys(webhooks: readonly Webhook[]): Map<string, Set<string>> {
  const lost = new Map<string, Set<string>>();
  for (const each of webhooks.filter(isFormed)) {
    const { type, data } = each.event;
    if (type !== keyConflict) continue;
    lost.set(data.id, (lost.get(data.id) ?? new Set()).add(String(data['fingerprint'])));
  }
  return lost;
}

function isFormed(webhook: Webhook): webhook is Event {
  return webhook.verified && webhook.event !== undefined;
}

function checkForm(webhook: Webhook): HistoryFinding[] {
  const { verified, event } = webhook;
  if (!verified) return [find('webhook-unverified', [webhook], 'its signature does not hold')];
  return event === undefined
    ? [find('webhook-malformed', [webhook], 'it has no type, or no data with an id')]
    : [];
}

function checkCopies([first, ...more]: readonly Event[]): HistoryFinding[] {
  const other = more.find(({ body }) => body !== first!.body);
  const why = 'two copies of it differ';
  return other === undefined ? [] : [find('webhook-copy-differs', [first!, other], why)];
}

/** By itself: its id follows from what it says, and it says one thing. */
function checkEvent(webhook: Event): HistoryFinding[] {
  const { id, event } = webhook;
  const { type, sequence, data } = event;
  const isKnown = eventTypes.some((each) => each === type);
  const [object, status] = type.split('.');
  const isConflict = type === keyConflict;
  const isOne = isConflict
    ? sequence === undefined && typeof data['fingerprint'] === 'string'
    : sequence !== undefined &&
      data['object'] === object &&
      (statusesOf[type] ?? [status]).includes(String(data['status']));
  const right = eventIdOf(type as EventType, data);
  return [
    ...(isKnown && isOne
      ? []
      : [find('webhook-malformed', [webhook], `its data is not that of ${type}`)]),
    ...(id === right
      ? []
      : [find('webhook-id-not-derived', [webhook], `${right} follows from what it says`)]),
  ];
}

/** The payment that numbers an event. */
function paymentOf({ event: { data } }: Event): string {
  const { payment } = data;
  return typeof payment === 'string' ? payment : data.id;
}

function checkSequences(
  events: readonly Event[],
  { keys, delivered }: Pick<WebhooksOfHistory, 'keys' | 'delivered'>,
): HistoryFinding[] {
  const numbered = events.filter(({ event }) => event.sequence !== undefined);
  return [...Map.groupBy(numbered, paymentOf)].flatMap(([payment, all]) => {
    const inOrder = all.toSorted((one, other) => one.event.sequence! - other.event.sequence!);
    const repeated = inOrder.findIndex(
      ({ event }, at) => at > 0 && event.sequence === inOrder[at - 1]!.event.sequence,
    );
    if (repeated > 0) {
      const two = [inOrder[repeated - 1]!, inOrder[repeated]!];
      return [find('sequence-repeated', two, `both are number ${two[0]!.event.sequence}`)];
    }
    // Of a payment that was there before, earlier events came before this history.
    if (!delivered || !keys.has(payment as TxnId)) return [];
    const gap = inOrder.findIndex(({ event }, at) => event.sequence !== at + 1);
    const first = inOrder[0]!;
    if (gap >= 0) {
      return [find('sequence-gap', [inOrder[gap]!], `number ${gap + 1} never came`)];
    }
    // A capture of more than its payment fails before that is authorised.
    const isFirst = first.event.data.id === payment || first.event.type === 'capture.failed';
    return isFirst
      ? []
      : [find('sequence-gap', [first], 'a refund is number 1, before its payment is final')];
  });
}

/** A key conflict is about a request that was, or may have been, accepted beside another one. */
function checkConflicts(
  events: readonly Event[],
  keys: ReadonlyMap<TxnId, AskedKey>,
): HistoryFinding[] {
  return events.flatMap((webhook) => {
    const { type, data } = webhook.event;
    const key = keys.get(data.id as TxnId);
    if (type !== keyConflict || key === undefined) return [];
    const claimers = new Set(
      key.requests.filter(mayHaveClaimed).map(({ wanted }) => wanted!.fingerprint as string),
    );
    if (claimers.size > 1 && claimers.has(String(data['fingerprint']))) return [];
    const why = 'no request with this fingerprint can have lost the key to another';
    return [find('conflict-unfounded', [webhook], why)];
  });
}

/** What reads show as final, and no webhook does: everything was delivered, so it never comes. */
function findMissing(
  { keys, shown }: WebhooksOfHistory,
  events: readonly Event[],
): HistoryFinding[] {
  const settled = new Set(
    events
      .filter(({ event }) => event.type !== keyConflict && statusesOf[event.type] === undefined)
      .map(({ event }) => event.data.id),
  );
  return [...keys.values()].flatMap((key) => {
    if (settled.has(key.id)) return [];
    const final = shown.transactions.get(key.id)?.find(isFinal);
    if (final === undefined) return [];
    const [about, ids, lines] = [nameOf(key), [key.id], [final.line]];
    return [{ check: 'webhook-missing', about, ids, lines, why: 'its partner got no webhook' }];
  });
}

function find(check: HistoryCheck, webhooks: readonly Webhook[], why: string): HistoryFinding {
  const [{ partner, id, event }] = webhooks as readonly [Webhook];
  return {
    check,
    about: `${partner} ${event?.type ?? 'webhook'} ${id}`,
    why,
    ids: [...(event === undefined ? [] : [event.data.id]), id],
    lines: webhooks.map(({ line }) => line),
  };
}
