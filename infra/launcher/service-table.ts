import { join } from 'node:path';
import type { DeclaredPort } from '@triplock/runtime';
import { declarations, isWaitedFor, mainOf } from './services.ts';
import { simulator, type StripeAccount } from './stripe.ts';
import { settingsOf, type Wiring } from './wiring.ts';

/** A kind of process that the launcher runs beside the parts. */
export type Service = {
  name: string;
  /** Its main file, from the clone's root. */
  main: string;
  /** One of it whatever `--replicas` says, or as many as that. */
  copies: 'one' | 'replicas';
  /** Whether it has spans; the provider and the partner are not of the pipeline, and have none. */
  isTraced: boolean;
  /** On a busy machine the others go first. */
  yields: boolean;
  /** What it may have of memory; of a service's container it is the bound. */
  memoryMiB: number;
  ports: readonly Omit<DeclaredPort, 'inside' | 'published'>[];
  settings(wiring: Wiring): Readonly<Record<string, string>>;
};

/** Of a process's memory, what is no heap: code, buffers, the stacks of threads. */
const besideHeapMiB = 96;
/** V8 keeps three of them; with a smaller one more of what dies young is copied first. */
const semiSpaceMiB = 16;

/**
 * Node's options that keep a process within its memory. By itself V8 lets gigabytes of a large
 * machine fill with what nobody needs before it looks for it. In a small container it expects more
 * than there is, and has a megabyte for what dies young, so a payment takes twice the CPU.
 */
export function heapWithin(memoryMiB: number): string[] {
  const oldSpaceMiB = memoryMiB - besideHeapMiB - 3 * semiSpaceMiB;
  return [`--max-semi-space-size=${semiSpaceMiB}`, `--max-old-space-size=${oldSpaceMiB}`];
}

/** The admin port of the first service; TRIPLOCK_ADMIN_PORT moves all of them by as much. */
export const firstAdminPort = 18_100;

/** Whom the pipeline deals with: the provider that it charges at, and the partners' server. */
const counterparts: readonly Service[] = [
  {
    name: simulator,
    main: 'infra/stripe-simulator/main.ts',
    copies: 'one',
    isTraced: false,
    yields: false,
    // It keeps all that it was told, for as long as a load runs.
    memoryMiB: 1_024,
    ports: [
      {
        use: 'http',
        setting: 'STRIPE_SIMULATOR_PORT',
        ready: '/readyz',
        usual: 18_095,
        variable: 'TRIPLOCK_STRIPE_PORT',
      },
    ],
    settings: ({ dataFolder, controlToken, stripe: { webhooks } }) => ({
      CONTROL_TOKEN: controlToken,
      STRIPE_SIMULATOR_JOURNAL: join(dataFolder, 'stripe.jsonl'),
      ...(webhooks && {
        STRIPE_SIMULATOR_WEBHOOK_URL: webhooks.url,
        STRIPE_SIMULATOR_WEBHOOK_SECRET: webhooks.secrets,
      }),
    }),
  },
  {
    name: 'catcher',
    main: 'demo/catcher/main.ts',
    copies: 'one',
    isTraced: false,
    yields: true,
    // It keeps all that it was told, for as long as a load runs.
    memoryMiB: 1_024,
    ports: [
      {
        use: 'http',
        setting: 'CATCHER_PORT',
        ready: '/healthz',
        usual: 18_090,
        variable: 'TRIPLOCK_CATCHER_PORT',
      },
    ],
    settings: ({ partnersFile, controlToken }) => ({
      CONTROL_TOKEN: controlToken,
      CATCHER_PARTNERS_FILE: partnersFile,
    }),
  },
];

/**
 * What runs scenarios and load for a console, and breaks processes: in a demo on this machine, but
 * in no container.
 */
export const agent: Service = {
  name: 'agent',
  main: 'infra/launcher/agent/main.ts',
  copies: 'one',
  isTraced: false,
  // What it starts would inherit that.
  yields: false,
  memoryMiB: 256,
  ports: [
    {
      use: 'http',
      setting: 'AGENT_PORT',
      ready: '/healthz',
      usual: 18_065,
      variable: 'TRIPLOCK_AGENT_PORT',
    },
  ],
  settings: ({ agent: wired }) => ({
    ...wired?.environment,
    AGENT_HOME: wired?.home ?? '',
    AGENT_TOKEN: wired?.token ?? '',
  }),
};

/** Every process beside the parts that runs everywhere, in the order in which `down` stops them. */
export const services: readonly Service[] = [
  ...declarations.map((declared): Service => ({
    name: declared.name,
    main: mainOf(declared),
    copies: declared.copies ?? 'replicas',
    isTraced: true,
    yields: !isWaitedFor(declared),
    memoryMiB: declared.memoryMiB,
    ports: declared.ports,
    settings: (wiring) => settingsOf(declared, wiring),
  })),
  ...counterparts,
];

/** The same with the agent, which ends first: what it has under way starts others again. */
export const servicesHere: readonly Service[] = [agent, ...services];

/**
 * The table without the simulator where Stripe itself is asked, and without a port for its webhooks
 * where it sends none.
 */
export function servicesFor(stripe: StripeAccount, table: readonly Service[]): readonly Service[] {
  const asked =
    stripe.origin === 'simulated' ? table : table.filter(({ name }) => name !== simulator);
  if (stripe.webhooks) return asked;
  return asked.map((each) => ({
    ...each,
    ports: each.ports.filter(({ use }) => use !== 'webhooks'),
  }));
}
