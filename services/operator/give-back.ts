import { isTxnId } from '@triplock/payments';
import { isMissing, openTerminal, runCommand, UsageError, type Terminal } from '@triplock/command';
import {
  findToGiveBack,
  giveBackOne,
  openGiver,
  operatorFor,
  refuseWithout,
  type Caller,
  type ToDo,
  whoActs,
  withDatabase,
} from '@triplock/inspect';
import { providerWords } from '@triplock/providers';

const help = `
npm run give-back -- ID --why TEXT [options]

Gives back what a provider has of a payment that has ended without it: what was taken is
refunded whole, what is held is let go, and what could still be confirmed is cancelled. So is money
of another intent than the one by which a payment was paid. The audit names such a payment
(payment-contradicts-provider, payment-differs-from-provider), and the alert PaidAfterEnd fires.
What the payment was told as stays so: no row changes and no webhook goes out.

It prints what it would do, and with --yes does it, recorded with who, when and why. Done twice it
gives nothing back twice. Exit code 1 when nobody knows what came of a call: do it again.

  --why TEXT   why it is given back
  --yes        does it
  --by NAME    who does it (the user of this machine)
  --home DIR   the instance on this machine (.triplock); elsewhere the settings say which system
  --json       prints { payment, done, intents }
  --help

DATABASE_URL  the database, as its owner
Of the payment's provider:
${providerWords}
`;

/** `give-back`: gives back what was taken or is held for a payment that has ended without it. */
export function giveBack(caller: Caller): Promise<void> {
  return runCommand(
    {
      name: 'give-back',
      help,
      options: {
        why: { type: 'string' },
        yes: { type: 'boolean' },
        by: { type: 'string' },
        json: { type: 'boolean' },
      },
      wordsMax: 1,
      run: async ({ values, words: [id], interrupted }) => {
        if (id === undefined) throw isMissing('an ID', 'that of a payment');
        if (!isTxnId(id)) throw new UsageError(`${id} is not the id of a payment`);
        const why = values.why?.trim() || undefined;
        if (why === undefined) throw isMissing('--why', 'in words, why it is given back');
        const actor = { by: whoActs(values.by), why };
        const terminal = openTerminal({ json: values.json ?? false });
        const operator = await operatorFor(caller, { terminal, signal: interrupted() });
        const needs = { name: 'give-back', parts: [], settings: [] } as const;
        await withDatabase(operator, needs, async (database) => {
          const giver = openGiver(operator.config, (lacks) => refuseWithout(lacks));
          const todo = await findToGiveBack(database, giver, id);
          for (const each of todo) show(terminal, each);
          const done = values.yes ?? false;
          if (done) {
            for (const each of todo) {
              if (each.act !== 'none')
                await giveBackOne(database, { giver, txnId: id }, each, actor);
            }
          }
          terminal.line(done ? 'done' : 'nothing was changed: --yes does it');
          const intents = todo.map(({ intentId, act, why }) => ({ intentId, act, why }));
          terminal.result({ payment: id, done, intents });
        });
      },
    },
    caller.args,
  );
}

function show(terminal: Terminal, { intentId, why }: ToDo): void {
  terminal.line(`${intentId} ${why}`);
}
