export { dynamoStore } from './dynamo-store.ts';
