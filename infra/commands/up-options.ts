import { UsageError } from '../launcher-error.ts';
import { replicasMax } from '../start-services.ts';

/** Stores that the interface names; only the first of each is there yet. */
const stores = {
  ledger: ['postgres', 'spanner'],
} as const;

/** Refuses a store that is unknown or not available yet. */
export function refuseOtherStores(values: { ledger?: string }): void {
  for (const option of ['ledger'] as const) {
    const value = values[option];
    const [available, ...others]: readonly string[] = stores[option];
    if (value === undefined || value === available) continue;
    const why = others.includes(value) ? 'is not available yet' : 'is not known';
    throw new UsageError(`--${option} ${value} ${why}: only ${available} is`);
  }
}

/** The number after `--replicas`. */
export function parseReplicas(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const number = /^\d{1,3}$/.test(text) ? Number(text) : NaN;
  if (number >= 1 && number <= replicasMax) return number;
  throw new UsageError(`--replicas takes a whole number from 1 to ${replicasMax}, not '${text}'`);
}
