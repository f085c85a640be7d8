export * from './kafka/group-commit.ts';
export * from './kafka/kafka-client.ts';
export * from './kafka/log.ts';
export * from './kafka/topic-offsets.ts';
export * from './pubsub/topic.ts';
export * from './kafka/consumer.ts';
