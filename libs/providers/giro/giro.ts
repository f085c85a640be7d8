import type { Failure } from '@triplock/payments';
import {
  failureOf,
  ProviderError,
  type CaptureOutcome,
  type CreateOutcome,
  type ForgottenCharge,
  type FoundIntent,
  type IntentOutcome,
  type IntentQuery,
  type IntentRequest,
  type ListedRefund,
  type ListedRefunds,
  type Provider,
  type RefundAtProvider,
  type RefundRequest,
  type Unknown,
} from '@triplock/provider';
import {
  openBank,
  unknownBecause,
  type Bank,
  type BankAnswer,
  type BankOptions,
} from './bank-client.ts';
import {
  endToEndId,
  isRefund,
  isTransfer,
  methodPrefix,
  transactionOf,
  type BankRefund,
  type Transfer,
} from './transfers.ts';

/**
 * A bank that moves money from an account when it is told to, and says later whether that came. An
 * intent is a transfer that is prepared and not released; releasing it twice releases it once. It
 * forgets no end-to-end id and keeps no error, so any call may be made again, at any time.
 */
export function openGiro(options: BankOptions): Provider {
  const bank = openBank(options);
  return {
    createIntent: (request) => prepare(bank, request),
    findIntent: (charge) => find(bank, charge),
    confirmIntent: (request) => act(bank, request, 'release'),
    readIntent: (asked) => read(bank, asked),
    captureIntent: (request) => read(bank, request).then(notHeld),
    cancelIntent: (asked) => act(bank, asked, 'cancel'),
    refund: (request) => giveBack(bank, request),
    findRefund: (request) => findRefund(bank, request),
    listRefunds: (intent) => listRefunds(bank, intent),
    // What was settled is never asked back.
    listDisputes: async () => ({ outcome: 'listed', disputes: [] }),
  };
}

async function prepare(bank: Bank, request: IntentRequest): Promise<CreateOutcome> {
  const { txnId, partnerId, money, paymentMethod } = request;
  const intentId = endToEndId('T', txnId);
  const answer = await bank({
    method: 'PUT',
    path: `/transfers/${intentId}`,
    body: {
      iban: paymentMethod.slice(methodPrefix.length),
      amount: Number(money.amount),
      currency: money.currency,
      reference: partnerId,
    },
  });
  if (answer.outcome === 'unknown') return answer;
  if (answer.status === 422) return { outcome: 'refused', failure: failureIn(answer) };
  const isOurs = isAbout(answer.body, { intentId, money });
  return isOurs ? { outcome: 'created', intentId } : nonsense(answer);
}

/** The id is made from the transaction, so no list has to be looked through. */
async function find(bank: Bank, { txnId, money }: ForgottenCharge): Promise<FoundIntent> {
  const intentId = endToEndId('T', txnId);
  const answer = await bank({ method: 'GET', path: `/transfers/${intentId}` });
  if (answer.outcome === 'unknown') return answer;
  if (answer.status === 404) return { outcome: 'none' };
  if (isAbout(answer.body, { intentId, money })) return { outcome: 'found', intentId };
  // The same id for another amount: whoever made that has to be found.
  return { ...nonsense(answer), untilMended: true };
}

async function read(bank: Bank, asked: IntentQuery): Promise<IntentOutcome> {
  return stateOf(await bank({ method: 'GET', path: `/transfers/${asked.intentId}` }), asked);
}

/** What a transfer's state forbids is answered with that state. */
async function act(
  bank: Bank,
  asked: IntentQuery,
  what: 'release' | 'cancel',
): Promise<IntentOutcome> {
  const path = `/transfers/${asked.intentId}/${what}`;
  return stateOf(await bank({ method: 'POST', path, body: {} }), asked);
}

/** Nothing is ever held here, and the door lets no request for it in. */
function notHeld(seen: IntentOutcome): CaptureOutcome {
  if (seen.outcome !== 'unconfirmed') return seen;
  const message = 'Money of a bank account is not held.';
  return { outcome: 'refused', failure: { code: 'payment_not_authorized', message } };
}

