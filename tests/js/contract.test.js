// Every code of the contract has words of its own: a new one without turns this red.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { PLAN_STATES, STATES, STEP_STATES, UNIT_STATES, WAITING_ON, cancelReceipt, reason, trigger } from "../../livebox/web/words.js";

const { schemas } = JSON.parse(readFileSync(new URL("../../generated/openapi.json", import.meta.url))).components;

test("states", () => {
  assert.deepEqual(Object.keys(STATES).sort(), [...schemas.RunState.enum].sort());
  assert.deepEqual(Object.keys(UNIT_STATES).sort(), [...schemas.UnitState.enum].sort());
  assert.deepEqual(Object.keys(WAITING_ON).sort(), [...schemas.WaitingOn.enum].sort());
  assert.deepEqual(Object.keys(STEP_STATES).sort(), [...schemas.StepStatus.enum].sort());
  assert.deepEqual(Object.keys(PLAN_STATES).sort(), [...schemas.LivePlanItem.properties.status.enum].sort());
});

test("reasons, trigger states and outcomes of a cancel", () => {
  for (const code of [...schemas.RunReason.enum, ...schemas.RejectionReason.enum]) {
    assert.notEqual(reason(code), code.replaceAll("_", " "), code);
  }
  for (const state of schemas.TriggerState.enum) assert.notEqual(trigger({ trigger_state: state }), state);
  for (const outcome of schemas.CancelReceipt.properties.outcome.enum) {
    const told = cancelReceipt({ requested_at: "", outcome }, "", () => "", () => "");
    assert.ok(!told.includes(outcome), outcome);
  }
});
