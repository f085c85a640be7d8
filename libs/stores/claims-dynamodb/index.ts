export { DynamoTableError } from './check-table.ts';
export type { Condition, Table, Written } from './connect-dynamo.ts';
export { createClaimsTable } from './create-claims-table.ts';
export { openDynamoClaims, type DynamoClaimsOptions } from './dynamo-claims.ts';
export type { DynamoPlace } from './dynamo-place.ts';
export { leavesAt, type Item } from './item.ts';
export { openTable } from './open-table.ts';
export type { Moment } from './service-clock.ts';
