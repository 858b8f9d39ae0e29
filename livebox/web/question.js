// The question of a run with its choices, and afterwards what was answered. An answer is a message in the thread.

import { h, keyed, say, show } from "./dom.js";
import { firstLine } from "./format.js";

/** The part of a box for its question. */
export function question() {
  const prompt = h("p", { className: "prompt" });
  const choices = h("div", { className: "choices" });
  const hint = h("p", { className: "quiet" });
  const section = h("section", { className: "question", "aria-label": "Question", hidden: true }, prompt, choices, hint);
  const before = h("p", { className: "quiet plain answered", hidden: true });
  const element = h("div", {}, section, before);
  let asked;
  let last; // the last question that was seen with its answer: the document forgets it when the run goes on
  return {
    element,
    update(run, context) {
      const open = run.state === "waiting_input" && run.question;
      show(section, open);
      show(before, !open && last);
      if (!open && last) say(before, `Asked: ${last.prompt}\nAnswered: ${answered(last.given)}`);
      if (!open) return;
      if (asked !== run.question.asked_at) {
        asked = run.question.asked_at;
        element.answered = undefined;
      }
      say(prompt, run.question.prompt);
      const may = context.mayAnswer(run);
      const given = answerTo(run);
      last = given && { prompt: run.question.prompt, given };
      const labels = Object.entries(run.question.choices ?? {});
      keyed(choices, labels, (label, key) => h("button", { type: "button", "data-choice": key, onclick: () => answer(label) }),
        (button, label, key) => {
          say(button, label || key);
          button.disabled = !may || given !== undefined || element.answered !== undefined;
        });
      say(hint, hintText());

      function hintText() {
        if (element.answered) return element.answered;
        if (given) return `Answered: ${answered(given)}`;
        return may ? "You can also answer in your own words, with a message in the thread."
          : "Only those who may make agents work here can answer.";
      }

      function answered(followup) {
        return firstLine(context.message(followup.message_id)?.body ?? "a message");
      }

      async function answer(label) {
        const focused = document.activeElement;
        element.answered = `Sending your answer: ${label}`;
        context.refresh();
        const failed = await context.answer(run, label);
        element.answered = failed ? undefined : `You answered: ${label}`;
        context.refresh();
        if (failed) {
          say(hint, failed);
          focused?.focus();
        } else {
          context.focusHead();
        }
      }
    },
  };
}

// The message that answers the question of a run, if there is one: nobody should choose twice unawares.
function answerTo(run) {
  const since = Object.values(run.followups ?? {}).filter((followup) => followup.at >= run.question.asked_at);
  return since.find((followup) => followup.state === "pending" || followup.state === "delivered");
}
