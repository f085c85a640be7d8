import type { Database } from '@triplock/postgres';
import type { Logger } from '@triplock/runtime';
import type { Config } from './config.ts';
import type { Html } from './html.ts';

/** What an operator may do, each as well what those before it may. */
export const roles = ['viewer', 'operator', 'admin'] as const;
export type Role = (typeof roles)[number];

/** Whether one of this role may do what needs that one. */
export function mayAct(role: Role, needed: Role): boolean {
  return roles.indexOf(role) >= roles.indexOf(needed);
}

/** What every page and act works with. */
export type Console = {
  config: Config;
  /** As a role that may change nothing of the system; the server refuses every write besides. */
  database: Database;
  logger: Logger;
  now: () => Date;
};

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

/** One request, once its route is known and its sender may take it. */
export type Visit = {
  /** Of the path, decoded. */
  params: Readonly<Record<string, string>>;
  query: URLSearchParams;
  session: Session;
};

/** What a route answers; how it looks on the wire is the server's matter. */
export type Answer =
  /** A whole page; its frame is the layout's. */
  | { is: 'page'; title: string; main: Html; status?: number }
  /** A piece that replaces another one of a page that is open. */
  | { is: 'fragment'; html: Html }
  /** As JSON, bigints as numbers or texts as the commands' `--json` has them. */
  | { is: 'json'; body: unknown }
  /** A file to keep, such as CSV: in pieces, so that its size does not matter. */
  | { is: 'file'; name: string; type: string; pieces: AsyncIterable<string> | Iterable<string> }
  /** Server-sent events until either side ends them; `signal` aborts when the browser has gone. */
  | { is: 'events'; events: (signal: AbortSignal) => AsyncIterable<ServerSentEvent> }
  | { is: 'redirect'; to: string };

/** One event of a stream. `data` may have several lines; `id` is where a browser goes on from. */
export type ServerSentEvent = { event?: string; data: string; id?: string };

/** A request that is refused: thrown by whoever finds out, shown as a page or a problem. */
export class Refusal extends Error {
  override name = 'Refusal';
  readonly code: RefusalCode;
  /** @param detail says what to do. */
  constructor(code: RefusalCode, detail: string) {
    super(detail);
    this.code = code;
  }
}

/** Every kind of refusal, with its status and title. */
export const refusals = {
  invalid_request: { status: 400, title: 'This cannot be asked for' },
  unauthorized: { status: 401, title: 'Log in first' },
  forbidden: { status: 403, title: 'Your role may not do this' },
  not_ours: { status: 403, title: 'This did not come from a page of this console' },
  not_found: { status: 404, title: 'There is no such thing' },
  method_not_allowed: { status: 405, title: 'This path does not take that' },
  conflict: { status: 409, title: 'Somebody was faster' },
  body_too_large: { status: 413, title: 'That is too long' },
  unsupported_media_type: { status: 415, title: 'This form of body is not taken' },
  misdirected: { status: 421, title: 'This console has another address' },
  rate_limited: { status: 429, title: 'Too many tries' },
  internal_error: { status: 500, title: 'This did not work' },
  unavailable: { status: 503, title: 'A part of the system is away' },
} as const;
export type RefusalCode = keyof typeof refusals;
