/**
 * Typing: the server is asked when it rests, not at every key.
 */
import { useEffect, useState } from "../lib.js";

/** A value that follows another one only when that has been still for a moment. */
export function useCalm(value, milliseconds = 250) {
  const [calm, setCalm] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setCalm(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value, milliseconds]);
  return calm;
}
