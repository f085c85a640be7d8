import { describeClaims } from '../claims.conformance.ts';
import { openHybrid } from './hybrid.testing.ts';

describeClaims('redis before postgres', openHybrid);
