// Passes OpenCode's events to Ralph and adds its answers to the conversation. Whatever fails is ignored.
import { spawn } from "node:child_process";

const [program, ...words] = "LAUNCHER";

function call(event, payload, timeout = 10000) {
  return new Promise((resolve) => {
    const options = { stdio: ["pipe", "pipe", "ignore"], timeout, windowsHide: true };
    const child = spawn(program, [...words, "opencode", event], options);
    let printed = "";
    child.stdout.on("data", (piece) => (printed += piece));
    child.on("error", () => resolve(""));
    child.on("close", () => {
      try {
        resolve(JSON.parse(printed).additionalContext ?? "");
      } catch {
        resolve("");
      }
    });
    child.stdin.on("error", () => {});
    child.stdin.end(JSON.stringify(payload));
  }).catch(() => "");
}

export const Ralph = async ({ directory }) => {
  const parents = {}; // subagents' sessions
  const sources = {}; // why a session is new to us; undefined when this process did not create it
  const answers = {};
  const started = new Set();
  const failed = new Set();
  const running = new Set();
  const send = (event, session, more, timeout) => {
    const agent = parents[session] ? { agent_id: session } : {};
    const base = { session_id: parents[session] ?? session, cwd: directory, hook_event_name: event, ...agent };
    const sent = call(event, { ...base, ...more }, timeout);
    running.add(sent);
    return sent.finally(() => running.delete(sent));
  };
  const harmless = (hook) => async (input, output) => {
    try {
      await hook(input, output);
    } catch {}
  };

  return {
    event: harmless(async ({ event }) => {
      const { sessionID, info, part } = event.properties ?? {};
      if (event.type === "session.created") {
        if (info.parentID) parents[info.id] = info.parentID;
        sources[info.id] = "startup";
      } else if (event.type === "session.compacted") {
        sources[sessionID] = "compact";
        started.delete(sessionID);
      } else if (event.type === "session.idle" && !parents[sessionID]) {
        await send("Stop", sessionID, { last_assistant_message: answers[sessionID] ?? "" }, 20000);
      } else if (event.type === "message.part.updated" && part?.type === "tool" && part.state?.status === "error") {
        if (failed.has(part.callID)) return;
        failed.add(part.callID);
        const tool_response = { isError: true, content: part.state.error };
        const call = { tool_name: part.tool, tool_input: part.state.input, tool_use_id: part.callID, tool_response };
        await send("PostToolUse", part.sessionID, call);
      }
    }),
    "chat.message": harmless(async ({ sessionID }, { message, parts }) => {
      if (parents[sessionID]) return; // a subagent's task, written by the agent
      const texts = parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text);
      const prompt = texts.join("\n").replace(/^"(.*)"$/s, "$1"); // `opencode run` quotes its words
      const context = [];
      if (!started.has(sessionID)) {
        started.add(sessionID);
        context.push(await send("SessionStart", sessionID, { source: sources[sessionID] ?? "resume" }, 15000));
      }
      context.push(await send("UserPromptSubmit", sessionID, { prompt }));
      const text = context.filter(Boolean).join("\n\n");
      const id = `prt_0ralph${Date.now()}`;
      if (text) parts.unshift({ id, sessionID, messageID: message.id, type: "text", text, synthetic: true });
    }),
    "tool.execute.after": harmless(async ({ tool, sessionID, callID, args }, result) => {
      const called = { tool_name: tool, tool_input: args, tool_use_id: callID, tool_response: result.output };
      const text = await send("AfterTool", sessionID, { ...called, exit_code: result.metadata?.exit });
      if (text && typeof result.output === "string") result.output += `\n\n${text}`;
    }),
    "experimental.text.complete": harmless(async ({ sessionID }, { text }) => {
      answers[sessionID] = text;
    }),
    "experimental.session.compacting": harmless(async ({ sessionID }) => {
      await send("PreCompact", sessionID, { trigger: "auto" }, 20000);
    }),
    dispose: harmless(async () => {
      await Promise.all(running);
      await Promise.all([...started].map((session) => send("SessionEnd", session, { reason: "exit" }, 2000)));
    }),
  };
};
