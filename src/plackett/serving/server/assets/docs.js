"use strict";
const EXAMPLE = "application/json";
const at = (id) => document.getElementById(id);
let api = null;

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

/* ---- schemas as text ---- */

const nameOf = (reference) => reference.split("/").pop();

function typeOf(schema, indent = "") {
  if (schema.$ref) return nameOf(schema.$ref);
  if (schema.anyOf) return schema.anyOf.map((each) => typeOf(each, indent)).join(" | ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.type === "array") return `[${typeOf(schema.items || {}, indent)}]`;
  if (schema.properties) return fieldsOf(schema, indent);
  if (schema.additionalProperties) return `{name: ${typeOf(schema.additionalProperties, indent)}}`;
  const types = [].concat(schema.type || "any").join(" | ");
  return schema.format ? `${types} (${schema.format})` : types;
}

function fieldsOf(schema, indent) {
  const required = schema.required || [];
  const lines = Object.entries(schema.properties).map(([name, field]) => {
    const limits = ["minimum", "minItems", "maxItems"].filter((key) => field[key] !== undefined).map((key) => `${key} ${field[key]}`);
    const note = [field.description, ...limits].filter(Boolean).join(", ");
    return `${indent}  ${name}${required.includes(name) ? "" : "?"}: ${typeOf(field, indent + "  ")}${note ? "  // " + note : ""}`;
  });
  return `{\n${lines.join("\n")}\n${indent}}`;
}

/* ---- one request ---- */

async function exampleBody() {
  const headers = authorization();
  try {
    const { models } = await (await fetch("models", { headers })).json();
    const { examples } = await (await fetch(`models/${encodeURIComponent(models[0].name)}/examples`, { headers })).json();
    return layOut({ documents: examples[0].documents.slice(0, 2), ids: examples[0].ids.slice(0, 2) }, "");
  } catch (problem) {
    return '{"documents": []}'; // without the token
  }
}

function authorization() {
  return at("token").value ? { authorization: "Bearer " + at("token").value } : {};
}

async function send(path, method, form) {
  let address = path.slice(1);
  const headers = authorization();
  for (const input of form.fields) {
    if (input.dataset.place === "path") address = address.replace(`{${input.name}}`, encodeURIComponent(input.value));
    else if (input.value) headers[input.name] = input.value;
  }
  const options = { method: method.toUpperCase(), headers };
  if (form.body) {
    headers["content-type"] = EXAMPLE;
    options.body = form.body.value;
  }
  const began = performance.now();
  try {
    const response = await fetch(address || ".", options);
    const text = await response.text();
    form.status.textContent = `${response.status} ${response.statusText}, ${(performance.now() - began).toFixed(0)} ms, ${response.headers.get("content-type")}`;
    form.result.textContent = pretty(text);
  } catch (problem) {
    form.status.textContent = "The server does not answer.";
    form.result.textContent = "";
  }
  form.result.hidden = !form.result.textContent;
}

function pretty(text) {
  try {
    return layOut(JSON.parse(text), "");
  } catch (problem) {
    return text;
  }
}

/* JSON with one line for everything that fits into one */
function layOut(value, indent) {
  const line = JSON.stringify(value);
  if (value === null || typeof value !== "object" || line.length < 80) return line;
  const inside = indent + " ";
  const parts = Array.isArray(value)
    ? value.map((item) => inside + layOut(item, inside))
    : Object.entries(value).map(([name, item]) => `${inside}${JSON.stringify(name)}: ${layOut(item, inside)}`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  return `${open}\n${parts.join(",\n")}\n${indent}${close}`;
}

function describe(path, method, operation) {
  const box = make("details");
  const head = make("summary");
  head.append(make("b", "", method.toUpperCase()), make("code", "", path), make("span", "soft", operation.summary));
  box.append(head);
  box.addEventListener("toggle", () => { if (box.open && box.childElementCount === 1) fill(box.appendChild(make("div", "operation")), path, method, operation); });
  return box;
}

async function fill(box, path, method, operation) {
  const form = { fields: [], body: null, status: make("span", "soft small"), result: make("pre") };
  form.result.hidden = true;
  for (const parameter of operation.parameters) {
    const label = make("label", "", parameter.name);
    const input = make("input");
    input.name = parameter.name;
    input.dataset.place = parameter.in;
    input.placeholder = parameter.description || (parameter.required ? "required" : "");
    label.append(input);
    box.append(label);
    form.fields.push(input);
  }
  if (operation.requestBody) {
    const content = operation.requestBody.content;
    const forms = Object.entries(content).map(([type, { schema }]) => `${type}: ${schema.description || typeOf(schema)}`);
    box.append(make("h3", "", "Body"), make("p", "soft small", forms.join("; ")));
    form.body = make("textarea");
    form.body.rows = 6;
    form.body.spellcheck = false;
    form.body.setAttribute("aria-label", "Body");
    box.append(form.body);
  }
  const button = make("button", "main", "Send");
  button.type = "button";
  button.addEventListener("click", () => send(path, method, form));
  const row = make("p", "buttons");
  row.append(button, form.status);
  const table = make("table");
  for (const [status, { description, content }] of Object.entries(operation.responses)) {
    const line = make("tr");
    line.append(make("td", "", status), make("td", "", Object.entries(content).map(([type, { schema }]) => (type === EXAMPLE ? typeOf(schema) : type)).join(", ")), make("td", "soft", description));
    table.append(line);
  }
  box.append(row, form.result, make("h3", "", "Responses"), table);
  if (form.body) form.body.value = await exampleBody();
}

async function begin() {
  try {
    api = await (await fetch("openapi.json")).json();
  } catch (problem) {
    at("error").textContent = "The server does not answer.";
    return;
  }
  at("about").textContent = `${api.info.summary} Version ${api.info.version}.`;
  at("token-field").hidden = !api.components.securitySchemes;
  for (const [path, methods] of Object.entries(api.paths))
    for (const [method, operation] of Object.entries(methods)) at("list-of-operations").append(describe(path, method, operation));
  for (const [name, schema] of Object.entries(api.components.schemas)) {
    const box = make("details");
    const head = make("summary");
    head.append(make("code", "", name), make("span", "soft", schema.description || ""));
    box.append(head, make("pre", "", typeOf(schema)));
    at("list-of-schemas").append(box);
  }
}

at("token-field").addEventListener("submit", (event) => event.preventDefault());
begin().finally(() => { document.documentElement.dataset.ready = "done"; });
