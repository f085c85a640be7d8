import { randomUUID } from 'node:crypto';
import { mkdir, open, readFile, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';

/** A transfer as the books have it; what it came to follows from the clock. */
type TransferRecord = {
  id: string;
  iban: string;
  amount: number;
  currency: string;
  reference: string;
  createdAt: number;
  /** Once it was released: when, until when it is under way, and its booking. */
  released?: { at: number; decidedAt: number; booking: string };
  cancelledAt?: number;
};

type RefundRecord = {
  id: string;
  transfer: string;
  amount: number;
  reference: string;
  createdAt: number;
};

/** A line of the journal: the newest of an id is how it is. */
type Line =
  { transfer: TransferRecord } | { refund: RefundRecord } | { offsetMs: number } | { reset: true };

/** What an instruction came to. */
export type Outcome<Done> =
  | { outcome: 'done'; value: Done }
  | { outcome: 'unknown' }
  /** The id, or the state, has it otherwise: nothing was done. */
  | { outcome: 'conflict'; value: object }
  | { outcome: 'refused'; code: string; message: string };

/** A bank's books. Who tells of them waits for `settled`: a kill forgets nothing that was told. */
export type Books = {
  prepare(wanted: {
    id: string;
    iban: string;
    amount: number;
    currency: string;
    reference: string;
  }): Promise<Outcome<object>>;
  release(id: string): Promise<Outcome<object>>;
  cancel(id: string): Promise<Outcome<object>>;
  refund(wanted: {
    id: string;
    transfer: string;
    amount: number;
    reference: string;
  }): Promise<Outcome<object>>;
  /** One object of a list. */
  find(list: ListName, id: string): object | undefined;
  /** Newest first, of a time and later, behind one; `undefined` where that one is not known. */
  page(
    list: ListName,
    query: { since: number; limit: number; after?: string | undefined },
  ): { data: object[]; more: boolean } | undefined;
  refundsOf(transfer: string): object[] | undefined;
  /** Counts and sums, for tests that have to know what really moved. */
  audit(): { transfers: Record<string, number>; received: number; refunded: number };
  /** Everything that is under way comes to its end now. */
  settle(): Promise<void>;
  /** Moves the clock on. */
  advance(ms: number): Promise<void>;
  setSettleAfterMs(ms: number): void;
  /** Resolves once everything that is known here is on disk. */
  settled(): Promise<void>;
  reset(): Promise<void>;
  close(): Promise<void>;
};

export const listNames = ['transfers', 'bookings', 'refunds'] as const;
export type ListName = (typeof listNames)[number];

/** Accounts by the last two digits of their number, and why what they pay is returned. */
const returnedBecause: Readonly<Record<string, string>> = { '04': 'AM04', '05': 'AC04' };
/** A bank that there is not: the first eight digits of an account's number. */
const nobodysBank = '00000000';

/** Opens the books on the journal that is there. A last line without its end was never answered. */
export async function openBooks(path: string, dials: { settleAfterMs: number }): Promise<Books> {
  await mkdir(dirname(path), { recursive: true });
  // Accounts are in it.
  const file = await open(path, 'a+', 0o600);
  const text = await readFile(path, 'utf8');
  const whole = text.slice(0, text.lastIndexOf('\n') + 1);
  await file.truncate(Buffer.byteLength(whole));

  const transfers = new Map<string, TransferRecord>();
  const refunds = new Map<string, RefundRecord>();
  /** The transfer of each booking. */
  const booked = new Map<string, string>();
  let offsetMs = 0;
  const note = (line: Line) => {
    if ('transfer' in line) {
      const { id, released } = line.transfer;
      transfers.set(id, line.transfer);
      if (released !== undefined) booked.set(released.booking, id);
    } else if ('refund' in line) refunds.set(line.refund.id, line.refund);
    else if ('offsetMs' in line) offsetMs = line.offsetMs;
    else {
      transfers.clear();
      refunds.clear();
      booked.clear();
    }
  };
  for (const line of whole.split('\n')) if (line !== '') note(JSON.parse(line) as Line);

  const append = appender(file);
  /** What is noted is decided at once, so that of two at a time the second sees the first. */
  const write = (line: Line): Promise<void> => {
    note(line);
    return append(line);
  };
  const now = () => Date.now() + offsetMs;

  const statusOf = (transfer: TransferRecord) => {
    if (transfer.cancelledAt !== undefined) return 'cancelled';
    if (transfer.released === undefined) return 'prepared';
    if (now() < transfer.released.decidedAt) return 'released';
    return reasonOf(transfer) === undefined ? 'settled' : 'returned';
  };
  const shownTransfer = (transfer: TransferRecord) => {
    const { id, amount, currency, reference, createdAt, released } = transfer;
    const status = statusOf(transfer);
    return {
      id,
      status,
      amount,
      currency,
      reference,
      created_at: createdAt,
      ...(released !== undefined && { booking: released.booking }),
      ...(status === 'returned' && { reason: reasonOf(transfer) }),
    };
  };
  const shownBooking = (transfer: TransferRecord) => {
    const { id, amount, currency, reference, released } = transfer;
    const status = { released: 'pending', settled: 'booked', returned: 'returned' } as const;
    const shown = statusOf(transfer) as keyof typeof status;
    return {
      id: released!.booking,
      transfer: id,
      status: status[shown],
      amount,
      currency,
      reference,
      created_at: released!.at,
    };
  };
  const shownRefund = (refund: RefundRecord) => {
    const { id, transfer, amount, reference, createdAt } = refund;
    const { currency } = transfers.get(transfer)!;
    return { id, transfer, amount, currency, reference, created_at: createdAt };
  };
  const shown: Readonly<Record<ListName, () => { id: string; created_at: number }[]>> = {
    transfers: () => [...transfers.values()].map(shownTransfer),
    bookings: () =>
      [...transfers.values()].filter(({ released }) => released !== undefined).map(shownBooking),
    refunds: () => [...refunds.values()].map(shownRefund),
  };
  const givenBackOf = (id: string) =>
    [...refunds.values()].filter(({ transfer }) => transfer === id);
  const sum = (amounts: readonly { amount: number }[]) =>
    amounts.reduce((total, { amount }) => total + amount, 0);

  /** Answers how a transfer is then. */
  const change = async (
    id: string,
    act: (transfer: TransferRecord) => TransferRecord | 'as it is' | 'conflict',
  ): Promise<Outcome<object>> => {
    const transfer = transfers.get(id);
    if (transfer === undefined) return { outcome: 'unknown' };
    const changed = act(transfer);
    if (changed === 'conflict') return { outcome: 'conflict', value: shownTransfer(transfer) };
    if (changed !== 'as it is') await write({ transfer: changed });
    return { outcome: 'done', value: shownTransfer(transfers.get(id)!) };
  };

  return {
    async prepare(wanted) {
      const known = transfers.get(wanted.id);
      if (known !== undefined) {
        const isSame = (['iban', 'amount', 'currency', 'reference'] as const).every(
          (name) => known[name] === wanted[name],
        );
        if (!isSame) return { outcome: 'conflict', value: { code: 'id_in_use' } };
        return { outcome: 'done', value: shownTransfer(known) };
      }
      if (wanted.iban.slice(4).startsWith(nobodysBank)) {
        const message = 'There is no such account.';
        return { outcome: 'refused', code: 'account_unknown', message };
      }
      const transfer = { ...wanted, createdAt: now() };
      await write({ transfer });
      return { outcome: 'done', value: shownTransfer(transfer) };
    },
    release: (id) =>
      change(id, (transfer) => {
        if (transfer.cancelledAt !== undefined) return 'conflict';
        if (transfer.released !== undefined) return 'as it is';
        const at = now();
        const released = { at, decidedAt: at + dials.settleAfterMs, booking: `B${randomUUID()}` };
        return { ...transfer, released };
      }),
    cancel: (id) =>
      change(id, (transfer) => {
        if (transfer.released !== undefined) return 'conflict';
        if (transfer.cancelledAt !== undefined) return 'as it is';
        return { ...transfer, cancelledAt: now() };
      }),
    async refund(wanted) {
      const transfer = transfers.get(wanted.transfer);
      if (transfer === undefined) return { outcome: 'unknown' };
      const known = refunds.get(wanted.id);
      if (known !== undefined) {
        const isSame = known.transfer === wanted.transfer && known.amount === wanted.amount;
        if (!isSame) return { outcome: 'conflict', value: { code: 'id_in_use' } };
        return { outcome: 'done', value: shownRefund(known) };
      }
      const left =
        statusOf(transfer) === 'settled' ? transfer.amount - sum(givenBackOf(transfer.id)) : 0;
      if (wanted.amount > left) {
        const message = `There are ${left} cents left to give back.`;
        return { outcome: 'refused', code: 'amount_exceeds_refundable', message };
      }
      const refund = { ...wanted, createdAt: now() };
      await write({ refund });
      return { outcome: 'done', value: shownRefund(refund) };
    },
    find(list, id) {
      switch (list) {
        case 'transfers': {
          const transfer = transfers.get(id);
          return transfer && shownTransfer(transfer);
        }
        case 'bookings': {
          const transfer = transfers.get(booked.get(id) ?? '');
          return transfer && shownBooking(transfer);
        }
        case 'refunds': {
          const refund = refunds.get(id);
          return refund && shownRefund(refund);
        }
        default:
          return list satisfies never;
      }
    },
    page(list, { since, limit, after }) {
      const all = shown[list]().toReversed();
      const from = after === undefined ? 0 : all.findIndex(({ id }) => id === after) + 1;
      if (after !== undefined && from === 0) return undefined;
      const rest = all.slice(from).filter(({ created_at: at }) => at >= since);
      return { data: rest.slice(0, limit), more: rest.length > limit };
    },
    refundsOf: (id) => (transfers.has(id) ? givenBackOf(id).map(shownRefund) : undefined),
    audit() {
      const all = [...transfers.values()];
      const counts: Record<string, number> = {};
      for (const each of all) counts[statusOf(each)] = (counts[statusOf(each)] ?? 0) + 1;
      const received = sum(all.filter((each) => statusOf(each) === 'settled'));
      return { transfers: counts, received, refunded: sum([...refunds.values()]) };
    },
    async settle() {
      for (const transfer of transfers.values()) {
        const { released } = transfer;
        if (released === undefined || released.decidedAt <= now()) continue;
        await write({ transfer: { ...transfer, released: { ...released, decidedAt: now() } } });
      }
    },
    advance: (ms) => write({ offsetMs: offsetMs + ms }),
    setSettleAfterMs: (ms) => void (dials.settleAfterMs = ms),
    reset: () => write({ reset: true }),
    settled: () => append(undefined),
    async close() {
      await append(undefined);
      await file.close();
    },
  };
}

function reasonOf({ iban }: TransferRecord): string | undefined {
  return returnedBecause[iban.slice(-2)];
}

/**
 * Appends lines in order; resolves once the line, and all before it, is on disk. Without a line it
 * waits for those before it.
 */
function appender(file: FileHandle): (line: Line | undefined) => Promise<void> {
  let last = Promise.resolve();
  return (line) => {
    last = last.then(async () => {
      if (line === undefined) return;
      await file.appendFile(`${JSON.stringify(line)}\n`);
      await file.datasync();
    });
    return last;
  };
}
