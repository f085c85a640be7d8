import { writeFileSync } from 'node:fs';
import { describeGateway, openApiFile } from './describe-gateway.ts';

// Run it after a change of a route or a schema: node services/ingest-gateway/write-openapi.ts
writeFileSync(openApiFile, await describeGateway());
