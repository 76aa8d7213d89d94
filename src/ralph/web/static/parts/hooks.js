// Hooks that pages share: debounced values, text in the address, media queries.
import { useEffect, useRef, useState } from "../lib.js";
import { route, setQuery } from "./router.js";

/** A debounced value, which follows another one after it has stopped changing. */
export function useDebounced(value, milliseconds = 250) {
  const [calm, setCalm] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setCalm(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value, milliseconds]);
  return calm;
}

/**
 * Typed text that is part of the address. The address changes after a pause in typing, and a change of the address (a
 * link or the Back button) changes the text.
 * @returns {[string, (words: string) => void, string]} the text in the field, its setter, the text to request
 */
export function useQueryText(name, milliseconds = 120) {
  const asked = route.value.query.get(name) ?? "";
  const [words, setWords] = useState(asked);
  const calm = useDebounced(words, milliseconds);
  const sent = useRef(asked);
  useEffect(() => {
    if (calm === sent.current) return;
    sent.current = calm;
    setQuery({ [name]: calm });
  }, [calm]);
  useEffect(() => {
    if (asked === sent.current) return;
    sent.current = asked;
    setWords(asked);
  }, [asked]);
  return [words, setWords, asked];
}

/** Whether a media query matches, updated when that changes. */
export function useMedia(query) {
  const [holds, setHolds] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const tell = () => setHolds(media.matches);
    tell();
    media.addEventListener("change", tell);
    return () => media.removeEventListener("change", tell);
  }, [query]);
  return holds;
}
