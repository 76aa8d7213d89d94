// Hooks that pages share: debounced values, text in the address, media queries.
import { useEffect, useRef, useState } from "../lib.js";
import { route, setQuery } from "./router.js";

/** A value that follows another one only when that has been still for a moment. */
export function useDebounced(value, milliseconds = 250) {
  const [calm, setCalm] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setCalm(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value, milliseconds]);
  return calm;
}

/**
 * Words that are typed and stand in the address: typing changes the address when it rests, and a change of the
 * address (a link, the way back) changes the words.
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

/** Whether a media query holds, now and whenever that changes. */
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
