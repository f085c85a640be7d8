import { describeAmount, isFollowUp, type TxnId } from '@triplock/payments';
import { type AskedKey, countBelow, mayHaveClaimed, nameOf } from './asked-keys.ts';
import type { Fields, HistoryCheck, HistoryFinding } from './history.ts';
import { type Shown, type ShownInHistory, isFinal, knownFrom } from './shown-transactions.ts';

/** What the refunds in a history are judged by. */
export type RefundsOfHistory = {
  keys: ReadonlyMap<TxnId, AskedKey>;
  shown: ShownInHistory;
  /** Nobody else asked the system for anything since the history began. */
  complete: boolean;
};

/**
 * A refund as far as it is known: its amount is infinite while nothing shows it, and so is the time
 * from which whoever reads must see that it is final.
 */
type Refund = { id: string; amount: number; from: number; final?: Shown };

/**
 * Judges each payment by its refunds: what goes back is never more than what came, nothing goes
 * back of what failed, and every read of the payment shows what its reader could know of them.
 */
export function checkRefunds({ keys, shown, complete }: RefundsOfHistory): HistoryFinding[] {
  const refunds = new Map<string, Refund[]>();
  for (const key of keys.values()) {
    if (key.kind !== 'refund') continue;
    const finals = shown.transactions.get(key.id)?.filter(isFinal) ?? [];
    for (const [payment, refund] of refundsOf(key, finals)) {
      const known = refunds.get(payment) ?? [];
      known.push(refund);
      refunds.set(payment, known);
    }
  }
  return [...shown.transactions].flatMap(([id, all]) => {
    const key = keys.get(id as TxnId);
    if (key === undefined || isFollowUp(key.kind)) return [];
    return checkPayment({ key, all, refunds: refunds.get(id) ?? [], complete });
  });
}

/** A refund and its payment; while it is not known what its key came to, each that may be. */
function refundsOf({ id, requests }: AskedKey, finals: readonly Shown[]): Map<string, Refund> {
  const [final] = finals;
  const from = finals.map(knownFrom).reduce(least, Number.POSITIVE_INFINITY);
  const amountOf = ({ amount }: Fields) =>
    typeof amount === 'number' ? amount : Number.POSITIVE_INFINITY;
  if (final !== undefined) {
    const { payment } = final.fields;
    return new Map([[String(payment), { id, amount: amountOf(final.fields), from, final }]]);
  }
  const wanted = requests.filter(mayHaveClaimed).map((each) => each.wanted!);
  return new Map(
    wanted.map(({ paymentId, fields }) => [paymentId!, { id, amount: amountOf(fields), from }]),
  );
}

type PaymentWithRefunds = {
  key: AskedKey;
  all: readonly Shown[];
  refunds: readonly Refund[];
  complete: boolean;
};

function checkPayment({ key, all, refunds, complete }: PaymentWithRefunds): HistoryFinding[] {
  const amount = takenOf(all);
  const given = refunds
    .filter(({ final }) => final?.status === 'succeeded')
    .sort((one, other) => one.final!.line - other.final!.line);
  const find = (check: HistoryCheck, lines: readonly Shown[], why: string): HistoryFinding => ({
    check,
    about: nameOf(key),
    why,
    lines: lines.map(({ line }) => line),
    ids: [key.id, ...given.slice(0, refundsShown).map(({ id }) => id)],
  });
  const finals = given.map(({ final }) => final!);
  const sum = given.reduce((total, each) => total + each.amount, 0);
  const failed = all.find(({ status }) => status === 'failed');
  if (failed !== undefined && finals.length > 0) {
    return [find('refund-of-failed', [failed, finals[0]!], 'the payment failed')];
  }
  const { currency } = all[0]!.fields;
  const [back, of] = [sum, amount].map((each) => describeAmount(each, currency));
  const why = `${back} of ${of} went back`;
  const exceeds = sum > amount ? [find('refund-exceeds', finals.slice(0, refundsShown), why)] : [];
  // What may have gone back: all that did not fail, if nobody else gave anything back.
  const most = refunds
    .filter(({ final }) => final?.status !== 'failed')
    .reduce((total, each) => total + each.amount, 0);
  const limit = complete ? Math.min(most, amount) : amount;
  const knownBefore = sumKnown(given);
  const wrong = all.find((each) => {
    const refunded = each.fields['amount_refunded'];
    if (typeof refunded !== 'number') return false;
    return refunded > limit || (each.by === 'read' && refunded < knownBefore(each.at));
  });
  return wrong === undefined
    ? exceeds
    : [
        ...exceeds,
        find(
          'refunded-differs',
          [wrong],
          `it shows ${describeAmount(wrong.fields['amount_refunded'], currency)}`,
        ),
      ];
}

/** What was paid: of one that was authorised first, what was captured of it. */
function takenOf(all: readonly Shown[]): number {
  const captured = all.find(({ status }) => status === 'captured');
  return Number(captured?.fields['amount_captured'] ?? all[0]!.fields['amount']);
}

/** What must be seen as given back at a time: the sum of all that was known by then. */
function sumKnown(given: readonly Refund[]): (at: number) => number {
  const inOrder = given.toSorted((one, other) => one.from - other.from);
  const times = inOrder.map(({ from }) => from);
  const sums = [0];
  for (const { amount } of inOrder) sums.push(sums.at(-1)! + amount);
  return (at) => sums[countBelow(times, at)]!;
}

const least = (one: number, other: number) => Math.min(one, other);

const refundsShown = 10;
