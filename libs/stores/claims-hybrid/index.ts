export { connectCache } from './answer-cache.ts';
export { openHybridClaims, type HybridClaimsOptions } from './hybrid-claims.ts';
