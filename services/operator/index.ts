export { operate, type OperatorCommand } from './operate.ts';
