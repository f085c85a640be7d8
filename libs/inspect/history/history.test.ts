import assert from 'node:assert/strict';
import fc from 'fast-check';
import { type TestContext, describe, it, test } from 'node:test';
import type { TxnId } from '@triplock/payments';
import { type Fate, ModelSystem, type Wish, fileOf } from './test/a-history.ts';
import { aTrueHistory } from './test/a-true-history.ts';
import { liesOfAnswers } from './test/lies-of-answers.ts';
import { liesOfEffects } from './test/lies-of-effects.ts';
import { checkHistory } from './check-history.ts';
import { type HistoryEvent, historyChecks, parseHistory, readHistory } from './history.ts';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '@triplock/testing';
import { openHistory } from './record-history.ts';

const check = (events: readonly HistoryEvent[]) => checkHistory(parseHistory(fileOf(events)));

test('a true history is green, and says how much it judged', () => {
  const report = check(aTrueHistory());
  assert.deepEqual(report.findings, []);
  assert.equal(report.ok, true);
  const { accepted, replayed, inUse, reused, unanswered, webhooks, faults } = report.judged;
  for (const count of [accepted, replayed, inUse, reused, unanswered, webhooks, faults]) {
    assert.ok(count > 0);
  }
});

const lies = [...liesOfAnswers, ...liesOfEffects];

describe('each lie that is planted in it is named', () => {
  for (const [lie, is, plant] of lies) {
    it(`${lie}: ${is}`, () => {
      const events = aTrueHistory();
      const { findings, ok } = check(plant(events) ?? events);
      assert.equal(ok, false);
      const named = findings.map((each) => `${each.check}: ${each.why} (${each.about})`);
      assert.ok(
        findings.some((each) => each.check === is),
        named.join('\n') || 'nothing found',
      );
    });
  }
  it('and every check has a lie that it names', () => {
    const named = new Set(lies.map(([, is]) => is));
    assert.deepEqual(
      Object.keys(historyChecks).filter((each) => !named.has(each as never)),
      [],
    );
    assert.ok(lies.length >= 30);
  });
});

const calm: readonly Fate[] = ['accepted', 'accepted', 'produced-unknown', 'unproduced'];
const broken: readonly Fate[] = ['dies-before', 'dies-after', 'not-kept'];

/** Requests under way, and what reads among them ask for. */
type Run = {
  system: ModelSystem;
  open: Set<number>;
  reads: Map<number, [partner: string, id: TxnId]>;
  sent: Wish[];
  withFaults: boolean;
};

/** What may happen next; `by` chooses on what. */
const steps: readonly ((run: Run, by: number) => void)[] = [
  askAny,
  askAny,
  reachAny,
  reachAny,
  reachAny,
  workOnAny,
  workOnAny,
  answerAny,
  answerAny,
  ({ system }, by) => ifAny(pick(system.ledger.keys(), by), (id) => void system.settle(id)),
  ({ system }, by) => ifAny(pick(system.webhooks, by), (webhook) => system.deliver(webhook)),
  breakOrRead,
];

/** Drives the model by numbers: each chooses one of the steps that are possible, and on what. */
function anyHistory(choices: readonly number[], withFaults: boolean): HistoryEvent[] {
  const system = new ModelSystem();
  const run: Run = { system, open: new Set(), reads: new Map(), sent: [], withFaults };
  for (const choice of choices) {
    steps[choice % steps.length]!(run, Math.floor(choice / steps.length));
  }
  comeToAnEnd(run);
  return system.events;
}

function askAny({ system, sent, open }: Run, by: number): void {
  const old = by % 3 > 0 ? pick(sent, by) : undefined;
  const wish = old ?? wishOf(by);
  const other = old !== undefined && by % 11 === 0;
  const body = { ...wish.body, ...(other && { amount: Number(wish.body['amount'] ?? 0) + 1 }) };
  sent.push({ ...wish, body });
  open.add(system.ask({ ...wish, body }));
}

