import { problemCodes } from '@triplock/contracts';
import { type JsonObject, type TxnId, canonicalJson } from '@triplock/payments';
import {
  type AskedKey,
  type KeyRequest,
  type Sent,
  endLine,
  firstAccepted,
  foundIn,
  isAccepted,
} from './asked-keys.ts';
import { type HistoryCheck, type HistoryFinding, parseObject } from './history.ts';

/**
 * Judges every answer by itself: one that is wrong whatever else happened under its key.
 *
 * @param keyless requests whose key is missing or malformed.
 */
export function checkAnswers(
  keys: ReadonlyMap<TxnId, AskedKey>,
  keyless: readonly Sent[],
): HistoryFinding[] {
  const accepted = new Map([...keys].map(([id, key]) => [id, firstAccepted(key)]));
  return [
    ...keyless.filter(isAccepted).map((request) => ({
      check: 'accepted-invalid' as const,
      about: `request ${request.n}`,
      ids: [],
      lines: [request.line, endLine(request)],
      why: 'it was accepted without a valid idempotency key',
    })),
    ...[...keys.values()].flatMap((key) => [
      ...key.requests.flatMap((request) => checkOne(key, request)),
      ...checkRefundsFound(key, accepted),
    ]),
  ];
}

function checkOne(key: AskedKey, request: KeyRequest): HistoryFinding[] {
  const { end, outcome, wanted } = request;
  if (end?.what !== 'answered') return [];
  const { status } = end;
  const find = (check: HistoryCheck, why: string) =>
    foundIn(key, check, { requests: [request], why });
  const known = status === 202 || status >= 500 || refusals.has(status);
  const unasked = (status === 409 || status === 503) && end.retryAfter === undefined;
  const alone = [
    ...(known ? [] : [find('answer-unknown', `${status} is no answer of this API`)]),
    ...(unasked ? [find('retry-after-missing', `a ${status} without Retry-After`)] : []),
  ];
  if (outcome !== 'accepted') {
    if (end.replayed) alone.push(find('refusal-replayed', `a ${status} came as a replay`));
    return alone;
  }
  if (wanted === undefined) return [...alone, find('accepted-invalid', 'its body is not valid')];
  const shown = (parseObject(end.body) ?? {}) as JsonObject;
  const shownId = JSON.stringify(shown['id']);
  if (shown['id'] !== key.id) {
    return [...alone, find('id-not-derived', `the id is ${shownId} and not ${key.id}`)];
  }
  const right = { id: key.id, object: key.kind, status: 'pending', ...wanted.fields };
  if (canonicalJson(shown) !== canonicalJson(right)) {
    alone.push(find('answer-altered', 'the answer is not what was asked for'));
  }
  return alone;
}

const refusals = new Set<number>(Object.values(problemCodes).map(({ status }) => status));

/** A refund of a payment that its partner was told is accepted is never a 404. */
function checkRefundsFound(
  key: AskedKey,
  accepted: ReadonlyMap<TxnId, KeyRequest | undefined>,
): HistoryFinding[] {
  return key.requests.flatMap((request) => {
    const { end, wanted, line } = request;
    if (end?.what !== 'answered' || end.status !== 404 || wanted?.paymentId === undefined)
      return [];
    const payment = accepted.get(wanted.paymentId as TxnId);
    if (payment === undefined || payment.partner !== key.partner) return [];
    if (endLine(payment) > line) return [];
    const why = 'its payment had been accepted before';
    return [foundIn(key, 'refund-not-found', { requests: [payment, request], why })];
  });
}
