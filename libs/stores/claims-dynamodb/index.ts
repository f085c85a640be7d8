export { createClaimsTable, DynamoTableError } from './claims-table.ts';
export { dynamoStore } from './dynamo-store.ts';
export { openDynamoClaims, openDynamoWalk, type DynamoClaimsOptions } from './dynamo-claims.ts';
