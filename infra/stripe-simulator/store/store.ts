import { createAccount, type Account } from './account.ts';
import type { Clock } from './clock.ts';
import type { Change, Entry, KeptAnswer } from './entry.ts';
import { createIdempotencyKeys, type IdempotencyKeys } from './idempotency-keys.ts';
import { openJournal } from './journal.ts';
import { createUndelivered, type Undelivered } from './undelivered.ts';

/**
 * Everything that is remembered: the account, the idempotency keys, the webhooks still to be sent.
 */
export type Store = {
  readonly account: Account;
  readonly keys: IdempotencyKeys;
  readonly undelivered: Undelivered;
  /**
   * Applies a step at once and appends it to the journal. Nothing of it may be told to anyone
   * before `settled()`: whoever reads waits for it too, so that no answer ever shows what a crash
   * undoes.
   */
  commit(step: Step): void;
  /** The event is not sent again by itself: the endpoint took it, or was down for too long. */
  endDelivery(event: string, end: 'delivered' | 'gave-up'): void;
  moveClock(offsetMs: number): void;
  reset(): void;
  settled(): Promise<void>;
  journalSize(): number;
  close(): Promise<void>;
};

/**
 * One step: its cause, what changed, the answer to keep, and whether its events go to a webhook.
 */
export type Step = {
  readonly by: string;
  readonly change: Change;
  readonly webhooks: boolean;
  /** The answer to keep under a key; asked for once the change is applied. */
  keep?(): KeptAnswer;
};

/**
 * Opens the journal at `path` and makes the world from it. `onBroken`: it cannot be written any
 * more.
 */
export async function openStore(
  path: string,
  clock: Clock,
  onBroken: (error: Error) => void,
): Promise<Store> {
  const account = createAccount();
  const keys = createIdempotencyKeys();
  const undelivered = createUndelivered();

  const applyStep = ({ change, webhooks }: Step, at: number) => {
    account.apply(change, at);
    if (webhooks) change.events?.forEach(({ id }) => undelivered.add(id, at));
  };
  const apply = (entry: Entry) => {
    switch (entry.kind) {
      case 'step':
        applyStep(entry, entry.at);
        if (entry.answer !== undefined) keys.keep(entry.answer, entry.at);
        return;
      case 'webhook':
        return undelivered.remove(entry.event);
      case 'clock':
        return clock.setOffsetMs(entry.offsetMs);
      case 'reset':
        for (const each of [account, keys, undelivered]) each.clear();
        return;
      default:
        entry satisfies never;
        throw new Error('the journal is one of another version of the simulator');
    }
  };
  const journal = await openJournal(path, { replay: apply, broken: onBroken });
  const record = (entry: Entry) => {
    journal.append(entry);
    apply(entry);
  };
  return {
    ...{ account, keys, undelivered },
    commit({ keep, ...step }) {
      const at = clock.now();
      applyStep(step, at);
      const answer = keep?.();
      if (answer !== undefined) keys.keep(answer, at);
      journal.append({ kind: 'step', at, ...step, ...(answer && { answer }) });
    },
    endDelivery: (event, end) => record({ kind: 'webhook', at: clock.now(), event, end }),
    moveClock: (offsetMs) => record({ kind: 'clock', at: clock.now(), offsetMs }),
    reset: () => record({ kind: 'reset', at: clock.now() }),
    settled: () => journal.settled(),
    journalSize: () => journal.size(),
    close: () => journal.close(),
  };
}
