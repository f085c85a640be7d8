export { askAuditor, type Auditing } from './audit.ts';
export { renderAudit, type AuditReport } from './audit-report.ts';
export * from './command.ts';
export { askFigures, figuresPath, readFigures } from './console/flow.ts';
export {
  readAllReceipts,
  readEffects,
  readReceipts,
  type Effects,
  type EventRow,
  type Receipt,
} from './effects.ts';
export { checkHistory, renderHistory, type HistoryReport } from './history/check-history.ts';
export { readHistory } from './history/history.ts';
export { followWebhooks, openHistory, type HistoryRecorder } from './history/record-history.ts';
export { operate, type OperatorCommand } from './operate.ts';
export type { Caller, FoundSystem, Part } from './operator.ts';
export { recordAcknowledgement, whoActs } from './operator-acts.ts';
export { lackingEvents } from './republish.ts';
export { claimStoreNames, readRecords, type RecordsSeen } from './payment-trace.ts';
export {
  knownScenarios,
  loadLimits,
  missingGuardNames,
  type KnownScenario,
} from './console/break-agent.ts';
export * from './terminal.ts';
export { formatMoney } from './money.ts';
