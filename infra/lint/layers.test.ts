import assert from 'node:assert/strict';
import { test } from 'node:test';
import ts from 'typescript';
import { workspaceFiles } from './workspace-files.ts';

/** A service that reads what may come again, and what knows a copy there. */
type Guard = { why: string; file: string; has: RegExp };

/** Consumers of records from Kafka, each by `service function of its handler`. */
const guards: Readonly<Record<string, Guard>> = {
  'ledger-worker paymentsHandler': {
    why: 'the ledger has one row per txn_id',
    file: 'libs/ledger/postgres/post.sql',
    has: /ON CONFLICT DO NOTHING/,
  },
  'auditor recordAcceptedBatch': {
    why: 'a request is evidence once per txn_id and fingerprint',
    file: 'services/auditor/kafka-records.sql',
    has: /ON CONFLICT \(txn_id, fingerprint\) DO NOTHING/,
  },
  'auditor recordDeadLetterBatch': {
    why: 'a dead letter is evidence once per offset of its topic',
    file: 'services/auditor/kafka-records.sql',
    has: /ON CONFLICT \(topic, kafka_partition, kafka_offset\) DO NOTHING/,
  },
  'auditor countPublished': {
    why: 'what was published is counted per event_id, copies included',
    file: 'services/auditor/published.sql',
    has: /ON CONFLICT \(event_id\) DO UPDATE/,
  },
};

const files = workspaceFiles();
const sources = files.filter(
  ({ path }) => /^services\/.*\.ts$/.test(path) && !/\.(test|testing)\.ts$|\/test\//.test(path),
);

type Source = { path: string; text: string };

/** Every consumer in a source that has no guard, by what it is. */
function findUnguarded({ path, text }: Source): string[] {
  // Parsing is what takes long, and few sources name a consumer.
  if (!/\b(runConsumer|openSubscriber|readEvents)\b/.test(text)) return [];
  const service = path.split('/')[1]!;
  const tree = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const missing: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node)) {
      const opened = node.expression.getText(tree);
      // `consumeEvents` opens the inbox itself.
      if (/^(runConsumer|openSubscriber|readEvents)$/.test(opened)) {
        const listed = callsWithin(node).some((name) =>
          Object.hasOwn(guards, `${service} ${name}`),
        );
        if (!listed) missing.push(`${path}: ${opened} has neither inbox nor ledger`);
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(tree);
  return missing;
}

/** The functions that make a consumer's handler, outermost first. */
function callsWithin(consumer: ts.CallExpression): string[] {
  const names: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node)) names.push(node.expression.getText());
    ts.forEachChild(node, visit);
  };
  consumer.arguments.forEach((argument) => ts.forEachChild(argument, visit));
  return names.filter((name) => /Handler$|Batch$|^count/.test(name));
}

test('every consumer has an inbox, the ledger, or a listed row that knows a copy', () => {
  const read = sources.map(({ path, text }) => ({ path, text: text() }));
  const consumers = read.filter(({ text }) =>
    /\b(runConsumer|openSubscriber|readEvents|consumeEvents)\(/.test(text),
  );
  assert.ok(consumers.length >= 3, 'the services are looked at');
  assert.deepEqual(read.flatMap(findUnguarded), []);
});

test('what a listed guard stands on is there, and none is listed that is gone', () => {
  for (const [name, { file, has, why }] of Object.entries(guards)) {
    const [service, handler] = name.split(' ') as [string, string];
    const users = sources.filter(({ path }) => path.startsWith(`services/${service}/`));
    const isUsed = users.some(({ text }) => text().includes(`${handler}(`));
    assert.ok(isUsed, `${service} has no ${handler} any more`);
    const sql = files.find(({ path }) => path === file);
    assert.match(sql?.text() ?? '', has, `${file}: ${why}`);
  }
});

test('a consumer without a guard is found', () => {
  const path = 'services/console/main.ts';
  const broken = [
    'runConsumer({ ...kafka, groupId, handle: async ({ records }) => pay(records) });',
    'openSubscriber({ subscription, logger, handle: (message) => tell(message) });',
    'readEvents(service, config, { name, database, receive: (event) => tell(event) });',
    // The ledger's handler knows copies in the worker alone.
    'runConsumer({ ...kafka, ...paymentsHandler({ post }) });',
  ];
  for (const text of broken) assert.equal(findUnguarded({ path, text }).length, 1, text);
  const guarded = 'consumeEvents(service, config, { name, database, effect: tell, batch });';
  assert.deepEqual(findUnguarded({ path, text: guarded }), []);
});

test('nothing can be published without an event id', () => {
  const topic = files.find(({ path }) => path === 'libs/transport/pubsub/publisher.ts')!.text();
  const message = (name: string, attributes: string) =>
    `\nexport const ${name}: OutgoingMessage =
      { orderingKey: '7', data: null as never, attributes: ${attributes} };`;
  const told = message('told', `{ event_id: 'a', event_type: 'payment.succeeded' }`);
  const nameless = message('nameless', `{ event_type: 'payment.succeeded' }`);
  const text = topic + told + nameless;
  const places = typeErrors(text).filter(({ code }) => code === missingProperty);
  assert.equal(places.length, 1);
  assert.ok(places[0]!.start! > text.indexOf('nameless'), 'the one without an id');
});

/**
 * TS2741: a property is missing that is required. Node's own types are not loaded, for they take
 * long.
 */
const missingProperty = 2741;

function typeErrors(text: string): readonly ts.Diagnostic[] {
  const name = 'example.ts';
  const options = { strict: true, noEmit: true, target: ts.ScriptTarget.ESNext, types: [] };
  const host = ts.createCompilerHost(options);
  const { getSourceFile } = host;
  host.getSourceFile = (path, ...rest) =>
    path === name
      ? ts.createSourceFile(path, text, ts.ScriptTarget.ESNext)
      : getSourceFile.call(host, path, ...rest);
  const program = ts.createProgram([name], options, host);
  return program.getSemanticDiagnostics(program.getSourceFile(name));
}