function reachAny({ system, open, reads }: Run, by: number): void {
  const isWaiting = (n: number) =>
    !system.replies.has(n) && !system.working.has(n) && !reads.has(n);
  ifAny(pick([...open].filter(isWaiting), by), (n) => system.reach(n));
}

function workOnAny({ system, withFaults }: Run, by: number): void {
  ifAny(pick(system.working, by), (n) => {
    const fate = pick(withFaults ? [...calm, ...broken] : calm, by)!;
    if (broken.includes(fate)) system.fault(fate);
    system.work(n, fate);
  });
}

/** Whoever has a reply gets it; now and then one gives up without. */
function answerAny({ system, open, reads }: Run, by: number): void {
  const n = pick(system.replies.keys(), by) ?? (by % 7 === 0 ? pick(open, by) : undefined);
  ifAny(n, (some) => {
    open.delete(some);
    reads.delete(some);
    system.answer(some);
  });
}

function breakOrRead({ system, open, reads, withFaults }: Run, by: number): void {
  if (withFaults && by % 9 === 0) system.pass(31_000);
  else if (withFaults && by % 9 === 1) {
    system.fault('claims forgotten');
    system.forgetClaims();
  } else {
    ifAny(pick(system.requests.filter(Boolean), by), ({ partner, id, kind }) => {
      const reader = by % 5 === 0 ? 'globex' : partner;
      const n = system.askRead(reader, id, kind);
      open.add(n);
      reads.set(n, [reader, id]);
      if (by % 2 === 0) system.look(n, reader, id);
    });
  }
}

/** Everything is answered, settled, delivered and read, and one more payment accepted. */
function comeToAnEnd({ system, open, reads }: Run): void {
  for (const n of open) {
    const read = reads.get(n);
    if (read !== undefined) system.look(n, ...read);
    else if (!system.replies.has(n) && !system.working.has(n)) system.reach(n);
    if (system.working.has(n)) system.work(n, 'accepted');
    system.answer(n);
  }
  for (const n of [...system.working]) system.work(n, 'accepted');
  system.send({
    partner: 'acme',
    kind: 'payment',
    key: 'last',
    body: { amount: 1, currency: 'EUR' },
  });
  for (const _ of ['payments', 'refunds']) for (const id of system.ledger.keys()) system.settle(id);
  for (const webhook of system.webhooks) system.deliver(webhook);
  for (const each of system.requests.filter(Boolean)) system.read(each.partner, each);
  system.over();
}

function pick<Each>(some: Iterable<Each>, by: number): Each | undefined {
  const all = [...some];
  return all[by % all.length];
}

function ifAny<Each>(some: Each | undefined, act: (some: Each) => void): void {
  if (some !== undefined) act(some);
}

function wishOf(by: number): Wish {
  const partner = by % 4 === 0 ? 'globex' : 'acme';
  const [key, payment] = [`k${by % 5}`, `k${(by >> 3) % 5}`];
  const amount = 1 + (by % 50);
  if (by % 5 === 1) {
    const body = by % 2 === 0 ? { amount } : { reason: 'all of it' };
    return { partner, kind: 'refund', key, of: payment, body };
  }
  const card = by % 7 === 0 ? { payment_method: 'pm_card_declined' } : {};
  // Now and then one that is refused.
  const body = { amount: by % 13 === 0 ? 0 : amount, currency: 'EUR', ...card };
  return { partner, kind: 'payment', key, body };
}

for (const withFaults of [false, true]) {
  const what = withFaults ? 'with whatever breaks' : 'while nothing breaks';
  test(`whatever a system does that keeps its contract is green, ${what}`, () => {
    const choices = fc.array(fc.nat(), { minLength: 20, maxLength: 300, size: 'max' });
    fc.assert(
      fc.property(choices, (each) => {
        assert.deepEqual(check(anyHistory(each, withFaults)).findings, []);
      }),
    );
  });
}

function aFile(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'history-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, 'histories', 'a.jsonl');
}

