// The context preview: what an agent would be given with a prompt, in order, and what was left out, with the reason. It records nothing. The prompt is part of the address.
import { html, useEffect, useId, useState } from "../lib.js";
import { isAbort, post, useGet } from "../parts/api.js";
import { Budget } from "../parts/budget.js";
import { AddMemory } from "../parts/changes.js";
import { recordPath, sessionPath } from "../parts/controls.js";
import { Empty, Failure, Loading, RichText } from "../parts/placeholders.js";
import { Choice, Code, Section } from "../parts/widgets.js";
import { route, setQuery } from "../parts/router.js";
import { PageHead } from "../parts/shell.js";
import { useMedia, useQueryText } from "../parts/hooks.js";
import { coded, Kind, matchReason, number, sentence } from "../parts/format.js";

const EVENTS = [
  ["UserPromptSubmit", "with a prompt"],
  ["SessionStart", "at the start of a session"],
];

/** The page at `/context?prompt=&event=&task=`. */
export function Page() {
  const { query } = route.value;
  const [prompt, setPrompt, calm] = useQueryText("prompt", 300);
  const event = EVENTS.some(([key]) => key === query.get("event")) ? query.get("event") : "UserPromptSubmit";
  const task = query.get("task") ?? "";
  const enough = event === "SessionStart" || calm.trim() !== "";
  const preview = usePreview(enough ? { prompt: calm, event, task } : null);
  return html`<div class="page">
    <${PageHead} title="Context preview" sub="What an agent would be given. The preview records nothing." />
    <${Ask} prompt=${prompt} onPrompt=${setPrompt} event=${event} task=${task} />
    <div aria-live="polite" class="visually-hidden">${spoken(preview)}</div>
    <${Preview} preview=${preview} />
  </div>`;
}

function Ask({ prompt, onPrompt, event, task }) {
  const own = useId();
  const tasks = useGet("/api/tasks", { limit: 200, sort: "newest" }, { on: ["tasks"] });
  const options = [["", "no task"], ...(tasks.value?.items ?? []).map((one) => [one.id, one.title])];
  if (task && !options.some(([id]) => id === task)) options.push([task, task]);
  return html`<form class="ask" onSubmit=${(submit) => submit.preventDefault()}>
    <div class="field ask-prompt">
      <label for=${own}>Prompt</label>
      <textarea id=${own} rows="3" value=${prompt} placeholder="What would you ask the agent?" data-search
        onInput=${(typed) => onPrompt(typed.currentTarget.value)}></textarea>
    </div>
    <div class="toolbar">
      <${Choice} label="Given" value=${event} options=${EVENTS}
        onChange=${(next) => setQuery({ event: next === "UserPromptSubmit" ? null : next })} />
      ${options.length > 1 && html`<${Choice} label="Working on" value=${task} options=${options} onChange=${(next) => setQuery({ task: next })} />`}
    </div>
  </form>`;
}

/** The response to the newest request. `null` requests nothing. */
function usePreview(body) {
  const [answer, setAnswer] = useState({ data: null, error: null, busy: false });
  const key = JSON.stringify(body);
  useEffect(() => {
    if (!body) return setAnswer({ data: null, error: null, busy: false });
    const control = new AbortController();
    setAnswer((old) => ({ ...old, busy: true }));
    post("/api/context", body, { signal: control.signal }).then(
      (data) => setAnswer({ data, error: null, busy: false }),
      (error) => isAbort(error) || setAnswer({ data: null, error, busy: false }),
    );
    return () => control.abort();
  }, [key]);
  return answer;
}

function spoken({ data, busy }) {
  if (busy || !data) return "";
  return `${data.items.length} items of ${number(data.used)} tokens would be given, ${data.left_out.length} were left out.`;
}

function Preview({ preview }) {
  const { data, error, busy } = preview;
  const [chosen, setChosen] = useState(null);
  const narrow = useMedia("(max-width: 640px)");
  if (error) return html`<${Failure} error=${error} />`;
  if (!data && busy) return html`<${Loading} lines=${6} what="the preview" />`;
  if (!data) return html`<${Empty} title="Type a prompt"
      text="The preview lists what the agent would be given, in order, and what would be left out, with the reason. In the terminal:"
      command='ralph context "why do the tests hang?"' />`;
  const choose = (id) => {
    setChosen(id);
    document.getElementById(`item-${id}`)?.scrollIntoView({ block: "nearest" });
  };
  return html`<div class="preview ${busy ? "is-busy" : ""}" data-items=${data.items.length} data-used=${data.used}>
    <${Section} title="Budget"><${Budget} budget=${data.budget} cap=${data.cap} used=${data.used} items=${data.items}
        chosen=${chosen} onChoose=${choose} /><//>
    ${data.notes?.length > 0 && html`<ul class="remarks">${data.notes.map((note) => html`<li key=${note}><${RichText} text=${sentence(note)} /></li>`)}</ul>`}
    <${Section} title="Given" aside=${html`<span class="quiet num">${number(data.items.length)}</span>`}>
      <${Items} data=${data} chosen=${chosen} /><//>
    ${data.left_out.length > 0 && html`<details class="more-of left-out" open=${!narrow || undefined}>
          <summary>Left out (${number(data.left_out.length)}), by reason</summary><${LeftOut} items=${data.left_out} /></details>`}
    ${data.text && html`<details class="more-of exact">
          <summary>Full text for the agent (${number(data.tokens)} tokens)</summary><${Code} text=${data.text} label="Full text for the agent" /></details>`}
  </div>`;
}

function Items({ data, chosen }) {
  if (!data.items.length) return html`<${Empty} title="The agent would be given nothing"
      text="No memory is relevant enough. Use a longer prompt, or add a memory." command='ralph memory add "what agents should know"'
      action=${html`<${AddMemory} />`} />`;
  return html`<ol class="items">
      ${data.items.map((item) => html`<li key=${item.id + item.order}
        id=${`item-${item.id}`} class="item ${chosen === item.id ? "is-chosen" : ""}"><${Item} item=${item} /></li>`)}</ol>`;
}

function Item({ item }) {
  const path = item.type === "session" ? sessionPath : recordPath;
  return html`<div class="item-head"><span class="item-order num" aria-hidden="true">${item.order}</span>
      <a class="item-title" href=${path(item.id)} data-link>${coded(item.title || item.text || item.id)}</a>
      <span class="num quiet item-tokens">${number(item.tokens)} tokens</span></div>
    <p class="item-why"><${Kind} kind=${item.type} />
      ${item.area && html`<span class="badge">${item.area}</span>`}${item.why.map((one) =>
          html`<span key=${one} class="reason">${matchReason(one)}</span>`)}</p>
    ${item.text && html`<details class="item-text"><summary>Text</summary><${Code} text=${item.text} label=${`Text of item ${item.order}`} /></details>`}`;
}

/** The memories that were left out, grouped by reason. */
function LeftOut({ items }) {
  const reasons = [...new Set(items.map((item) => item.why))];
  return html`<div>${reasons.map((why) => html`<div key=${why} class="left"><h3><${RichText} text=${sentence(why)} /></h3>
    <ul class="found">${items.filter((item) => item.why === why).map((item) => html`<li key=${item.id}>
      <a href=${recordPath(item.id)} data-link>${coded(item.title || item.id)}</a></li>`)}</ul></div>`)}</div>`;
}
