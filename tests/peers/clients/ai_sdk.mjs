// Vercel's AI SDK streams turns in which the agent uses its tools, and runs tools of its own, on both APIs.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const require = createRequire(process.env.PEER + "/package.json");
const { stepCountIs, streamText, tool } = require("ai");
const { createOpenAI } = require("@ai-sdk/openai");
const { createOpenAICompatible } = require("@ai-sdk/openai-compatible");
const { z } = require("zod");

const apiKey = process.env.OPENAI_API_KEY;
const baseURL = process.env.OPENAI_BASE_URL;
const openai = createOpenAI({ apiKey, baseURL });
const models = {
  compatible: createOpenAICompatible({ name: "gateway", apiKey, baseURL })("m"),
  chat: openai.chat("m"),
  responses: openai.responses("m"),
};
for (const [name, model] of Object.entries(models)) {
  const failed = [];
  const onError = ({ error }) => failed.push(error);
  const files = streamText({ model, prompt: "files?", maxRetries: 0, onError });
  assert.match(await files.text, /There is one file\.$/, name);
  const asked = [];
  const weather = tool({
    description: "How the weather is.",
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => {
      asked.push(city);
      return "sunny";
    },
  });
  const prompt = "weather?";
  const result = streamText({ model, prompt, tools: { weather }, stopWhen: stepCountIs(3), maxRetries: 0, onError });
  assert.match(await result.text, /It is sunny in Graz\./, name);
  assert.deepEqual(asked, ["Graz"], name);
  assert.deepEqual(failed, [], name);
}
