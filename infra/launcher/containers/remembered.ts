import { randomBytes } from 'node:crypto';
import { readJson } from '../json-file.ts';
import type { State } from '../state.ts';

/** What the step before the services remembers from one `up` to the next, in a volume. */
export type Remembered = Pick<State, 'claims' | 'ledger'> & {
  /** What the simulator signs with, made once. */
  webhookSecret?: string;
};

/** As the last `up` left it. */
export function readRemembered(file: string): Remembered {
  return (readJson(file) as Remembered | undefined) ?? {};
}

/** Stripe's, where they are given; else what the simulator signs with. */
export function webhookSecrets(remembered: Remembered): string {
  const given = process.env['STRIPE_WEBHOOK_SECRETS']?.trim();
  if (given) return given;
  remembered.webhookSecret ??= `whsec_${randomBytes(24).toString('base64url')}`;
  return remembered.webhookSecret;
}
