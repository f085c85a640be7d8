export { createClaimsTable, DynamoTableError, leavesAt, openTable } from './claims-table.ts';
export { dynamoStore } from './dynamo-store.ts';
export { openDynamoClaims, openDynamoWalk, type DynamoClaimsOptions } from './dynamo-claims.ts';
export type { Condition, DynamoAddress, Item, Table, Written } from './dynamo-client.ts';
export type { Moment } from './service-clock.ts';
