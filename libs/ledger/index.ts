export * from './ledger.ts';
export * from './outbox.ts';
