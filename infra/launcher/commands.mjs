// The table of commands, in JavaScript of long ago.

/** The operators' commands, for the system on this machine. */
export const operators = 'infra/launcher/commands/operate.ts';

/** Looks at the name of a piece before anything is installed. */
const names = 'infra/generators/names.mjs';

/** Every command: the file that runs it, the line that `--help` shows, what refuses its words. */
export const commands = {
  demo: ['demo/main.ts', 'starts everything and walks through the guided story'],
  up: ['infra/launcher/commands/up.ts', 'starts the whole system in the background'],
  down: ['infra/launcher/commands/down.ts', 'stops it and keeps its data'],
  status: ['infra/launcher/commands/status.ts', 'shows what runs, and whether it is ready'],
  logs: ['infra/launcher/commands/logs.ts', 'shows the logs'],
  scenario: ['demo/scenario.ts', 'runs one failure for real and shows which guard absorbed it'],
  audit: [operators, 'reconciles every layer'],
  trace: [operators, 'follows one payment through all layers'],
  saga: ['demo/saga.ts', 'pays for an order and hands it over, or gives the money back'],
  partners: [operators, 'manages partners and their API keys'],
  operators: [operators, 'says who may use the console'],
  migrate: [operators, 'brings the schema of a database elsewhere up to date'],
  'dead-letters': [operators, 'lists what was set aside, and redrives it'],
  republish: [operators, 'publishes settled events again from the outbox'],
  rewind: [operators, 'brings a database that lost its newest commits what it lacks'],
  'give-back': [operators, 'gives back money of a payment that has ended without it'],
  load: ['load-tests/load.ts', 'loads the system with k6, and audits it'],
  bench: ['load-tests/bench.ts', 'measures what a payment costs'],
  capacity: ['load-tests/capacity.ts', 'says how many of everything a rate takes'],
  compare: ['load-tests/compare.ts', 'measures the claim stores side by side'],
  generate: ['infra/generators/generate.ts', 'writes what is made from other files'],
  new: [
    'infra/generators/new.ts',
    'writes a consumer, a transaction, a service; or renames all',
    names,
  ],
  journey: ['e2e/journey.ts', 'shows which files run for one payment'],
  prove: ['e2e/prove.ts', 'proves the promises: long faults, guards removed, every claim store'],
  check: ['infra/launcher/commands/check.ts', 'runs lint and types, and the tests of what changed'],
  test: [
    'infra/launcher/commands/test.ts',
    'runs lint, type checks, tests and the promises end to end',
  ],
};
