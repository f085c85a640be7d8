import { describeClaims } from '@triplock/claims/conformance';
import { openHybrid } from './test/open-hybrid.ts';

describeClaims('redis before postgres', openHybrid);
