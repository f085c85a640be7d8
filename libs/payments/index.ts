export * from './fingerprint.ts';
export * from './identity.ts';
export * from './money.ts';
export * from './payment.ts';
export * from './refund.ts';
export * from './transaction.ts';
