import type { ListedProvider } from '@triplock/providers';
import { accounts, createTestBank } from '@triplock/provider-giro/test';
import { createTestStripe, type Cleanup } from '@triplock/testing';
import { ledgerWorker } from '../service.ts';

/** A provider of one test's own, and what really moved there. */
export type Charger = {
  /** Of a worker process that charges there. */
  settings: Readonly<Record<string, string>>;
  /** Where a worker comes to while it charges there, in that order. */
  steps: readonly (typeof ledgerWorker.crashPoints)[number][];
  /** Of a payment that is charged there and succeeds. */
  paid: { paymentMethod: string; currency: string };
  /** Has what is under way come to its end, where nothing ends at once. */
  settle(): Promise<unknown>;
  /** What it keeps for a day it has forgotten. */
  forgetKeys(): Promise<unknown>;
  /** How much of these payments was charged and given back; minor units. */
  moved(): Promise<{ charged: number; givenBack: number }>;
};

const dayLater = { advanceMs: 25 * 3_600_000 };

/** Every provider of the list. */
export const chargers: Readonly<Record<ListedProvider, (test: Cleanup) => Promise<Charger>>> = {
  async stripe(test) {
    const { control, apiKey, url } = await createTestStripe(test);
    type Moved = Partial<Record<string, { amount: number }>>;
    return {
      settings: { STRIPE_API_KEY: apiKey, STRIPE_API_URL: url },
      steps: ['worker.charged'],
      paid: { paymentMethod: 'pm_card_visa', currency: 'EUR' },
      settle: async () => undefined,
      forgetKeys: () => control('POST', '/clock', dayLater),
      async moved() {
        const { charges, refunds } = await control<Record<'charges' | 'refunds', Moved>>(
          'GET',
          '/audit',
        );
        const [charged, givenBack] = [charges['eur']?.amount ?? 0, refunds['eur']?.amount ?? 0];
        return { charged, givenBack };
      },
    };
  },
  async giro(test) {
    const { control, apiUrl, token } = await createTestBank(test);
    return {
      settings: { PROVIDERS: 'giro', GIRO_API_URL: apiUrl, GIRO_API_TOKEN: token },
      steps: ['worker.intent-created', 'worker.intent-stored', 'worker.charged'],
      paid: { paymentMethod: `payto://iban/${accounts.pays}`, currency: 'EUR' },
      settle: () => control('POST', '/settle'),
      forgetKeys: () => control('POST', '/clock', { advanceMs: 1 }),
      async moved() {
        type Audit = { received: number; refunded: number };
        const { received, refunded } = await control<Audit>('GET', '/audit');
        return { charged: received, givenBack: refunded };
      },
    };
  },
};
