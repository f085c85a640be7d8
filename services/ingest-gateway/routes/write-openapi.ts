import { writeFileSync } from 'node:fs';
import { describeGateway, openApiFile } from './describe-gateway.ts';

// Run it after a change of a route or a schema:
// npx node services/ingest-gateway/routes/write-openapi.ts
writeFileSync(openApiFile, await describeGateway());
