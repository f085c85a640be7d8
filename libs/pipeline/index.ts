export * from './contribution.ts';
export * from './contributed.ts';
