// Stands before `throughline mcp serve --http` and adds the key to every request, for peers that cannot send one.
//   node mcp_with_key.mjs <port of the server> <key>        prints the port at which it listens
import http from "node:http";
const [port, key] = process.argv.slice(2);
const server = http.createServer((request, response) => {
  const headers = { ...request.headers, authorization: `Bearer ${key}` };
  const asked = http.request(
    { host: "127.0.0.1", port, method: request.method, path: request.url, headers, setHost: false },
    (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    },
  );
  asked.on("error", () => response.destroy());
  response.on("close", () => asked.destroy());
  request.pipe(asked);
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
