// What OpenAI's client for node makes of the server: run by test_openai_node.py with the folder that has it in NODE_PATH.

import { createRequire } from "node:module";

const OpenAI = createRequire(import.meta.url)("openai"); // only require looks into NODE_PATH

const HI = [{ role: "user", content: "hi" }];
const SHORT = { max_tokens: 40, stop: ["!"] };
const PARAMETERS = { type: "object", properties: {} };
const WEATHER = { type: "function", function: { name: "weather", parameters: PARAMETERS } };
const servers = JSON.parse(process.argv[2]);

const at = ({ url }, apiKey = "none") => new OpenAI({ baseURL: url, apiKey, maxRetries: 0 });

const called = (calls) => calls.map((call) => [call.function.name, JSON.parse(call.function.arguments)]);

async function error(asked) {
  try {
    await asked();
  } catch (told) {
    return [told.constructor.name, told.status ?? null, told.param ?? null, told.code ?? null];
  }
  return [];
}

async function chats(client, model) {
  const asked = { model, messages: HI, ...SHORT };
  const whole = await client.chat.completions.create(asked);
  let streamed = "";
  for await (const piece of await client.chat.completions.create({ ...asked, stream: true })) {
    streamed += piece.choices[0].delta.content ?? "";
  }
  let helped = "";
  const runner = client.chat.completions.stream({ ...asked, stream_options: { include_usage: true } });
  runner.on("content", (delta) => (helped += delta));
  const final = await runner.finalChatCompletion();
  const parsed = await client.chat.completions.parse(asked);
  const { data, response, request_id } = await client.chat.completions.create(asked).withResponse();
  return {
    texts: [whole, final, parsed, data].map((answer) => answer.choices[0].message.content).concat(streamed, helped),
    tokens: [whole.usage.completion_tokens, final.usage.completion_tokens],
    request_id: [request_id !== null, request_id === response.headers.get("x-request-id")],
  };
}

async function tools(client, model) {
  const asked = { model, messages: HI, max_tokens: 400, tools: [WEATHER] };
  const { message, finish_reason } = (await client.chat.completions.create(asked)).choices[0];
  const results = message.tool_calls.map((call) => ({ role: "tool", tool_call_id: call.id, content: "rain" }));
  const again = await client.chat.completions.create({ ...asked, messages: [...HI, message, ...results] });
  const streamed = await client.chat.completions.stream(asked).finalChatCompletion();
  return {
    calls: [message, again.choices[0].message, streamed.choices[0].message].map((said) => called(said.tool_calls)),
    content: message.content,
    finish_reason,
  };
}

async function responses(client, model) {
  const asked = { model, input: "hi", max_output_tokens: 12 };
  const whole = await client.responses.create(asked);
  let streamed = "";
  for await (const event of await client.responses.create({ ...asked, stream: true })) {
    if (event.type === "response.output_text.delta") streamed += event.delta;
  }
  const final = await client.responses.stream(asked).finalResponse();
  return { texts: [whole.output_text, streamed, final.output_text], tokens: whole.usage.output_tokens };
}

async function responseTools(client, model) {
  const tool = { type: "function", name: "weather", parameters: PARAMETERS, strict: false };
  const asked = { model, input: HI, max_output_tokens: 400, tools: [tool] };
  const first = await client.responses.create(asked);
  const calls = first.output.filter((item) => item.type === "function_call");
  const results = calls.map(({ call_id }) => ({ type: "function_call_output", call_id, output: "rain" }));
  const again = await client.responses.create({ ...asked, input: [...HI, ...first.output, ...results] });
  const read = (answer) =>
    answer.output.filter(({ type }) => type === "function_call").map((call) => [call.name, JSON.parse(call.arguments)]);
  return { calls: [read(first), read(again)] };
}

async function models(client, model) {
  const names = [];
  for await (const listed of client.models.list()) names.push(listed.id);
  return [...names, (await client.models.retrieve(model)).id];
}

async function aborted(client, model) {
  const stream = await client.chat.completions.create({ model, messages: HI, max_tokens: 200, stream: true });
  let pieces = 0;
  for await (const _ of stream) if (++pieces === 2) break; // leaves the connection
  return pieces;
}

const { letters, caller, locked, limited } = servers;
const client = at(letters);
const schema = { type: "json_schema", json_schema: { name: "a", schema: PARAMETERS } };
const chat = (more, who = client) => () => who.chat.completions.create({ model: letters.model, messages: HI, ...more });
const few = at(limited);
const rate = () => few.chat.completions.create({ model: limited.model, messages: HI, max_tokens: 1 });
await rate();
const seen = {
  models: await models(client, letters.model),
  chats: await chats(client, letters.model),
  tools: await tools(at(caller), caller.model),
  responses: await responses(client, letters.model),
  response_tools: await responseTools(at(caller), caller.model),
  aborted: await aborted(client, letters.model),
  errors: {
    key: await error(() => at(locked, "wrong").models.list()),
    model: await error(chat({ model: "gpt-7" })),
    schema: await error(chat({ response_format: schema })),
    value: await error(chat({ temperature: -1 })),
    rate: await error(rate),
    timeout: await error(() => client.withOptions({ timeout: 1 }).models.list()),
  },
};
console.log();
console.log(JSON.stringify(seen));
