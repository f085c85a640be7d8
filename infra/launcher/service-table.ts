import { join } from 'node:path';
import { providerNamed, providerNames } from '@triplock/providers';
import type { DeclaredPort } from '@triplock/runtime';
import { declarations, isWaitedFor, mainOf } from './services.ts';
import { type ProviderAccount, simulatorOf } from './providers.ts';
import { settingsOf, type Wiring } from './wiring.ts';

/** A kind of process that the launcher runs beside the parts. */
export type Service = {
  name: string;
  /** Its main file, from the clone's root. */
  main: string;
  /** One of it whatever `--replicas` says, or as many as that. */
  copies: 'one' | 'replicas';
  /** Whether it has spans; providers and partners are not of the pipeline, and have none. */
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

/** What stands for the providers that the pipeline charges at. */
const simulators = providerNames.map((provider): Service => {
  const { name, workspace, prefix, memoryMiB, port } = providerNamed(provider).simulator;
  return {
    name,
    main: `${workspace}/main.ts`,
    copies: 'one',
    isTraced: false,
    yields: false,
    memoryMiB,
    ports: [
      {
        use: 'http',
        setting: `${prefix}_PORT`,
        ready: '/readyz',
        usual: port.usual,
        variable: port.variable,
      },
    ],
    settings: ({ dataFolder, controlToken, accounts }) => {
      const { webhooks } = accounts.find((each) => each.provider === provider) ?? {};
      return {
        CONTROL_TOKEN: controlToken,
        [`${prefix}_JOURNAL`]: join(dataFolder, `${provider}.jsonl`),
        ...(webhooks && {
          [`${prefix}_WEBHOOK_URL`]: webhooks.url,
          [`${prefix}_WEBHOOK_SECRET`]: webhooks.secrets,
        }),
      };
    },
  };
});

/** Whom the pipeline deals with: the providers that it charges at, and the partners' server. */
const counterparts: readonly Service[] = [
  ...simulators,
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
 * The table without the simulators of providers that are asked themselves, and without a port for
 * webhooks where none sends any.
 */
export function servicesFor(
  accounts: readonly ProviderAccount[],
  table: readonly Service[],
): readonly Service[] {
  const given = accounts.filter(({ origin }) => origin === 'given');
  const unused = given.map(({ provider }) => simulatorOf(provider));
  const asked = table.filter(({ name }) => !unused.includes(name));
  if (accounts.some(({ webhooks }) => webhooks !== undefined)) return asked;
  return asked.map((each) => ({
    ...each,
    ports: each.ports.filter(({ use }) => use !== 'webhooks'),
  }));
}
