// Makes the calls on stdin with the `openai` package, and prints what came of each: `node ask.mjs`.
//
// Input: {"calls": [{"base", "method", "arguments"}]}, output: [{"answer"} or {"status", "error", "message"}], in order.
import OpenAI from "openai";

const read = async () => {
  const parts = [];
  for await (const part of process.stdin) parts.push(part);
  return JSON.parse(Buffer.concat(parts));
};

const made = async ({ base, method, arguments: given }) => {
  const client = new OpenAI({ baseURL: base, apiKey: "none", maxRetries: 0, timeout: 60_000 });
  const names = method.split(".");
  const last = names.pop();
  const section = names.reduce((from, name) => from[name], client);
  const answer = await section[last](...given);
  if (!answer?.[Symbol.asyncIterator] || answer.data) return answer;
  const events = [];
  for await (const event of answer) events.push(event);
  return events;
};

const outcome = async (call) => {
  try {
    return { answer: await made(call) };
  } catch (error) {
    return { status: error.status ?? 0, error: error.error ?? null, message: error.message };
  }
};

const { calls } = await read();
const outcomes = [];
for (const call of calls) outcomes.push(await outcome(call));
process.stdout.write(JSON.stringify(outcomes));
