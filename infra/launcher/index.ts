export { type Beside, bringUp, type BringUp, bringUpParts } from './bring-up.ts';
export {
  type ClaimStore,
  claimStores,
  type LedgerStore,
  ledgerStores,
  parseLedgerStore,
  parseParts,
  partsForStores,
} from './choices.ts';
export { type Command, yieldToOthers } from './processes/start.ts';
export type { OperatorCommand } from '@triplock/operator';
export { runCommand } from './commands/run-command.ts';
export { homeWithout, startCommand } from './home.ts';
export type { Endpoints, PartEndpoints, ServiceEndpoint } from './endpoints.ts';
export {
  continueProcess,
  killProcess,
  leaveDead,
  pauseProcess,
  runOf,
  stopProcess,
  type Target,
} from './faults.ts';
export { type Names, namesIn, usualNames } from './names.ts';
export { findK6, type K6 } from './programs/k6.ts';
export { findOpenApiGenerator, type OpenApiGenerator } from './programs/openapi-generator.ts';
export { askVersion, findOnPath } from './programs/installed.mjs';
export {
  findRedisLine,
  nameServer,
  type RedisLine,
  redisLines,
  type RedisServer,
  serverVariable,
} from './parts/redis-servers.ts';
export { titlesOfParts } from './parts/start-parts.ts';
export { findPromtool, type Promtool } from './programs/promtool.ts';
export { checkOut, type Checkout, linkPackages, upgradableFrom } from './packages.ts';
export { isSameProcess, startTimeOf } from './processes/identity.ts';
export {
  type CrashPointName,
  declarations,
  type DeclaredService,
  isConsumer,
  type ServiceName,
  subscriptionsOf,
} from './services.ts';
export { composeFiles } from './containers/compose-file.ts';
export { problemsOfContributions } from './contributions.ts';
export { shownRights } from './broker-rights.ts';
export { type DeclaredPart, declaredParts } from './parts/store-parts.ts';
export { withLock } from './lock.ts';
export { provisionDatabase } from './provision/database.ts';
export { dropNames } from './provision/drop-names.ts';
export { askPubSub, pubsubName } from './parts/pubsub.ts';
export { claimStoreAt, ledgerStoreAt, type SettingsOfServices } from './wiring.ts';
export type { Report } from './session.ts';
export { readLogs } from './logs.ts';
export { askClaimState, describeClaims, runningSystem, systemStatus } from './status.ts';
export { takeDown } from './take-down.ts';
export { thisMachineFor } from './containers/network.ts';
