import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { createClient } from '@hey-api/openapi-ts';
import { newKey } from './test/partner.ts';
import { onTheSystem } from './test/system.ts';

const on = onTheSystem();

/** What a partner writes with the client: by the names and types that were generated for it. */
const partnersCode = `
import { createClient } from './client/index.js';
import {
  createPayment, createRefund, listPayments, readPayment, readRefund, type Payment, type Problem,
} from './index.js';

type System = { baseUrl: string; apiKey: string; keys: Record<'payment' | 'refund', string> };

export async function payAndRefund({ baseUrl, apiKey, keys }: System) {
  const client = createClient({ baseUrl, auth: apiKey });
  const idempotent = (key: string) => ({ headers: { 'Idempotency-Key': key } });
  const waiting = { headers: { Prefer: 'wait=30' } };
  const body = { amount: 2_500, currency: 'EUR' as const, reference: keys.payment };
  const accepted = await createPayment({
    client, body, ...idempotent(keys.payment), throwOnError: true,
  });
  const path = { id: accepted.data.id };
  const { data: payment } = await readPayment({ client, path, ...waiting, throwOnError: true });
  const asked = await createRefund({
    client, path, body: { amount: 500 }, ...idempotent(keys.refund), throwOnError: true,
  });
  const { data: refund } = await readRefund({
    client, path: { id: asked.data.id }, ...waiting, throwOnError: true,
  });
  const query = { reference: keys.payment, limit: 10 };
  const { data: list } = await listPayments({ client, query, throwOnError: true });
  const listed: Payment[] = list.data;
  const refused = await createPayment({
    client, body: { ...body, amount: 2_501 }, ...idempotent(keys.payment),
  });
  const problem: Problem | undefined = refused.error;
  return { payment, refund, listed, problem };
}
`;

const wrongCode = `
import { createPayment } from './index.js';
createPayment({ headers: { 'Idempotency-Key': 'a' }, body: { amount: '12', currency: 'EUR' } });
`;

/** The package of a partner: the client for what `baseUrl` serves, and code that uses it. */
async function generateClient(t: TestContext, baseUrl: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'triplock-client-'));
  t.after(() => rm(folder, { recursive: true }));
  await createClient({
    input: `${baseUrl}/openapi.json`,
    output: { path: folder, module: { extension: '.js' } },
    plugins: ['@hey-api/client-fetch', '@hey-api/sdk', '@hey-api/typescript'],
    logs: { level: 'silent', file: false },
  });
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
  await writeFile(join(folder, 'partner.ts'), partnersCode);
  return folder;
}

const compiler = fileURLToPath(import.meta.resolve('typescript/bin/tsc'));

const compilerOptions = {
  strict: true,
  noEmitOnError: true,
  target: 'es2024',
  module: 'nodenext',
  lib: ['es2024', 'dom', 'dom.iterable'],
  types: [],
  outDir: 'built',
};

/** Checks a file with all that it imports, strictly, and writes what runs. */
async function compile(folder: string, file: string): Promise<void> {
  const config = JSON.stringify({ compilerOptions, files: [file] });
  await writeFile(join(folder, 'tsconfig.json'), config);
  // The compiler keeps its own compiled code, and would in the temporary folder of all.
  const kept = process.env['NODE_COMPILE_CACHE'] ?? join(folder, 'compiled');
  const env = { ...process.env, NODE_COMPILE_CACHE: kept };
  await promisify(execFile)(process.execPath, [compiler, '--project', folder], { env });
}

type PartnersCode = {
  payAndRefund(system: object): Promise<{
    payment: { id: string; status: string };
    refund: { status: string; amount: number; payment: string };
    listed: { id: string; amount_refunded: number }[];
    problem: { code: string; status: number };
  }>;
};

test('a client that is generated from what the gateway serves type-checks, pays, refunds and lists', async (t) => {
  const [baseUrl] = on.system.gateways;
  const { apiKey } = on.system.partners.find(({ id }) => id === 'acme')!;
  const folder = await generateClient(t, baseUrl!);
  await compile(folder, 'partner.ts');
  const built = pathToFileURL(join(folder, 'built', 'partner.js')).href;
  const { payAndRefund } = (await import(built)) as PartnersCode;

  const keys = { payment: newKey(), refund: newKey() };
  const { payment, refund, listed, problem } = await payAndRefund({ baseUrl, apiKey, keys });
  assert.equal(payment.status, 'succeeded');
  assert.deepEqual([refund.status, refund.amount, refund.payment], ['succeeded', 500, payment.id]);
  assert.deepEqual(
    listed.map(({ id, amount_refunded }) => [id, amount_refunded]),
    [[payment.id, 500]],
  );
  assert.deepEqual([problem.status, problem.code], [422, 'idempotency_key_reused']);

  await writeFile(join(folder, 'wrong.ts'), wrongCode);
  await assert.rejects(compile(folder, 'wrong.ts'), ({ stdout }: { stdout: string }) => {
    assert.match(stdout, /Type 'string' is not assignable to type 'number'/);
    return true;
  });
});
