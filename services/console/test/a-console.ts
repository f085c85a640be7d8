import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import type { after, before } from 'node:test';
import {
  cleanupBy,
  createTestDatabase,
  freePort,
  startService,
  testPart,
  type Cleanup,
} from '@triplock/testing';
import { Compile } from 'typebox/schema';
import type { Route } from '../console.ts';
import { changeOperator, type Role } from '@triplock/inspect';
import { describeConsole } from '../edge/openapi.ts';

/** What came back: headers by lower-case name; the text of an event stream is not waited for. */
export type Answered = {
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  text: string;
};

/** How to ask: any header may be given, `host` too. */
export type Asking = {
  method?: string;
  headers?: Readonly<Record<string, string>>;
  /** A form where it is an object of fields; else the body as it is. */
  body?: Readonly<Record<string, string>> | string;
};

type Settings = Readonly<Record<string, string>>;
type Store = Awaited<ReturnType<typeof createTestDatabase>>;

/** A console as a process of its own, on a database of its own; settings may follow from that. */
export async function aConsole(
  t: Cleanup,
  wanted: Settings | ((store: Store) => Promise<Settings>) = {},
) {
  const store = await createTestDatabase(t);
  const settings = typeof wanted === 'function' ? await wanted(store) : wanted;
  const port = await freePort();
  const origin = `http://127.0.0.1:${port}`;
  const service = startService(t, new URL('../main.ts', import.meta.url), {
    TRIPLOCK_MODE: 'test',
    LOG_LEVEL: 'silent',
    ADMIN_PORT: String(await freePort()),
    CONSOLE_PORT: String(port),
    CONSOLE_ORIGIN: origin,
    DATABASE_URL: store.url('triplock_console'),
    OPERATOR_DATABASE_URL: store.url('triplock_operator'),
    PARTNERS_DATABASE_URL: store.url('triplock_partners'),
    KAFKA_BROKERS: await testPart('kafka'),
    ...settings,
  });
  await service.ready();
  const ask = (path: string, asking?: Asking) => send(`${origin}${path}`, asking);
  return {
    store,
    origin,
    service,
    ask,
    openStream: (headers?: Readonly<Record<string, string>>) =>
      openStream(`${origin}/flow/events`, headers),
    /** Makes an operator as the command does, and gives the token that it would show. */
    async anOperator(name: string, role: Role): Promise<string> {
      const [action, who] = [{ verb: 'add', name, role } as const, { by: 'root', why: 'a test' }];
      const done = await store.open().transaction((tx) => changeOperator(tx, action, who));
      if (!('token' in done) || done.token === undefined) throw new Error(`${name} is there`);
      return done.token;
    },
    /** Logs in, and gives what its pages send: the cookie, and the token of their forms. */
    async logIn(token: string): Promise<{ cookie: string; csrf: string }> {
      const answer = await ask('/login', { method: 'POST', headers: { origin }, body: { token } });
      const [cookie = ''] = [answer.headers['set-cookie'] ?? ''].flat();
      const headers = { cookie: cookie.split(';')[0]! };
      const session = await ask('/api/v1/session', { headers });
      return { ...headers, csrf: (JSON.parse(session.text) as { csrf: string }).csrf };
    },
  };
}

/** A test's own console. */
export type AConsole = Awaited<ReturnType<typeof aConsole>>;

// What is to be kept for ever is kept by triggers, which a replica has none of.
const keepNothingSql = 'SET LOCAL session_replication_role = replica';
const emptySql = `TRUNCATE console.acts, console.operators, console.sessions, partners.partners,
  partners.acts, webhooks.deliveries, auditor.operator_acts RESTART IDENTITY CASCADE`;

/**
 * A console of usual settings for all tests of a file that leave the process as it was: what it
 * gives empties the database of what those before have written there.
 */
export function aSharedConsole(hooks: { before: typeof before; after: typeof after }) {
  const all = cleanupBy(hooks.after);
  let shared: AConsole;
  hooks.before(async () => {
    const console = await aConsole(all);
    const owner = console.store.open();
    const open: Store['open'] = (role) => (role === undefined ? owner : console.store.open(role));
    shared = { ...console, store: { ...console.store, open } };
  });
  return async (): Promise<AConsole> => {
    await shared.store.open().transaction(async (tx) => {
      await tx.query(keepNothingSql);
      await tx.query(emptySql);
    });
    return shared;
  };
}

type Described = {
  paths: Record<string, Record<string, { responses: Record<string, Response | Reference> }>>;
  components: { responses: Record<string, Response> };
};
type Response = { content: Record<string, { schema: object }> };
type Reference = { $ref: string };

const document = JSON.parse(await describeConsole()) as Described;

const validators = new WeakMap<object, ReturnType<typeof Compile>>();

/** Fails where an answer of the API is not as the OpenAPI document says. */
export function assertDescribed(
  { method, path }: Pick<Route, 'method' | 'path'>,
  { status, headers, text }: Answered,
): void {
  const operation = document.paths[path.replaceAll(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()];
  const [type = ''] = String(headers['content-type']).split(';');
  const { components } = document;
  const found = operation?.responses[status] ?? { content: {} };
  const isShared = '$ref' in found;
  const { content } = isShared ? components.responses[found.$ref.split('/').at(-1)!]! : found;
  const schema = content[type]?.schema;
  assert.ok(schema, `${method} ${path}: ${status} as ${type} is not described: ${text}`);
  const compiled = validators.get(schema) ?? Compile({ components, ...schema });
  validators.set(schema, compiled);
  const [conforms, errors] = compiled.Errors(JSON.parse(text));
  assert.ok(conforms, `${method} ${path}: ${JSON.stringify(errors.slice(0, 5))} in ${text}`);
}

/** Opens a stream as a browser does, and gives its events one by one. */
async function openStream(url: string, headers: Readonly<Record<string, string>> = {}) {
  const asked = request(url, { headers, agent: false });
  const [response] = (await once(asked.end(), 'response')) as [IncomingMessage];
  assert.equal(response.headers['content-type'], 'text/event-stream');
  const pieces = response.setEncoding('utf8')[Symbol.asyncIterator]();
  let text = '';
  return {
    async next(): Promise<string> {
      while (!text.includes('\n\n')) text += String((await pieces.next()).value);
      const event = text.slice(0, text.indexOf('\n\n'));
      text = text.slice(event.length + 2);
      return event;
    },
    /** All that comes until the console ends it. */
    async rest(): Promise<string> {
      for (;;) {
        const piece = await pieces.next();
        if (piece.done === true) return text;
        text += String(piece.value);
      }
    },
    close: () => response.destroy(),
  };
}

function send(url: string, { method = 'GET', headers = {}, body }: Asking = {}): Promise<Answered> {
  const isForm = typeof body === 'object';
  const type = isForm && { 'content-type': 'application/x-www-form-urlencoded' };
  return new Promise((resolve, reject) => {
    const asked = request(url, { method, headers: { ...type, ...headers }, agent: false });
    asked.on('error', reject);
    asked.on('response', (response) => {
      const { statusCode: status = 0, headers } = response;
      const isStream = headers['content-type']?.startsWith('text/event-stream');
      if (isStream) {
        response.destroy();
        resolve({ status, headers, text: '' });
        return;
      }
      const pieces: Buffer[] = [];
      response.on('data', (piece: Buffer) => pieces.push(piece));
      response.on('end', () =>
        resolve({ status, headers, text: Buffer.concat(pieces).toString() }),
      );
      response.on('error', reject);
    });
    asked.end(isForm ? new URLSearchParams(body).toString() : body);
  });
}
