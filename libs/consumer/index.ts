export * from './consume-events.ts';
export * from './metrics.ts';
export * from './settings.ts';
