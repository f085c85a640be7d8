import { topics } from '@triplock/contracts';
import type { DeclaredKafkaRight, KafkaOperation } from '@triplock/runtime';
import { declarations, subscriptionNames, type DeclaredService } from './services.ts';

/*
 * What each service may do at the brokers, and nothing else: with it whoever has taken one over can
 * do its work and no more. Nothing here applies them: the brokers of a home have no authorizer, and
 * in servers of your own these rights are yours to set. The manual (docs/operating.md, "The parts")
 * shows them as commands and a table, which declarations.test.ts compares with `shownRights`;
 * least-rights.test.ts has the services work with them, in Kafka by an authorizer. Names are the
 * usual ones; settings may say others.
 */

/** Operations on a topic or a group, or on all groups that begin so. */
export type KafkaRight = { may: readonly KafkaOperation[] } & (
  { topic: string } | { group: string } | { groupsFrom: string }
);

const { accepted, deadLetter, told, events } = topics;

/**
 * By users of Kafka, those that services declare and the operator's. Write on the accepted topic is
 * the right to have any payment made: it is the gateway's and the operator's, who redrives dead
 * letters, and nobody else's.
 */
export const kafkaRights = {
  ...Object.fromEntries(
    declarations.flatMap(({ name, kafka }) =>
      kafka === undefined ? [] : [[name, kafka.rights.map(onUsualName)]],
    ),
  ),
  operator: [
    { may: ['Read', 'Write'], topic: accepted },
    { may: ['Read'], topic: deadLetter },
    // What `rewind` takes over.
    { may: ['Read'], topic: told },
    // What it reads topics by, one for each look.
    { may: ['Read', 'Delete'], groupsFrom: 'triplock-operator-reader-' },
    // What `rewind` moves.
    { may: ['Read'], group: 'ledger-worker' },
    { may: ['Read'], group: 'auditor' },
    { may: ['Read'], group: 'auditor-dead-letters' },
  ],
} as Readonly<Record<string, readonly KafkaRight[]>> & { operator: readonly KafkaRight[] };

function onUsualName(right: DeclaredKafkaRight): KafkaRight {
  return 'topic' in right ? { ...right, topic: topics[right.topic] } : right;
}

/** A permission of IAM (cloud.google.com/pubsub/docs/access-control). */
export type PubSubPermission = `pubsub.${'topics' | 'subscriptions'}.${string}`;

/** Permissions on one topic or one subscription. */
export type PubSubRight = { may: readonly PubSubPermission[] } & (
  { topic: string } | { subscription: string }
);

/** What a service does with events, and whether it has an inbox, says what it may do there. */
function rightsFor({ events: role, inbox }: DeclaredService): readonly PubSubRight[] {
  if (role === undefined) return [];
  const onTopic = { may: ['pubsub.topics.get'], topic: events } as const;
  if (role.does === 'publish') {
    return [{ ...onTopic, may: [...onTopic.may, 'pubsub.topics.publish'] }];
  }
  const { subscription } = role;
  const onSubscription = { may: ['pubsub.subscriptions.get', consume], subscription } as const;
  // An inbox asks for how long messages can come again: of the topic too, whose retention counts
  // where it is the longer one.
  return inbox ? [onSubscription, onTopic] : [onSubscription];
}

const consume = 'pubsub.subscriptions.consume';

/** By service accounts, each with a role of one's own on the topic and the subscription alone. */
export const pubsubRights: Readonly<Record<string, readonly PubSubRight[]>> = {
  ...Object.fromEntries(
    declarations.filter((each) => each.events).map((each) => [each.name, rightsFor(each)]),
  ),
  operator: [
    // `rewind` has every subscription skip what it holds.
    ...subscriptionNames.map((subscription) => ({ may: [consume] as const, subscription })),
    // A message that a consumer refused is published again.
    { may: ['pubsub.topics.publish'], topic: events },
  ],
};

/**
 * The rights as the manual shows them: those in Kafka as calls, a line for each, of `may USER …`, a
 * function of the shell that the manual defines (kafka-acls.sh, which gives a right); those in
 * Pub/Sub as rows of a table.
 */
export const shownRights = {
  kafka: Object.entries(kafkaRights).flatMap(([user, rights]) =>
    rights.map((right: KafkaRight) => {
      const operations = right.may.map((each) => `--operation ${each}`).join(' ');
      const { type, name, pattern } = resourceOf(right);
      const prefixed = pattern === 'prefixed' ? ' --resource-pattern-type prefixed' : '';
      return `may ${user} ${operations} --${type} ${name}${prefixed}`;
    }),
  ),
  pubsub: Object.entries(pubsubRights).map(([account, rights]) => {
    const told = rights.map((right) => {
      const on =
        'topic' in right ? `topic \`${right.topic}\`` : `subscription \`${right.subscription}\``;
      return `${right.may.map((each) => `\`${each}\``).join(', ')} on the ${on}`;
    });
    return `| ${account} | ${told.join('; ')} |`;
  }),
};

/** What a right is on. */
export function resourceOf(right: KafkaRight) {
  if ('topic' in right) return { type: 'topic', name: right.topic, pattern: 'literal' } as const;
  if ('group' in right) return { type: 'group', name: right.group, pattern: 'literal' } as const;
  return { type: 'group', name: right.groupsFrom, pattern: 'prefixed' } as const;
}
