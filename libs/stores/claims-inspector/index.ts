export * from './inspect-claims.ts';
