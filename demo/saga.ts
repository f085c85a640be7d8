import { Interrupted, UsageError, openTerminal } from '@triplock/command';
import { runCommand } from '@triplock/launcher';
import { fulfilOrder, sagaSteps, type SagaStep } from './saga/fulfil-order.ts';
import { openShop } from './saga/shop.ts';
import { openTriplock } from './saga/triplock-client.ts';
import { findSystem } from './system.ts';

const help = `
npm run saga -- ORDER [options]

A shop's order in two steps: acme is paid, then hands the article over. When there is none left it
gives the money back. Run it again with the same ORDER, after any crash and as often as you like:
nothing happens twice. Exit code 0 when the order came to an end; 1 when a person has to look, because
the money could not be given back, or when no answer came for long.

  --article A       book, in stock (default), or rare-book, which is sold out
  --die-after STEP  the process kills itself there: ${sagaSteps.join(', ')}
  --home DIR        the instance (.triplock)
  --json            prints { outcome, payment, refund, because }, the last two where there is one
  --help
`;

const price = { amount: 1_999, currency: 'EUR' };

await runCommand({
  name: 'saga',
  help,
  options: {
    article: { type: 'string' },
    'die-after': { type: 'string' },
    home: { type: 'string' },
    json: { type: 'boolean' },
  },
  wordsMax: 1,
  run: async ({ values, words: [id], interrupted }) => {
    const article = oneOf(['book', 'rare-book'], values.article ?? 'book');
    const dieAfter = values['die-after'] && oneOf(sagaSteps, values['die-after']);
    if (!/^[A-Za-z0-9_-]{1,64}$/.test(id ?? '')) {
      throw new UsageError('name an order: 1 to 64 letters, digits, - and _');
    }
    const terminal = openTerminal({ json: values.json ?? false });
    const signal = interrupted();
    const system = await findSystem(values.home, { terminal, signal });
    const reached = (step: SagaStep) => {
      terminal.line(step);
      if (step === dieAfter) process.kill(process.pid, 'SIGKILL');
    };
    try {
      const { gateways, partners, postgres } = system.endpoints;
      const { apiKey } = partners.find((partner) => partner.id === 'acme')!;
      const triplock = openTriplock({ gateways, apiKey, signal });
      const shop = await openShop(postgres);
      const order = { id: id!, article, ...price };
      const end = await fulfilOrder({ triplock, shop, reached }, order).finally(() => shop.close());
      terminal.line(`order ${id}: ${end.outcome}`);
      terminal.result(end);
      if (end.outcome === 'not-refunded') process.exitCode = 1;
    } catch (error) {
      if (!signal.aborted) throw error;
      throw new Interrupted(`run order ${id} again, and it goes on where it stopped`, {
        cause: error,
      });
    } finally {
      terminal.clear();
      await system.close();
    }
  },
});

function oneOf<Word extends string>(words: readonly Word[], text: string): Word {
  const found = words.find((word) => word === text);
  if (found === undefined) throw new UsageError(`expected one of ${words.join(', ')}: ${text}`);
  return found;
}
