/**
 * What an API key is for. `full`: everything. `read`: every GET, and nothing else. `pay`: makes
 * transactions of every kind, and reads what it takes to follow them.
 */
export const keyScopes = ['full', 'read', 'pay'] as const;
export type KeyScope = (typeof keyScopes)[number];
