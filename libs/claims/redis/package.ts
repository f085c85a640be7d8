import { createRequire } from 'node:module';
import type * as ioredis from 'ioredis';

const require = createRequire(import.meta.url);

/**
 * The package ioredis, which is loaded when it is first needed: of all that import the stores of
 * claims, for the settings and names of each, few ever open one of Redis.
 */
export const redisPackage = (): typeof ioredis => require('ioredis') as typeof ioredis;
