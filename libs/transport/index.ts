export * from './kafka/log.ts';
export * from './pubsub/topic.ts';
