export { committedOffsets, endOffsets, havePassed } from './brokers.ts';
export {
  hasSimulator,
  withProviderLatency,
  withProviderLimit,
  type ProviderLatency,
} from './provider.ts';
export { openShop } from './saga/shop.ts';
export { askAdmin, sumSeries } from './services.ts';
export { auditSystem, findSystem, openLedgerNow, type LedgerNow, type System } from './system.ts';
export { until } from './promises.ts';
export { nearestName } from './scenarios/all.ts';
