import { isTxnId, type PartnerId, type TransactionKind } from '@triplock/payments';
import { startBudget } from '@triplock/runtime';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { setTimeout as delay } from 'node:timers/promises';
import {
  findTransaction,
  showPosted,
  type Asked,
  type FindOutcome,
} from '../accept/find-transaction.ts';
import { askedOfCustomer, findPosted, isAtRest, type Posted } from '../accept/transaction.ts';
import type { Gateway } from '../gateway.ts';
import { suffices } from '../http/admission.ts';
import { notFound, unknownYet } from '../http/problems.ts';

// Each asks the ledger up to four times a second: together a small part of what it can answer. A
// partner may have as many waiting as are left to others, so that there is always room for one
// more. Who comes beyond it is answered at once, which RFC 7240 allows.
const waitingMax = 200;

/** Answers a read of a transaction of that kind by its id, with `Prefer: wait=N`. */
export type ReadTransaction = (kind: TransactionKind, reply: FastifyReply) => Promise<FastifyReply>;

/** Opens what the routes of all kinds read by: those that wait are counted together. */
export function openReads(
  app: Pick<FastifyInstance, 'addHook'>,
  gateway: Gateway,
): ReadTransaction {
  const { metrics, logger } = gateway;
  const closing = new AbortController();
  app.addHook('preClose', async () => closing.abort());
  const waiting = openWaiting(metrics);

  return async (kind, reply) => {
    const { params, headers, partnerId, keyScope, id: requestId } = reply.request;
    const { id: txnId } = params as { id: string };
    if (!isTxnId(txnId)) throw notFound(kind);
    const hasRoom = waiting.hasRoom(partnerId);
    const waitSeconds = hasRoom ? preferredWaitSeconds(headers.prefer) : undefined;
    const waits = waitSeconds !== undefined && waitSeconds > 0;
    const ended = waits ? AbortSignal.any([closing.signal, connectionEnd(reply)]) : closing.signal;
    const waitMs = (waitSeconds ?? 0) * 1_000;
    if (waits) waiting.enter(partnerId);
    const mayAct = suffices(keyScope, 'pay');
    const asked = { kind, txnId, partnerId, mayAct, requestId };
    const outcome = await readTransaction(gateway, { ...asked, waitMs, ended })
      .catch((error: unknown) => {
        logger.warn({ err: error, txnId, partnerId, requestId }, 'read failed');
        return { outcome: 'unavailable' } as const;
      })
      .finally(() => waits && waiting.leave(partnerId));
    metrics.reads.count(outcome.outcome);
    switch (outcome.outcome) {
      case 'found':
        if (waitSeconds !== undefined) reply.header('Preference-Applied', `wait=${waitSeconds}`);
        // It may hold what acts for a customer.
        reply.header('Cache-Control', 'no-store');
        return reply.code(200).type('application/json').send(outcome.body);
      case 'not-found':
        throw notFound(kind);
      case 'cold':
      case 'unavailable':
        throw unknownYet();
      default:
        return outcome satisfies never;
    }
  };
}

/** Who waits for a payment to come to rest. */
function openWaiting({ waiters }: Gateway['metrics']) {
  const partners = new Map<PartnerId, number>();
  const of = (partner: PartnerId) => partners.get(partner) ?? 0;
  let all = 0;
  const add = (partner: PartnerId, one: 1 | -1) => {
    waiters.set((all += one));
    const own = of(partner) + one;
    if (own > 0) partners.set(partner, own);
    else partners.delete(partner);
  };
  return {
    hasRoom: (partner: PartnerId) => of(partner) < waitingMax - all,
    enter: (partner: PartnerId) => add(partner, 1),
    leave: (partner: PartnerId) => add(partner, -1),
  };
}

/**
 * Which payment or refund, who asks, and how long to wait until it is final, or authorised. `ended`
 * cuts the wait short.
 */
export type Question = Asked & { waitMs: number; ended: AbortSignal };

