// The OpenAI SDK for Node streams turns in which the agent uses its tools, and runs tools of its own.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const require = createRequire(process.env.PEER + "/package.json");
const OpenAI = require("openai").default;
const client = new OpenAI({ maxRetries: 0, timeout: 30_000 });

const first = client.chat.completions.stream({ model: "m", messages: [{ role: "user", content: "files?" }] });
assert.match(await first.finalContent(), /There is one file\.$/);

const asked = [];
const weather = {
  name: "weather",
  description: "How the weather is.",
  parameters: { type: "object", properties: { city: { type: "string" } } },
  parse: JSON.parse,
  function: ({ city }) => {
    asked.push(city);
    return "sunny";
  },
};
const runner = client.chat.completions.runTools({
  model: "m",
  stream: true,
  messages: [{ role: "user", content: "weather?" }],
  tools: [{ type: "function", function: weather }],
});
assert.equal(await runner.finalContent(), "It is sunny in Graz.");
assert.deepEqual(asked, ["Graz"]);

const stream = client.responses.stream({ model: "m", input: "files?" });
for await (const event of stream) assert.ok(event.type);
assert.equal((await stream.finalResponse()).output_text, "There is one file.");

await assert.rejects(new OpenAI({ apiKey: "wrong", maxRetries: 0 }).models.list(), OpenAI.AuthenticationError);
