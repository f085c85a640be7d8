export * from './charging.conformance.ts';
export * from './ledger.conformance.ts';
export * from './outbox.conformance.ts';
export * from './refunds.conformance.ts';
export * from './under-test.ts';
export * from './republishing.conformance.ts';
