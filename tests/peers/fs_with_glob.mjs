// Node 20 has no `fs.globSync`. MCP's conformance suite imports it, for reports that are not made here.
//   node --import ./fs_with_glob.mjs <suite>
import { register } from "node:module";
const fs = "export * from 'node:fs'; export { default } from 'node:fs'; export const globSync = () => [];";
const hook = `export const resolve = (name, context, next) =>
  name === "fs" && context.parentURL?.includes("/conformance/")
    ? { url: "data:text/javascript,${encodeURIComponent(fs)}", shortCircuit: true }
    : next(name, context);`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);
