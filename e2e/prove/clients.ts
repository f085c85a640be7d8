import { once } from 'node:events';
import { copyFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import {
  askVersion,
  bringUp,
  type Endpoints,
  findOnPath,
  findOpenApiGenerator,
  type OpenApiGenerator,
  takeDown,
  thisMachineFor,
  withLock,
} from '@triplock/launcher';
import { renderTable, style, type Terminal, UsageError } from '@triplock/command';
import { eventually } from '@triplock/testing';
import { newKey, openWebhookReceiver, partner, type WebhookReceiver } from '../test/partner.ts';
import { secondsSince } from './run.ts';
import { runIn } from './scratch-clone.ts';

const root = resolve(import.meta.dirname, '../..');
const sources = join(root, 'e2e', 'clients');
const home = join(root, '.triplock', 'clients');
const document = join(root, 'docs', 'openapi.json');

/** What `--json` prints. */
export type ProvenClients = {
  /** No client failed, and there was one. */
  ok: boolean;
  seconds: number;
  clients: readonly ProvenClient[];
  notTried: readonly { client: ClientName; why: string }[];
};

/** `failed` says what went wrong; a client without it did all that it was asked for. */
type ProvenClient = { client: ClientName; by: string; seconds: number; failed?: string };

type Invocation = { terminal: Terminal; signal: AbortSignal };

/** Programs that are taken from PATH, and the generator that is fetched. */
type Tool = 'cargo' | 'go' | 'mvn' | 'npm' | 'python3' | 'openapi-generator';

// What tries every route without a key, and with wrong ones, is to be told so each time.
const manyWrongKeys = {
  'ingest-gateway': {
    FAILED_AUTHENTICATION_PER_SECOND: '10000',
    FAILED_AUTHENTICATION_BURST: '10000',
  },
};

/** Where a client is generated, compiled and run: a folder of its own with our sources in it. */
type Site = {
  folder: string;
  run(program: string, ...words: string[]): Promise<string>;
  /** Has openapi-generator write into `client`. */
  generate(language: string, ...options: string[]): Promise<string>;
  java: string;
};

/** What runs in the same folder, once all is made and compiled. */
type Program = {
  words: readonly string[];
  settings?: NodeJS.ProcessEnv;
  /** Its exit code says whether all was well; others print what they saw. */
  judgesItself?: true;
};

/** How a client is made and compiled. */
type Client = {
  tools: readonly Tool[];
  /** Which generator makes it, of which version, as the files beside its program pin it. */
  by(generator: Found | undefined): string;
  build(site: Site): Promise<Program>;
};
type Found = Extract<OpenApiGenerator, { outcome: 'found' }>;

const byOpenApiGenerator = (generator: Found | undefined) =>
  `openapi-generator ${generator?.version ?? ''}`.trim();
/** A generator whose version a file beside our program pins. */
const pinnedIn = (path: string, generator: string, form: RegExp) => () => {
  const [, version] = form.exec(readFileSync(join(sources, path), 'utf8')) ?? [];
  if (version === undefined) throw new Error(`e2e/clients/${path} has no version of ${generator}`);
  return `${generator} ${version}`;
};

const withoutTests =
  '--global-property=apiTests=false,modelTests=false,apiDocs=false,modelDocs=false';

/** Every client, by the name of its folder in e2e/clients. */
export const clients = {
  python: {
    tools: ['python3', 'openapi-generator'],
    by: byOpenApiGenerator,
    build: async (site) => {
      await site.generate('python');
      const python = await installWheels(site);
      return importAll(site, { python, module: 'openapi_client' });
    },
  },
  go: {
    tools: ['go', 'openapi-generator'],
    by: byOpenApiGenerator,
    build: async (site) => {
      await site.generate(
        'go',
        withoutTests,
        '--additional-properties=withGoMod=false,packageName=client',
      );
      return compileGo(site);
    },
  },
  java: {
    tools: ['mvn', 'openapi-generator'],
    by: byOpenApiGenerator,
    build: async ({ folder, run, generate, java }) => {
      await generate('java', withoutTests, '--library=native');
      copyFileSync(join(folder, 'Pay.java'), join(folder, 'client/src/main/java/Pay.java'));
      const jars = '-DoutputDirectory=jars';
      await run('mvn', '-q', '-B', 'compile', 'dependency:copy-dependencies', jars);
      return { words: [java, '-cp', 'target/classes:jars/*', 'Pay'] };
    },
  },
  'typescript-fetch': {
    tools: ['npm', 'openapi-generator'],
    by: byOpenApiGenerator,
    build: async (site) => {
      // Node's modules name their files whole.
      await site.generate(
        'typescript-fetch',
        withoutTests,
        '--additional-properties=importFileExtension=.js',
      );
      await installPackages(site);
      return compileTypeScript(site);
    },
  },
  'oapi-codegen': {
    tools: ['go'],
    by: pinnedIn('oapi-codegen/go.mod', 'oapi-codegen', /oapi-codegen\/v2 v([\d.]+)/),
    build: async (site) => {
      mkdirSync(join(site.folder, 'client'));
      await site.run('go', 'tool', 'oapi-codegen', '-config', 'oapi-codegen.yaml', document);
      return compileGo(site);
    },
  },
  ogen: {
    tools: ['go'],
    by: pinnedIn('ogen/go.mod', 'ogen', /ogen-go\/ogen v([\d.]+)/),
    build: async (site) => {
      const into = ['--target', 'client', '--package', 'client', '--clean'];
      await site.run('go', 'tool', 'ogen', ...into, document);
      return compileGo(site);
    },
  },
  'openapi-python-client': {
    tools: ['python3'],
    by: pinnedIn(
      'openapi-python-client/requirements.txt',
      'openapi-python-client',
      /^openapi-python-client==([\d.]+)/m,
    ),
    build: async (site) => {
      const python = await installWheels(site);
      const words = ['generate', '--path', document, '--output-path', 'client'];
      await site.run('openapi-python-client', ...words);
      return importAll(site, { python, module: 'triplock_client' });
    },
  },
  'openapi-typescript': {
    tools: ['npm'],
    by: pinnedIn(
      'openapi-typescript/package.json',
      'openapi-typescript',
      /openapi-typescript": "([\d.]+)/,
    ),
    build: async (site) => {
      await installPackages(site);
      const program = 'node_modules/openapi-typescript/bin/cli.js';
      await site.run(process.execPath, program, document, '--output', 'client/schema.ts');
      return compileTypeScript(site);
    },
  },
  // No generator: HTTP by hand, for the library that verifies webhooks.
  rust: {
    tools: ['cargo'],
    by: pinnedIn('rust/Cargo.toml', 'standardwebhooks', /^standardwebhooks = "=([\d.]+)"/m),
    build: async ({ run }) => {
      await run('cargo', 'build', '--quiet', '--locked', '--target-dir', 'target');
      return { words: ['target/debug/pay'] };
    },
  },
  // No client, but whatever any of them may send, and what none should.
  schemathesis: {
    tools: ['python3'],
    by: pinnedIn('schemathesis/requirements.txt', 'schemathesis', /^schemathesis==([\d.]+)/m),
    build: async (site) => {
      await installWheels(site);
      const program = join(site.folder, 'venv', 'bin', 'schemathesis');
      const quiet = ['--no-color', '--warnings', 'off'];
      return { words: [program, 'run', document, ...quiet], judgesItself: true };
    },
  },
} as const satisfies Readonly<Record<string, Client>>;

export type ClientName = keyof typeof clients;

const names = Object.keys(clients) as ClientName[];

/** Those that need no compiler of Go, Java or Rust beside the parts of the system. */
const shortTools: readonly Tool[] = ['npm', 'python3', 'openapi-generator'];

/**
 * The clients to prove, by name: those of `--only`, else all; with `short` those in Python and
 * TypeScript.
 *
 * @throws UsageError for an unknown one.
 */
export function chooseClients(asked: { only: string | undefined; short: boolean }): ClientName[] {
  const words = (asked.only ?? '').split(',').flatMap((word) => word.trim() || []);
  const unknown = words.filter((word) => !names.some((name) => name === word));
  if (unknown.length > 0) {
    throw new UsageError(`${unknown.join(', ')}: no such client; there are ${names.join(', ')}`);
  }
  if (words.length > 0) return names.filter((name) => words.includes(name));
  const isShort = (name: ClientName) =>
    clients[name].tools.every((one) => shortTools.includes(one));
  return asked.short ? names.filter(isShort) : names;
}

/**
 * Generates each client by docs/openapi.json, compiles it, and has it pay, retry, refund, list and
 * verify a webhook at a running system; schemathesis asks for all that the document allows.
 * One whose tools are not here is left out. What was generated and what it needs are in a temporary
 * folder, which is gone afterwards.
 */
export async function proveClients(
  chosen: readonly ClientName[],
  { terminal, signal }: Invocation,
): Promise<ProvenClients> {
  const began = performance.now();
  const report = (line: string) => terminal.progress(line);
  mkdirSync(home, { recursive: true });
  return withLock(join(home, 'prove.lock'), { report, signal }, async () => {
    const { generator, whyNot } = await findTools(chosen, { terminal, signal });
    const tried = chosen.filter((name) => whyNot(name) === undefined);
    const notTried = chosen.flatMap((client) => {
      const why = whyNot(client);
      return why === undefined ? [] : { client, why };
    });
    const proven: ProvenClient[] = [];
    await takeDown({ home, data: 'forget', report });
    let webhooks: Webhooks | undefined;
    try {
      if (tried.length > 0) {
        const system = await bringUp({
          home,
          replicas: 2,
          settings: manyWrongKeys,
          report,
          signal,
        });
        webhooks = await openWebhooks(system);
        const at = { system, webhooks, generator };
        for (const name of tried) {
          const one = await proveClient(name, at, { terminal, signal });
          const { by, seconds, failed } = one;
          terminal.note(`${name}, by ${by}: ${failed ?? 'held'} (${seconds} s)`);
          proven.push(one);
        }
      }
    } finally {
      await webhooks?.close();
      await takeDown({ home, data: 'forget', report });
      terminal.clear();
    }
    const ok = proven.length > 0 && proven.every(({ failed }) => failed === undefined);
    return { ok, seconds: secondsSince(began), clients: proven, notTried };
  });
}

type Tools = {
  generator: Found | undefined;
  whyNot(name: ClientName): string | undefined;
};

async function findTools(
  chosen: readonly ClientName[],
  { terminal, signal }: Invocation,
): Promise<Tools> {
  const why = new Map<Tool, string>();
  const needed = new Set<Tool>(chosen.flatMap((name) => clients[name].tools));
  let generator: Found | undefined;
  for (const tool of needed) {
    if (tool === 'openapi-generator') {
      const report = (line: string) => terminal.progress(line);
      const one = await findOpenApiGenerator({ report, signal });
      if (one.outcome === 'found') generator = one;
      else why.set(tool, one.why);
      continue;
    }
    const problem = await problemOf(tool);
    if (problem !== undefined) why.set(tool, problem);
  }
  return {
    generator,
    whyNot: (name) => whyNotTried(clients[name].tools, why),
  };
}

/** What is missing for a client, in one line. */
export function whyNotTried(
  tools: readonly Tool[],
  problems: ReadonlyMap<Tool, string>,
): string | undefined {
  const found = tools.flatMap((tool) => problems.get(tool) ?? []);
  return found.length === 0 ? undefined : found.join('; ');
}

/** What a program says of its version, and the oldest that will do. */
const oldest = {
  // The first that knows the edition of our program.
  cargo: { words: ['--version'], form: /^cargo (\d+)\.(\d+)/, version: [1, 85] },
  // The first whose modules name the tools that they need.
  go: { words: ['version'], form: /go(\d+)\.(\d+)/, version: [1, 24] },
  mvn: { words: ['--version'], form: /Apache Maven (\d+)\.(\d+)/, version: [3, 6] },
  npm: { words: ['--version'], form: /^(\d+)\.(\d+)/, version: [9, 0] },
  // What the generated clients depend on is pinned for it.
  python3: { words: ['--version'], form: /^Python (\d+)\.(\d+)/, version: [3, 10] },
} as const satisfies Readonly<Record<Exclude<Tool, 'openapi-generator'>, object>>;

async function problemOf(tool: keyof typeof oldest): Promise<string | undefined> {
  const file = findOnPath(tool);
  if (file === undefined) return `there is no ${tool} on PATH`;
  const { words, form, version } = oldest[tool];
  const said = await askVersion(file, ...words);
  const [, major, minor] = form.exec(said ?? '') ?? [];
  if (major === undefined) return `${file} does not say its version`;
  const isOld =
    Number(major) < version[0] || (Number(major) === version[0] && Number(minor) < version[1]);
  return isOld
    ? `${file} is ${major}.${minor}, and ${version.join('.')} is the oldest that will do`
    : undefined;
}

type At = { system: Endpoints; webhooks: Webhooks; generator: Found | undefined };

async function proveClient(
  name: ClientName,
  { system, webhooks, generator }: At,
  { terminal, signal }: Invocation,
): Promise<ProvenClient> {
  const since = performance.now();
  const { by, build, tools }: Client = clients[name];
  const folder = mkdtempSync(join(tmpdir(), 'triplock-client-'));
  // openapi-python-client has ruff tidy up what it wrote, by its name.
  const PATH = [join(folder, 'venv', 'bin'), process.env['PATH']].join(delimiter);
  const run: Site['run'] = (program, ...words) => {
    const [line] = [program.replace(/^.*\//, ''), ...words].join(' ').split('\n');
    terminal.progress(`${name}: ${line!.slice(0, 100)}`);
    return runIn(folder, [program, ...words], signal, { settings: { PATH } });
  };
  const generate: Site['generate'] = (language, ...options) => {
    const [program, ...words] = [...generator!.command, 'generate'];
    const into = ['--input-spec', document, '--generator-name', language, '--output', 'client'];
    return run(program, ...words, ...into, ...options);
  };
  let failed: string | undefined;
  try {
    cpSync(join(sources, name), folder, { recursive: true });
    if (tools.includes('go')) {
      cpSync(join(sources, 'go', 'seen'), join(folder, 'seen'), { recursive: true });
    }
    const { words, settings, judgesItself } = await build({
      folder,
      run,
      generate,
      java: generator?.java ?? '',
    });
    const key = newKey('client');
    const { apiKey } = system.partners.find(({ id }) => id === 'acme')!;
    const printed = await runIn(folder, words, signal, {
      settings: {
        ...settings,
        GATEWAY: system.gateway,
        API_KEY: apiKey,
        KEY: key,
        WEBHOOKS: webhooks.url,
        WEBHOOK_SECRET: webhooks.secret,
      },
    });
    if (!judgesItself) {
      const problems = [...judge(printed), ...(await seenFromOutside(system, key))];
      if (problems.length > 0) failed = problems.join('; ');
    }
  } catch (error) {
    signal.throwIfAborted();
    failed = error instanceof Error ? error.message : String(error);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  const seconds = secondsSince(since);
  return { client: name, by: by(generator), seconds, ...(failed !== undefined && { failed }) };
}

/** Amounts in minor units, of which neither fits in 32 bits with a sign. */
const [amount, givenBack] = [3_000_000_000, 2_500_000_000];

/** What is wrong with the line of JSON that a client prints; nothing when it did what it should. */
export function judge(printed: string): string[] {
  let seen: Record<string, unknown>;
  try {
    seen = JSON.parse(printed) as Record<string, unknown>;
  } catch {
    return [`it printed no JSON: ${printed.slice(0, 500)}`];
  }
  const { id } = (seen['payment'] ?? {}) as { id?: unknown };
  if (typeof id !== 'string') return [`its payment has no id: ${printed.slice(0, 500)}`];
  const expected = {
    payment: { id, status: 'succeeded', amount },
    retried: { id, replayed: 'true' },
    refused: { status: 422, code: 'idempotency_key_reused' },
    refund: { payment: id, status: 'succeeded', amount: givenBack },
    listed: [{ id, amount_refunded: givenBack }],
    webhook: { type: 'payment.succeeded', id, forged: 'refused' },
  };
  return Object.entries(expected).flatMap(([name, wanted]) =>
    isDeepStrictEqual(seen[name], wanted)
      ? []
      : `${name} is ${JSON.stringify(seen[name])}, not ${JSON.stringify(wanted)}`,
  );
}

/** However often it was sent, and whatever the client made of it: the gateway has one payment. */
async function seenFromOutside(system: Endpoints, key: string): Promise<string[]> {
  const { body } = await partner(system, 'acme').send({ path: `/v1/payments?reference=${key}` });
  const { data } = JSON.parse(body) as { data: { amount: number; amount_refunded: number }[] };
  const seen = data.map((each) => [each.amount, each.amount_refunded]);
  if (isDeepStrictEqual(seen, [[amount, givenBack]])) return [];
  return [`the gateway has payments and refunds of ${JSON.stringify(seen)}`];
}

/**
 * Where clients fetch what came to their partner's server, headers and bytes as they came: signed
 * by two secrets, because they rotate, of which the clients know the older. Each library of
 * Standard Webhooks has to look at both signatures, and the older secret's is the second.
 */
type Webhooks = { url: string; secret: string; close(): Promise<void> };

async function openWebhooks(system: Endpoints): Promise<Webhooks> {
  const receiver = await openWebhookReceiver(thisMachineFor(home));
  const body = { url: receiver.url, enabled_events: ['payment.succeeded'] };
  const path = '/v1/webhook-endpoints';
  const acme = partner(system, 'acme');
  const made = await acme.send({ method: 'POST', path, key: newKey('clients'), body });
  if (made.status !== 201) throw new Error(`an endpoint for webhooks got ${made.body}`);
  const { id, secret } = JSON.parse(made.body) as { id: string; secret: string };
  const rotation = { method: 'POST', path: `${path}/${id}/secrets`, key: newKey('rotation') };
  const rotated = await acme.send(rotation);
  if (rotated.status !== 201) throw new Error(`rotating its secret got ${rotated.body}`);
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url!, 'http://127.0.0.1');
    const found = eventually(async () => paymentIn(receiver, pathname.slice(1)), {
      withinMs: 60_000,
      what: `the webhook of ${pathname}`,
    });
    found.then(
      ({ id, timestamp, signatures, body: bytes }) => {
        response.setHeader('webhook-id', id);
        response.setHeader('webhook-timestamp', timestamp);
        if (signatures.length !== 2) response.statusCode = 500;
        response.setHeader('webhook-signature', signatures.join(' '));
        response.end(bytes);
      },
      (error: Error) => response.writeHead(504).end(error.message),
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    secret,
    async close() {
      server.closeAllConnections();
      server.close();
      await Promise.all([once(server, 'close'), receiver.close()]);
    },
  };
}

function paymentIn({ received }: WebhookReceiver, id: string) {
  return received.find(({ body }) => {
    const { data } = JSON.parse(body) as { data: { id: string } };
    return data.id === id;
  });
}

/** The wheels that requirements.txt has by version and hash, and the Python that sees them. */
async function installWheels({ folder, run }: Site): Promise<string> {
  await run('python3', '-m', 'venv', 'venv');
  const python = join(folder, 'venv/bin/python');
  const quiet = ['--quiet', '--no-input', '--disable-pip-version-check'];
  const exact = ['--require-hashes', '--only-binary=:all:', '--requirement', 'requirements.txt'];
  await run(python, '-m', 'pip', 'install', ...quiet, ...exact);
  return python;
}

/** Python's compiler is its import: of every module, not of those alone that the program uses. */
async function importAll({ run }: Site, { python, module }: { python: string; module: string }) {
  const settings = { PYTHONPATH: 'client' };
  const program = `
import importlib, pkgutil, sys
sys.path.insert(0, "client")
package = importlib.import_module("${module}")
for each in pkgutil.walk_packages(package.__path__, "${module}."):
    importlib.import_module(each.name)`;
  await run(python, '-c', program);
  return { words: [python, 'pay.py'], settings };
}

async function compileGo({ folder, run }: Site) {
  await run('go', 'vet', './...');
  await run('go', 'build', '-o', 'pay', '.');
  return { words: [join(folder, 'pay')] };
}

async function installPackages({ run }: Site): Promise<void> {
  await run('npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund');
}

/** As strictly as it goes, with all that was generated. */
async function compileTypeScript({ run }: Site) {
  const options = '--strict --noEmitOnError --target es2024 --module nodenext --outDir built';
  const compiler = 'node_modules/typescript/bin/tsc';
  const types = ['--types', 'node', '--rootDir', '.'];
  await run(process.execPath, compiler, ...options.split(' '), ...types, 'pay.mts');
  return { words: [process.execPath, 'built/pay.mjs'] };
}

/** A row for each client, what was left out and why, and in the last line what held. */
export function renderClients({ ok, seconds, clients: proven, notTried }: ProvenClients): string[] {
  const columns = [{ head: 'client' }, { head: 'by' }, { head: 'does as it should' }];
  const rows = proven.map(({ client, by, seconds: took, failed }) => [
    client,
    by,
    failed === undefined ? `✔ in ${Math.round(took)} s` : style.bad(`✘ in ${Math.round(took)} s`),
  ]);
  const failures = proven.flatMap(({ client, failed }) =>
    failed === undefined
      ? []
      : ['', style.bad(`✘ ${client}`), ...failed.split('\n').map((line) => `  ${line}`)],
  );
  const left = notTried.map(({ client }) => client).join(', ');
  const held = `✔ ${proven.length} of ${proven.length} clients do as they should, in ${Math.round(seconds)} s`;
  const what = proven.length === 0 ? '✘ there was no client to try' : '✘ a client failed';
  return [
    ...renderTable(columns, rows),
    ...notTried.map(({ client, why }) => `not tried: ${client}: ${why}`),
    ...failures,
    '',
    ok ? style.good(`${held}${left === '' ? '' : `; not tried: ${left}`}`) : style.bad(what),
  ];
}
