// Runs before the first paint, so that the page never flashes in the wrong theme. parts/theme.js does everything else.
try {
  const chosen = localStorage.getItem("ralph-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser without storage uses the system's theme.
}
