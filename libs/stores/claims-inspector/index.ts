export * from './claims-inspector.ts';
export * from './inspect-claims.ts';
