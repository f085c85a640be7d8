import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { UsageError } from '@triplock/command';
import {
  chooseClients,
  clients,
  judge,
  type ProvenClients,
  renderClients,
  whyNotTried,
} from './clients.ts';

const all = Object.keys(clients);

test('clients are chosen by one list, short ones without Go and Maven, and an unknown word is refused', () => {
  const choose = (only?: string, short = false) => chooseClients({ only, short });
  assert.deepEqual(choose(), all);
  assert.deepEqual(choose('ogen, python'), ['python', 'ogen']);
  const short = choose(undefined, true);
  assert.deepEqual(short, [
    'python',
    'typescript-fetch',
    'openapi-python-client',
    'openapi-typescript',
    'schemathesis',
  ]);
  assert.deepEqual(choose('java', true), ['java']);
  assert.throws(() => choose('cobol'), UsageError);
});

test('each client has a program of its own, and its generator a pinned version', () => {
  const folder = resolve(import.meta.dirname, '../clients');
  assert.deepEqual(readdirSync(folder).toSorted(), all.toSorted());
  const given = { outcome: 'found', version: '7.26.0', java: 'java', command: [] } as const;
  for (const { by } of Object.values(clients)) assert.match(by(given), /^[\w-]+ \d+\.\d+\.\d+$/);
  for (const name of all) {
    const programs = ['pay.py', 'pay.mts', 'main.go', 'Pay.java', 'hooks.py', 'src/main.rs'];
    assert.ok(
      programs.some((file) => existsSync(`${folder}/${name}/${file}`)),
      name,
    );
  }
});

test('a client whose tools are missing is left out, with every reason', () => {
  const problems = new Map([
    ['go', 'there is no go on PATH'],
    ['openapi-generator', 'it needs Java'],
  ] as const);
  assert.equal(whyNotTried(clients.go.tools, problems), 'there is no go on PATH; it needs Java');
  assert.equal(whyNotTried(clients.ogen.tools, problems), 'there is no go on PATH');
  assert.equal(whyNotTried(clients['openapi-typescript'].tools, problems), undefined);
});

/** What a client prints that does as it should. */
const seen = {
  payment: { id: 'a', status: 'succeeded', amount: 3_000_000_000 },
  retried: { id: 'a', replayed: 'true' },
  refused: { status: 422, code: 'idempotency_key_reused' },
  refund: { payment: 'a', status: 'succeeded', amount: 2_500_000_000 },
  listed: [{ id: 'a', amount_refunded: 2_500_000_000 }],
  webhook: { type: 'payment.succeeded', id: 'a', forged: 'refused' },
};

test('a client is believed when all that it saw is as it should be, and named with what is not', () => {
  const judged = (change: object) => judge(JSON.stringify({ ...seen, ...change }));
  assert.deepEqual(judged({}), []);
  const wrong: Record<string, object> = {
    payment: { ...seen.payment, amount: 3_000_000_000 - 2 ** 32 },
    retried: { id: 'b', replayed: 'true' },
    refused: { status: 202 },
    refund: { ...seen.refund, status: 'pending' },
    listed: [],
    webhook: { ...seen.webhook, forged: 'accepted' },
  };
  for (const [name, value] of Object.entries(wrong)) {
    const [problem, ...more] = judged({ [name]: value });
    assert.ok(problem?.startsWith(`${name} is ${JSON.stringify(value)}, not `), problem);
    assert.deepEqual(more, []);
  }
  assert.match(judge('{"payment":{}}')[0]!, /no id/);
  assert.match(judge('Traceback')[0]!, /no JSON: Traceback/);
});

test('the last line says how many clients held and what was not tried, or that one did not', () => {
  const notTried = [{ client: 'ogen', why: 'there is no go on PATH' }] as const;
  const shown = (proof: Omit<ProvenClients, 'seconds'>) =>
    renderClients({ ...proof, seconds: 60 }).map(stripVTControlCharacters);
  const one = { client: 'python', by: 'openapi-generator 7.26.0', seconds: 9.6 } as const;
  const held = shown({ ok: true, clients: [one], notTried });
  assert.match(held[1]!, /^python +openapi-generator 7\.26\.0 +✔ in 10 s$/);
  assert.ok(held.includes('not tried: ogen: there is no go on PATH'));
  assert.equal(held.at(-1), '✔ 1 of 1 clients do as they should, in 60 s; not tried: ogen');
  const failed = shown({ ok: false, clients: [{ ...one, failed: 'no id' }], notTried: [] });
  assert.ok(failed.includes('  no id'));
  assert.equal(failed.at(-1), '✘ a client failed');
  assert.equal(shown({ ok: false, clients: [], notTried }).at(-1), '✘ there was no client to try');
});
