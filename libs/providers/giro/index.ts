export { giroProvider } from './giro-provider.ts';
