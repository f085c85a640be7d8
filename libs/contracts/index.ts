export * from './http/accepted-response.ts';
export * from './http/problem.ts';
export * from './kafka/dead-letter.ts';
export * from './kafka/payment-accepted.ts';
export * from './pubsub/payment-event.ts';
export * from './topics.ts';
