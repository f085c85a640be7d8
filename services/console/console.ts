import type { FieldProblem } from '@triplock/contracts';
import type { Database } from '@triplock/postgres';
import type { CrashPoints, Logger } from '@triplock/runtime';
import type { Config } from './config.ts';
import type { FlowWatch } from './flow/flow.ts';
import type { Html } from './html/html.ts';
import type { ConsoleMetrics } from './metrics.ts';
import type { Schema } from './edge/schema.ts';
import type { Streams } from './edge/streams.ts';
import { roles, type Role } from '@triplock/inspect';

/** Whether one of this role may do what needs that one. */
export function mayAct(role: Role, needed: Role): boolean {
  return roles.indexOf(role) >= roles.indexOf(needed);
}

/** Who asks. */
export type Session = {
  /** The operator's name; `demo` where nobody logs in. */
  operator: string;
  role: Role;
  /** What every act must bring along, as its field `csrf` or header `X-CSRF-Token`. */
  csrf: string;
  /** `none` where whoever reaches the console may do everything, which pages say. */
  login: 'required' | 'none';
};

/** What came of logging in. */
export type LoggingIn =
  { outcome: 'logged-in'; secret: string; operator: string } | { outcome: 'unknown-token' };

/**
 * Tells who asks. Each of them may throw the Refusal `rate_limited`. Another way of logging in,
 * such as OpenID Connect, is another one of these.
 */
export type Sessions = {
  /** Begins a session by an operator's token, sent from this address. */
  logIn(token: string, address: string): Promise<LoggingIn>;
  /** Whose session the secret of a cookie is; nobody's where it has ended. */
  bySecret(secret: string, address: string): Promise<Session | undefined>;
  /** Whose token a program shows with its request, from this address. */
  byToken(token: string, address: string): Promise<Session | undefined>;
  /** Ends a session; twice is harmless. */
  logOut(secret: string): Promise<void>;
};

/** What every page and act works with. */
export type Console = {
  config: Config;
  /** As a role that may change nothing of the system; the server refuses every write besides. */
  database: Database;
  /** As the same role, for the console's own rows: sessions and acts. */
  records: Database;
  /** By each kind of act the role that may do it; without one its acts are refused. */
  acting: { operator: Database | undefined; partners: Database | undefined };
  sessions: Sessions;
  /** Who looks at events. */
  streams: Streams;
  /** What every process tells. */
  flow: FlowWatch;
  metrics: ConsoleMetrics;
  crashPoints: CrashPoints;
  logger: Logger;
  now: () => Date;
};

/** One request, once its route is known and its sender may take it. */
export type Visit<Asked = unknown> = {
  /** Of the path, decoded. */
  params: Readonly<Record<string, string>>;
  /** What the route can be asked, once that was judged: texts that are trimmed and not empty. */
  asked: Asked;
  /** As it was sent, for links that lead on from here. */
  query: URLSearchParams;
  session: Session;
  /** The secret of the session's cookie, where it came by one. */
  secret?: string;
  /** Where the request came from. */
  address: string;
};

/** One route. The server asks for its role before it is called, and for the token of every POST. */
export type Route = {
  method: 'GET' | 'POST';
  /** As Fastify writes paths: `/payments/:id`. */
  path: `/${string}`;
  /** Who may take it, or `anyone`, without logging in. */
  role: Role | 'anyone';
  /** Where it is not: what breaks things has no path in production. */
  except?: 'production';
  /** What it can be asked: by the query of a GET, by the form or the JSON of a POST. */
  asks?: Schema;
  /** Of a path of the API: what the document says of it, and of what it answers. */
  api?: { operationId: string; summary: string; answers: Schema };
  answer: (console: Console, visit: Visit) => Promise<Answer>;
};

/** A page that the navigation leads to. */
export type Section =
  | 'flow'
  | 'payments'
  | 'dead-letters'
  | 'webhooks'
  | 'settlements'
  | 'partners'
  | 'audit'
  | 'acts'
  | 'break';

/** What a route answers; how it looks on the wire is the server's matter. */
export type Answer =
  /** A whole page; its frame is the layout's. */
  | { is: 'page'; title: string; main: Html; section?: Section; status?: number }
  /** A piece that replaces another one of a page that is open. */
  | { is: 'fragment'; html: Html }
  /** As JSON, bigints as numbers or texts as the commands' `--json` has them. */
  | { is: 'json'; body: unknown }
  /** The OpenAPI document of all routes, which the server has. */
  | { is: 'description' }
  /** A file to keep, such as CSV: in pieces, so that its size does not matter. */
  | { is: 'file'; name: string; type: string; pieces: AsyncIterable<string> | Iterable<string> }
  /** Server-sent events until either side ends them; `signal` aborts when the browser has gone. */
  | { is: 'events'; events: (signal: AbortSignal) => AsyncIterable<ServerSentEvent> }
  /** To a path of ours, by GET; with a cookie that begins or ends a session. */
  | { is: 'redirect'; to: `/${string}`; cookie?: string };

/** One event of a stream. `data` may have several lines; `id` is where a browser goes on from. */
export type ServerSentEvent = { event?: string; data: string; id?: string };

/** A request that is refused: thrown by whoever finds out, shown as a page or a problem. */
export class Refusal extends Error {
  override name = 'Refusal';
  readonly code: RefusalCode;
  readonly errors: readonly FieldProblem[];
  /** @param detail says what to do; `errors` where, of a field that is wrong. */
  constructor(code: RefusalCode, detail: string, errors: readonly FieldProblem[] = []) {
    super(detail);
    this.code = code;
    this.errors = errors;
  }
}

/** Every kind of refusal, with its status and what is said of it. */
export const refusals = {
  invalid_request: { status: 400, title: 'This cannot be asked for' },
  unauthorized: { status: 401, title: 'Log in first' },
  forbidden: { status: 403, title: 'Your role may not do this' },
  not_ours: { status: 403, title: 'This did not come from a page of this console' },
  not_found: { status: 404, title: 'There is no such thing' },
  method_not_allowed: { status: 405, title: 'This path does not take that' },
  conflict: { status: 409, title: 'Somebody was faster' },
  form_reused: { status: 409, title: 'This form was sent for something else' },
  body_too_large: { status: 413, title: 'That is too long' },
  unsupported_media_type: { status: 415, title: 'This form of body is not taken' },
  misdirected: { status: 421, title: 'This console has another address' },
  rate_limited: { status: 429, title: 'Too many tries' },
  internal_error: { status: 500, title: 'This did not work' },
  unavailable: { status: 503, title: 'A part of the system is away' },
} as const;
export type RefusalCode = keyof typeof refusals;