const request = {
  by: 'acme-1',
  partner: 'acme',
  method: 'POST',
  path: '/v1/payments',
  kind: 'payment' as const,
  key: 'order-1',
  body: '{"amount":1,"currency":"EUR","description":"a\u2028b\\nc"}',
};

test('what is written is read again as it was, in its order and with its times', async (t) => {
  const history = openHistory(aFile(t), 'claims in redis');
  const n = history.asked(request);
  history.fault('gateway-1 killed', 'SIGKILL');
  history.unanswered(n, 'ECONNRESET');
  const again = history.asked(request);
  history.answered(again, { status: 409, retryAfter: 1, body: '{}' });
  history.webhook({ partner: 'acme', id: 'e', verified: true, body: '{}' }, new Date(0));
  history.over({ delivered: true, complete: false });
  history.close();
  const { head, lines, torn } = await readHistory(history.file);
  assert.deepEqual([head.history, head.system, torn], [1, 'claims in redis', undefined]);
  const began = Date.parse(head.began);
  assert.deepEqual(
    lines.map(({ at: _, ...rest }) => rest),
    [
      { what: 'asked', n: 1, ...request, line: 2 },
      { what: 'fault', name: 'gateway-1 killed', detail: 'SIGKILL', line: 3 },
      { what: 'unanswered', n: 1, why: 'ECONNRESET', line: 4 },
      { what: 'asked', n: 2, ...request, line: 5 },
      { what: 'answered', n: 2, status: 409, retryAfter: 1, body: '{}', line: 6 },
      { what: 'webhook', partner: 'acme', id: 'e', verified: true, body: '{}', line: 7 },
      { what: 'over', delivered: true, complete: false, line: 8 },
    ],
  );
  const [first, second, third] = lines;
  assert.ok(first!.at >= 0 && first!.at <= second!.at && second!.at <= third!.at);
  assert.equal(lines[5]!.at, -began);
});

test('a history is never continued: its file is new', (t) => {
  const file = aFile(t);
  openHistory(file, 'one').close();
  assert.throws(() => openHistory(file, 'another'), { code: 'EEXIST' });
});

test('a writer that is killed leaves every line before the one it was writing', async (t) => {
  const file = aFile(t);
  const writer = `
    import { openHistory } from ${JSON.stringify(import.meta.resolve('./record-history.ts'))};
    const history = openHistory(${JSON.stringify(file)}, 'to be killed');
    for (;;) {
      const n = history.asked(${JSON.stringify(request)});
      process.stdout.write(n + '\\n');
    }`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', writer], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text));
  await eventually(async () => said.split('\n').length > 100);
  child.kill('SIGKILL');
  await once(child, 'close');
  const complete = said.slice(0, said.lastIndexOf('\n')).split('\n').length;
  const { lines, torn } = await readHistory(file);
  assert.ok(lines.length >= complete, `${lines.length} of ${complete}`);
  const whole = readFileSync(file, 'utf8');
  const cut = parseHistory(whole.slice(0, whole.lastIndexOf('"path"')));
  assert.equal(cut.torn, cut.lines.length + 2);
  assert.equal(cut.lines.length, lines.length - (torn === undefined ? 1 : 0));
});

test('what is no history is refused at its line', () => {
  const head = '{"history":1,"began":"2026-01-02T03:04:05.000Z","system":"s"}\n';
  const over = '{"what":"over","at":1,"delivered":true,"complete":true}\n';
  const refused: Record<string, RegExp> = {
    '': /first line is missing/,
    [over]: /line 1 does not begin one/,
    '{"history":2}\n': /line 1 does not begin one/,
    [`${head}{"what":"asked"\n${over}`]: /line 2 is not JSON/,
    [`${head}${head}`]: /line 2 says of nothing known/,
    [`${head}{"what":"over","at":1,"delivered":true}\n`]: /line 2 has no boolean for complete/,
    [`${head}${over.replace('1', '"1"')}`]: /line 2 has no number for at/,
  };
  for (const [text, why] of Object.entries(refused)) assert.throws(() => parseHistory(text), why);
});
