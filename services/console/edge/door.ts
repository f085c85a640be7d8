import type { FastifyRequest } from 'fastify';
import { callerAddress, saysOnce } from '@triplock/runtime';
import { mayAct, Refusal, type Console, type Route, type Session } from '../console.ts';
import { isTokenOf, openSession, secretIn } from './sessions.ts';

/** Who asks, and by which cookie; neither where the route is for anyone and nobody logged in. */
export type Admitted = { session?: Session; secret?: string };

/** What stands between a request and its route. */
export type Door = {
  /** Refuses what was not sent to this console's own address, before anything looks at it. */
  refuseOtherHosts(request: FastifyRequest): Promise<void>;
  /**
   * Finds out who asks, and refuses whoever may not.
   *
   * @throws Refusal `unauthorized`, `forbidden`, `rate_limited`, or `not_ours` for what a page sent
   * that is none of this console's.
   */
  admit(route: Route, request: FastifyRequest): Promise<Admitted>;
};

/** Names by which a browser reaches its own machine, at whatever port. */
const loopback = /^(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?$/;

/**
 * A page of another host can have a browser send us requests, with our cookie or where none is
 * needed. It can read no answer, and so has no token; it cannot say that it is us in `Origin`; and
 * a name of its own that it points at this machine is not a host that we answer to.
 */
export function openDoor(console: Console): Door {
  const { config, sessions } = console;
  const open = config.CONSOLE_LOGIN === 'none' ? openSession() : undefined;
  const own = config.CONSOLE_ORIGIN === undefined ? undefined : new URL(config.CONSOLE_ORIGIN);
  const isOurs = (host: string) => (own === undefined ? loopback.test(host) : host === own.host);

  async function whoAsks(request: FastifyRequest): Promise<Admitted> {
    const token = bearerIn(request.headers.authorization);
    if (token !== undefined) {
      const session = await sessions.byToken(token, callerAddress(request));
      return session === undefined ? {} : { session };
    }
    if (open !== undefined) return { session: open };
    const secret = secretIn(config, request.headers.cookie);
    if (secret === undefined) return {};
    const session = await sessions.bySecret(secret, callerAddress(request));
    return session === undefined ? {} : { session, secret };
  }

  return {
    async refuseOtherHosts({ url, headers, raw }) {
      // Balancers ask for it by whatever name.
      if (url === '/healthz') return;
      if (saysOnce(raw, 'host') && isOurs(headers.host ?? '')) return;
      throw new Refusal('misdirected', 'Use the address that this console was given.');
    },
    async admit(route, request) {
      const { method, headers } = request;
      refuseOtherOrigins(request, own?.origin);
      const token = tokenIn(request);
      const admitted = await whoAsks(request);
      if (route.role === 'anyone') return admitted;
      const { session } = admitted;
      if (session === undefined) {
        throw new Refusal('unauthorized', 'Log in: the session has ended, or there was none.');
      }
      if (!mayAct(session.role, route.role)) {
        throw new Refusal(
          'forbidden',
          `This takes the role ${route.role}, and yours is ${session.role}.`,
        );
      }
      // A program that shows its token with each request has nothing that a browser would add.
      const byToken = bearerIn(headers.authorization) !== undefined;
      if (method === 'POST' && !byToken) requireToken(session, token);
      return admitted;
    },
  };
}

/**
 * Browsers say in every POST where its page is from, and in what a page of another host asks for by
 * itself, such as a stream, which it could not read, but keep open; a program says nothing.
 */
function refuseOtherOrigins({ headers }: FastifyRequest, own: string | undefined): void {
  const { origin, host, 'sec-fetch-site': site = 'none', 'sec-fetch-mode': mode } = headers;
  // A link from anywhere leads here; an image or a script of a page elsewhere does not.
  const isPartOfOther = /^(cross|same)-site$/.test(String(site)) && mode !== 'navigate';
  const isOurs = origin === undefined || origin === (own ?? `http://${host}`);
  if (isOurs && !isPartOfOther) return;
  throw new Refusal('not_ours', 'This was sent by a page of another address: open it here.');
}

/** The token that a form or a program brings; it is no field of what is asked. */
function tokenIn({ headers, body }: FastifyRequest): string | undefined {
  const inHead = headers['x-csrf-token'];
  if (!(body instanceof URLSearchParams)) return inHead?.toString();
  const inBody = body.get('csrf') ?? undefined;
  body.delete('csrf');
  return inHead?.toString() ?? inBody;
}

function requireToken(session: Session, given: string | undefined): void {
  if (given !== undefined && isTokenOf(session, given)) return;
  throw new Refusal(
    'not_ours',
    'The page is of another session, or has no token: load it again, and nothing was done.',
  );
}

function bearerIn(authorization: string | undefined): string | undefined {
  return /^bearer +([^\s]{1,200})$/i.exec(authorization ?? '')?.[1];
}

/**
 * The fields of a JSON object of texts, numbers, truths and lists of texts: what a form could say.
 *
 * @throws Refusal for anything else.
 */
export function fieldsOfJson(text: string): URLSearchParams {
  const refuse = (why: string) => new Refusal('invalid_request', why);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw refuse('The body is no JSON: send a JSON object.');
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw refuse('Send a JSON object, with a reason in it.');
  }
  const fields = new URLSearchParams();
  for (const [name, each] of Object.entries(value)) {
    for (const one of Array.isArray(each) ? (each as unknown[]) : [each]) {
      if (!['string', 'number', 'boolean'].includes(typeof one)) {
        throw refuse(`${JSON.stringify(name.slice(0, 80))} must be a text or a list of texts.`);
      }
      fields.append(name, String(one));
    }
  }
  return fields;
}
