import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { partnerLimits } from '@triplock/claims';
import type { PartDeclaration } from '@triplock/runtime';
import { testImages } from '@triplock/testing';
import { declaredParts } from '../parts/store-parts.ts';
import { cloneFolder } from '../home.ts';
import { services } from '../service-table.ts';
import { restartPolicy } from './engine.ts';
import { kafkaProperties } from '../parts/kafka.ts';
import { type ComposeService, containerOf, containers } from '../test/containers.ts';

test('Kafka in a container is set as the native one, but for its listeners', () => {
  const given = containerOf('kafka').environment!;
  const lines = kafkaProperties({ ports: {}, log: '' }).trim().split('\n');
  const properties = lines.map((line) => line.split('=') as [string, string]);
  const placed = /listener|voters|log\.dirs/;
  for (const [name, value] of properties.filter(([each]) => !placed.test(each))) {
    const variable = `KAFKA_${name.toUpperCase().replaceAll('.', '_')}`;
    assert.equal(String(given[variable]), value, variable);
  }
});

test('the operators’ commands are wired to the same system, in files that only they see', () => {
  const { build, environment = {}, volumes } = containerOf('operator');
  assert.equal(build!.args.WORKSPACE, 'services/operator');
  assert.deepEqual(volumes, ['for-operator:/run/triplock:ro']);
  assert.ok(containerOf('provision').volumes!.includes('for-operator:/run/wiring/operator'));
  assert.match(dockerfile(), / wiring\/operator\n/);
  const services = ['ingest-gateway', 'auditor'].map((name) => containerOf(name).environment);
  const given = { ...services[0], ...services[1] };
  for (const name of [
    'KAFKA_BROKERS',
    'PUBSUB_EMULATOR_HOST',
    'CLAIMS',
    'REDIS_URL_FILE',
    'LEDGER_STORE',
  ]) {
    assert.equal(environment[name], given[name], name);
  }
});

test('nothing is published beyond this machine, images are pinned, and no secret is in the file', () => {
  for (const [name, { image, build, ports = [], environment = {} }] of containers) {
    for (const port of ports) assert.match(port, /^127\.0\.0\.1:/, name);
    if (build === undefined) assert.match(image, /:v?\d+\.\d+[\w.-]*\}?$/, name);
    for (const [variable, value] of Object.entries(environment)) {
      if (!/PASSWORD|SECRET|(?<!ORDERING_)KEY|DATABASE_URL/.test(variable)) continue;
      assert.match(variable.endsWith('_FILE') ? '${:-}' : String(value), /^\$\{\w*:-\}$/, variable);
    }
  }
});

test('tests in containers run on the images of the file', () => {
  const { pubsub, ...images } = testImages;
  for (const [name, image] of Object.entries(images)) assert.equal(containerOf(name).image, image);
  const stage = `FROM ${pubsub} AS ${containerOf('pubsub').build!.target}\n`;
  assert.ok(dockerfile().includes(stage), stage);
});

test('what containers mount of the clone is there', () => {
  for (const [name, { volumes = [] }] of containers) {
    for (const volume of volumes.filter((each) => each.startsWith('./'))) {
      assert.ok(existsSync(join(cloneFolder, volume.split(':')[0]!)), `${name}: ${volume}`);
    }
  }
});

test('everything fits a laptop of 8 GB, with the system and everything that looks at it', () => {
  const sum = (profile?: string) =>
    containers
      .filter(([, { profiles = [] }]) => profiles.length === 0 || profiles.includes(profile!))
      .reduce((megabytes, [, service]) => megabytes + boundOf(service), 0);
  assert.ok(sum() <= 5 * 1024, `${sum()}`);
  assert.ok(sum('observability') <= 6.5 * 1024, `${sum('observability')}`);
});

test('one partner that holds all it may leaves Redis less than nearly full', () => {
  const { command = [] } = containerOf('redis');
  const [, megabytes] = /^(\d+)mb$/.exec(command[command.indexOf('--maxmemory') + 1]!)!;
  const { claimsPerPartner, shownBytesPerPartner } = partnerLimits;
  const bytesAClaimMax = 400;
  const most = bytesAClaimMax * claimsPerPartner + shownBytesPerPartner;
  assert.ok(most < 0.8 * Number(megabytes) * 1024 * 1024, `${most} bytes`);
});

test('everything that goes on running says how it is and has a bound on its memory', () => {
  const ends = ['credentials', 'provision', 'k6', 'operator'];
  // Nothing in their images could ask; the step before the services does.
  const askedByStep = lacking('healthCheck');
  for (const [name, { healthcheck, mem_limit: memory }] of containers) {
    if (ends.includes(name)) continue;
    assert.notEqual(memory, undefined, name);
    if (askedByStep[name] === undefined) assert.notEqual(healthcheck, undefined, name);
  }
});

test('what is ready is seldom asked again, and by nothing that takes long to start', () => {
  for (const [name, { healthcheck }] of containers) {
    if (healthcheck === undefined) continue;
    assert.deepEqual([healthcheck.start_interval, healthcheck.interval], ['1s', '30s'], name);
    assert.doesNotMatch(healthcheck.test.join(' '), /\b(node|java|kafka-\w+\.sh)\b/, name);
  }
});

test('the engine starts a service again that failed, and neither a part nor a step of the start', () => {
  for (const [name, { restart }] of containers) {
    const isService = services.some((each) => each.name === name);
    assert.equal(restart, isService ? restartPolicy : 'no', name);
  }
});

/** Parts whose images write beside what they keep, and why nothing could be put there instead. */
const writable: Readonly<Record<string, string>> = {
  kafka: 'its start writes into /opt/kafka/config, and reads there what a tmpfs would hide',
  postgres: 'its lock file is beside its socket, in a folder that a tmpfs would make root’s',
  pubsub: 'gcloud writes into the home of its user and beside its own program',
  ...lacking('readOnly'),
};

/** Whose images run as somebody else than root by themselves, or would not run otherwise. */
const users: Readonly<Record<string, string>> = {
  kafka: 'appuser',
  ...lacking('user'),
  prometheus: 'nobody',
  grafana: '472',
  tempo: '10001',
  k6: '12345',
};

test('no container has a right that it does not need, ours or a part', () => {
  for (const [name, container] of containers) {
    assert.deepEqual(container.cap_drop, ['ALL'], name);
    assert.equal(container.cap_add ?? container.privileged, undefined, name);
    assert.deepEqual(container.security_opt, ['no-new-privileges:true'], name);
    assert.ok(container.pids_limit! <= 512, name);
    assert.equal(container.read_only === true, writable[name] === undefined, name);
    if (container.build !== undefined) continue;
    assert.equal(container.user === undefined, users[name] !== undefined, name);
  }
  assert.match(dockerfile(), /^USER node$/m);
});

/** What stores bring along that has not what the other containers have, and why. */
function lacking(what: keyof PartDeclaration['container']['lacks']): Record<string, string> {
  const reasons = declaredParts.flatMap(({ name, container: { lacks } }) => {
    return lacks[what] === undefined ? [] : [[name, lacks[what]]];
  });
  return Object.fromEntries(reasons) as Record<string, string>;
}

function dockerfile(): string {
  return readFileSync(join(cloneFolder, 'infra/images/Dockerfile'), 'utf8');
}

/** What a service may take, in megabytes; the steps that end take next to nothing. */
function boundOf({ mem_limit: text = '0m' }: ComposeService): number {
  const [, size, unit] = /^(\d+)([mg])$/.exec(text)!;
  return Number(size) * (unit === 'g' ? 1024 : 1);
}
