export { openHybridClaims, type HybridClaimsOptions } from './hybrid-claims.ts';
export { hybridStore } from './hybrid-store.ts';
