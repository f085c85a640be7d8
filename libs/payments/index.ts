export type { Brand } from './brand.ts';
export * from './canonical-json.ts';
export * from './fingerprint.ts';
export * from './identity.ts';
export * from './money.ts';
export * from './payment.ts';
export * from './posting.ts';
export * from './refund.ts';
export * from './transaction.ts';
