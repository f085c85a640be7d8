import { formatFiles, generateFiles, type GeneratorCallback, type Tree } from '@nx/devkit';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { insertAll, type Insertion } from './insertions.ts';
import { refuseName } from './names.ts';

/**
 * Writes another kind of payment, which the ledger alone settles: `POST /v1/NAMEs` and
 * `GET /v1/NAMEs/{id}`, its record, its entry, its events and their webhook, the audit of its
 * entry, a scenario and tests. It moves its amount from the partner's payable funds to its clearing
 * account, the other way than a book transfer; the code and the audit's SQL say so, each by itself.
 * It has a payment's fields but a card and metadata, and neither lists nor refunds, and the
 * consumers of events leave it out.
 *
 * @throws RefusedName when the name is taken or not one, LostAnchor when it is not clear where
 * a line belongs; nothing is written then.
 */
export async function transaction(
  tree: Tree,
  { name }: { name: string },
): Promise<GeneratorCallback> {
  // The tables hold a kind of ten letters.
  refuseName(tree, 'transaction', name);
  const Name = name.charAt(0).toUpperCase() + name.slice(1);
  insertAll(tree, [
    ...inDomain(name, Name),
    ...inGateway(name, Name),
    ...inServices(tree, name),
    ...inDemo(name),
    inPartnersPage(name),
  ]);
  generateFiles(tree, join(import.meta.dirname, 'templates', 'transaction'), '.', { name, Name });
  await formatFiles(tree);
  return () => {
    // The OpenAPI document.
    const generate = join(tree.root, 'infra', 'generators', 'generate.ts');
    execFileSync(process.execPath, [generate], { cwd: tree.root, stdio: 'inherit' });
    console.log(
      `POST /v1/${name}s is there. Next: npm run check, npm run up, npm run scenario -- ${name}`,
    );
  };
}

/** The kind, its entry, its events and its record. */
function inDomain(name: string, Name: string): Insertion[] {
  const schemas = 'libs/contracts/http/transaction.ts';
  const record = 'libs/contracts/kafka/accepted-record.ts';
  return [
    {
      file: 'libs/payments/identity.ts',
      before: `] as const;\nexport type PaymentKind`,
      text: `, '${name}'`,
    },
    {
      file: 'libs/payments/money.ts',
      before: `    default:\n      return kind satisfies never;`,
      text: `    case '${name}':
      return {
        debit: account(partnerId, 'payable'),
        credit: account(partnerId, 'clearing'),
        money,
      };
`,
    },
    {
      file: 'libs/contracts/index.ts',
      before: `export * from './http/problem.ts';`,
      text: `export * from './http/${name}.ts';\n`,
    },
    {
      file: record,
      before: `import { parseStrictJson }`,
      text: `import { ${name}Fields } from '../http/${name}.ts';\n`,
    },
    {
      file: schemas,
      before: `import { acceptedPaymentSchema, `,
      text: `import { accepted${Name}Schema, ${name}RequestSchema, ${name}Schema } from './${name}.ts';\n`,
    },
    {
      file: schemas,
      before: `  ...followUpSchemas,`,
      text: `  ${name}: {
    request: ${name}RequestSchema,
    accepted: accepted${Name}Schema,
    shown: ${name}Schema,
  },
`,
    },
    {
      file: record,
      before: `};\nconst followUpRecord = (`,
      text: `  ${name}: Compile(
    Type.Object(
      { ...commonFields, kind: Type.Literal('${name}'), ...${name}Fields },
      { additionalProperties: false },
    ),
  ),
`,
    },
  ];
}

