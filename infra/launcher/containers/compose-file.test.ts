import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { testImages } from '@triplock/testing';
import { parse } from 'yaml';
import { claimStores, ledgerStores, replicasMax } from '../choices.ts';
import { cloneFolder } from '../home.ts';
import { kafkaProperties } from '../parts/kafka.ts';
import { databaseUrls } from '../provision/database.ts';
import { type Service, services, servicesFor } from '../services.ts';
import { simulatedStripe } from '../stripe.ts';
import type { Wiring } from '../wiring.ts';
import { fileOf, inNetwork, networkWiring, settingsInFiles, writtenAt } from './network.ts';

type ComposeService = {
  image: string;
  build?: { args: { WORKSPACE: string } };
  command?: string[];
  environment?: Record<string, string | number>;
  ports?: string[];
  healthcheck?: object;
  mem_limit?: string;
  volumes?: string[];
  profiles?: string[];
  extra_hosts?: string[];
  deploy?: { replicas: number };
};

const text = readFileSync(join(cloneFolder, 'docker-compose.yml'), 'utf8');
const dockerfile = readFileSync(join(cloneFolder, 'infra/images/Dockerfile'), 'utf8');
const file = parse(text, { merge: true }) as { services: Record<string, ComposeService> };

/** What a container is told because it is one, and not because of what the system is. */
const ofContainers = ['TRIPLOCK_MODE', 'LOG_LEVEL', 'WEBHOOK_TARGETS'];
const someStores = {
  databases: databaseUrls(inNetwork.parts.postgres),
  stripe: {
    ...simulatedStripe(inNetwork.stripe),
    webhooks: { url: inNetwork.stripeWebhooks, secrets: 'whsec_some' },
  },
};

/** What the step before the services writes down, in every choice of the stores. */
const wirings = claimStores.flatMap((claims) =>
  ledgerStores.map((ledger): Wiring => ({ ...networkWiring, ...someStores, claims, ledger })),
);

test('every service of the launcher is in the file, made of the same main file', () => {
  for (const { name, main } of services) {
    const container = serviceAt(name);
    const { WORKSPACE } = container.build!.args;
    assert.equal(join(WORKSPACE, container.command?.[1] ?? 'main.ts'), main, name);
  }
});

test('a service in a container is told what the launcher tells it, whatever the stores', () => {
  for (const service of services) {
    const told = serviceAt(service.name).environment ?? {};
    const meant = new Set<string>();
    for (const wiring of wirings) {
      for (const [name, value] of Object.entries(settingsOf(service, wiring))) {
        const said = String(told[name]).replace('${CLAIMS:-redis}', wiring.claims);
        const chosen = said.replace('${LEDGER_STORE:-postgres}', wiring.ledger);
        assert.equal(chosen, value, `${service.name}: ${name}`);
        meant.add(name);
      }
    }
    const more = Object.keys(told)
      .filter((name) => !ofContainers.includes(name) && !listens(service, name))
      .filter((name) => !meant.has(name) && !name.startsWith('OTEL_'));
    assert.deepEqual(more, [], service.name);
  }
});

test('each service sees only what it is told itself, and the step before writes all of it', () => {
  const written = serviceAt('provision').volumes!;
  for (const { name } of services) {
    const mounted = serviceAt(name).volumes!.filter((each) => each.includes('/run/'));
    assert.deepEqual(mounted, [`for-${name}:/run/triplock:ro`], name);
    assert.ok(written.includes(`for-${name}:${writtenAt(name, '/run/triplock')}`), name);
    assert.match(dockerfile, new RegExp(` wiring/${name}[ \n]`));
  }
});

test('the operators’ commands are told of the same system, in files that only they see', () => {
  const { build, environment = {}, volumes } = serviceAt('operator');
  assert.equal(build!.args.WORKSPACE, 'services/operator');
  assert.deepEqual(volumes, ['for-operator:/run/triplock:ro']);
  assert.ok(serviceAt('provision').volumes!.includes('for-operator:/run/wiring/operator'));
  assert.match(dockerfile, / wiring\/operator\n/);
  const told = { ...serviceAt('ingest-gateway').environment, ...serviceAt('auditor').environment };
  for (const name of [
    'KAFKA_BROKERS',
    'PUBSUB_EMULATOR_HOST',
    'CLAIMS',
    'REDIS_URL',
    'LEDGER_STORE',
  ]) {
    assert.equal(environment[name], told[name], name);
  }
});

test('every service of the pipeline is told of OpenTelemetry what is set outside, and nothing by itself', () => {
  for (const { name, copies } of services) {
    const told = Object.entries(serviceAt(name).environment ?? {});
    const tracing = told.filter(([variable]) => variable.startsWith('OTEL_'));
    assert.equal(tracing.length > 0, copies === 'replicas', name);
    for (const [variable, value] of tracing) assert.equal(value, `\${${variable}:-}`);
  }
});

