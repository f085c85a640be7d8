export * from './amounts.ts';
export * from './card-numbers.ts';
export * from './currencies.ts';
export * from './identity.ts';
export * from './money.ts';
export * from './transaction.ts';
