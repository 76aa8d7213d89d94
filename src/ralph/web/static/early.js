// Runs before the first paint, so that a chosen theme never flashes in the other one; the rest is parts/theme.js.
try {
  const chosen = localStorage.getItem("ralph-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser that keeps nothing follows the system.
}
