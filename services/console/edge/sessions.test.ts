import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DatabaseRole } from '@triplock/postgres';
import { aConsole } from '../test/a-console.ts';

const denied = { code: '42501' };

test('whoever has the password of the console’s role becomes no operator, and finds nothing to log in with', async (t) => {
  const { ask, anOperator, logIn, store } = await aConsole(t);
  await logIn(await anOperator('ada', 'admin'));
  const stolen = store.open('triplock_console');
  const attacks = [
    'SELECT * FROM console.operators',
    'SELECT FROM console.sessions',
    `INSERT INTO console.sessions
     SELECT sha256(sha256('mine')), operator, token_hash FROM console.operators`,
    `UPDATE console.sessions SET session_hash = sha256(sha256('mine'))`,
    `UPDATE console.sessions SET seen_at = 'infinity'`,
    'DELETE FROM console.sessions',
    `UPDATE console.operators SET token_hash = sha256(sha256('mine'))`,
    'SELECT * FROM console.live_sessions',
    'SET ROLE triplock_sessions',
  ];
  for (const attack of attacks) await assert.rejects(stolen.query(attack), denied, attack);
  assert.equal((await ask('/acts', { headers: { cookie: 'triplock=mine' } })).status, 401);

  // What a backup has opens nothing: the functions take what it was made of.
  const [kept] = await store.open().query<{ token: Buffer; session: Buffer }>(
    `SELECT operators.token_hash AS token, session_hash AS session
     FROM console.operators JOIN console.sessions USING (operator)`,
  );
  const tries = [
    ['SELECT FROM console.whose_token($1)', kept!.token],
    ['SELECT FROM console.whose_session($1)', kept!.session],
    [`SELECT FROM console.begin_session(sha256('mine'), $1)`, kept!.token],
  ] as const;
  for (const [statement, value] of tries) {
    assert.deepEqual(await stolen.query(statement, [value]), [], statement);
  }
  for (const role of ['triplock_auditor', 'triplock_operator'] satisfies DatabaseRole[]) {
    for (const [statement, value] of tries) {
      await assert.rejects(store.open(role).query(statement, [value]), denied, role);
    }
  }
});

test('who looks at tokens for the console cannot log in, and its functions see no other schema', async (t) => {
  const { store } = await aConsole(t);
  const functions = await store.open().query<Record<string, unknown>>(
    `SELECT proname AS name, rolcanlogin AS login, rolsuper AS super, proconfig AS settings
     FROM pg_proc JOIN pg_roles ON pg_roles.oid = proowner
     WHERE pronamespace = 'console'::regnamespace AND prosecdef ORDER BY 1`,
  );
  const held = { login: false, super: false, settings: ['search_path=pg_catalog, pg_temp'] };
  const names = ['begin_session', 'end_session', 'whose_session', 'whose_token'];
  assert.deepEqual(
    functions,
    names.map((name) => ({ name, ...held })),
  );
});
