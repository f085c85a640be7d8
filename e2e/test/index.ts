export { killEach } from '../storms.ts';
export { insist, newKey } from './partner.ts';
export { command, onTheSystem } from './system.ts';
