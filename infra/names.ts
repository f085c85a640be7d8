import { topics } from '@triplock/contracts';

/** What the things of one system are called in the parts, which others may share. */
export type Names = {
  /** In PostgreSQL, unless a database was given. */
  database: string;
  /** Begins the key of every claim in Redis. */
  claims: string;
  /** Topics and consumer groups in Kafka. */
  acceptedTopic: string;
  deadLetterTopic: string;
  ledgerGroup: string;
  auditorGroup: string;
  /** The topic and its subscriptions, one for each consumer, in Pub/Sub. */
  eventsTopic: string;
  notifierSubscription: string;
  auditorSubscription: string;
};

/** The names of a system that has its parts to itself. */
export const usualNames: Names = {
  database: 'triplock',
  claims: 'triplock',
  acceptedTopic: topics.accepted,
  deadLetterTopic: topics.deadLetter,
  ledgerGroup: 'ledger-worker',
  auditorGroup: 'auditor',
  eventsTopic: topics.events,
  notifierSubscription: 'partner-notifier',
  auditorSubscription: 'auditor',
};
