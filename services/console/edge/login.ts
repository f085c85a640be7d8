import {
  Refusal,
  type Answer,
  type Console,
  type Route,
  type Session,
  type Visit,
} from '../console.ts';
import { html } from '../html/html.ts';
import { reading } from './route.ts';
import * as json from './schema.ts';
import { sessionCookie } from './sessions.ts';
import { roles } from '@triplock/inspect';

/** Logging in and out. */
export const loginRoutes: readonly Route[] = [
  { method: 'GET', path: '/login', role: 'anyone', answer: showLogin },
  {
    method: 'POST',
    path: '/login',
    role: 'anyone',
    asks: json.query({ token: json.text }),
    answer: logIn,
  },
  { method: 'POST', path: '/logout', role: 'viewer', answer: logOut },
  reading('/session', {
    operationId: 'readSession',
    summary: 'Who asks, and the token that the forms of a browser bring along.',
    answers: json.shapeOf<Session>('Session', {
      operator: json.text,
      role: { enum: roles },
      csrf: json.text,
      login: { enum: ['required', 'none'] },
    }),
    read: async (_, { session }) => session,
  }),
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
  const { token = '' } = visit.asked as { token?: string };
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
