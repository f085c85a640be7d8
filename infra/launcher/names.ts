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
  settlementSubscription: string;
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
  settlementSubscription: 'settlement-feed',
  auditorSubscription: 'auditor',
};

/** The names of a system that lives beside another one: nothing of it is called as there. */
export function namesIn(namespace: string): Names {
  const inNamespace = (name: string) => `${namespace}.${name}`;
  return {
    // PostgreSQL takes such a name without quotes.
    database: `${usualNames.database}_${namespace.replaceAll('-', '_')}`,
    claims: inNamespace(usualNames.claims),
    acceptedTopic: inNamespace(usualNames.acceptedTopic),
    deadLetterTopic: inNamespace(usualNames.deadLetterTopic),
    ledgerGroup: inNamespace(usualNames.ledgerGroup),
    auditorGroup: inNamespace(usualNames.auditorGroup),
    eventsTopic: inNamespace(usualNames.eventsTopic),
    notifierSubscription: inNamespace(usualNames.notifierSubscription),
    settlementSubscription: inNamespace(usualNames.settlementSubscription),
    auditorSubscription: inNamespace(usualNames.auditorSubscription),
  };
}
