import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Document, Operation, Parameter, Response } from './document.ts';
import { markup, prose, type Markup } from './markup.ts';
import { kindOf, renderFields } from './render-schema.ts';

/** A page and the policy it is to be served with. */
export type DocsPage = { body: string; contentSecurityPolicy: string };

const style = readFileSync(new URL('docs.css', import.meta.url), 'utf8');
const styleHash = createHash('sha256').update(style).digest('base64');

/**
 * A page to read the document on: one text without a script, a font or anything else to fetch, so
 * that it works without a network and its policy can forbid everything but its own style.
 */
export function renderDocs(document: Document): DocsPage {
  const { info, paths, components } = document;
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      line: `${method.toUpperCase()} ${path}`,
      anchor: operation.operationId ?? `${method}${path}`,
      operation,
    })),
  );
  const schemas = Object.entries(components.schemas);
  const body = markup`<!doctype html>
    <html lang="en">
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width" />
      <title>${info.title}</title>
      <style>${{ html: style }}</style>
      <h1>${info.title} <small>version ${info.version}</small></h1>
      <p>${prose(info.description)}</p>
      <p>
        ${prose('Send `Authorization: Bearer <api key>` with every request. For programs:')}
        <a href="/openapi.json">openapi.json</a>.
      </p>
      <nav>
        <ul>
          ${operations.map(
            ({ line, anchor, operation }) =>
              markup`<li>
                <a href="#${anchor}"><code>${line}</code></a> ${operation.summary ?? ''}
              </li> `,
          )}
        </ul>
      </nav>
      ${operations.map(renderOperation)}
      ${schemas.map(
        ([name, schema]) =>
          markup`<section id="${name}">
            <h2>${name}</h2>
            ${renderFields(schema)}
          </section> `,
      )}
    </html> `;
  return { body: body.html, contentSecurityPolicy: policy };
}

const policy = [
  "default-src 'none'",
  `style-src 'sha256-${styleHash}'`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

type Section = { line: string; anchor: string; operation: Operation };

function renderOperation({ line, anchor, operation }: Section): Markup {
  const { summary = line, description = '', parameters = [], responses } = operation;
  const body = Object.values(operation.requestBody?.content ?? {});
  return markup`<section id="${anchor}">
    <h2>${summary}</h2>
    <p><code>${line}</code></p>
    <p>${prose(description)}</p>
    ${parameters.length === 0 ? [] : renderParameters(parameters)}
    ${body.map(
      ({ schema }) =>
        markup`<h3>Body</h3>
          <p>${kindOf(schema)}</p>`,
    )}
    <h3>Answers</h3>
    <table>
      ${Object.entries(responses).map(([status, response]) => renderResponse(status, response))}
    </table>
  </section> `;
}

function renderParameters(parameters: readonly Parameter[]): Markup {
  const rows = parameters.map(({ name, in: place, required, schema, description }) => {
    const need = required === true ? '' : ', optional';
    const said = description ?? schema.description ?? '';
    return markup`<tr>
      <td><code>${name}</code> <small>${place}${need}</small></td>
      <td>${kindOf(schema)}</td>
      <td>${prose(said)}</td>
    </tr>`;
  });
  return markup`<h3>Parameters</h3>
    <table>
      ${rows}
    </table>`;
}

function renderResponse(
  status: string,
  { description, headers = {}, content = {} }: Response,
): Markup {
  const bodies = Object.values(content).map(({ schema }) => markup`${kindOf(schema)} `);
  const named = Object.entries(headers).map(
    ([name, header]) =>
      markup`<br /><small
          >${name}: ${prose(header.description ?? header.schema?.description ?? '')}</small
        >`,
  );
  return markup`<tr>
    <td><code>${status}</code></td>
    <td>${prose(description)}${named}</td>
    <td>${bodies}</td>
  </tr>`;
}
