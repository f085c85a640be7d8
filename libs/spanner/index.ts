export type { Calls } from './calls.ts';
export * from './errors.ts';
export * from './migrate-spanner.ts';
export * from './migration-sets.ts';
export * from './open-spanner.ts';
export * from './place.ts';
export * from './provision-emulator.ts';
export * from './transaction.ts';
export * from './values.ts';
