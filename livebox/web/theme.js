// Dark or light: as the system says, until somebody chooses.

const KEY = "livebox.theme";
const NAMES = { auto: "system", light: "light", dark: "dark" };

/** Make `button` switch between the system's way, light and dark; the choice is kept on this device. */
export function themeSwitch(button) {
  let theme = kept();
  const set = () => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${NAMES[theme]}`;
  };
  button.addEventListener("click", () => {
    const order = Object.keys(NAMES);
    theme = order[(order.indexOf(theme) + 1) % order.length];
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // a device that keeps nothing: the choice holds until the page is left
    }
    set();
  });
  set();
}

function kept() {
  try {
    const theme = localStorage.getItem(KEY);
    return theme in NAMES ? theme : "auto";
  } catch {
    return "auto";
  }
}