function stateOf(answer: BankAnswer | Unknown, asked: IntentQuery): IntentOutcome {
  if (answer.outcome === 'unknown') return answer;
  if (!isAbout(answer.body, asked)) return nonsense(answer);
  const { status, booking, amount, reason } = answer.body;
  switch (status) {
    case 'prepared':
      return { outcome: 'unconfirmed' };
    case 'released':
      return { outcome: 'waiting', waitsFor: 'provider' };
    case 'settled':
      return { outcome: 'succeeded', chargeId: booking!, received: BigInt(amount) };
    case 'returned':
      return { outcome: 'declined', failure: whyReturned(reason!) };
    case 'cancelled': {
      const message = 'The transfer was cancelled before it was released.';
      return { outcome: 'declined', failure: { code: 'payment_canceled', message } };
    }
    default:
      return status satisfies never;
  }
}

/** ISO 20022 external code set, "Return Reason"; what has no word of ours keeps its code. */
const returns: Readonly<Record<string, Failure>> = {
  AC04: { code: 'account_closed', message: 'The account was closed.' },
  AC06: { code: 'account_blocked', message: 'The account is blocked.' },
  AM04: { code: 'insufficient_funds', message: 'The account has too little money.' },
};

function whyReturned(reason: string): Failure {
  const known = returns[reason];
  if (known !== undefined) return known;
  return failureOf(`returned_${reason.toLowerCase()}`, `The bank returned it: ${reason}.`);
}

async function giveBack(bank: Bank, request: RefundRequest): Promise<RefundAtProvider> {
  const { txnId, partnerId, intentId, money } = request;
  const answer = await bank({
    method: 'PUT',
    path: `/transfers/${intentId}/refunds/${endToEndId('R', txnId)}`,
    body: { amount: Number(money.amount), reference: partnerId },
  });
  if (answer.outcome === 'answered' && answer.status === 422) {
    return { outcome: 'refused', failure: failureIn(answer) };
  }
  return refundIn(answer, request);
}

async function findRefund(
  bank: Bank,
  request: RefundRequest,
): Promise<RefundAtProvider | { outcome: 'none' }> {
  const answer = await bank({ method: 'GET', path: `/refunds/${endToEndId('R', request.txnId)}` });
  if (answer.outcome === 'answered' && answer.status === 404) return { outcome: 'none' };
  return refundIn(answer, request);
}

function refundIn(
  answer: BankAnswer | Unknown,
  { txnId, intentId, money }: RefundRequest,
): RefundAtProvider {
  if (answer.outcome === 'unknown') return answer;
  const { body } = answer;
  const isOurs =
    isRefund(body) &&
    body.id === endToEndId('R', txnId) &&
    body.transfer === intentId &&
    BigInt(body.amount) === money.amount &&
    body.currency === money.currency;
  if (isOurs) return { outcome: 'succeeded', refundId: body.id };
  // The same id for another amount: whoever made that has to be found.
  return { ...nonsense(answer), untilMended: true };
}

async function listRefunds(
  bank: Bank,
  { intentId, money }: Pick<IntentQuery, 'intentId' | 'money'>,
): Promise<ListedRefunds> {
  const answer = await bank({ method: 'GET', path: `/transfers/${intentId}/refunds` });
  if (answer.outcome === 'unknown') return answer;
  const { data } = answer.body;
  const isOfTransfer = (each: unknown): each is BankRefund =>
    isRefund(each) && each.transfer === intentId && each.currency === money.currency;
  if (!Array.isArray(data) || !data.every(isOfTransfer)) return nonsense(answer);
  return { outcome: 'listed', refunds: data.flatMap(listed) };
}

function listed({ id, amount }: BankRefund): ListedRefund[] {
  const txnId = transactionOf(id);
  return txnId === undefined ? [] : [{ txnId, refundId: id, amount: BigInt(amount) }];
}

/** Whether it is this transfer, for its amount and in its currency. */
function isAbout(
  body: unknown,
  { intentId, money }: Pick<IntentQuery, 'intentId' | 'money'>,
): body is Transfer {
  return (
    isTransfer(body) &&
    body.id === intentId &&
    BigInt(body.amount) === money.amount &&
    body.currency === money.currency
  );
}

/** Why the bank refused this very request: asking again will never help. */
function failureIn({ body: { code, message } }: BankAnswer): Failure {
  return failureOf(code, message || 'The bank refused it.');
}

/**
 * An answer about something else. Where the bank knows nothing of ours, or has the id otherwise, no
 * call comes to an end by itself.
 */
function nonsense({ status }: BankAnswer): Unknown {
  const type = status === 404 ? 'not_known_at_the_bank' : 'another_answer';
  const unknown = unknownBecause(new ProviderError({ type, statusCode: status }));
  return status === 404 || status === 409 ? { ...unknown, untilMended: true } : unknown;
}
