// Changing records: a form if needed, a preview of the diff, Save, and a message with Undo. If a file has changed
// since the preview, that is a conflict. Unsaved text is kept as a draft until the window is closed.
import { html, useEffect, useRef, useState } from "../lib.js";
import { RequestError, isAbort, post } from "./api.js";
import { Button } from "./controls.js";
import { Dialog } from "./dialog.js";
import { Diff } from "./diff.js";
import { Failure, Loading, RichText } from "./placeholders.js";
import { formOf, start } from "./forms.js";
import { announce } from "./events.js";
import { toast } from "./toast.js";
import { sentence } from "./format.js";

const WORDS = {
  add: { title: "Add a memory", apply: "Save" },
  edit: { title: "Edit", apply: "Save" },
  retag: { title: "Edit tags", apply: "Save" },
  archive: { title: "Archive", apply: "Archive", text: "It stays in its file. Agents are no longer given it." },
  unarchive: { title: "Unarchive", apply: "Unarchive", text: "Agents can be given it again." },
  delete: { title: "Delete", apply: "Delete", danger: true, text: "It is deleted from its file." },
  promote: { title: "Promote", apply: "Promote", text: "Copies it now to a file of your choice that more agents read." },
  accept: { title: "Accept", apply: "Accept", text: "Keeps it. It is promoted to the project's patterns when its task is done." },
  merge: { title: "Merge", apply: "Merge", text: "Its tags are added to the other memory, and it is deleted." },
  supersede: { title: "Supersede", apply: "Supersede", text: "It replaces the other memory, which agents are no longer given." },
  reject: { title: "Reject", apply: "Reject", text: "Hides it. It is not proposed again." },
};
const HELD_WORDS = {
  accept: "Adds it to your memories, so that agents receive it.",
  reject: "Discards it. No agent receives it.",
};

const PROPOSAL_WORDS = {
  accept: "Adds it to your memories, so that agents receive it.",
  edit: "Adds it in your own words.",
  merge: "Rewords the similar memory, so that it covers both.",
  reject: "Hides it. It is not proposed again.",
};
const PROPOSAL_TITLES = {
  edit: { title: "Edit and accept", apply: "Accept" },
  merge: { title: "Merge into the similar memory", apply: "Merge" },
};

const KEPT = "Leaves it unchanged and does not ask again.";
function explain(action, { held = false, kind = "" }) {
  const special = kind === "proposal" ? PROPOSAL_WORDS : held ? HELD_WORDS : {};
  return special[action] ?? WORDS[action]?.text;
}
const wordsFor = (action, record) => (record?.kind === "proposal" && PROPOSAL_TITLES[action]) || WORDS[action];

/** A sentence about each decision, shown next to its button. `kind` is "proposal" for proposals without a task. */
export function Decisions({ actions, held = false, kind = "" }) {
  return html`<dl class="decisions">
    ${actions.map((action) => html`<div key=${action}><dt>${WORDS[action].title}</dt><dd>${explain(action, { held, kind })}</dd></div>`)}
  </dl>`;
}

/** The label of an action's button. */
export const actionTitle = (action) => WORDS[action]?.title ?? action;

/** The checkboxes that override a refusal, by the name that the server uses. */
const OVERRIDES = {
  allow_secret: "This is not a secret, or it may be stored in this file: save anyway.",
  force: "I have read the warning: save anyway.",
};
const TIMEOUT = 2000;
const WAITING = "Another program may be writing to this file. Waiting up to 30 seconds.";
const CHANGED_MEANWHILE =
  "It was changed in its file after you opened this form. Your text is unchanged; the preview shows the difference.";
const drafts = new Map();
/** Whether a record has an unsaved draft. */
export const hasDraft = (id) => [...drafts.keys()].some((key) => key.endsWith(` ${id}`));

window.addEventListener("beforeunload", (event) => drafts.size && event.preventDefault());

const CHANGED = { what: ["records", "insights"] };

const stampsOf = (plan) => Object.fromEntries(plan.files.map((file) => [file.name, file.before]));
const failure = (error) => toast([error.message, error.hint].filter(Boolean).map(sentence).join(". "), { failed: true });

function announceChange(result) {
  toast(result.summary, { action: result.undo ? { label: "Undo", run: () => undo(result.undo) } : null });
  announce("changed", CHANGED);
}

/** Makes a change without a preview. The message about it has a button that undoes it. */
export async function applyNow(action, record) {
  const body = { action, id: record.id, ...start(action, record) };
  try {
    const plan = await post("/api/changes/plan", body);
    announceChange(await post("/api/changes/apply", { ...body, stamps: stampsOf(plan) }));
  } catch (error) {
    failure(error);
  }
}

/** Undoes a change, and shows the result. */
export async function undo(id) {
  try {
    const result = await post("/api/changes/undo", { undo: id });
    announce("changed", CHANGED);
    toast(result.summary);
  } catch (error) {
    failure(error);
  }
}

function Review({ plan }) {
  return html`<div class="review">
    <p>${plan.summary}</p>
    ${plan.warnings?.map((warning) => html`<p class="notice" key=${warning}><${RichText} text=${sentence(warning)} /></p>`)}
    ${plan.files.map((file) => html`<${Diff} key=${file.name} name=${file.name} text=${file.diff} />`)}
    ${plan.files.length === 0 && html`<p class="quiet">No file changes.</p>`}
  </div>`;
}

function DraftNotice({ onFresh }) {
  return html`<p class="notice">
    This is your unsaved draft.${" "}
    <button type="button" class="link-button" onClick=${onFresh}>Discard</button>
  </p>`;
}