test('a service listens where the network and the host look for it', () => {
  const placed = servicesFor(someStores.stripe, services);
  for (const [index, { name, ports }] of placed.entries()) {
    const published = serviceAt(name).ports!.join(' ');
    for (const { use, usual } of ports) {
      const port = use === 'admin' ? usual + index * replicasMax : usual;
      assert.match(published, new RegExp(`:-${port}[-}]`), `${name} ${use}`);
    }
  }
  const inside = (name: string) => serviceAt(name).ports!.map((each) => each.split(':').at(-1));
  assert.deepEqual(inside('catcher'), [new URL(inNetwork.catcher).port]);
  assert.deepEqual(inside('stripe-simulator'), [new URL(inNetwork.stripe).port]);
  const sendsWebhooks = serviceAt('partner-notifier').extra_hosts;
  assert.deepEqual(sendsWebhooks, [`${inNetwork.machine}:host-gateway`]);
});

test('Kafka in a container is set as the native one, but for its listeners', () => {
  const told = serviceAt('kafka').environment!;
  const lines = kafkaProperties({ ports: {}, log: '' }).trim().split('\n');
  const properties = lines.map((line) => line.split('=') as [string, string]);
  const placed = /listener|voters|log\.dirs/;
  for (const [name, value] of properties.filter(([each]) => !placed.test(each))) {
    const variable = `KAFKA_${name.toUpperCase().replaceAll('.', '_')}`;
    assert.equal(String(told[variable]), value, variable);
  }
});

test('nothing is published beyond this machine, images are pinned, and no secret is in the file', () => {
  for (const [name, { image, build, ports = [], environment = {} }] of entries()) {
    for (const port of ports) assert.match(port, /^127\.0\.0\.1:/, name);
    if (build === undefined) assert.match(image, /:(?!latest)[\w.-]+\}?$/, name);
    for (const [variable, value] of Object.entries(environment)) {
      if (!/PASSWORD|SECRET|KEY|DATABASE_URL/.test(variable)) continue;
      assert.match(variable.endsWith('_FILE') ? '${:-}' : String(value), /^\$\{\w*:-\}$/, variable);
    }
  }
});

test('tests in containers run on the images of the file', () => {
  for (const [name, image] of Object.entries(testImages))
    assert.equal(serviceAt(name).image, image);
});

test('what containers mount of the clone is there', () => {
  for (const [name, { volumes = [] }] of entries()) {
    for (const volume of volumes.filter((each) => each.startsWith('./'))) {
      assert.ok(existsSync(join(cloneFolder, volume.split(':')[0]!)), `${name}: ${volume}`);
    }
  }
});

test('everything fits a laptop of 8 GB, with the system and everything that looks at it', () => {
  const sum = (profile?: string) =>
    entries()
      .filter(([, { profiles = [] }]) => profiles.length === 0 || profiles.includes(profile!))
      .reduce((megabytes, [, service]) => megabytes + boundOf(service), 0);
  assert.ok(sum() <= 5.5 * 1024, `${sum()}`);
  assert.ok(sum('observability') <= 7 * 1024, `${sum('observability')}`);
});

test('everything that goes on running says how it is and has a bound on its memory', () => {
  const ends = ['credentials', 'provision', 'k6', 'operator'];
  // Nothing in their images could ask; the step before the services does.
  const askedByStep = ['spanner', 'dynamodb'];
  for (const [name, { healthcheck, mem_limit: memory }] of entries()) {
    if (ends.includes(name)) continue;
    assert.notEqual(memory, undefined, name);
    if (!askedByStep.includes(name)) assert.notEqual(healthcheck, undefined, name);
  }
});

/**
 * What all containers of a service may take, in megabytes; the steps that end take next to nothing.
 */
function boundOf({ mem_limit: text = '0m', deploy }: ComposeService): number {
  const [, size, unit] = /^(\d+)([mg])$/.exec(text)!;
  return Number(size) * (unit === 'g' ? 1024 : 1) * (deploy?.replicas ?? 1);
}

function entries(): [string, ComposeService][] {
  return Object.entries(file.services);
}

function serviceAt(name: string): ComposeService {
  const found = file.services[name];
  assert.ok(found, `docker-compose.yml has no ${name}`);
  return found;
}

/** Ports, and hosts beside them: a container listens on all its addresses. */
function listens({ ports }: Service, name: string): boolean {
  return ports.some(({ setting }) => [setting, setting.replace(/PORT$/, 'HOST')].includes(name));
}

function settingsOf(service: Service, wiring: Wiring): Record<string, string> {
  const byFile: readonly string[] = settingsInFiles;
  const told = Object.entries(service.settings(wiring)).map(([name, value]) =>
    byFile.includes(name) ? [`${name}_FILE`, fileOf(name)] : [name, value],
  );
  return Object.fromEntries(told) as Record<string, string>;
}
