import {
  Refusal,
  type Answer,
  type Console,
  type Route,
  type Session,
  type Visit,
} from '../console.ts';
import { html } from '../html/html.ts';
import * as json from './schema.ts';
import { sessionCookie } from './sessions.ts';
import { roles } from '@triplock/inspect';

/** Logging in and out. */
export const loginRoutes: readonly Route[] = [
  { method: 'GET', path: '/login', role: 'anyone', answer: showLogin },
  { method: 'POST', path: '/login', role: 'anyone', answer: logIn },
  { method: 'POST', path: '/logout', role: 'viewer', answer: logOut },
  { method: 'GET', path: '/api/v1/session', role: 'viewer', answer: readSession },
];

async function showLogin(): Promise<Answer> {
  const main = html`<form method="post" action="/login">
      <label>
        Your token
        <input
          name="token"
          type="password"
          required
          maxlength="200"
          autocomplete="current-password"
        />
      </label>
      <button>Log in</button>
    </form>
    <p>An administrator of the database makes one: <code>npm run operators -- add NAME</code>.</p>`;
  return { is: 'page', title: 'Log in', main };
}

async function logIn({ config, sessions }: Console, visit: Visit): Promise<Answer> {
  const token = (visit.fields.get('token') ?? '').trim();
  const begun = await sessions.logIn(token, visit.address);
  switch (begun.outcome) {
    case 'logged-in':
      return { is: 'redirect', to: '/', cookie: sessionCookie(config, begun.secret) };
    case 'unknown-token':
      throw new Refusal('unauthorized', 'This is no good token: it may have been replaced.');
    default:
      return begun satisfies never;
  }
}

async function logOut({ config, sessions }: Console, visit: Visit): Promise<Answer> {
  if (visit.secret !== undefined) await sessions.logOut(visit.secret);
  return { is: 'redirect', to: '/login', cookie: sessionCookie(config, undefined) };
}

/** Who asks, and the token that every act of theirs must bring along as `X-CSRF-Token`. */
async function readSession(_: Console, { session }: Visit): Promise<Answer> {
  return { is: 'json', body: session };
}

/** What programs are told of who they are. */
export const sessionSchemas: json.Schemas = {
  Session: json.shapeOf<Session>({
    operator: json.text,
    role: { enum: roles },
    csrf: json.text,
    login: { enum: ['required', 'none'] },
  }),
};
