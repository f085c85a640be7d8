import { transactionKinds, type FinalState } from '@triplock/payments';
import type { Sent } from './asked-keys.ts';
import { parseObject, type Fields, type HistoryLine, type WebhookArrived } from './history.ts';

/** A payment, or what follows one, as its partner was shown it, by a read or by a webhook. */
export type Shown = {
  by: 'read' | 'webhook';
  /** The line that shows it. */
  line: number;
  /** The line before which it cannot have been looked up: a read's own, of a webhook this one. */
  since: number;
  /** When the read was sent, or the webhook arrived. */
  at: number;
  /** When the read was answered, or the webhook arrived. */
  shownAt: number;
  /** To whom it was shown. */
  partner: string;
  id: string;
  /** As the API shows it: `pending`, `authorized` or how it ended. */
  status: string;
  fields: Fields;
};

/** A webhook and what it says. */
export type Webhook = WebhookArrived & {
  line: number;
  /** Nothing when it has not the form of one. */
  event?: { type: string; sequence?: number; data: Fields & { id: string } };
};

/** A read of one payment or refund by its id. */
export type ReadById = { request: Sent; id: string; shown?: Shown };

/** What the partners of a history were shown. */
export type ShownInHistory = {
  /** By the transaction's id, in the order of lines. */
  transactions: ReadonlyMap<string, readonly Shown[]>;
  reads: readonly ReadById[];
  webhooks: readonly Webhook[];
};

/** Gathers what answers to reads and verified webhooks show. */
export function gatherShown(
  lines: readonly HistoryLine[],
  requests: readonly Sent[],
): ShownInHistory {
  const webhooks = lines.filter((each) => each.what === 'webhook').map(readWebhook);
  const reads = requests
    .filter(({ kind, method }) => kind === 'read' && method === 'GET')
    .map((request) => ({ request, shown: readAnswer(request) }));
  const shown = [
    ...reads.flatMap((read) => read.shown),
    ...webhooks.flatMap((webhook) => shownByWebhook(webhook) ?? []),
  ].sort((one, other) => one.line - other.line);
  return {
    webhooks,
    transactions: Map.groupBy(shown, ({ id }) => id),
    reads: reads.flatMap(({ request, shown: [first] }) => {
      const [, id] = readOfOne.exec(request.path) ?? [];
      return id === undefined ? [] : [{ request, id, ...(first && { shown: first }) }];
    }),
  };
}

const readOfOne = new RegExp(`^/v1/(?:${transactionKinds.join('|')})s/([0-9a-f-]{36})$`);
const objects = new Set<unknown>(transactionKinds);

/** One transaction, or those of a list. */
function readAnswer({ end, line, at, partner }: Sent): Shown[] {
  if (end?.what !== 'answered' || end.status !== 200) return [];
  const body = parseObject(end.body);
  const list = body?.['object'] === 'list' ? body['data'] : [body];
  if (!Array.isArray(list)) return [];
  return (list as (Fields | undefined)[]).flatMap((fields) => {
    const { id, status, object } = fields ?? {};
    if (typeof id !== 'string' || typeof status !== 'string') return [];
    if (!objects.has(object)) return [];
    const when = { line: end.line, since: line, at, shownAt: end.at };
    return [{ by: 'read', ...when, partner, id, status, fields: fields! }];
  });
}

function readWebhook(arrived: WebhookArrived & { line: number }): Webhook {
  const { type, sequence, data } = parseObject(arrived.body) ?? {};
  const { id } = (data ?? {}) as Fields;
  if (typeof type !== 'string' || typeof id !== 'string') return arrived;
  const event = { type, data: data as Fields & { id: string } };
  return { ...arrived, event: typeof sequence === 'number' ? { ...event, sequence } : event };
}

function shownByWebhook(webhook: Webhook): Shown | undefined {
  const { verified, event, line, at, partner } = webhook;
  // A key conflict shows what was refused, and its own check looks at that.
  if (!verified || event === undefined || event.type === keyConflict) return undefined;
  // Webhooks are not ordered: one of the way to the end may come after it.
  if (statusesOf[event.type] !== undefined) return undefined;
  const { id, status } = event.data;
  if (typeof status !== 'string') return undefined;
  const when = { line, since: line, at, shownAt: at };
  return { by: 'webhook', ...when, partner, id, status, fields: event.data };
}

export const keyConflict = 'payment.key_conflict';

/** Which statuses the events show that are not a transaction's end. */
export const statusesOf: Readonly<Record<string, readonly string[]>> = {
  'payment.requires_action': ['pending'],
  'payment.authorized': ['authorized'],
  'payment.disputed': ['succeeded', 'captured', 'failed', 'canceled'],
};

/** A webhook's time is the catcher's, a read's its client's: so far apart they are in order. */
const clocksMs = 1_000;

/** From when on whoever reads must see it as well. */
export function knownFrom({ by, shownAt }: Shown): number {
  return by === 'read' ? shownAt : shownAt + clocksMs;
}

const finalStatuses: readonly string[] = [
  'succeeded',
  'captured',
  'failed',
  'canceled',
] satisfies FinalState[];

/** Whether the state is one that never changes. */
export function isFinal({ status }: Shown): boolean {
  return finalStatuses.includes(status);
}
