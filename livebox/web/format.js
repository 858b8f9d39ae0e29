// Times, amounts and counts as people read them. Pure: text in, text out.

/** A duration in ms: "0.8 s", "12 s", "3 min 05 s", "2 h 07 min", "3 d 4 h". */
export function duration(ms, { ticking = false } = {}) {
  if (ms < 10_000 && !ticking) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${two(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${two(minutes % 60)} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/**
 * Money of the contract (millionths): "EUR 1.20", and more digits only below one cent ("EUR 0.0042"); with "about" where
 * it is an estimate, and "(simulated)" where the run's `model` says that of itself.
 */
export function money({ amount_micros: micros, currency, is_estimate: estimate }, model = "") {
  const units = micros / 1_000_000;
  const digits = units >= 0.01 || micros === 0 ? 2 : Math.min(6, 2 + Math.ceil(-Math.log10(units)));
  const amount = units.toFixed(digits).replace(/(\.\d\d\d*?)0+$/, "$1");
  return `${estimate ? "about " : ""}${currency} ${amount}${/simulated/i.test(model) ? " (simulated)" : ""}`;
}

/** "1 step", "12 steps". */
export function count(number, one, many = `${one}s`) {
  return `${grouped(number)} ${number === 1 ? one : many}`;
}

/** 12345 -> "12,345". */
export function grouped(number) {
  return number.toLocaleString("en");
}

/** A time of day on this device, with the date where it is not today. */
export function timeOfDay(at, now = new Date()) {
  const time = new Date(at);
  const clock = time.toLocaleTimeString("en-GB");
  if (time.toDateString() === now.toDateString()) return clock;
  return `${time.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" })}, ${clock}`;
}

/** The first line of a text, cut at `most` characters. */
export function firstLine(text, most = 80) {
  const line = text.split("\n").find((each) => each.trim() !== "")?.trim() ?? "";
  const letters = [...line];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : line;
}

function two(number) {
  return String(number).padStart(2, "0");
}
