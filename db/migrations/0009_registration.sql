-- Runs that no message opens: what they spend, what may come late, and when they are given up.

INSERT INTO livebox.sqlstates (sqlstate, name, problem, meaning) VALUES
    ('LB110', 'run_spend_place', 'internal_error', 'Spend was recorded on a run that was not registered, for an agent that is not on it, or in another currency than the run has.'),
    ('LB111', 'run_report_backwards', 'internal_error', 'What was reported on a run fell or was taken away: its spend, the steps of a reporter, an event of governance.');

ALTER TABLE livebox.runs
    ADD COLUMN spend_entries bigint NOT NULL DEFAULT 0
        CONSTRAINT runs_spend_entries_range CHECK (spend_entries BETWEEN 0 AND 9007199254740991),
    ADD COLUMN spend_tokens bigint CONSTRAINT runs_spend_tokens_range CHECK (spend_tokens BETWEEN 0 AND 9007199254740991),
    ADD CONSTRAINT runs_spend_of_registered CHECK (trigger_kind = 'registration' OR spend_entries = 0),
    ADD CONSTRAINT runs_spend_whole CHECK (CASE WHEN spend_entries = 0 THEN spend_tokens IS NULL ELSE cost_micros IS NOT NULL END),
    ADD CONSTRAINT runs_entry_agent_reports CHECK (agents IS NULL OR agents[1] = agent_id),
    ADD CONSTRAINT runs_registration_bounded CHECK (
        length(intent) <= 1000 AND length(task) <= 20000 AND length(mode) <= 200 AND length(parent_span) <= 200
        AND length(halt_reason) <= 1000 AND length(detector) <= 200 AND cardinality(agents) <= 51);
COMMENT ON COLUMN livebox.runs.spend_entries IS 'Registered: entries of its ledger. With any, its cost is their sum.';
COMMENT ON COLUMN livebox.runs.spend_tokens IS 'Registered: tokens of its ledger; NULL while no entry says how many.';
COMMENT ON COLUMN livebox.runs.agents IS 'Registered: the agents that may report, the entry agent first. Written once.';

CREATE INDEX runs_registered_silent ON livebox.runs ((greatest(last_progress_at, state_changed_at)), id)
    WHERE state = 'running' AND trigger_kind = 'registration';
COMMENT ON INDEX livebox.runs_registered_silent IS 'Running registered runs by when they were last reported on (registered.stale_after).';

CREATE TABLE livebox.run_spend (
    run_id        uuid NOT NULL REFERENCES livebox.runs (id),
    id            uuid NOT NULL,
    agent_id      uuid NOT NULL REFERENCES livebox.principals (id),
    amount_micros bigint NOT NULL CONSTRAINT run_spend_amount_range CHECK (amount_micros BETWEEN 0 AND 9007199254740991),
    currency      text NOT NULL CONSTRAINT run_spend_currency_code CHECK (currency ~ '^[A-Z]{3}$'),
    tokens        bigint CONSTRAINT run_spend_tokens_range CHECK (tokens BETWEEN 0 AND 9007199254740991),
    recorded_by   uuid NOT NULL REFERENCES livebox.principals (id),
    recorded_at   timestamptz NOT NULL DEFAULT livebox.clock(),
    late          boolean NOT NULL DEFAULT false,
    PRIMARY KEY (run_id, id)
);
COMMENT ON TABLE livebox.run_spend IS 'The ledger: what registered runs have spent, by agent. Entries are added and never changed.';
COMMENT ON COLUMN livebox.run_spend.run_id IS 'The run.';
COMMENT ON COLUMN livebox.run_spend.id IS 'Chosen by who reported it; counts within the run, so that a repeat is recognised.';
COMMENT ON COLUMN livebox.run_spend.agent_id IS 'The agent that spent it.';
COMMENT ON COLUMN livebox.run_spend.amount_micros IS 'Millionths of the currency''s unit.';
COMMENT ON COLUMN livebox.run_spend.currency IS 'ISO 4217 code; the same for all entries of a run.';
COMMENT ON COLUMN livebox.run_spend.tokens IS 'Tokens used; NULL when not said.';
COMMENT ON COLUMN livebox.run_spend.recorded_by IS 'Who reported it: the agent or the registrar.';
COMMENT ON COLUMN livebox.run_spend.recorded_at IS 'When it was recorded.';
COMMENT ON COLUMN livebox.run_spend.late IS 'It came after the end of the run.';

CREATE TRIGGER run_spend_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON livebox.run_spend
    FOR EACH STATEMENT EXECUTE FUNCTION livebox.guard_append_only();
COMMENT ON TRIGGER run_spend_append_only ON livebox.run_spend IS 'Entries stay as they were written.';

CREATE FUNCTION livebox.guard_run_spend() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM livebox.runs r
                    WHERE r.id = NEW.run_id AND r.trigger_kind = 'registration' AND NEW.agent_id = ANY (r.agents)
                      AND coalesce(r.budget->'cost'->>'currency', NEW.currency) = NEW.currency
                      AND (r.spend_entries = 0 OR r.currency = NEW.currency)) THEN
        RAISE EXCEPTION 'spend that does not belong to the run' USING ERRCODE = 'LB110';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION livebox.guard_run_spend() IS 'LB110: an entry is of a registered run, by one of its agents, in the currency of the run.';
CREATE TRIGGER run_spend_place BEFORE INSERT ON livebox.run_spend
    FOR EACH ROW EXECUTE FUNCTION livebox.guard_run_spend();
COMMENT ON TRIGGER run_spend_place ON livebox.run_spend IS 'See guard_run_spend.';

CREATE FUNCTION livebox.guard_run_reports() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.spend_entries < OLD.spend_entries OR coalesce(NEW.spend_tokens, 0) < coalesce(OLD.spend_tokens, 0)
       OR (OLD.spend_entries > 0 AND (NEW.cost_micros < OLD.cost_micros OR NEW.currency <> OLD.currency))
       OR EXISTS (SELECT FROM jsonb_each(OLD.reported_steps) AS o
                   WHERE coalesce((NEW.reported_steps->>o.key)::bigint, -1) < (o.value)::bigint)
       OR (OLD.governance_events IS NOT NULL AND OLD.governance_events IS DISTINCT FROM (
               SELECT jsonb_agg(e.value ORDER BY e.n) FROM jsonb_array_elements(NEW.governance_events) WITH ORDINALITY AS e(value, n)
                WHERE e.n <= jsonb_array_length(OLD.governance_events))) THEN
        RAISE EXCEPTION 'what was reported on a run is only added to' USING ERRCODE = 'LB111';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION livebox.guard_run_reports() IS 'LB111: spend and each reporter''s steps never fall, events of governance are only appended.';
CREATE TRIGGER runs_reports BEFORE UPDATE ON livebox.runs
    FOR EACH ROW WHEN (OLD.trigger_kind = 'registration') EXECUTE FUNCTION livebox.guard_run_reports();
COMMENT ON TRIGGER runs_reports ON livebox.runs IS 'See guard_run_reports.';