/** The checkbox that overrides a refusal of the server. */
function Override({ name, values, set }) {
  return html`<label class="choice-one override">
    <input type="checkbox" checked=${Boolean(values[name])} onChange=${(event) => set({ [name]: event.target.checked })} />
    <span>${OVERRIDES[name]}</span>
  </label>`;
}

/** Whether something takes longer than a person expects. */
function useSlow(busy) {
  const [long, setLong] = useState(false);
  useEffect(() => {
    setLong(false);
    const timer = busy ? setTimeout(() => setLong(true), TIMEOUT) : 0;
    return () => clearTimeout(timer);
  }, [busy]);
  return long;
}

const changed = (values, initial) => JSON.stringify(values) !== JSON.stringify(initial);

/**
 * The dialog for one change.
 * @param {{action: string, record?: any, onClose: () => void, onDone?: (result: any) => void}} props `record` is the API's.
 */
export function ChangeDialog({ action, record = null, onClose, onDone }) {
  const words = wordsFor(action, record);
  const Form = formOf(action, record);
  const key = `${action} ${record?.id ?? ""}`;
  const initial = useRef(start(action, record)).current;
  const [values, setValues] = useState(() => drafts.get(key) ?? initial);
  const [kept, setKept] = useState(drafts.has(key));
  const [step, setStep] = useState(Form ? "form" : "plan");
  const [plan, setPlan] = useState(null);
  const [error, setError] = useState(null);
  const [override, setOverride] = useState(null);
  const [busy, setBusy] = useState(false);
  const long = useSlow(busy);
  const abort = useRef(new AbortController()).current;
  const latest = useRef(values);
  const body = () => ({ action, ...(record ? { id: record.id } : {}), ...latest.current });
  const other = Boolean(record) && action === "edit" && record.text !== initial.text;

  const set = (changes) => {
    const next = { ...latest.current, ...changes };
    setValues((latest.current = next));
    if (changed(next, initial)) drafts.set(key, next);
    else drafts.delete(key);
  };
  const fresh = () => {
    drafts.delete(key);
    setValues((latest.current = initial));
    setKept(false);
  };
  const attempt = async (what) => {
    setBusy(true);
    setError(null);
    try {
      await what();
    } catch (failed) {
      if (!isAbort(failed)) {
        setError(failed instanceof RequestError ? failed : new RequestError(String(failed.message ?? failed)));
        setOverride((before) => (OVERRIDES[failed.override] ? failed.override : before));
      }
    }
    setBusy(false);
  };
  const look = () =>
    attempt(async () => {
      setPlan(null);
      setStep("plan");
      try {
        setPlan(await post("/api/changes/plan", body(), { signal: abort.signal }));
      } catch (failed) {
        if (Form) setStep("form");
        throw failed;
      }
    });
  const apply = () =>
    attempt(async () => {
      const result = await post("/api/changes/apply", { ...body(), stamps: stampsOf(plan) });
      drafts.delete(key);
      onClose();
      onDone?.(result);
      announceChange(result);
    });
  const close = () => {
    if (drafts.has(key)) toast(`Your draft is kept. Open “${words.title}” again to continue.`);
    onClose();
  };

  useEffect(() => {
    if (!Form) look();
    return () => abort.abort();
  }, []);

  const title = step === "plan" && Form ? `${words.title}: preview` : words.title;
  const nothing = plan && plan.files.every((file) => !file.diff);
  const back = () => {
    setStep("form");
    setError(null);
  };
  const cancel = html`<${Button} look="plain" onClick=${close}>Cancel<//>`;
  const footer =
    step === "form"
      ? html`${cancel}<button type="submit" form="change-form" class="button primary" disabled=${busy}>Preview</button>`
      : html`${Form ? html`<${Button} icon="left" look="plain" onClick=${back}>Back<//>` : cancel}
          ${error?.status === 409 && html`<${Button} onClick=${look}>Preview again<//>`}
          <${Button} look=${words.danger ? "danger" : "primary"} disabled=${busy || !plan || nothing} onClick=${apply}>
            ${words.apply}
          <//>`;
  return html`<${Dialog} title=${title} onClose=${close} wide=${Boolean(Form) || Boolean(plan)} footer=${footer}>
    <${Failure} error=${error} />
    ${long && plan && html`<p class="notice waiting" role="status">${WAITING}</p>`}
    ${step === "form"
      ? html`<form id="change-form" onSubmit=${(event) => (event.preventDefault(), look())}>
          ${kept && html`<${DraftNotice} onFresh=${fresh} />`} ${other && html`<p class="notice">${CHANGED_MEANWHILE}</p>`}
          ${override && html`<${Override} name=${override} values=${values} set=${set} />`}
          <${Form} values=${values} set=${set} record=${record} />
        </form>`
      : html`<div aria-live="polite" aria-busy=${busy ? "true" : "false"}>
          ${!Form && words.text && html`<p class="quiet">${action === "accept" && record?.kept ? KEPT : explain(action, record ?? {})}</p>`}
          ${plan ? html`<${Review} plan=${plan} />` : !error && html`<${Loading} lines=${5} what="the diff" />`}
        </div>`}
  <//>`;
}

/** A button that adds a memory, for pages without any. */
export function AddMemory({ onDone }) {
  const [open, setOpen] = useState(false);
  return html`<${Button} icon="plus" opens=${true} onClick=${() => setOpen(true)}>Add a memory<//>
    ${open && html`<${ChangeDialog} action="add" onClose=${() => setOpen(false)} onDone=${onDone} />`}`;
}