/** Its routes, their guard and their figures. */
function inGateway(name: string, Name: string): Insertion[] {
  const routes = 'services/ingest-gateway/routes/gateway-routes.ts';
  return [
    {
      file: routes,
      before: `import { addReadRoutes }`,
      text: `import { add${Name}Routes } from './${name}s.ts';\n`,
    },
    {
      file: routes,
      before: `  addFollowUpRoutes(app, gateway, read);`,
      text: `  add${Name}Routes(app, gateway, read);\n`,
    },
    {
      file: 'services/ingest-gateway/routes/every-route-claims.test.ts',
      before: `  'POST /v1/payments/:id/refunds': (id) => ({`,
      text: `  'POST /v1/${name}s': () => ({
    path: '/v1/${name}s',
    body: { amount: 100, currency: 'EUR' },
    otherBody: { amount: 101, currency: 'EUR' },
    effects: oneRecord,
  }),
`,
    },
    {
      file: 'services/ingest-gateway/routes/scoping.test.ts',
      before: `  'GET /v1/settlements': {`,
      text: `  'POST /v1/${name}s': { body: { amount: 5, currency: 'EUR' }, owner: 202, stranger: 202 },
  'GET /v1/${name}s/{id}': {
    path: ({ ${name} }) => \`/v1/${name}s/\${${name}}\`,
    owner: 200,
    stranger: 404,
  },
`,
    },
    {
      file: 'docs/observability.md',
      before: '| `triplock_gateway_refunds_total`',
      text: `| \`triplock_gateway_${name}s_total\` | \`outcome\` | Requests for a ${name}, by outcome. |\n`,
    },
  ];
}

/** What consumers that tell events apart by their type, and the audit, make of it. */
function inServices(tree: Tree, name: string): Insertion[] {
  const entries = 'services/auditor/checks/ledger.sql';
  const ignored = `    case 'payment.failed':`;
  const sources = tree.children('services').flatMap((service) =>
    tree
      .children(`services/${service}`)
      .filter((file) => /^[\w-]+\.ts$/.test(file))
      .map((file) => `services/${service}/${file}`),
  );
  return [
    ...sources
      .filter((file) => tree.read(file, 'utf8')!.includes(ignored))
      .map((file) => ({
        file,
        before: ignored,
        text: `    case '${name}.succeeded':\n    case '${name}.failed':\n`,
      })),
    {
      file: entries,
      before: `      WHEN 'refund' THEN paid.credit_account`,
      text: `      WHEN '${name}' THEN transactions.partner_id || ':payable'\n`,
    },
    {
      file: entries,
      before: `      WHEN 'refund' THEN paid.debit_account`,
      text: `      WHEN '${name}' THEN transactions.partner_id || ':clearing'\n`,
    },
  ];
}

/** An example of each of its events. */
function inPartnersPage(name: string): Insertion {
  const example = (state: string, more: object) => {
    const id = 'b4d1c7e2-6a95-8f30-8c1d-2e7f90a3b654';
    const at = '2026-11-28T10:15:00.000Z';
    const asked = { amount: 1250, currency: 'EUR', reference: 'week-47' };
    const times = { created_at: at, settled_at: at };
    const data = { id, object: name, status: state, ...asked, ...times, ...more };
    const event = { type: `${name}.${state}`, timestamp: at, sequence: 1, data };
    return `${JSON.stringify(event).replace(',"data":', ',\n "data":')}\n`;
  };
  const failure = { code: 'not_possible', message: 'It was not possible.' };
  return {
    file: 'docs/partners.md',
    before: '{"type":"endpoint.verification"',
    text: example('succeeded', {}) + example('failed', { failure }),
  };
}

/** Its scenario. */
function inDemo(name: string): Insertion[] {
  const all = 'demo/scenarios/all.ts';
  return [
    {
      file: all,
      before: `import { kafkaReplayed, workerKilled }`,
      text: `import { ${name}Retried } from './${name}s.ts';\n`,
    },
    {
      file: all,
      before: `];\n\n/** Those of`,
      text: `  ${name}Retried,\n`,
    },
    {
      file: 'demo/run-scenario.test.ts',
      before: `];\n\ntest('every failure`,
      text: `  '${name}',\n`,
    },
  ];
}
