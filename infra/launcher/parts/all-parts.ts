import { dynamodb } from './dynamodb.ts';
import { kafka } from './kafka.ts';
import type { Part } from './part.ts';
import { postgres } from './postgres.ts';
import { pubsub } from './pubsub.ts';
import { redis } from './redis.ts';
import { spanner } from './spanner.ts';

/** Parts that are always there. */
export const usualParts: readonly Part[] = [redis, kafka, postgres, pubsub];

/** Every part, in the order in which they are shown and fetched. */
export const allParts: readonly Part[] = [...usualParts, dynamodb, spanner];
