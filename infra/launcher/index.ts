export { bringUp, bringUpParts, type Apart, type BringUp } from './bring-up.ts';
export { claimStores, type ClaimStore } from './claim-store.ts';
export { runCommand, type Command } from './commands/run-command.ts';
export { parseParts } from './commands/up-options.ts';
export type { PartnerCredentials } from './credentials.ts';
export type { Endpoints, PartEndpoints, ServiceEndpoint } from './endpoints.ts';
export {
  continueProcess,
  killProcess,
  pauseProcess,
  runOf,
  stopProcess,
  type Target,
} from './faults.ts';
export { homeWithout } from './homes-apart.ts';
export { Interrupted, LauncherError, UsageError } from './launcher-error.ts';
export { parseLedgerStore, type LedgerStore } from './ledger-store.ts';
export { namesIn, usualNames, type Names } from './names.ts';
export { findK6, type K6 } from './parts/k6.ts';
export { findPromtool, type Promtool } from './parts/promtool.ts';
export { isSameProcess, startTimeOf, type ProcessIdentity } from './processes/identity.ts';
export { withLock } from './lock.ts';
export { provisionDatabase } from './provision/database.ts';
export { dropNames } from './provision/drop-names.ts';
export { askPubSub, pubsubName } from './provision/pubsub-rest.ts';
export type { Mode, SettingsOfServices } from './services.ts';
export type { Report } from './session.ts';
export { startCommand } from './start-command.ts';
export { stripeKeyFor } from './stripe-place.ts';
export { readLogs } from './read-logs.ts';
export { systemStatus, type ProcessStatus, type SystemStatus } from './system-status.ts';
export { takeDown, type TakeDown } from './take-down.ts';
export { thisMachineFor } from './this-machine.ts';
export { whatIsAway } from './what-is-away.ts';
