import type {
  ChargeRecord,
  EventRecord,
  PaymentIntentRecord,
  PaymentMethodRecord,
  RefundRecord,
} from '../records/records.ts';

/** What one step of the simulator made of the world: new versions of records, and events. */
export type Change = {
  readonly paymentIntents?: readonly PaymentIntentRecord[];
  readonly paymentMethods?: readonly PaymentMethodRecord[];
  readonly charges?: readonly ChargeRecord[];
  readonly refunds?: readonly RefundRecord[];
  readonly events?: readonly EventRecord[];
};

/** The first answer under an idempotency key, as every retry gets it again. */
export type KeptAnswer = {
  readonly key: string;
  readonly path: string;
  /** Covers the method, the path and the parameters; the retry's must be the same. */
  readonly fingerprint: string;
  readonly requestId: string;
  readonly status: number;
  readonly body: string;
};

/**
 * A line of the journal. A change and the answer that is kept for it are one line, so that a crash
 * leaves both or neither. `at` is the simulator's clock, in ms.
 */
export type Entry =
  | {
      readonly kind: 'step';
      readonly at: number;
      readonly by: string;
      readonly change: Change;
      readonly answer?: KeptAnswer;
      readonly webhooks: boolean;
    }
  | {
      readonly kind: 'webhook';
      readonly at: number;
      readonly event: string;
      readonly end: 'delivered' | 'gave-up';
    }
  | { readonly kind: 'clock'; readonly at: number; readonly offsetMs: number }
  | { readonly kind: 'reset'; readonly at: number };
