export { connectCache } from './connect-cache.ts';
export { openHybridClaims, type HybridClaimsOptions } from './hybrid-claims.ts';