/**
 * Reads one payment or refund and waits until it is final or authorised, or for so long. The wait
 * ends as well when the customer comes to have something to do, which nobody could know before; who
 * asks again waits for what comes of that.
 *
 * @throws as {@link findTransaction} does, and when the first look takes longer than the budget.
 */
export async function readTransaction(gateway: Gateway, question: Question): Promise<FindOutcome> {
  const finding = findTransaction(gateway, question);
  const found = await startBudget(gateway.budgetMs).hold(finding, 'reading');
  if (found.outcome !== 'found' || found.atRest || question.waitMs === 0) return found;
  const isNews = (seen: Posted) => !found.asksCustomer && askedOfCustomer(seen) !== undefined;
  return (await waitUntilRest(gateway, question, isNews)) ?? found;
}

// A book transfer is final within a fraction of a second: quick at first, then four times a second.
const firstPauseMs = 25;
const longestPauseMs = 250;

/** It, once it is at rest or news; what was last seen of it, if anything, when the wait is over. */
async function waitUntilRest(
  gateway: Gateway,
  question: Question,
  isNews: (seen: Posted) => boolean,
): Promise<FindOutcome | undefined> {
  const end = performance.now() + question.waitMs;
  let seen: Posted | undefined;
  let pauseMs = firstPauseMs;
  while (!question.ended.aborted && performance.now() < end) {
    await pause(Math.min(pauseMs, end - performance.now()), question.ended);
    pauseMs = Math.min(pauseMs * 1.5, longestPauseMs);
    seen = (await lookAgain(gateway, question)) ?? seen;
    if (seen !== undefined && (isAtRest(seen) || isNews(seen))) break;
  }
  return seen && showPosted(gateway, seen, question);
}

/** The ledger's row. A ledger that does not answer now takes nothing from what was seen before. */
async function lookAgain(gateway: Gateway, question: Question): Promise<Posted | undefined> {
  try {
    const finding = findPosted(gateway, question);
    return await startBudget(gateway.budgetMs).hold(finding, 'the ledger');
  } catch {
    return undefined;
  }
}

async function pause(ms: number, ended: AbortSignal): Promise<void> {
  await delay(Math.max(1, ms), undefined, { signal: ended }).catch(() => undefined);
}

/** Aborts when the client is gone: nobody waits for the answer any more. */
function connectionEnd(reply: FastifyReply): AbortSignal {
  const end = new AbortController();
  if (reply.raw.destroyed) end.abort();
  reply.raw.once('close', () => end.abort());
  return end.signal;
}

/** How long a read may wait for a payment to come to rest, in seconds. */
const waitSecondsMax = 30;

/**
 * The seconds of `Prefer: wait=N` (RFC 7240, section 4.3), 0 to 30; `undefined` when there is none.
 * The first `wait` counts; one that is malformed or larger is ignored, as section 2 asks.
 */
export function preferredWaitSeconds(
  header: string | readonly string[] | undefined,
): number | undefined {
  if (header === undefined) return undefined;
  const wait = splitList([header].flat().join(','))
    .map((preference) => preference.split(';', 1)[0]!.trim())
    .find((preference) => /^wait(?![!#$%&'*+.^`|~\w-])/i.test(preference));
  const [, quoted, bare] = /^wait[ \t]*=[ \t]*(?:"(\d{1,9})"|(\d{1,9}))$/i.exec(wait ?? '') ?? [];
  const seconds = Number(quoted ?? bare);
  return seconds <= waitSecondsMax ? seconds : undefined;
}

/** The members of a comma-separated list; a comma inside a quoted string does not separate. */
function splitList(list: string): string[] {
  const members: string[] = [];
  let start = 0;
  let isQuoted = false;
  for (let at = 0; at < list.length; at += 1) {
    const character = list[at];
    if (isQuoted && character === '\\') at += 1;
    else if (character === '"') isQuoted = !isQuoted;
    else if (character === ',' && !isQuoted) {
      members.push(list.slice(start, at));
      start = at + 1;
    }
  }
  return [...members, list.slice(start)];
}
