import { join } from 'node:path';
import {
  checkHistory,
  followWebhooks,
  type HistoryRecorder,
  openHistory,
  readHistory,
  renderHistory,
} from '@triplock/inspect';
import { eventually } from '@triplock/testing';
import { type Setup, command, home } from './system.ts';
import { type Partner, partner } from './partner.ts';

/** A run whose requests, answers, webhooks and faults are written into one file. */
export type RecordedRun = {
  history: HistoryRecorder;
  acme: Partner;
  globex: Partner;
  /** One more client of a partner, named in the history. */
  client(id: 'acme' | 'globex', by: string): Partner;
  /**
   * Waits until nothing is in flight, reads everything that was accepted once more, ends the
   * history and judges it; returns its file.
   *
   * @param run complete: nobody else asked this system for anything since the run began.
   * @throws when the audit is not green, or the history contradicts the contract.
   */
  finish(run: { complete: boolean }): Promise<string>;
};

/**
 * Begins a recorded run on the system of the promises. Its clients are for this run: what others
 * send is not in the history.
 */
export async function recordRun({ system }: Setup, name: string): Promise<RecordedRun> {
  const stamp = new Date().toISOString().replaceAll(/[:.]/g, '-');
  const what = `claims in ${system.claims}, ledger in ${system.ledger}, ${system.gateways.length} gateways`;
  const history = openHistory(join(home, 'histories', `${name}-${stamp}.jsonl`), what);
  const webhooks = await followWebhooks(history, system.catcher);
  const client = (id: 'acme' | 'globex', by: string) => partner(system, id, { history, by });
  return {
    history,
    acme: client('acme', 'acme'),
    globex: client('globex', 'globex'),
    client,
    async finish({ complete }) {
      // An audit is green while webhooks wait to be sent, and consumers give way to all else.
      const audit = await eventually(auditDelivered, { withinMs: 120_000, what: 'every webhook' });
      if (audit.code !== 0) throw new Error(audit.stdout + audit.stderr);
      await readAccepted(history.file, (id) => client(id, 'reader'));
      await webhooks.stop();
      history.over({ delivered: true, complete });
      history.close();
      const report = checkHistory(await readHistory(history.file));
      if (!report.ok) throw new Error([history.file, ...renderHistory(report)].join('\n'));
      return history.file;
    },
  };
}

/** What the audit says, once no webhook waits. */
async function auditDelivered() {
  const audit = await command('audit', '--wait', '120', '--json');
  const { counts } = JSON.parse(audit.stdout) as { counts: { undelivered: number } };
  return counts.undelivered === 0 && audit;
}

const readersAtOnce = 16;

/** Reads every transaction that has a 202 in a history, by its own partner. */
async function readAccepted(
  file: string,
  clientOf: (id: 'acme' | 'globex') => Partner,
): Promise<void> {
  const { lines } = await readHistory(file);
  const partners = new Map<number, string>();
  const paths = new Map<string, string>();
  for (const each of lines) {
    if (each.what === 'asked') partners.set(each.n, each.partner);
    if (each.what !== 'answered' || each.status !== 202) continue;
    const { id, object } = JSON.parse(each.body) as { id: string; object: string };
    paths.set(`/v1/${object}s/${id}`, partners.get(each.n)!);
  }
  const clients = { acme: clientOf('acme'), globex: clientOf('globex') };
  const waiting = paths.entries();
  const readOn = async () => {
    for (const [path, id] of waiting) await clients[id as 'acme' | 'globex'].send({ path });
  };
  await Promise.all(Array.from({ length: readersAtOnce }, readOn));
}
