import { topics } from '@triplock/contracts';
import {
  type GroupName,
  groupNames,
  type SubscriptionName,
  subscriptionNames,
} from './services.ts';

/** What the things of one system are called in the parts, which others may share. */
export type Names = {
  /** In PostgreSQL, unless a database was given. */
  database: string;
  /** Begins the key of every claim in Redis. */
  claims: string;
  /** Topics and consumer groups in Kafka, the groups by what they are usually called. */
  acceptedTopic: string;
  deadLetterTopic: string;
  /** Events as they were published, in Kafka. */
  toldTopic: string;
  groups: Readonly<Record<GroupName, string>>;
  /** The topic in Pub/Sub and its subscriptions, by what they are usually called. */
  eventsTopic: string;
  subscriptions: Readonly<Record<SubscriptionName, string>>;
};

/** The names of a system that has its parts to itself. */
export const usualNames: Names = {
  database: 'triplock',
  claims: 'triplock',
  acceptedTopic: topics.accepted,
  deadLetterTopic: topics.deadLetter,
  toldTopic: topics.told,
  groups: named(groupNames, (name) => name),
  eventsTopic: topics.events,
  subscriptions: named(subscriptionNames, (name) => name),
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
    toldTopic: inNamespace(usualNames.toldTopic),
    groups: named(groupNames, inNamespace),
    eventsTopic: inNamespace(usualNames.eventsTopic),
    subscriptions: named(subscriptionNames, inNamespace),
  };
}

/** Every name of a system, wherever it is used. */
export function allNamesOf({ groups, subscriptions, ...single }: Names): string[] {
  return [...Object.values(single), ...Object.values(groups), ...Object.values(subscriptions)];
}

function named<Name extends string>(names: readonly Name[], nameOf: (name: string) => string) {
  const entries = names.map((name) => [name, nameOf(name)] as const);
  return Object.fromEntries(entries) as Record<Name, string>;
}
