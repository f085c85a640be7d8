import type { Rules, Watch, Way } from '@triplock/pipeline';
import type { SettingsTable } from './settings.ts';

/** A port that a service listens on. */
export type DeclaredPort = {
  /** What it is for: `admin` for health, readiness and metrics, `http` for its clients. */
  use: string;
  /** The setting that names it. */
  setting: string;
  /** The path that answers 200 when the service is ready. */
  ready: string;
  /** The first replica's on a developer's machine; the others' follow, ten at most. */
  usual: number;
  /** The environment variable by which the launcher is asked for another. */
  variable: string;
  /** In a container, and the variable of docker-compose.yml that says where it is published. */
  inside: number;
  published: string;
};

/** An operation of Kafka's authorizer (kafka.apache.org/documentation/#operations_in_kafka). */
export type KafkaOperation = 'Read' | 'Write' | 'Describe' | 'Delete' | 'DescribeConfigs';

/**
 * Operations on a topic, by what it is for, or on a group by its usual name. Read, Write and Delete
 * include Describe; Write on any topic includes what an idempotent producer asks for (KIP-679).
 */
export type DeclaredKafkaRight = { may: readonly KafkaOperation[] } & (
  { topic: 'accepted' | 'deadLetter' | 'told' } | { group: string }
);

/**
 * What a service declares, in its file `service.ts`. The launcher starts it by this, gives
 * it its settings, its role in the database, its topics and subscription; docker-compose.yml, the
 * rules of Prometheus and the lists of consumers are compared with it by a test of the launcher,
 * which names the file to mend.
 */
export type ServiceDeclaration = {
  /** Also its folder in services/, its container, and the label `service` of its metrics. */
  name: string;
  /** One of it whatever `--replicas` says: no work is shared out among several. */
  copies?: 'one';
  ports: readonly DeclaredPort[];
  /** The table that its config.ts reads. */
  settings: SettingsTable;
  /** The role that it works as in PostgreSQL; without one it needs no database. */
  role?: `triplock_${string}`;
  /** Connections that the pools of one replica hold at most as that role. */
  connections?: number;
  /** A schema of its own there, from its folder `migrations`; without one it works in a lib's. */
  schema?: string;
  /** Whether an inbox in its schema admits each event once. */
  inbox?: boolean;
  /** What it does with the ledger, in whichever store that is. */
  ledger?: 'reads' | 'posts' | 'publishes' | 'audits';
  /** Whether it claims idempotency keys, or only reads what was claimed, by its own role. */
  claims?: 'takes' | 'reads';
  kafka?: {
    /** Consumer groups by their settings: its own, and those whose offsets it reads. */
    groups: Readonly<Record<string, string>>;
    /** What it may do at the brokers, and nothing else. */
    rights: readonly DeclaredKafkaRight[];
  };
  /** What it does with settled events in Pub/Sub: publish them, or receive them. */
  events?: { does: 'publish' } | { does: 'receive'; subscription: string };
  /** Whether it charges cards at the provider or only reads there. */
  provider?: 'charges' | 'reads';
  /** Whether it calls partners' servers, which in a demo stand beside it or on the machine. */
  callsPartners?: boolean;
  /** Where CRASH_POINTS can end it: between two durable steps, each named in docs/failures.md. */
  crashPoints: readonly `${string}.${string}`[];
  /** How the names of its metrics begin. */
  metrics: readonly `triplock_${string}_`[];
  /** The bound of one replica's container. */
  memoryMiB: number;
  /** How the audit judges what it did, and how it is shown to people: a consumer brings both. */
  rules?: Rules;
  watch?: Watch;
  /** What one on a payment's way tells that is no consumer, of which `watch` says it. */
  way?: Way;
};

/** The port for health, readiness and metrics, which every service has. */
export function adminPort<const Usual extends number, const Published extends string>(at: {
  usual: Usual;
  published: Published;
}) {
  return {
    use: 'admin',
    setting: 'ADMIN_PORT',
    ready: '/readyz',
    variable: 'TRIPLOCK_ADMIN_PORT',
    inside: 9_100,
    ...at,
  } as const;
}
