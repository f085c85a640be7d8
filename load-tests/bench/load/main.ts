import { answerParent } from '../answer-parent.ts';
import type { LoadOrder, LoadReport } from './load-report.ts';
import { sendLoad } from './send-load.ts';

answerParent<LoadOrder, LoadReport>(sendLoad);
