export * from './command.ts';
export * from './terminal.ts';
